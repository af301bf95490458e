"""The same work on many hosts at once, with an Outcome for each, always.

One slow, broken or hostile host costs the others nothing: errors are values, threads
are daemons, and whatever is not known at the end is said for each host by name.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from toolkit.errors import ExitCode, Outcome, ToolkitError, UsageError
from toolkit.hosts.host import Host
from toolkit.progress import Progress, Silent

T = TypeVar("T")
FANOUT = 64  # costs about 33 MiB; see docs for the timings
LONGEST_SLEEP_S = 0.25  # of the main thread, which alone heeds signals


class NotBegun(ToolkitError):
    """The run was stopped before this host's turn; nothing was done to it."""

    exit_code = ExitCode.STOPPED


class Abandoned(ToolkitError):
    """Ctrl-C came while this host was at work; how far it got is not known."""

    exit_code = ExitCode.INTERRUPTED


def abandoned(host: str) -> Abandoned:
    return Abandoned(
        f"{host}: interrupted while at work", hint="what it had begun may still run; look again"
    )


class Interrupted(ToolkitError):
    """Ctrl-C. ``outcomes`` has one Outcome a host, in the order given."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str, *, outcomes: Sequence[Outcome[Any]]) -> None:
        super().__init__(message, hint="what was done is in the report; run again for the rest")
        self.outcomes = list(outcomes)  # Any: the caller knows what its work returned


def broken_off(looked: Sequence[Outcome[Any]]) -> bool:
    """Ctrl-C, or more failures than allowed, amid the looking: then nothing is to be changed."""
    return any(isinstance(each.error, Abandoned | NotBegun) for each in looked)


def failures_allowed(limit: int | str | None, hosts: int) -> int:
    """How many hosts may fail before no further one is begun.

    :param limit: a number, a share of the hosts as "25%", or None for all of them.
    :raises UsageError: for anything else.
    """
    if limit is None or limit == "":
        return hosts
    text = str(limit).strip()
    share = text.removesuffix("%")
    if not share.isascii() or not share.isdigit() or (share != text and int(share) > 100):
        raise UsageError(
            f"--max-fail {limit!r} is neither a number nor a share like 25%", hint="say 4, or 10%"
        )
    return hosts * int(share) // 100 if share != text else int(share)


def attempt(host: Host, work: Callable[[Host], T]) -> Outcome[T]:
    """Do ``work`` on one host; whatever goes wrong becomes a value."""
    try:
        return Outcome(host.name, value=work(host))
    except ToolkitError as error:
        return Outcome(host.name, error=error)
    # A bug of ours on one host must not take the results of the others with it.
    except (Exception, SystemExit) as why:
        bug = ToolkitError(
            f"{host.name}: a bug of ours: {type(why).__name__}: {why}",
            hint="report it, with the evidence of this host: capture --hosts " + host.name,
        )
        bug.__cause__ = why
        return Outcome(host.name, error=bug)


def run_all(
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    *,
    fanout: int = FANOUT,
    progress: Progress | None = None,
    max_fail: int | str | None = None,
    stop: threading.Event | None = None,
    failed: Callable[[Outcome[T]], bool] = lambda outcome: not outcome.ok,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Outcome[T]]:
    """Do ``work`` on every host, at most ``fanout`` at a time.

    :param max_fail: begin no further host once more than so many have failed.
    :param stop: once set, begin no further host.
    :param failed: which outcomes count as failures; those with an error, unless given.
    :param meanwhile: is called in this thread once the first hosts were begun.
    :returns: one Outcome a host, in the order of ``hosts``; a host whose turn never came
        has the error NotBegun.
    :raises Interrupted: on Ctrl-C, with the outcomes so far; hosts at work are left alone.
    :raises UsageError: for a fan-out or a limit that makes no sense.
    """
    books = opened(hosts, fanout, progress, max_fail, failed)
    return _Pool(books, work, stop).run(min(fanout, len(hosts)), meanwhile)


def opened(
    hosts: Sequence[Host],
    fanout: int,
    progress: Progress | None,
    max_fail: int | str | None,
    failed: Callable[[Outcome[T]], bool] = lambda outcome: not outcome.ok,
) -> Books[T]:
    """:raises UsageError: for a fan-out or a limit that makes no sense."""
    if fanout < 1:
        raise UsageError(
            f"--fanout {fanout}: at least 1 host at a time", hint="leave it out for 64"
        )
    return Books(hosts, progress or Silent(), failures_allowed(max_fail, len(hosts)), failed)


class Books(Generic[T]):
    """What is known of each host so far, by its place among ``hosts``; for one thread at a time."""

    def __init__(
        self,
        hosts: Sequence[Host],
        progress: Progress,
        allowed: int,
        failed: Callable[[Outcome[T]], bool] = lambda outcome: not outcome.ok,
    ) -> None:
        """:param allowed: so many may fail before no further host is begun."""
        self.hosts = hosts
        self.begun: set[int] = set()
        self.outcomes: dict[int, Outcome[T]] = {}
        self.halt = ""  # why no further host is begun
        self.progress = progress
        self._failed, self._failures, self._allowed = failed, 0, allowed

    def end(self, turn: int, outcome: Outcome[T]) -> None:
        self.outcomes.setdefault(turn, outcome)
        self._failures += self._failed(outcome)
        if self._failures > self._allowed:
            self.halt = self.halt or f"{self._failures} hosts had failed by then"

    def interrupted(self) -> Interrupted:
        self.halt = "interrupted"
        for turn in self.begun:
            host = self.hosts[turn].name
            self.outcomes.setdefault(turn, Outcome(host, error=abandoned(host)))
        return Interrupted(
            f"interrupted: {len(self.begun)} of {len(self.hosts)} hosts were begun",
            outcomes=self.all(),
        )

    def all(self) -> list[Outcome[T]]:
        return [
            self.outcomes.get(turn)
            or Outcome(
                host.name,
                error=NotBegun(
                    f"{host.name}: not begun: {self.halt}",
                    hint="nothing was done to it; run again once the others are well",
                ),
            )
            for turn, host in enumerate(self.hosts)
        ]


class _Pool(Generic[T]):
    """The state that the threads share; everything below ``_lock`` is under it."""

    def __init__(
        self, books: Books[T], work: Callable[[Host], T], stop: threading.Event | None
    ) -> None:
        self._work = work
        self._stop = stop or threading.Event()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()  # one None a thread
        self._lock = threading.Lock()
        self._books = books

    def run(self, fanout: int, meanwhile: Callable[[], None]) -> list[Outcome[T]]:
        threads = [
            threading.Thread(target=self._thread, name=f"gdr-{number}", daemon=True)
            for number in range(fanout)
        ]
        try:
            for thread in threads:
                thread.start()
            meanwhile()
            for _ in threads:
                self._await_one()
        except KeyboardInterrupt:
            with self._lock:
                raise self._books.interrupted() from None
        for thread in threads:
            thread.join()
        return self._books.all()

    def _await_one(self) -> None:
        # A signal that comes just as the main thread falls asleep, or to another thread, does not
        # wake it, and Python heeds signals only where the main thread runs.
        while True:
            with contextlib.suppress(queue.Empty):
                return self._ended.get(timeout=LONGEST_SLEEP_S)

    def _thread(self) -> None:
        books = self._books
        try:
            while (turn := self._take()) is not None:
                books.progress.note(books.hosts[turn].name, "begun")
                outcome = attempt(books.hosts[turn], self._work)
                with self._lock:
                    books.end(turn, outcome)
                books.progress.done(outcome.host, str(outcome.error or ""))
        finally:
            self._ended.put(None)

    def _take(self) -> int | None:
        books = self._books
        with self._lock:
            if self._stop.is_set():
                books.halt = books.halt or "the run was stopped"
            turn = len(books.begun)
            if books.halt or turn >= len(books.hosts):
                return None
            books.begun.add(turn)
            return turn
