"""Words of sentences that count something."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, one: str = "", more: str = "") -> str:
    """A number with its noun, and the verb that goes with it: "1 node owes", "3 nodes owe".

    :param noun: as of one; it takes an s for any other number.
    :param one: the verb of one, and ``more`` that of others; neither where there is none.
    """
    words = (str(number), noun, one) if number == 1 else (str(number), f"{noun}s", more)
    return " ".join(word for word in words if word)


def figure(value: float) -> str:
    """Three digits of a number, or all that stand before its point: "0.123", "9.88", "1235"."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def sized(count: int) -> str:
    """Bytes as a reader takes them in: "64 MiB", rounded down; below one, "500 bytes"."""
    return f"{count >> 20} MiB" if count >> 20 else f"{count} bytes"


def first_of(words: Sequence[str], most: int = 1, between: str = ", ") -> str:
    """The first few of a list, and how many are left: "a, b and 3 more"."""
    return between.join(words[:most]) + and_more(len(words) - most)


def and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
