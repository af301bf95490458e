"""Ask a node once: run the probe, keep what it says word for word."""

from __future__ import annotations

import os

from toolkit.errors import FloodError, TransportError, Unparsable
from toolkit.evidence import Evidence
from toolkit.node.scripts import FOLDER, assembled
from toolkit.ssh.transport import Sink, Transport, quiet

# By topic; frames.sh has their words, and the last line of probe.sh calls them all.
_PARTS = (
    *("boot", "modules", "pci", "firmware", "signed", "elf", "builds", "fabric"),
    *("companions", "consumers", "passport"),
)
_USERS_PARTS = ("frames.sh", "routes.sh", "holding.sh")


def probe_script() -> str:
    """The script that reads a node, as one text."""
    files = ["frames.sh", "routes.sh", *(f"probe_{part}.sh" for part in _PARTS), "probe.sh"]
    return "#!/bin/sh\n" + "\n".join((FOLDER / file).read_text("utf-8") for file in files)


def patience() -> float:
    """By how much longer than nodes need a node is waited for: GDR_PATIENCE, or 1.

    For nodes that are emulated, where all takes many times as long as on hardware.
    """
    try:
        return max(1.0, float(os.environ.get("GDR_PATIENCE", "1")))
    except ValueError:
        return 1.0


def collect(transport: Transport, *, limit_s: float = 90, sink: Sink = quiet) -> Evidence:
    """Run the probe on one node, in one round trip.

    What a login prints around it is not evidence. Where the connection was lost midway,
    what arrived is returned as incomplete: what is missing is unknown, the rest holds.

    :param limit_s: multiplied by ``patience()``.
    :raises FloodError: more arrived than any node has to say.
    :raises TransportError: nothing arrived, so there is nothing to judge.
    """
    lines: list[str] = []

    def keep(line: str) -> None:
        lines.append(line)
        sink(line)

    try:
        result = transport.run(probe_script(), limit_s=limit_s * patience(), sink=keep)
    except FloodError:
        raise  # what says so much is no probe of ours: none of it is evidence
    except TransportError:
        evidence = _read(transport.name, "\n".join([*lines, ""]))
        if not evidence.frames:
            raise
        return evidence
    evidence = _read(transport.name, result.stdout)
    if not evidence.frames:
        raise _nothing(transport.name, result.exit, result.stderr or result.stdout)
    return evidence


def _read(host: str, text: str) -> Evidence:
    try:
        return Evidence.parse(text)
    except Unparsable as why:
        raise TransportError(f"{host}: {why}", hint=why.hint) from why


def _nothing(host: str, status: int, said: str) -> TransportError:
    last = next((line for line in reversed(said.split("\n")) if line.strip()), "nothing")
    return TransportError(
        f"{host}: the probe ended with status {status} and read nothing; sh said: {last[:200]}",
        hint=f"see that a POSIX sh works there: ssh {host} 'echo true | sh -s'",
    )


def script(call: str) -> str:
    """The whole script.

    :param call: "holding", or "occupied" for the processes alone.
    """
    return assembled(_USERS_PARTS, call)


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
