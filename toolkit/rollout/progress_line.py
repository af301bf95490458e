"""What a script on a node prints while it works, as whoever waits is told of it."""

from __future__ import annotations

_WIDTH = 80  # characters that progress shows


def heard(line: str) -> str:
    """The words of one line: a step's call, or a line of its command; "" for all else.

    :param line: of the grammar that nodes speak, without its newline.
    """
    if line.startswith("|"):
        return line[1 : _WIDTH + 1]
    words = line.split(" ", 3)
    if words[0] == "=" and len(words) == 4 and words[1][:1].isdigit():
        return words[3][:_WIDTH]
    return ""
