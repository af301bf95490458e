"""Journal entries for what was planned for a host, and for how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping

from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import Outcome, ToolkitError
from toolkit.rollout.journal import Event
from toolkit.rollout.ledger import Value
from toolkit.rollout.plan.batches import Phase
from toolkit.verbs.plan import Planned
from toolkit.verbs.provision import Provisioned


def planned_event(outcome: Outcome[Planned]) -> Event:
    """What is to be done on a host, and why; or why there is nothing."""
    if outcome.value is None:
        return Event(outcome.host, Phase.LOST.value, detail=_error(outcome.error))
    found = outcome.value
    phase = Phase.PLANNED if found.pending else Phase.NOTHING
    changes = [f"{each.action.value} {each.path}" for each in found.plan.changes]
    triggers = [trigger.name for trigger in found.plan.triggers]
    told = {"fails": _fails(found.judged), "changes": changes, "triggers": triggers}
    return Event(outcome.host, phase.value, boot_id=found.boot_id, detail=_json(told))


def ended_event(outcome: Outcome[Provisioned], well: bool) -> Event:
    """How a host's turn ended."""
    phase = (Phase.DONE if well else Phase.FAILED).value
    if outcome.value is None:
        return Event(outcome.host, phase, detail=_error(outcome.error))
    done = outcome.value
    told: dict[str, Value] = {"fails": _fails(done.after), "steps": done.steps}
    told |= {"rebooted": done.rebooted, "left": done.left is not None}
    return Event(outcome.host, phase, detail=_json(told))


def _fails(judged: Judged) -> list[str]:
    return [each.check.id for each in judged.having(Status.FAIL)]


def _error(error: ToolkitError | None) -> str:
    return _json({"error": str(error), "hint": error.hint if error else ""})


def _json(told: Mapping[str, Value]) -> str:
    return json.dumps(told, ensure_ascii=True)
