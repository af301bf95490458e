"""What was done earlier: the runs that left a journal, one host's history, and undoing a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from toolkit.errors import ToolkitError
from toolkit.rollout.chain import cut_off
from toolkit.rollout.claims import alive
from toolkit.rollout.events import RUN, steps_of
from toolkit.rollout.journal import FILE, Journal, Story, by_host, damaged
from toolkit.rollout.plan.batches import Past, Phase, pasts
from toolkit.rollout.runs import safe_name
from toolkit.untrusted import read_json


class RunState(StrEnum):
    RUNNING = "running"
    ENDED = "ended"  # every host that was planned has had its turn
    STOPPED = "stopped"  # its controller ended in order, and left hosts out
    BROKEN_OFF = "broken off"  # its controller died


class PastRun(Struct, frozen=True):
    """One run that left a journal."""

    id: str
    state: RunState
    story: Story
    pasts: dict[str, Past] = field(default_factory=dict)

    def having(self, *phases: Phase) -> tuple[str, ...]:
        """The hosts that were left there."""
        return tuple(host for host, past in self.pasts.items() if past.last in phases)

    @property
    def done(self) -> tuple[str, ...]:
        return self.having(Phase.DONE)

    @property
    def failed(self) -> tuple[str, ...]:
        return self.having(Phase.FAILED)

    @property
    def open(self) -> tuple[str, ...]:
        """Begun, and neither done nor failed."""
        closed = {Phase.DONE, Phase.FAILED, Phase.PLANNED, Phase.NOTHING, Phase.LOST}
        return tuple(host for host, past in self.pasts.items() if past.last not in closed)

    @property
    def left(self) -> tuple[str, ...]:
        """Planned, and never begun."""
        return self.having(Phase.PLANNED)

    def node_runs(self) -> dict[str, tuple[str, ...]]:
        """By host, the names that the node gave to our runs, newest first."""
        events = by_host(e for e in reversed(self.story.events) if e.phase == RUN)
        return {host: tuple(e.detail for e in each) for host, each in events.items()}

    def touched(self) -> tuple[str, ...]:
        """The hosts on which anything may have been changed, in the order of the run."""
        acted = {e.host for e in self.story.events if e.phase in {Phase.APPLYING, RUN}}
        return tuple(host for host in self.story.hosts if host in acted)


class Unread(Struct, frozen=True):
    """A run whose journal cannot be read."""

    id: str
    why: str


def read_run(runs: Path, name: str) -> PastRun:
    """One run, by its id.

    :raises UsageError: there is none of that name.
    :raises JournalError: its journal cannot be read.
    """
    folder = runs / safe_name(name)
    with Journal.open(folder) as journal:
        story = journal.story()
    try:
        if not isinstance(read_json(story.about.words or "{}"), dict):
            raise ValueError("what was said is no table")
        past = pasts(steps_of(story.events))
        return PastRun(folder.name, _state(story, past, living=alive(folder)), story, past)
    except (ValueError, OSError) as why:
        raise damaged(folder / FILE, why) from why


def read_runs(runs: Path) -> Iterator[PastRun | Unread]:
    """All runs that have a journal, newest first."""
    for file in sorted(runs.glob(f"*/{FILE}"), reverse=True):
        try:
            yield read_run(runs, file.parent.name)
        except ToolkitError as why:
            yield Unread(file.parent.name, str(why))


class Vouched(Struct, frozen=True):
    """Whether a journal is as it was written."""

    id: str
    broken: tuple[str, ...] = ()  # what is not, a clause each
    note: str = ""  # what is no harm by other hands: a crash, a version that vouched for nothing


def verify_runs(runs: Path) -> Iterator[Vouched | Unread]:
    """Whether any row of any journal was changed, removed or added since, newest run first."""
    for file in sorted(runs.glob(f"*/{FILE}"), reverse=True):
        name = file.parent.name
        cut = "its last write was cut off by a crash, and is taken back" if cut_off(file) else ""
        try:
            living = alive(file.parent)
            with Journal.open(file.parent) as journal:
                found = journal.broken()
                turns = journal.story().turns if found is not None else ()
        except (ToolkitError, OSError) as why:
            yield Unread(name, str(why))
            continue
        died = not living and (not turns or turns[-1].ended is None)
        if found is None:
            cut = "an older version wrote it, which vouched for nothing"
        elif died and not cut:
            cut = "its controller died: there is no last word of it"
        yield Vouched(name, tuple(found or ()), cut)


def _state(story: Story, past: dict[str, Past], *, living: bool) -> RunState:
    if living:
        return RunState.RUNNING
    if not story.turns or story.turns[-1].ended is None:
        return RunState.BROKEN_OFF
    ended = {Phase.DONE, Phase.FAILED}
    left = [h for h in story.hosts if h not in past or past[h].last not in ended]
    return RunState.STOPPED if left else RunState.ENDED


def history_of(runs: Path, hosts: Sequence[str]) -> Iterator[PastRun | Unread]:
    """The runs that these hosts were part of, newest first; those that only looked count too."""
    wanted = set(hosts)
    for run in read_runs(runs):
        if isinstance(run, Unread) or wanted & run.pasts.keys():
            yield run
