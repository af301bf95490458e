"""Have a node be one end of a test: it listens or connects, and tells what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from toolkit.errors import TransportError
from toolkit.evidence import Evidence
from toolkit.facts.rdma.exercise import Role
from toolkit.node.collect import patience
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport

_PARTS = ("frames.sh", "routes.sh", "holding.sh", "exercise.sh")
# Beside the tool's own time: to look, to start, and for counters of many ports.
_ROOM_S = 60.0


def script(*words: str) -> str:
    """The whole script. Cut off at any byte, it starts nothing."""
    return assembled(_PARTS, f"gdr_exercise {shlex.join(words)} end")


def look(transport: Transport) -> Evidence:
    """What a test would need, and who is at work; moves nothing.

    :raises TransportError: whether it ran to its end cannot be known.
    """
    return _whole(transport, script("look"), _ROOM_S)


def take_part(
    transport: Transport,
    role: Role,
    limit_s: int,
    settings: Sequence[str],
    words: Sequence[str],
    *,
    port: int = 0,
    listening: Callable[[int], None] = lambda _: None,
) -> Evidence:
    """Be one end of a test, or run a tool that needs no other.

    :param port: where the other end listens; for the one that connects.
    :param listening: called with the port, once this end listens; never where it does not.
    :raises TransportError: whether it ran to its end cannot be known; it has a deadline of its own.
    """

    def hear(line: str) -> None:
        parts = line.split(" ")
        if parts[:3] == ["=", "listening", "ok"] and len(parts) == 4 and parts[3].isdecimal():
            listening(int(parts[3]))

    limit = int(limit_s * patience())
    where = [str(port)] if role is Role.DRIVE else []
    text = script(role.value, str(limit), " ".join(settings), *where, *words)
    return _whole(transport, text, limit + _ROOM_S, hear)


def _whole(
    transport: Transport, text: str, limit_s: float, hear: Callable[[str], None] = lambda _: None
) -> Evidence:
    result = transport.run(text, limit_s=max(limit_s, _ROOM_S * patience()), sink=hear)
    evidence = Evidence.parse(result.stdout)
    if not evidence.complete:
        raise TransportError(
            f"{transport.name}: the test broke off, with status {result.exit}",
            hint="what it started has a deadline of its own, and is gone after that",
        )
    return evidence
