"""How much a host may say, and how many hosts at once this process has open files for."""

from __future__ import annotations

import resource

from toolkit.errors import FloodError, UsageError
from toolkit.plural import sized

_OWN = 64  # the process's own: modules, journal, logs, terminal
ANSWER = 4 << 20  # bytes by one stream of one command; evidence of a large node has 200 KiB
ROOM_S = 60.0  # how long room among jobs is waited for where nobody said how long
BULK = 128 << 20  # of a build, whose modules come by its output; of a scheduler's tables
_ROOMS = 16  # so many times that much in all commands of a run
_A_LINE = 40  # bytes of a line, on average, at the least: each costs us more than its bytes
_A_HOST = {"paramiko": 2, "openssh": 5, "local": 5}  # a socket; a client's pipes


def make_room(hosts: int, transport: str) -> None:
    """See that so many hosts at once find descriptors: the soft limit is raised where it is low.

    A thousand connections under the usual soft limit of 1,024 would fail one by one, each as a
    host out of reach that is none.

    :raises UsageError: the hard limit does not allow it.
    """
    needed = _OWN + hosts * _A_HOST.get(transport, max(_A_HOST.values()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        fits = max(1, (hard - _OWN) // _A_HOST.get(transport, max(_A_HOST.values())))
        raise UsageError(
            f"{hosts} hosts at once need {needed} open files, and this process may have {hard}",
            hint=f"--fanout {fits}, or a higher hard limit: ulimit -Hn",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Hearing:
    """What one host may say: in each stream of a command, and in all commands of a run.

    Without it a node that never stops talking takes the controller's memory, and with it the
    results of all others.
    """

    def __init__(self, name: str, room: int = ANSWER, *, lines: int = 0) -> None:
        """:param room: bytes in one stream; :param lines: in one stream, unless as usual."""
        self.name, self.room = name, room
        self.lines = lines or room // _A_LINE
        self._left = room * _ROOMS

    def take(self, count: int) -> None:
        """Count bytes that came by any stream.

        :raises FloodError: they are too many for one run.
        """
        self._left -= count
        if self._left < 0:
            raise flood(self.name, f"more than {sized(self.room * _ROOMS)} in one run")


class Stream:
    """One stream of one command, kept whole for as long as it has a size that can be."""

    def __init__(self, hearing: Hearing, called: str) -> None:
        self.data = bytearray()
        self.hearing, self._called = hearing, called
        self._lines = 0

    def feed(self, data: bytes) -> None:
        """Keep what came.

        :raises FloodError: it is too much; what was kept is let go of.
        """
        self._lines += data.count(b"\n")
        try:
            if len(self.data) + len(data) > self.hearing.room:
                self._refuse(sized(self.hearing.room))
            if self._lines > self.hearing.lines:
                self._refuse(f"{self.hearing.lines} lines")
            self.hearing.take(len(data))
        except FloodError:
            self.data = bytearray()  # the error may live as long as the run
            raise
        self.data += data

    def _refuse(self, most: str) -> None:
        raise flood(self.hearing.name, f"more than {most} on {self._called}")


def flood(host: str, what: str) -> FloodError:
    return FloodError(
        f"{host}: says {what}, and was not listened to any further",
        hint=f"no node has so much to say: look at what its login and its tools print: ssh {host}",
    )
