"""Run one POSIX sh script as root, somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

Sink = Callable[[str], None]  # one line of stdout, without its newline, as it arrives


def quiet(line: str) -> None:
    """The sink that listens to nothing."""


class Whole:
    """A sink that takes all at once: what was said when the script has ended, or was cut."""

    def __init__(self) -> None:
        self.heard: bytes | bytearray = b""

    def __call__(self, line: str) -> None:
        """A transport of another kind hands lines on."""
        self.heard = self.heard + line.encode("utf-8", "surrogateescape") + b"\n"


class Result(Struct, frozen=True):
    """A script that ran to its end, whatever its exit status."""

    exit: int
    stdout: str  # undecodable bytes as surrogates, so that nothing is lost
    stderr: str


class Transport(Protocol):
    """Runs scripts on one node over one connection, opened at the first use.

    A Result means that the script ran to its end; TransportError means that it could
    not be known to. A failed script is a value, an unreachable host is an exception.
    """

    @property
    def name(self) -> str:
        """The host's name, as the operator wrote it."""

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        """Feed ``script`` to ``sh -s`` as root and wait for its end.

        :param limit_s: give up after so many seconds; the script may go on without us.
        :raises TransportError: the connection, the login or the end of the script failed.
        """

    def close(self) -> None:
        """Let the connection go. A closed transport may be used again."""
