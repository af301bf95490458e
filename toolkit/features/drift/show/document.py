"""Drift for machines: one versioned JSON document (docs/drift.schema.json)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.errors import ExitCode, Outcome
from toolkit.features.drift.plan.drift import Cell, Drift, Line
from toolkit.report.document import Json
from toolkit.report.table import unjudged

SCHEMA = "gdr-toolkit/drift/1"


def state_of(outcome: Outcome[Drift]) -> str:
    """One host's state, whether or not it could be looked at."""
    return unjudged(outcome.error) if outcome.value is None else outcome.value.state


def document(
    outcomes: Sequence[Outcome[Drift]], profile: str, code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; fields are only ever added within a version."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "profile": profile,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "hosts": [_host(each) for each in outcomes],
    }


def _host(outcome: Outcome[Drift]) -> dict[str, Json]:
    drift, error = outcome.value, outcome.error
    return {
        "name": outcome.host,
        "state": state_of(outcome),
        "reboot_owed": drift.reboot_owed if drift else False,
        "lines": [_line(each) for each in drift.lines] if drift else [],
        "error": {"message": str(error), "hint": error.hint} if error else None,
    }


def _line(line: Line) -> dict[str, Json]:
    return {
        "topic": line.topic.value,
        "name": line.name,
        "standing": line.standing.value,
        "means": line.means,
        "wanted": line.wanted,
        "on_disk": _cell(line.on_disk),
        "in_effect": _cell(line.in_effect),
        "hint": line.hint,
    }


def _cell(cell: Cell) -> dict[str, Json]:
    return {"found": cell.text, "standing": cell.standing.value}
