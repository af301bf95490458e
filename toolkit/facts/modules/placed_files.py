"""What we placed on a node, as the node tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

REBUILD = "/usr/lib/gdr-toolkit/rebuild"  # the program that builds aside, judges and exchanges


@dataclass(frozen=True, slots=True)
class Placed:
    """A file that lies where one of our artefacts would go, whoever wrote it."""

    sha256: str  # 64 hexadecimal digits
    mode: int  # permission bits
    uid: int
    gid: int


def parse_placed(text: str) -> dict[str, Placed]:
    """Read "SHA256 MODE UID GID PATH" lines, by path.

    :raises Unparsable: at a line that is not of this form.
    """
    files: dict[str, Placed] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        words = line.split(" ", 4)
        try:
            sha256, mode, uid, gid, path = words
            files[path] = Placed(sha256, int(mode, 8), int(uid), int(gid))
        except ValueError as why:
            raise Unparsable("placed files", line, number) from why
    return files


def parse_left(text: str) -> dict[str, str]:
    """Read "SHA256 PATH" lines, by path.

    :raises Unparsable: at a line that is not of this form.
    """
    files: dict[str, str] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        sha256, blank, path = line.partition(" ")
        if not blank:
            raise Unparsable("what our runs left", line, number)
        files[path] = sha256
    return files


def parse_contents(text: str) -> dict[str, str]:
    """Read "etc/modprobe.d/gdr-toolkit.conf:LINE" lines: text by absolute path."""
    contents: dict[str, str] = {}
    for path, line in named_lines(text, "our files"):
        contents[f"/{path}"] = contents.get(f"/{path}", "") + line + "\n"
    return contents


class HookFile(StrEnum):
    """What lies where a hook of ours would."""

    RUNS = "runs"  # can be executed
    TEXT = "text"
    EMPTY = "empty"


def parse_hooks(text: str) -> dict[str, HookFile]:
    """Read "runs PATH", "text PATH" and "empty PATH" lines, by path.

    :raises Unparsable: at a line that is not of this form.
    """
    files: dict[str, HookFile] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        word, _, path = line.partition(" ")
        try:
            files[path] = HookFile(word)
        except ValueError as why:
            raise Unparsable("hooks", line, number) from why
    return files
