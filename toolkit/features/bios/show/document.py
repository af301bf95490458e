"""BIOSes for machines: one versioned JSON document (docs/bios.schema.json)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.errors import ExitCode, Outcome
from toolkit.features.bios.plan.lines import Line
from toolkit.features.bios.plan.plan import BiosPlan, Edit
from toolkit.features.bios.plan.result import Changed, Looked
from toolkit.report.document import Json

SCHEMA = "gdr-toolkit/bios/1"


def document(
    outcomes: Sequence[Outcome[Looked] | Outcome[Changed]], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; fields are only ever added within a version."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "verb": "bios",
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "hosts": [_host(each) for each in outcomes],
    }


def _host(outcome: Outcome[Looked] | Outcome[Changed]) -> dict[str, Json]:
    value, error = outcome.value, outcome.error
    changed = value if isinstance(value, Changed) else None
    looked = value.after if isinstance(value, Changed) else value
    return {
        "name": outcome.host,
        "error": {"message": str(error), "hint": error.hint} if error else None,
        "bmc": _bmc(looked) if looked else None,
        "machine": looked.machine if looked else "",
        "role": looked.role.value if looked and looked.role else None,
        "remarks": list(looked.remarks) if looked else [],
        "settings": [_line(each) for each in looked.lines] if looked else [],
        "plan": _plan(looked.plan) if looked else None,
        "done": _done(changed) if changed else None,
    }


def _bmc(looked: Looked) -> dict[str, Json]:
    about = looked.about
    return {
        "address": about.address,
        "verified": about.verified.value,
        "vendor": about.vendor,
        "model": about.model,
        "bios": about.bios,
        "firmware": about.firmware,
    }


def _line(line: Line) -> dict[str, Json]:
    return {
        "setting": line.setting.value,
        "part": line.part,
        "scope": line.scope,
        "attribute": line.name,
        "current": line.current,
        "pending": line.pending,
        "wanted": line.wanted,
        "standing": line.stand.value,
        "read_only": line.read_only,
        "why": line.why,
    }


def _plan(plan: BiosPlan) -> dict[str, Json]:
    return {
        "pending": plan.pending,
        "stopped": bool(plan.stopped),
        "resets": plan.resets,
        "passes": [[_edit(each) for each in group] for group in plan.passes],
        "owed": [_edit(each) for each in plan.owed],
        "strangers": [_edit(each) for each in plan.strangers],
        "effects": [{"attribute": each.name, "text": each.text} for each in plan.effects],
        "blocked": [
            {
                "wish": each.wish,
                "kind": each.block.value,
                "reason": each.reason,
                "hint": each.hint,
                "named": each.named,
            }
            for each in plan.blocked
        ],
    }


def _edit(edit: Edit) -> dict[str, Json]:
    return {
        "attribute": edit.name,
        "setting": edit.setting.value if edit.setting else None,
        "current": edit.before,
        "pending": edit.pending,
        "wanted": edit.after,
        "wish": edit.wish,
    }


def _done(done: Changed) -> dict[str, Json]:
    return {
        "steps": list(done.steps),
        "resets": done.resets,
        "missed": [_edit(each) for each in done.missed],
        "not_reset": done.busy,
    }
