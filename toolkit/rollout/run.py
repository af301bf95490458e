"""Carry out plans batch by batch, with everything written down before it is done."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field

from toolkit.errors import ExitCode, Outcome, ToolkitError, UsageError
from toolkit.hosts.host import Host
from toolkit.interrupts import Interrupts
from toolkit.progress import Progress
from toolkit.rollout.budget import Budget
from toolkit.rollout.journal import Event, Journal, JournalError
from toolkit.rollout.plan.batches import Phase, Standing, Terms, advance, begun, ended, over
from toolkit.rollout.plan.window import RolloutWindow
from toolkit.ssh.pool import Abandoned, NotBegun, attempt

_POLL_S = 0.5  # between looks at the window, the stop file and Ctrl-C
W = TypeVar("W")


class HostWorkers(Protocol[W]):
    """Begins hosts, and hands over each one's outcome once."""

    def begin(self, host: Host) -> None:
        """Begin to work on the host; returns at once."""

    def next(self, limit_s: float) -> Outcome[W] | None:
        """An outcome that nobody has had yet; None where none comes within the limit."""


class Threads(HostWorkers[W]):
    """The hands of a real run. Daemons: a second Ctrl-C leaves them to their work."""

    def __init__(self, work: Callable[[Host], W]) -> None:
        self._work = work
        self._ended: queue.SimpleQueue[Outcome[W]] = queue.SimpleQueue()

    def begin(self, host: Host) -> None:
        def run() -> None:
            self._ended.put(attempt(host, self._work))

        threading.Thread(target=run, name=f"gdr-{host.name}", daemon=True).start()

    def next(self, limit_s: float) -> Outcome[W] | None:
        try:
            return self._ended.get(timeout=limit_s)
        except queue.Empty:
            return None


class Ending(Protocol):
    """What one host's turn comes to, whatever is changed there."""

    @property
    def exit_code(self) -> ExitCode: ...


T = TypeVar("T", bound=Ending)


class Brakes(Struct, frozen=True):
    """What ends a rollout beside failures; each is looked at before a host is begun."""

    window: RolloutWindow = field(default_factory=RolloutWindow)
    stop_files: tuple[Path, ...] = ()
    clock: Callable[[], datetime] = datetime.now  # local, naive

    def pulled(self) -> str:
        """Why nothing new may begin now, as a clause; "" where it may."""
        for file in self.stop_files:
            if file.exists():
                return f"the stop file {file} is there"
        now = self.clock()
        if self.window.open_at(now):
            return ""
        opens = self.window.opens_after(now)
        when = f"; it opens {opens:%a %Y-%m-%d %H:%M}" if opens else ""
        return f"the window {self.window.said} is closed{when}"


class Rolled(Struct, Generic[T], frozen=True):
    """How far a rollout came."""

    outcomes: dict[str, Outcome[T]]  # one a host of the terms, whatever happened
    halt: str = ""  # why hosts were left out, as a clause; "" where none was
    interrupted: bool = False


class Rollout(Struct, Generic[T]):
    """The loop: who is next, begin them, wait for one to end.

    :param well: whether a host counts as a success, for canary and limits.
    :param tell: how a host's turn ended, as the journal has it; called with ``well``'s answer.
    :param budget: what it shares with other runs; None where nobody counts.
    :param harm: in a clause, what is worse on a node than before; "" for nothing.
    """

    terms: Terms
    standing: Standing
    hosts: dict[str, Host]
    hands: HostWorkers[T]
    well: Callable[[Outcome[T]], bool]
    tell: Callable[[Outcome[T], bool], Event]
    journal: Journal | None
    brakes: Brakes
    progress: Progress
    budget: Budget | None = None
    harm: Callable[[T], str] = lambda _: ""
    halt: str = ""
    waits: str = ""  # for whom, as long as no share of the budget is to be had
    outcomes: dict[str, Outcome[T]] = field(default_factory=dict)

    def roll(self) -> Rolled[T]:
        """Until all are done, or nothing may begin and nothing is in hand.

        The first Ctrl-C begins nothing more; the second leaves what is in hand to itself.
        """
        with Interrupts(self._interrupted, alone=True) as interrupts:
            try:
                self._loop(interrupts)
            except KeyboardInterrupt:
                self.halt = "interrupted"
                for name in self.standing.in_hand:
                    error = Abandoned(
                        f"{name}: interrupted while at work",
                        hint="what it had begun may still run; look again",
                    )
                    self.outcomes.setdefault(name, Outcome(name, error=error))
        return self._rolled(interrupts.pressed)

    def _loop(self, interrupts: Interrupts) -> None:
        while True:
            self._begin(interrupts)
            if not self.standing.in_hand and not self.waits:
                return
            outcome = self.hands.next(_POLL_S)
            if outcome is not None:
                self._end(outcome)

    def _begin(self, interrupts: Interrupts) -> None:
        self.waits = ""
        if self.halt or over(self.terms, self.standing):
            return
        step = advance(self.terms, self.standing)
        self.halt = step.halt or (step.begin and self._braked(interrupts)) or ""
        granted = self._granted(step.begin)
        for at, name in enumerate(granted):
            self.halt = self._braked(interrupts)
            if self.halt or not self._written(Event(name, Phase.BEGUN.value)):
                self._give_back(*granted[at:])
                return
            self.standing = begun(self.standing, (name,))
            self.hands.begin(self.hosts[name])

    def _braked(self, interrupts: Interrupts) -> str:
        return "interrupted" if interrupts.pressed else self.brakes.pulled()

    def _granted(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of them for which there is a share; else for whom we wait, or why we halt."""
        if self.halt or not names or self.budget is None:
            return () if self.halt else tuple(names)
        try:
            answer = self.budget.ask(names, self.standing.unavailable)
        except ToolkitError as why:
            self.halt = str(why)
            return ()
        self.halt, self.waits = answer.halt, answer.wait
        if self.waits:
            # At each look: a listener drops what is too much, and may have been silent before.
            self.progress.note("", self.waits)
        return answer.granted

    def _end(self, outcome: Outcome[T]) -> None:
        well = self.well(outcome)
        self.outcomes[outcome.host] = outcome
        self.standing = ended(self.standing, outcome.host, well=well)
        if isinstance(outcome.error, JournalError):
            self.halt = self.halt or str(outcome.error)
        else:
            self._written(self.tell(outcome, well))
        harm = self.harm(outcome.value) if outcome.value is not None else ""
        # A node that finds the request to make no sense has answered, and was not touched by it.
        answered = outcome.ok or isinstance(outcome.error, UsageError)
        self._give_back(outcome.host, well=well, answered=answered, harm=harm)
        self.progress.done(outcome.host, str(outcome.error or ""))

    def _written(self, event: Event) -> bool:
        """Write it down. What cannot be written down is not begun, nor anything after it."""
        try:
            if self.journal is not None:
                self.journal.add(event)
        except JournalError as why:
            self.halt = self.halt or str(why)
            return False
        return True

    def _give_back(
        self, *names: str, well: bool = False, answered: bool = False, harm: str = ""
    ) -> None:
        """Their shares, as far as the nodes serve. What cannot be written begins nothing more."""
        if self.budget is None or self.journal is None:
            return
        try:
            for name in names:
                events = self.journal.of(name)
                self.budget.ended(name, events, well=well, answered=answered, harm=harm)
        except ToolkitError as why:
            self.halt = self.halt or str(why)

    def _interrupted(self) -> None:
        count = len(self.standing.in_hand)
        if count:
            self.progress.note("", f"{count} in hand to be finished; Ctrl-C again ends at once")

    def _rolled(self, interrupted: bool) -> Rolled[T]:
        names = [name for batch in self.terms.batches for name in batch]
        missing = [n for n in names if n not in self.outcomes and n not in self.standing.done]
        for name in missing:
            why = NotBegun(f"{name}: not begun: {self.halt}", hint="nothing was done to it")
            self.outcomes[name] = Outcome(name, error=why)
        return Rolled(self.outcomes, self.halt if missing else "", interrupted)
