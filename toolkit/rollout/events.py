"""Who hears what is about to be done on a node, before it is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from toolkit.rollout.journal import Event, Journal
from toolkit.rollout.plan.batches import Past, Phase, Step

RUN = "run"  # the event that has a run's name on the node
KEPT = "kept"  # the event that has what there was before it was changed
Value = str | bool | int | Sequence[str]


class Witness(Protocol):
    """Hears of the acts on one node. What it raises keeps the act from being begun."""

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        """The next act; ``boot_id`` is that in which the node was read.

        :raises ToolkitError: it cannot be written down, so it must not be done.
        """

    def ran(self, run: str) -> None:
        """The node gave this name to a run of ours, in its own journal."""

    def keep(self, before: str) -> None:
        """What there was, on the disk before it is changed.

        :raises ToolkitError: it cannot be written down, so nothing may be changed.
        """

    def booted(self, boot_id: str) -> bool:
        """Whether the node has been rebooted by us since we last changed it.

        Another reboot would serve nothing: what the first has not brought, none will.

        :param boot_id: the one that it has now.
        """


class Nobody:
    """Hears everything and writes nothing down; knows what it heard itself."""

    def __init__(self, host: str = "", past: Past | None = None) -> None:
        self._host = host
        self._steps = list(past.steps) if past else []

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        self._steps.append(Step(self._host, phase, boot_id))

    def ran(self, run: str) -> None: ...

    def keep(self, before: str) -> None: ...

    def booted(self, boot_id: str) -> bool:
        return Past(tuple(self._steps)).booted(boot_id)


class HostLedger(Nobody):
    """The witness of one host's turn."""

    def __init__(self, journal: Journal, host: str, past: Past) -> None:
        super().__init__(host, past)
        self._journal = journal

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        self._journal.add(Event(self._host, phase.value, boot_id=boot_id))
        super().about_to(phase, boot_id)

    def ran(self, run: str) -> None:
        self._journal.add(Event(self._host, RUN, detail=run))

    def keep(self, before: str) -> None:
        self._journal.add(Event(self._host, KEPT, detail=before))


def steps_of(events: Iterable[Event]) -> Iterable[Step]:
    """The phases among events; a word that we do not know is passed over."""
    known = {phase.value: phase for phase in Phase}
    for event in events:
        if event.phase in known:
            yield Step(event.host, known[event.phase], event.boot_id)
