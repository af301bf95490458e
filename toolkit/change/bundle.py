"""The bytes that carry out one plan, in the forms in which they travel."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.change.artefact import Trigger
from toolkit.change.change import Action
from toolkit.change.plan import Plan

FORMAT = 1  # of manifest.json
_CALLED_AS_A_FILE = "# --- called as a file"  # in apply.sh: what follows is for bundles on disk
_END = "GDR_END"
# dash stumbles over some bytes above 127, so only plain text travels as it is.
_PLAIN = re.compile(rb"(?:[\t -~]*\n)*")


@dataclass(frozen=True, slots=True)
class File:
    """One file to place."""

    path: str  # where it lands, absolute
    mode: int
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Every file, the steps as quoted calls, and the engine that carries them out."""

    files: tuple[File, ...]
    steps: tuple[str, ...]
    manifest: str  # JSON, for those who read bundles before they run
    engine: str  # apply.sh, with all that it consists of


def render(plan: Plan, engine: str) -> Bundle:
    """The bundle of a plan.

    :param engine: the text of the engine on the node, from ``reach.deliver.engine``.
    """
    placed = [each for each in plan.changes if each.action is Action.PLACE]
    files = tuple(File(each.path, each.mode, each.text, each.sha256) for each in placed)
    steps = tuple(_steps(plan))
    return Bundle(files, (*steps, f"finish {len(steps)}"), _manifest(plan, steps), engine)


def _steps(plan: Plan) -> Iterator[str]:
    yield shlex.join(("expect", "kernel", plan.kernel))
    if plan.boot_id:
        yield shlex.join(("expect", "boot-id", plan.boot_id))
    for change in plan.files:
        yield shlex.join(
            ("expect", "file", change.path, change.old.sha256 if change.old else "absent")
        )
    keeps = dict.fromkeys(pattern for act in plan.acts for pattern in act.keeps)
    if keeps:
        yield shlex.join(("keep", *keeps))
    yield from _acts(plan, early=True)
    for change in plan.files:
        if change.action is Action.REMOVE:
            yield shlex.join(("remove", change.path))
    for change in plan.files:
        if change.action is Action.PLACE:
            yield shlex.join(("place", change.path, f"{change.mode:o}", change.sha256))
    yield from _acts(plan, early=False)


def _acts(plan: Plan, *, early: bool) -> Iterator[str]:
    for act in plan.acts:
        if act.early is early:
            for when, command in act.undo:
                yield shlex.join(("undo", when, shlex.join((act.trigger.name, *command))))
            yield shlex.join(("trigger", act.call))


def _manifest(plan: Plan, steps: tuple[str, ...]) -> str:
    document = {
        "format": FORMAT,
        "kernel": plan.kernel,
        "boot_id": plan.boot_id,
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
        "steps": len(steps),
    }
    return json.dumps(document, indent=2) + "\n"


def files(bundle: Bundle) -> dict[str, bytes]:
    """The bundle as a directory: bytes by relative path, in order of paths."""
    found = {f"files{each.path}": each.text.encode() for each in bundle.files}
    found["steps"] = _list(bundle)
    found["manifest.json"] = bundle.manifest.encode()
    found["apply.sh"] = bundle.engine.encode()
    return dict(sorted(found.items()))


def tar_bytes(bundle: Bundle) -> bytes:
    """The bundle as a tar: the same bytes every time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in files(bundle).items():
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
    parts = {f"files{each.path}": each.text.encode() for each in bundle.files}
    parts["steps"] = _list(bundle)
    folders = sorted({path.rpartition("/")[0] for path in parts} - {""})
    made = " ".join(f'"$1"/{shlex.quote(folder)}' for folder in folders)
    lines = [
        bundle.engine.partition(_CALLED_AS_A_FILE)[0],
        "gdr_unpack() { # gdr_unpack DIR",
        f'mkdir -p "$1" {made} || return',
        *(_here(path, data) for path, data in sorted(parts.items())),
        "}",
        "stage=''",
        f"gdr_apply apply {wait_s} end",
    ]
    return "\n".join(lines) + "\n"


def _list(bundle: Bundle) -> bytes:
    head = "# The steps of one bundle, read by apply.sh: each line is a quoted call.\n"
    return (head + "".join(f"{step}\n" for step in bundle.steps)).encode()


def _here(path: str, data: bytes) -> str:
    """Shell that writes ``data`` to ``path`` below "$1"."""
    into = f'"$1"/{shlex.quote(path)}'
    if _PLAIN.fullmatch(data) and f"{_END}\n" not in data.decode():
        return f"cat >{into} <<'{_END}' || return\n{data.decode()}{_END}"
    packed = base64.encodebytes(data).decode()
    return f"base64 -d >{into} <<'{_END}' || return\n{packed}{_END}"
