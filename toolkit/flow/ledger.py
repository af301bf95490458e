"""A run's journal as its hosts see it: each act is on disk before it is begun."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from toolkit.change.rollout import Phase
from toolkit.change.rollout_past import Past, Step
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import Outcome, ToolkitError
from toolkit.flow.planning import Planned
from toolkit.flow.provision import Provisioned
from toolkit.reach.journal import Event, Journal

RUN = "run"  # the event that has a run's name on the node
Value = str | bool | int | Sequence[str]


class Ledger:
    """The witness of one host's turn."""

    def __init__(self, journal: Journal, host: str, past: Past) -> None:
        self._journal, self._host = journal, host
        self._steps = list(past.steps)

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        self._journal.add(Event(self._host, phase.value, boot_id=boot_id))
        self._steps.append(Step(self._host, phase, boot_id))

    def ran(self, run: str) -> None:
        self._journal.add(Event(self._host, RUN, detail=run))

    def booted(self, boot_id: str) -> bool:
        return Past(tuple(self._steps)).booted(boot_id)


def steps_of(events: Iterable[Event]) -> Iterable[Step]:
    """The phases among events; a word that we do not know is passed over."""
    known = {phase.value: phase for phase in Phase}
    for event in events:
        if event.phase in known:
            yield Step(event.host, known[event.phase], event.boot_id)


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
