"""The bytes that carry out one plan, in the forms in which they travel."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import sha256

from msgspec import Struct

from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action
from toolkit.plan.plan import Plan

_CALLED_AS_A_FILE = "# --- called as a file"  # in apply.sh: what follows is for bundles on disk
_END = "GDR_END"
# dash stumbles over some bytes above 127, so only plain text travels as it is.
_PLAIN = re.compile(rb"(?:[\t -~]*\n)*")
FORMAT = 1  # of manifest.json


class File(Struct, frozen=True):
    """One file to place."""

    path: str  # where it lands, absolute
    mode: int
    data: bytes
    sha256: str


class Bundle(Struct, frozen=True):
    """Every file, the steps as quoted calls, and the engine that carries them out."""

    contents: tuple[File, ...]
    steps: tuple[str, ...]
    manifest: str  # JSON, for those who read bundles before they run
    engine: str  # apply.sh, with all that it consists of
    sign_key: str = ""  # file of the key that signs it on its way out; "" for none
    signature: str = ""  # over ``sums``, once it is made

    def files(self) -> dict[str, bytes]:
        """The bundle as a directory: bytes by relative path, in order of paths."""
        found = self._files()
        if self.signature:
            found["SHA256SUMS"] = self.sums().encode()
            found["SHA256SUMS.sig"] = self.signature.encode()
        return dict(sorted(found.items()))

    def sums(self) -> str:
        """What is signed: the hash of every file, as sha256sum prints it."""
        return "".join(
            f"{sha256(data).hexdigest()}  {path}\n" for path, data in sorted(self._files().items())
        )

    def _files(self) -> dict[str, bytes]:
        found = {f"files{each.path}": each.data for each in self.contents}
        found["steps"] = self.steps_file()
        found["manifest.json"] = self.manifest.encode()
        found["apply.sh"] = self.engine.encode()
        return found

    def steps_file(self) -> bytes:
        """The list that apply.sh reads."""
        head = "# The steps of one bundle, read by apply.sh: each line is a quoted call.\n"
        return (head + "".join(f"{step}\n" for step in self.steps)).encode()


def tar_bytes(bundle: Bundle) -> bytes:
    """The bundle as a tar: the same bytes every time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in bundle.files().items():
            entry = tarfile.TarInfo(path)  # mtime, uid and gid are 0
            entry.size, entry.mode = len(data), 0o755 if path == "apply.sh" else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def script(bundle: Bundle, *, wait_s: int = 60) -> str:
    """The bundle as one POSIX sh script for ``sh -s``, which needs no tar on the node.

    All is functions, with one call on the last line that ends with a word of its own: a
    script that is cut off at any byte runs nothing.

    :param wait_s: how long to wait for another run to let go of the node.
    """
    return f"{_whole(bundle)}gdr_apply apply {wait_s} end\n"


def runner(bundle: Bundle) -> str:
    """The same as one file for ``sh FILE VERB WAIT end``: what others carry to their nodes.

    They may carry it twice: what was carried out already, and stands, is not done again. What
    we send ourselves comes from a plan that was just made, and is carried out or refused.
    The words of a call come from outside, and the last of them has to be "end" here too.
    """
    return f'{_whole(bundle)}again=yes\ngdr_apply "$@"\n'


def _whole(bundle: Bundle) -> str:
    """Functions that hold the engine and every file; nothing is called yet."""
    parts = bundle.files()
    del parts["apply.sh"], parts["manifest.json"]  # this script itself; what readers want
    folders = sorted({path.rpartition("/")[0] for path in parts} - {""})
    made = " ".join(f'"$1"/{shlex.quote(folder)}' for folder in folders)
    lines = [
        bundle.engine.partition(_CALLED_AS_A_FILE)[0],
        "gdr_unpack() { # gdr_unpack DIR",
        f'mkdir -p "$1" {made} || return',
        *(_here(path, data) for path, data in sorted(parts.items())),
        "}",
        "stage=''",
    ]
    return "\n".join(lines) + "\n"


def _here(path: str, data: bytes) -> str:
    """Shell that writes ``data`` to ``path`` below "$1"."""
    into = f'"$1"/{shlex.quote(path)}'
    if _PLAIN.fullmatch(data) and f"{_END}\n" not in data.decode():
        return f"cat >{into} <<'{_END}' || return\n{data.decode()}{_END}"
    packed = base64.encodebytes(data).decode()
    return f"base64 -d >{into} <<'{_END}' || return\n{packed}{_END}"


def render(plan: Plan, node: Node, engine: str, keep_runs: int = 5) -> Bundle:
    """The bundle of a plan, bound to the kernel and the boot that ``node`` was read in.

    That of an image is bound to its files alone: what runs where it is made is not its kernel.

    :param engine: what carries it out on the node, from ``reach.deliver.engine``.
    :param keep_runs: so many of the node's newest runs keep all that they replaced.
    """
    placed = [each for each in plan.changes if each.action is Action.PLACE]
    files = tuple(File(each.path, each.mode, each.content, each.sha256) for each in placed)
    bound = {"kernel": node.kernel, "boot-id": node.boot_id if node.live else ""}
    steps = tuple(_steps(plan, bound if node.live else {}))
    manifest = _manifest(plan, bound, len(steps))
    return Bundle(files, (*steps, f"finish {len(steps)} {keep_runs}"), manifest, engine)


def _steps(plan: Plan, bound: Mapping[str, str]) -> Iterator[str]:
    for what, value in bound.items():
        if value:
            yield shlex.join(("expect", what, value))
    for change in plan.files:
        yield shlex.join(
            ("expect", "file", change.path, change.old.sha256 if change.old else "absent")
        )
    yield from _kept(plan)
    yield from _acts(plan, early=True)
    for change in plan.files:
        if change.action is Action.REMOVE:
            yield shlex.join(("remove", change.path))
    for change in plan.files:
        if change.action is Action.PLACE:
            yield shlex.join(("place", change.path, f"{change.mode:o}", change.sha256))
    yield from _acts(plan, early=False)


def _kept(plan: Plan) -> Iterator[str]:
    """What triggers rewrite, and what they leave beside that where they are cut off."""
    for trigger in plan.triggers:
        acts = [act for act in plan.acts if act.trigger is trigger]
        if keeps := dict.fromkeys(pattern for act in acts for pattern in act.keeps):
            yield shlex.join(("keep", trigger.name, *keeps))
        if temps := dict.fromkeys(pattern for act in acts for pattern in act.temps):
            yield shlex.join(("temps", trigger.name, *temps))


def _acts(plan: Plan, *, early: bool) -> Iterator[str]:
    for act in plan.acts:
        if act.early is early:
            for when, command in act.undo:
                yield shlex.join(("undo", when, shlex.join((act.trigger.name, *command))))
            yield shlex.join(("trigger", act.call))
            for path, text in act.names:
                yield shlex.join(("prove", path, text))


def _manifest(plan: Plan, bound: Mapping[str, str], steps: int) -> str:
    document = {
        "format": FORMAT,
        "kernel": bound["kernel"],
        "boot_id": bound["boot-id"],
        "family": plan.family,
        "reboot": plan.needs_reboot,
        "triggers": [trigger.name for trigger in plan.triggers if trigger is not Trigger.REBOOT],
        "changes": [
            {
                "artefact": each.artefact,
                "action": each.action.value,
                "path": each.path,
                "mode": f"{each.mode:o}",
                "sha256": each.sha256 if each.action is not Action.REMOVE else "",
                "why": list(each.why),
            }
            for each in plan.changes
        ],
        "blocked": [
            {"artefact": each.artefact, "reason": each.reason, "hint": each.hint}
            for each in plan.blocked
        ],
        "steps": steps,
    }
    return json.dumps(document, indent=2) + "\n"
