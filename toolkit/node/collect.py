"""Ask a node once: run the probe, keep what it says word for word."""

from __future__ import annotations

import os
import shlex
from functools import cache, lru_cache
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from toolkit.errors import FloodError, TransportError, Unparsable
from toolkit.evidence import Evidence
from toolkit.node.scripts import FOLDER, assembled
from toolkit.ssh.stream import decode
from toolkit.ssh.transport import Transport, Whole

if TYPE_CHECKING:  # who looks into no container needs none of it
    from toolkit.node.inside import Inside

# By topic; frames.sh has their words, and the last line of probe.sh calls them all.
_PARTS = (
    *("boot", "modules", "pci", "firmware", "signed", "elf", "builds", "fabric"),
    *("companions", "consumers", "passport"),
)
_FILES = ("frames.sh", "routes.sh", *(f"probe_{part}.sh" for part in _PARTS))
_USERS_PARTS = ("frames.sh", "routes.sh", "holding.sh")


class Register(Struct, frozen=True):
    """That the probe tries, beside reading, which HCA takes the memory of which GPU."""

    libibverbs: str = ""  # a file or name on the node; "" for the node's own


def register_program() -> str:
    """What Python runs on the node, as one text: register.py with its first part before it."""
    parts = ("register_verbs.py", "register.py")
    return "\n".join(map(_text, parts))


# Beside the probe's own time: 8 GPUs of a machine whose driver starts for each anew.
_REGISTER_S = 250.0
_INSIDE_S = 120.0  # entered once, and looked at from outside where that failed


@cache
def _text(file: str) -> str:
    return (FOLDER / file).read_text("utf-8")


def probe_script(register: Register | None = None, inside: Inside | None = None) -> str:
    """The script that reads a node, as one text; with ``register`` it allocates GPU memory, too.

    Within braces: it is piped and copied by others as well, and cut it runs nothing.

    :param inside: what the node has that runs the job; what is tried is tried in there.
    """
    return _probe(register, inside, ceil(patience()))


@lru_cache(maxsize=2)
def _probe(register: Register | None, inside: Inside | None, patient: int) -> str:
    """One text for all nodes: each that is asked would hold 84 KiB of its own."""
    parts = [_text(file) for file in _FILES]
    parts += [f"patience={patient}"]
    if inside is not None:
        parts += inside.parts()
    if register is not None:
        parts += [
            f"verbs_library={shlex.quote(register.libibverbs)}",
            f"register_program() {{\ncat <<'GDR_REGISTER'\n{register_program()}GDR_REGISTER\n}}",
            _text("probe_register.sh"),
        ]
    return "\n".join(["#!/bin/sh\n{", *parts, _text("probe.sh") + "}\n"])


def patience() -> float:
    """By how much longer than nodes need a node is waited for: GDR_PATIENCE, or 1.

    For nodes that are emulated, where all takes many times as long as on hardware.
    """
    try:
        return max(1.0, float(os.environ.get("GDR_PATIENCE", "1")))
    except ValueError:
        return 1.0


def collect(
    transport: Transport,
    *,
    limit_s: float = 90,
    register: Register | None = None,
    inside: Inside | None = None,
) -> Evidence:
    """Run the probe on one node, in one round trip.

    What a login prints around it is not evidence. Where the connection was lost midway,
    what arrived is returned as incomplete: what is missing is unknown, the rest holds.

    :param limit_s: multiplied by ``patience()``.
    :raises FloodError: more arrived than any node has to say.
    :raises TransportError: nothing arrived, so there is nothing to judge.
    """
    whole = Whole()
    try:
        limit_s += (_REGISTER_S if register else 0.0) + (_INSIDE_S if inside else 0.0)
        script = probe_script(register, inside)
        result = transport.run(script, limit_s=limit_s * patience(), sink=whole)
    except FloodError:
        whole.heard = b""  # the error may live as long as the run
        raise  # what says so much is no probe of ours: none of it is evidence
    except TransportError:
        evidence = _read(transport.name, decode(whole.heard))
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
        hint=_by_hand(host),
    )


def _by_hand(host: str) -> str:
    """A name that is a URI is no word of ssh's."""
    command = "" if "://" in host else f": ssh {shlex.quote(host)} 'echo true | sh -s'"
    return f"see that a POSIX sh works there{command}"


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
            hint=_by_hand(transport.name),
        )
    return evidence
