"""Loose files as evidence: read from disk, and written as one evidence file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.evidence import Evidence, Frame
from toolkit.facts.kinds import Kind, named
from toolkit.facts.nccl.nccl_log import parse_nccl_log
from toolkit.facts.text.machines import machines
from toolkit.facts.text.pasted_logs import NotUnderstood, evidence_of, frames_of
from toolkit.facts.text.pod_logs import holds_pod_logs, parse_pod_logs
from toolkit.plural import sized

MANY_BYTES = 256 << 20  # no log that anybody judges is longer; a core dump is


def read_bytes(file: Path) -> bytes:
    """The content of one ordinary file.

    :raises UsageError: it cannot be read, is none, or is too large to be evidence.
    """
    try:
        if file.stat().st_size > MANY_BYTES:
            raise UsageError(
                f"{file}: {sized(file.stat().st_size)} is no evidence",
                hint="name the output of one tool, or a folder of such files",
            )
        if not file.is_file():
            raise UsageError(f"{file}: not an ordinary file", hint="save it as a file first")
        return file.read_bytes()
    except OSError as why:
        hint = "name a file that can be read"
        if isinstance(why, FileNotFoundError):
            hint += "; nodes are named by --hosts"
        raise UsageError(f"{file}: {why.strerror}", hint=hint) from why


def read_input() -> bytes:
    """What comes by standard input, to its end.

    :raises UsageError: it cannot be read, or is more than evidence can be.
    """
    if sys.stdin is None:  # it was closed before we began
        raise UsageError("standard input is closed", hint="name a file, or pipe one in")
    try:
        data = sys.stdin.buffer.read(MANY_BYTES + 1)
    except OSError as why:
        raise UsageError(f"standard input: {why}", hint="name a file, or pipe one in") from why
    if len(data) > MANY_BYTES:
        raise UsageError(
            f"standard input: more than {sized(MANY_BYTES)} is no evidence",
            hint="give the output of one tool, or name a folder of such files",
        )
    return data


def decoded(data: bytes) -> str:
    """Word for word: what is no UTF-8 comes back when it is written."""
    return data.decode("utf-8", "surrogateescape")


def names_kinds(said: str) -> bool:
    """Whether this is ``KIND=FILE,...`` and not the path of something that is there."""
    return "=" in said and not os.path.lexists(said)


def import_named(said: str) -> tuple[str, Evidence]:
    """Evidence of one node from ``KIND=FILE,KIND=FILE``; named by the first file.

    :raises UsageError: an unknown kind, a file that cannot be read, a kind given twice.
    """
    frames: list[Frame] = []
    first = ""
    for pair in said.split(","):
        kind, equals, name = pair.strip().partition("=")
        if not (kind and equals and name):
            raise UsageError(f"{pair!r} is not KIND=FILE", hint="topo=FILE,dmesg=FILE")
        frames += _of_one(Path(name), named(kind))
        first = first or Path(name).stem
    return first, evidence_of(frames)


def _of_one(file: Path, kind: Kind) -> list[Frame]:
    """:raises UsageError: it holds the answers of several machines."""
    with suppress(NotUnderstood):  # its kind is said
        names = [name or "one that is not named" for name, _ in machines(_text(file), file.name)]
        if len(names) > 1:
            raise UsageError(
                f"{file}: holds the answers of {len(names)} machines: {', '.join(names)}",
                hint="give each a file of its own; doctor FILE judges each of them as it is",
            )
    return _frames(file, kind)


def import_log(file: Path) -> tuple[Frame, ...]:
    """The log of an NCCL job, as a source beside those of its nodes.

    :raises UsageError: it cannot be read.
    """
    frames = tuple(_frames(file, named("nccl-log")))
    for each in frames:  # before the nodes are judged side by side: else each would read it
        parse_nccl_log(each.text)
    return frames


def _frames(file: Path, kind: Kind) -> list[Frame]:
    return frames_of(_text(file), file.name, kind)


def _text(file: Path) -> str:
    return decoded(read_bytes(file))


def read_pod_log(text: str, file: Path) -> Iterator[tuple[str, Evidence]]:
    """The nodes of one log.

    :raises UsageError: it is of pods of ours, and nothing can be taken for one node's evidence.
    """
    try:
        found = parse_pod_logs(text)
    except UsageError as why:
        raise UsageError(f"{file}: {why}", hint=why.hint) from why
    for each in found:
        yield each.node, each.evidence


def is_pod_logs(folder: Path) -> bool:
    """Whether each file of the folder is the log of pods of ours."""
    files = [each for each in folder.iterdir() if each.is_file() and each.name[0] != "."]
    return bool(files) and all(holds_pod_logs(_text(each)) for each in files)


def read_pod_logs(folder: Path) -> Iterator[tuple[str, Evidence]]:
    """The nodes of a folder with one log a pod; of a node with several the last by name counts.

    :raises UsageError: likewise.
    """
    found: dict[str, Evidence] = {}
    for file in sorted(each for each in folder.iterdir() if each.is_file()):
        if file.name[0] != ".":
            found.update(read_pod_log(_text(file), file))
    yield from found.items()
