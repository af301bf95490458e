"""Ask a node who depends on its modules, in one round trip; changes nothing."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.evidence import Evidence
from toolkit.node.collect import patience
from toolkit.node.scripts import FOLDER
from toolkit.ssh.transport import Transport

_PARTS = ("frames.sh", "routes.sh", "holding.sh")


def script(call: str) -> str:
    """The whole script.

    :param call: "holding", or "occupied" for the processes alone.
    """
    parts = [(FOLDER / part).read_text("utf-8") for part in _PARTS]
    return "#!/bin/sh\n" + "\n".join([*parts, f"{call}\n"])


def ask(transport: Transport, call: str = "holding") -> Evidence:
    """The frames of holding.sh.

    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(script(call), limit_s=60 * patience())
    evidence = Evidence.parse(result.stdout)
    if not evidence.frames:
        raise TransportError(
            f"{transport.name}: the script ended with {result.exit} and said nothing",
            hint=f"see that a POSIX sh works there: ssh {transport.name} 'echo true | sh -s'",
        )
    return evidence
