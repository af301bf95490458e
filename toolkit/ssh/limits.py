"""How much a host may say, and how many hosts at once this process has open files for."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolkit.errors import FloodError, UsageError
from toolkit.plural import sized

if TYPE_CHECKING:  # the OpenSSH client is used without it
    import paramiko

_OWN = 64  # the process's own: modules, journal, logs, terminal
ANSWER = 4 << 20  # bytes by one stream of one command; evidence of a large node has 200 KiB
ROOM_S = 60.0  # how long room among jobs is waited for where nobody said how long
BULK = 128 << 20  # of a build, whose modules come by its output; of a scheduler's tables
_ROOMS = 16  # so many times that much in all commands of a run
_A_LINE = 40  # bytes of a line, on average, at the least: each costs us more than its bytes
GREETING = 256 << 10  # bytes of a server's greeting and its offer of keys
_PACKET = 1 << 20  # of one packet: OpenSSH's own bound is 256 KiB
_AHEAD = 16 << 10  # bytes that are taken from a socket at a time
GATHERED = 8 << 10  # bytes for which we are woken where nobody waits for a line
_LONGEST_S = 1.0  # for which they are waited for
_LOOK_S = 0.5
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


class Wire:
    """A socket whose far end may not make Paramiko keep more than a server has to say.

    Paramiko looks for the end of a greeting without end, and waits for the whole of a packet of
    any size; both while each byte costs more than the one before. And each packet wakes two of
    its threads, which costs more than a connection where a shell writes little at a time.
    """

    def __init__(self, sock: socket.socket | paramiko.Channel, host: str) -> None:
        self.greeted = False
        self.why: FloodError | None = None
        self.awaited: Callable[[], bool] | None = None  # while it says so, much is waited for
        self.inner, self._host = sock, host
        self._ahead, self._taken = b"", 0  # of which so much was handed on
        self._heard, self._least, self._last_s = 0, 1, 0.0

    def recv(self, size: int) -> bytes:
        if size > _PACKET:
            self._refuse(f"that it sends a packet of {sized(size)}")
        if self._taken == len(self._ahead):
            lately = time.monotonic() - self._last_s < _LONGEST_S
            self._wake_at(GATHERED if lately and self.awaited and self.awaited() else 1)
            self._ahead, self._taken = self.inner.recv(max(size, _AHEAD)), 0
            self._last_s = time.monotonic()
            self._heard += len(self._ahead)
            if not self.greeted and self._heard > GREETING:
                self._refuse(f"more than {GREETING >> 10} KiB before any login")
        data = self._ahead[self._taken : self._taken + size]
        self._taken += len(data)
        if self._taken == len(self._ahead):
            self._ahead, self._taken = b"", 0  # or each node that is waited for holds its last
        return data

    def settimeout(self, _: float) -> None:
        """How often Paramiko looks whether it was told to end; ``close`` wakes it anyhow."""
        self.inner.settimeout(_LOOK_S)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):  # gone already, or the jump host is
            if isinstance(self.inner, socket.socket):
                self.inner.shutdown(socket.SHUT_RDWR)
        self.inner.close()

    def _wake_at(self, least: int) -> None:
        if least != self._least:
            self._least = least
            if isinstance(self.inner, socket.socket):  # and not a leg through a jump host
                with contextlib.suppress(OSError):  # a pipe has none
                    self.inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def _refuse(self, what: str) -> None:
        self.why = flood(self._host, what)
        raise self.why

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)
