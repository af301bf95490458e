"""What was given with evidence and is none that we know: told once, with what it comes nearest to.

Near is a text in which words stand that a kind of text is told by. Rare words weigh more: "GPU"
is said in many kinds, "fabricmanager" in one.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from msgspec import Struct

from toolkit.facts.kinds import KINDS, plain

_LONG = 60  # characters of a first line
_NEAR = 3  # kinds
_LOOKED_AT = 200_000  # characters
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,}")
_CODES = re.compile(r"\\[A-Za-z]|\(\?[a-z=!<:]+")  # of a pattern: no words of the text
_EVERYWHERE = frozenset({"cat", "log", "name", "the", "status", "error", "all", "info", "for"})


class Foreign(Struct, frozen=True):
    """One file that was not understood."""

    name: str  # where it lay: "ticket.zip/README"
    first: str  # its first line with anything in it, cleaned, at most 60 characters
    nearest: tuple[str, ...] = ()  # names of kinds, the nearest first; at most three
    why: str = ""  # why it was not looked at: damaged, or locked


def foreign(name: str, text: str, why: str = "") -> Foreign:
    """A file of which nothing could be made.

    :param text: "" for one that holds no text.
    """
    lines = (
        "".join(c if c.isprintable() else " " for c in plain(line)).strip()
        for line in text[:_LOOKED_AT].split("\n")
    )
    return Foreign(name, next(filter(None, lines), "")[:_LONG], nearest(text), why)


def nearest(text: str) -> tuple[str, ...]:
    """The kinds that a text comes nearest to; none where it has no word of any."""
    has = {each.lower() for each in _WORD.findall(plain(text[:_LOOKED_AT]))}
    rare = _in_kinds()
    near = {name: sum(1 / rare[word] for word in words & has) for name, words in _words().items()}
    found = sorted((name for name, score in near.items() if score), key=lambda n: (-near[n], n))
    return tuple(found[:_NEAR])


@cache
def _words() -> dict[str, frozenset[str]]:
    texts = {e.name: _CODES.sub(" ", f"{e.name} {e.command} {e.shape}").lower() for e in KINDS}
    return {name: frozenset(_WORD.findall(text)) - _EVERYWHERE for name, text in texts.items()}


@cache
def _in_kinds() -> Counter[str]:
    return Counter(word for words in _words().values() for word in words)
