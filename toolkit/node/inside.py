"""What runs the job, looked into: which, as the operator names it, and how its frames are kept.

    docker:NAME   podman:NAME   enroot:NAME|PID   chroot:DIR       entered on the node
    kubectl:NS/POD[/CONTAINER]   slurm:'--container-image=...'     entered from here
    image:FILE                                                     read here, and never run

Sources: docker and podman, exec; kubectl, exec; NVIDIA/enroot doc/cmd/exec.md and src/runtime.sh;
NVIDIA/pyxis, Usage.
"""

from __future__ import annotations

import re
import shlex

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import TransportError, UsageError
from toolkit.evidence import INSIDE, Evidence, Frame, State
from toolkit.node.scripts import FOLDER
from toolkit.plural import first_of

ON_NODE = ("docker", "podman", "enroot", "chroot")
IMAGE = "image"
_FORMS = (
    "docker:NAME, podman:NAME, enroot:NAME, chroot:DIR, kubectl:NAMESPACE/POD[/CONTAINER], "
    "slurm:'--container-image=...' or image:FILE"
)
_DNS = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_SHAPES = {
    "docker": r"[A-Za-z0-9][\w.-]{0,254}",
    "podman": r"[A-Za-z0-9][\w.-]{0,254}",
    "enroot": r"[A-Za-z0-9][\w.+-]{0,254}",
    "chroot": r"/[^\x00-\x1f\x7f]{1,4000}",
    "kubectl": rf"{_DNS}/{_DNS}(?:/{_DNS})?",
    "slurm": r"-[^\x00-\x1f\x7f]{1,4000}",
    "image": r"[^\x00-\x1f\x7f]{1,4000}",
}
_OPTION = re.compile(r"--?[a-zA-Z][\w-]*(?:=.*)?")
_SHOWN = 8  # others that a sentence names


class Inside(Struct, frozen=True):
    """One container, folder or image."""

    kind: str  # "docker"
    name: str  # as it was typed, behind the colon
    frames: tuple[Frame, ...] = ()  # of an image, which was read before any node is asked

    @property
    def on_node(self) -> bool:
        """Whether the node's own probe enters it."""
        return self.kind in ON_NODE

    def parts(self) -> tuple[str, ...]:
        """What goes before the probe's last part: sh, and the words that it needs."""
        return (
            f"inside_kind={self.kind} inside_name={shlex.quote(self.name)}",
            f"inside_program() {{\ncat <<'GDR_INSIDE'\n{inside_script()}GDR_INSIDE\n}}",
            (FOLDER / "probe_inside.sh").read_text("utf-8"),
        )

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_inside(text: str) -> Inside:
    """Read what ``--inside`` was given.

    :raises UsageError: it is of no known form, or has characters that no such name has.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in _SHAPES:
        raise UsageError(f"--inside {text!r}: of no known form", hint=f"say {_FORMS}")
    if re.fullmatch(_SHAPES[kind], name) is None:
        raise UsageError(f"--inside {text!r}: that is no name for {kind}", hint=f"say {_FORMS}")
    if kind == "slurm":
        srun_options(name)
    return Inside(kind, name)


def srun_options(text: str) -> tuple[str, ...]:
    """The words that srun is given; each an option with its value behind "=".

    :raises UsageError: there is a word that srun would run, or none of a container.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as why:
        raise UsageError(f"--inside slurm: {why}", hint="close the quotes") from why
    bare = next((each for each in words if _OPTION.fullmatch(each) is None), None)
    if bare is not None:
        raise UsageError(
            f"--inside slurm: {bare!r} is no option, and srun would run it",
            hint="give each option's value behind =: --container-image=FILE",
        )
    if not any(each.startswith(("--container-image=", "--container-name=")) for each in words):
        raise UsageError(
            "--inside slurm: no container is named",
            hint="slurm:'--container-image=FILE' or '--container-name=NAME'",
        )
    return words


def inside_script() -> str:
    """What a shell in the container is fed: it reads, and writes nothing."""
    files = ("frames.sh", "probe_consumers.sh", "inside.sh")
    return "\n".join((FOLDER / file).read_text("utf-8") for file in files)


def frames_below(read: Evidence, inside: Inside, way: str) -> tuple[Frame, ...]:
    """What was read in a container, by the names under which a node's evidence keeps it.

    :param way: "entered" or "outside".
    """
    text = f"kind {inside.kind}\nname {inside.name}\nway {way}\n"
    text += f"whole {'yes' if read.complete else 'no'}\n"
    own = (replace(each, key=f"{INSIDE}/{key}") for key, each in read.frames.items())
    return (*own, Frame(INSIDE, State.OK, f"{inside.kind} {inside.name}", text))


def refuse_missing(host: str, evidence: Evidence) -> Evidence:
    """The evidence, where what was to be looked into was.

    :raises TransportError: there is no such container, or nobody can look into it; or it runs
        on another machine.
    """
    frame = evidence.frames.get(INSIDE)
    if frame is None:
        if evidence.complete:
            raise TransportError(f"{host}: nothing was looked into", hint="report this as a bug")
        return evidence  # cut off before it: what is missing is unknown
    if frame.state is State.OK:
        here, there = evidence.frames.get("boot-id"), evidence.frames.get(f"{INSIDE}/boot-id")
        if here and there and here.state is there.state is State.OK and here.text != there.text:
            raise TransportError(
                f"{host}: {frame.source} runs on another machine: its boot id is not the node's",
                hint="name the node that it runs on with --hosts",
            )
        return evidence
    if frame.state is State.ABSENT:
        raise TransportError(
            f"{host}: there is no {frame.source} on the node",
            hint="name what runs the job there: --inside KIND:NAME",
        )
    raise TransportError(f"{host}: {frame.source}: {last_line(frame)}", hint=_others(evidence))


def last_line(frame: Frame) -> str:
    """In what words it failed."""
    said = [line.strip() for line in frame.text.split("\n") if line.strip()]
    if not said:
        return f"ended with status {frame.exit}, and said nothing"
    return said[-1].removeprefix("Error response from daemon: ").removeprefix("Error: ")[:300]


def _others(evidence: Evidence) -> str:
    frame = evidence.frames.get(f"{INSIDE}/others")
    names = [line.strip() for line in frame.text.split("\n") if line.strip()] if frame else []
    if not names:
        return "none runs there that this user may see; root sees no rootless one: --no-become"
    return f"there is: {first_of(names, _SHOWN)}"
