"""Columns that a person can read at 100 characters, errors, and words in colour on a terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TextIO

from toolkit.errors import ExitCode, ToolkitError
from toolkit.package_data import as_called

WIDTH = 100


class Ink(StrEnum):
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    MAGENTA = "35"
    GREY = "90"
    BOLD = "1"


class Painter:
    """Colours words, or leaves them plain."""

    def __init__(self, coloured: bool) -> None:
        self.coloured = coloured

    def __call__(self, text: str, ink: Ink) -> str:
        return f"\x1b[{ink}m{text}\x1b[0m" if self.coloured and text else text


def wants_colour(stream: TextIO) -> bool:
    """Colour only on a terminal, and never under NO_COLOR (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Without control characters: what a node says must not steer the operator's terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text.replace("\t", " "))


def shortened(text: str, width: int) -> str:
    """A text that a column of this width holds: its end gives way to an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def columns(rows: Iterable[Sequence[str]], *, gap: str = "  ") -> list[str]:
    """Left-aligned columns as wide as their widest cell; the last one is free."""
    table = [tuple(row) for row in rows]
    if not table:
        return []
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]) - 1)]
    return [
        gap.join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in table
    ]


def wrapped(
    text: str, width: int = WIDTH, *, first: str = "", rest: str = "", cell: bool = False
) -> list[str]:
    """Lines broken at blanks alone: a command or a path that is copied must still be one.

    :param first: what stands before the first line, and ``rest`` before those that follow.
    :param cell: of a table: a word that is longer than the width is cut, or columns would move.
    """
    return textwrap.wrap(
        clean(text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=cell,
    )


def unjudged(error: ToolkitError | None) -> str:
    """State of a host that has an error in place of a result."""
    unreachable = error is not None and error.exit_code is ExitCode.UNREACHABLE
    return "out of reach" if unreachable else "error"


def labelled(label: str, text: str, *, indent: int = 9) -> list[str]:
    """``label  text``, wrapped so that continuation lines stand below it; no text, no line."""
    head = " " * indent + label.ljust(10)
    return wrapped(as_called(text), first=head, rest=" " * len(head))


def error_lines(error: ToolkitError, paint: Painter) -> str:
    """One error as an operator sees it: a sentence, and what to do about it."""
    lines = [f"{paint('error:', Ink.RED)} {_unbarred(str(error))}"]
    if error.hint:
        lines.append(f" {paint('next:', Ink.BOLD)} {_unbarred(as_called(error.hint))}")
    return "\n".join(lines)


def _unbarred(text: str) -> str:
    return "\n".join(clean(line) for line in text.split("\n"))
