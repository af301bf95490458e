"""A run's journal as its hosts see it: each act is on disk before it is begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.rollout.journal import Event, Journal
from toolkit.rollout.plan.batches import Past, Phase, Step

RUN = "run"  # the event that has a run's name on the node
Value = str | bool | int | Sequence[str]


class HostLedger:
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
