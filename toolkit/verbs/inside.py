"""Look into what runs the job: on the node, from here by kubectl or srun, or in an image's file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from toolkit.errors import TransportError, UsageError
from toolkit.evidence import INSIDE, Evidence, Frame, State
from toolkit.node.collect import Register, collect, patience, register_program
from toolkit.node.inside import (
    IMAGE,
    Inside,
    frames_below,
    inside_script,
    last_line,
    parse_inside,
    refuse_missing,
    srun_options,
)
from toolkit.ssh.local import answer
from toolkit.ssh.transport import Transport

_ENTER_S, _REGISTER_S = 120.0, 250.0
_NOT_FOUND = (126, 127)  # of a shell, of runc and of docker: no such command in it


def opened_inside(where: str) -> Inside:
    """What ``--inside`` names; an image is read at once, before any node is asked.

    :raises UsageError: of no known form, or no image that can be read.
    """
    inside = parse_inside(where)
    if inside.kind != IMAGE:
        return inside
    from toolkit.verbs.inside_image import read_image  # noqa: PLC0415 only they pay for it

    return Inside(
        inside.kind, inside.name, frames_below(read_image(inside.name), inside, "outside")
    )


def collect_inside(
    transport: Transport, inside: Inside, register: Register | None = None
) -> Evidence:
    """The node's evidence, and below "inside/" what was read in it.

    :raises TransportError: one of both could not be asked.
    """
    if inside.on_node:
        evidence = collect(transport, register=register, inside=inside)
        return refuse_missing(transport.name, evidence)
    frames = inside.frames or _from_here(inside, transport.name, register)
    return refuse_missing(transport.name, collect(transport).plus(frames))


def _from_here(inside: Inside, host: str, register: Register | None) -> tuple[Frame, ...]:
    """Entered by a program of this machine.

    :raises TransportError: there is no such pod, or nothing of ours runs in it.
    """
    ended = _entered(inside, host, ("sh", "-s"), inside_script(), _ENTER_S)
    said = ended.stdout.decode("utf-8", "surrogateescape")
    read = Evidence.parse(said)
    if not read.frames:
        told = ended.stderr.decode("utf-8", "replace") or said
        frame = Frame(INSIDE, State.FAILED, str(inside), told, ended.returncode)
        hint = _there(inside) or f"try it by hand: {' '.join(enter(inside, host))} sh"
        why = last_line(frame)
        if "executable file not found" in told or "exit code 127" in told:
            why = "it has no sh: look into its image instead, --inside image:FILE"
        raise TransportError(f"{host}: {inside}: {why}", hint=hint)
    frames = frames_below(read, inside, "entered")
    return (*frames, _registered(inside, host, register)) if register else frames


def _registered(inside: Inside, host: str, register: Register) -> Frame:
    """What the container's own Python was told, by its own libibverbs and libcuda."""
    words = ("python3", "-ISB", "-", register.libibverbs)
    ended = _entered(inside, host, words, register_program(), _REGISTER_S)
    key, source = f"{INSIDE}/registration", "python3 register.py"
    text = ended.stdout.decode("utf-8", "surrogateescape")
    if ended.returncode in _NOT_FOUND:
        return Frame(key, State.ABSENT, "python3")
    if ended.returncode:
        text += ended.stderr.decode("utf-8", "surrogateescape")
        return Frame(key, State.FAILED, source, text, min(ended.returncode, 255))
    return Frame(key, State.OK, source, text)


def enter(inside: Inside, host: str) -> tuple[str, ...]:
    """The words before a command that is to run in it."""
    if inside.kind == "slurm":
        node = host.partition(".")[0]
        return ("srun", "--quiet", "-N1", "-n1", "-w", node, *srun_options(inside.name))
    namespace, pod, *container = inside.name.split("/")
    chosen = ("-c", container[0]) if container else ()
    return ("kubectl", "exec", "-i", "-n", namespace, pod, *chosen, "--")


def _entered(
    inside: Inside, host: str, command: Sequence[str], script: str, limit_s: float
) -> subprocess.CompletedProcess[bytes]:
    words = (*enter(inside, host), *command)
    limit_s *= patience()
    try:
        return answer(words, script.encode(), limit_s=limit_s)
    except OSError as why:
        raise UsageError(
            f"--inside {inside}: {words[0]} cannot be run here: {why.strerror}",
            hint=f"install {words[0]} on this machine, or look from the node: docker:NAME",
        ) from why
    except subprocess.TimeoutExpired as why:
        raise TransportError(
            f"{host}: {inside}: no answer within {limit_s:g} s",
            hint=f"try it by hand: {' '.join(enter(inside, host))} true",
        ) from why


def _there(inside: Inside) -> str:
    """Which pods there are, where kubectl tells; "" for nothing."""
    if inside.kind != "kubectl":
        return ""
    namespace = inside.name.split("/")[0]
    try:
        ended = answer(("kubectl", "get", "pods", "-n", namespace, "-o", "name"), limit_s=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    names = ended.stdout.decode("utf-8", "replace").split()[:8]
    return f"there is in {namespace}: {', '.join(names)}" if names and not ended.returncode else ""
