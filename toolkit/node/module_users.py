"""Ask a node who depends on its modules, in one round trip; changes nothing."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.evidence import Evidence
from toolkit.node.collect import patience
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport

_PARTS = ("frames.sh", "routes.sh", "holding.sh")


def script(call: str) -> str:
    """The whole script.

    :param call: "holding", or "occupied" for the processes alone.
    """
    return assembled(_PARTS, call)


def ask(transport: Transport, call: str = "holding") -> Evidence:
    """The frames of holding.sh.

    :raises TransportError: whether it ran to its end cannot be known.
    """
    return frames_of(transport, script(call), limit_s=60 * patience())


def frames_of(transport: Transport, text: str, *, limit_s: float) -> Evidence:
    """The frames that a script prints, however far it came.

    :raises TransportError: there are none, or whether it ran to its end cannot be known.
    """
    result = transport.run(text, limit_s=limit_s)
    evidence = Evidence.parse(result.stdout)
    if not evidence.frames:
        raise TransportError(
            f"{transport.name}: the script ended with {result.exit} and said nothing",
            hint=f"see that a POSIX sh works there: ssh {transport.name} 'echo true | sh -s'",
        )
    return evidence
