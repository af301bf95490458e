"""The shapes in which the probe gathers many small sources into one frame."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.errors import Unparsable

# The name ends at the first colon, but for a PCI address at its start, which has two:
# "0000:19:00.0/vendor:0x10de", "mlx5_0/ports/1/state:4: ACTIVE", "nvidia.conf:options ..."
_NAMED = re.compile(
    r"((?:[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])?[^:]*):(.*)", re.DOTALL
)


def named_lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    """``name:content`` lines, as ``grep ''`` prints them over several files.

    :param source: what to call the text where a line has no name.
    :returns: pairs of file name and line; a PCI address in the name keeps its colons.
    :raises Unparsable: at the first line without a name.
    """
    return ((found[1], found[2]) for found in rows(text, _NAMED, source))


def rows(text: str, shape: re.Pattern[str], source: str) -> Iterator[re.Match[str]]:
    """Every line, as its shape reads all of it.

    :raises Unparsable: at the first line of another shape.
    """
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        found = shape.fullmatch(line)
        if found is None:
            raise Unparsable(source, line, number)
        yield found


def filled(text: str) -> tuple[str, ...]:
    """The lines that are not empty."""
    return tuple(line for line in text.split("\n") if line)


def blocks(text: str, source: str) -> Iterator[tuple[str, list[str]]]:
    """``@name`` headings with the lines below each.

    :raises Unparsable: where a line stands before the first heading.
    """
    name: str | None = None
    body: list[str] = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if line.startswith("@"):
            if name is not None:
                yield name, body
            name, body = line[1:], []
        elif name is None:
            raise Unparsable(source, line, number)
        else:
            body.append(line)
    if name is not None:
        yield name, body
