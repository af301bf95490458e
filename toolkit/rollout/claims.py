"""Who is at work on which hosts, among the controllers that share a state folder.

    RUNS/ID/hosts    the hosts of a run, one a line; locked by its controller while it lives
    RUNS/.claims     held for the moment in which a claim is made

The kernel takes a lock back from whoever dies, so a claim never outlives its controller.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from toolkit.errors import LockedError, UsageError
from toolkit.hosts.host import fold
from toolkit.safe_file import FileLock, hold, private_folder

FILE = "hosts"
_PATIENCE_S = 10.0
_ALONE, _SHARED = "alone", "shared"


class Claim(Struct, frozen=True):
    """What another controller, which lives, has claimed."""

    run: str
    who: str
    alone: bool  # a rollout: nobody else may touch its hosts
    hosts: frozenset[str]


def claim(runs: Path, run: str, who: str, hosts: Iterable[str], *, alone: bool) -> FileLock:
    """Claim the hosts for a run, until the lock is let go or we die.

    Two that are not alone may share hosts: then the lock on each node keeps them apart.

    :param hosts: names by which the same node is known to every controller.
    :raises LockedError: another live run has one of them, which is named.
    :raises UsageError: the folder cannot be written.
    """
    wanted = frozenset(hosts)
    try:
        private_folder(runs / run)
        with _moment(runs):
            for other in living(runs):
                both = wanted & other.hosts
                if other.run == run or (both and (alone or other.alone)):
                    raise _taken(other, both)
            held = _patiently(runs / run / FILE)
            if held is None:
                raise _taken(Claim(run, "another controller", True, wanted), wanted)
            mode = _ALONE if alone else _SHARED
            lines = [f"{mode} {who}", *sorted(wanted)]
            (runs / run / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as why:
        raise UsageError(f"{runs}: {why.strerror}", hint="name another XDG_STATE_HOME") from why
    return held


def living(runs: Path) -> Iterator[Claim]:
    """The claims of runs whose controllers live."""
    for file in sorted(runs.glob(f"*/{FILE}")):
        if alive(file.parent):
            head, *hosts = file.read_text("utf-8", "replace").splitlines() or [""]
            mode, _, who = head.partition(" ")
            yield Claim(file.parent.name, who, mode == _ALONE, frozenset(hosts))


def alive(folder: Path) -> bool:
    """Whether a controller is at work on the run in this folder."""
    if not (folder / FILE).is_file():
        return False
    held = hold(folder / FILE)
    if held is None:
        return True
    held.let_go()
    return False


def _patiently(file: Path) -> FileLock | None:
    """Who only looks whether a run lives holds its lock as well, for an instant."""
    for _ in range(100):
        if held := hold(file):
            return held
        time.sleep(0.02)
    return None


def _moment(runs: Path) -> FileLock:
    end = time.monotonic() + _PATIENCE_S
    while (held := hold(runs / ".claims")) is None:
        if time.monotonic() > end:
            raise LockedError(
                f"{runs / '.claims'} is held by another controller",
                hint="nothing was touched; try again, or see who holds it: fuser",
            )
        time.sleep(0.05)
    return held


def _taken(other: Claim, both: frozenset[str]) -> LockedError:
    which = fold(both) or "its hosts"
    return LockedError(
        f"run {other.run} of {other.who} is at work on {which}",
        hint=f"nothing was touched; wait for it, or look: runs.show {other.run}",
    )
