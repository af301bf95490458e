"""What we placed on a node, as the node tells it."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.facts.lines import named_lines, rows

REBUILD = "/usr/lib/gdr-toolkit/rebuild"  # the program that builds aside, judges and exchanges
_PLACED = re.compile(r"([^ ]*) ([0-7]+) (\d+) (\d+) (.*)")
_LEFT = re.compile(r"([^ ]*) (.*)")
_HOOK = re.compile(r"(runs|text|empty) (.*)")


class Placed(Struct, frozen=True):
    """A file that lies where one of our artefacts would go, whoever wrote it."""

    sha256: str  # 64 hexadecimal digits
    mode: int  # permission bits
    uid: int
    gid: int


def parse_placed(text: str) -> dict[str, Placed]:
    """Read "SHA256 MODE UID GID PATH" lines, by path.

    :raises Unparsable: at a line that is not of this form.
    """
    return {
        row[5]: Placed(row[1], int(row[2], 8), int(row[3]), int(row[4]))
        for row in rows(text, _PLACED, "placed files")
    }


def parse_left(text: str) -> dict[str, str]:
    """Read "SHA256 PATH" lines, by path.

    :raises Unparsable: at a line that is not of this form.
    """
    return {row[2]: row[1] for row in rows(text, _LEFT, "what our runs left")}


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
    return {row[2]: HookFile(row[1]) for row in rows(text, _HOOK, "hooks")}
