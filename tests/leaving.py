"""What a run of tests leaves running: found by a mark that its processes inherit, and ended.

The mark is the soft limit for POSIX message queues, which nothing here uses: it stays with a
process through a session of its own, an emptied environment and the death of its parent. What
PAM begins anew (sudo, sshd) loses it.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_LIMIT = resource.RLIMIT_MSGQUEUE
_LOWEST, _MARKS = 100_000, 700_000  # below Linux's own limit of 819,200
_PATIENCE_S = 60.0  # scripts notice within seconds that whoever listened to them is gone
# Python's own helpers, which end with the process that they help.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True, slots=True)
class Left:
    """A process that lives still; ``begun`` is in seconds since the epoch."""

    pid: int
    begun: float
    command: str

    def told(self, ran: Iterable[tuple[str, float, float]]) -> str:
        """One line: what it is, and the tests (name, begin, end) during which it was started."""
        names = dict.fromkeys(
            name for name, begin, end in ran if begin - 0.02 <= self.begun <= end + 0.02
        )
        return f"{self.pid}: {self.command}: begun in {' or '.join(names) or 'no test'}"


class Leftovers:
    """Of pytest: after the last test whatever is left is named and ended, and the run fails."""

    def __init__(self, marked: int) -> None:
        """:param marked: see :func:`mark`; 0 finds nothing, and the end of the run says so."""
        self._mark = marked
        self._ran: list[tuple[str, float, float]] = []
        self._left: tuple[Left, ...] = ()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ran.append((str(report.nodeid), report.start, report.stop))

    @pytest.hookimpl(trylast=True)  # xdist's workers, and what they keep for a session, are gone
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._left = left(self._mark, _PATIENCE_S) if self._mark else ()
        finish(self._left)
        if self._left and session.exitstatus in {
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        }:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left:
            terminalreporter.section("left running by tests, and ended now", red=True, bold=True)
        for each in self._left:
            terminalreporter.line(each.told(self._ran))
        if not self._mark:
            terminalreporter.line("what tests left running was not looked for: no limit to mark by")


def mark() -> int:
    """Mark this process and all that it will start; 0 where the system's limit is too low."""
    hard = resource.getrlimit(_LIMIT)[1]
    wanted = _LOWEST + os.getpid() % _MARKS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return 0
    resource.setrlimit(_LIMIT, (wanted, hard))
    return wanted


def left(marked: int, patience_s: float) -> tuple[Left, ...]:
    """Those with the mark, beside ourselves, that do not end within this time."""
    end = time.monotonic() + patience_s
    while found := tuple(_living(marked)):
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return found


def finish(processes: Iterable[Left]) -> None:
    """End them, whatever they hold against it."""
    for each in processes:
        with suppress(OSError):
            os.kill(each.pid, signal.SIGKILL)


def _living(marked: int) -> Iterator[Left]:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent, *_, begun = _after_name(folder)[:20]
            if folder.name == str(os.getpid()) or state in "ZX" or _soft(folder) != marked:
                continue
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # What the fork server has forked has its words, and is no helper.
            own = parent == str(os.getpid())
            if not (own and any(helper in words for helper in _HELPERS)):
                since = int(begun) / os.sysconf("SC_CLK_TCK")
                yield Left(int(folder.name), booted + since, words[:200].strip())


def _after_name(folder: Path) -> list[str]:
    """The fields of stat behind the name of the command, which may hold anything."""
    return (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()


def _soft(folder: Path) -> int:
    for line in (folder / "limits").read_text().splitlines():
        if line.startswith("Max msgqueue size"):
            soft = line.removeprefix("Max msgqueue size").split()[0]
            return int(soft) if soft.isdecimal() else 0
    return 0
