"""What mail, web pages and shells put around a text that somebody pastes, taken off again.

    > root@gpu01:~# nvidia-smi topo -m
    > ```
    >         GPU0    NIC0    CPU Affinity

It comes off before anything is recognised: no reader of a tool's text knows of it. What only
dresses letters, as colours do, stays in the evidence (``imports.plain``).
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"^[ \t]{0,3}>(?: |(?=\t)|(?=>)|$)")
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)[\w+-]*\s*$")
_SHOWN_ESCAPE = re.compile(r"\^\[\[[0-9;?]*[A-Za-z]")  # as cat -v and some pagers print it
_ENDS = re.compile(r"\r+\n")
_STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_DEEP = 3  # quotes within quotes
_ROUND = 3  # lines of a mail around what it quotes


def undressed(text: str) -> str:
    """The text as the tool printed it, as far as one can tell; its lines end with ``\\n``."""
    text = _ENDS.sub("\n", text.removeprefix("\ufeff")).translate(_STRAIGHT)
    if "^[[" in text:
        text = _SHOWN_ESCAPE.sub("", text)
    for _ in range(_DEEP):
        lines = text.split("\n")
        quoted = [bool(_QUOTED.match(line)) for line in lines]
        if not any(quoted):
            break
        first, last = quoted.index(True), len(quoted) - quoted[::-1].index(True)
        span = lines if not (_few(lines[:first]) and _few(lines[last:])) else lines[first:last]
        if 2 * sum(quoted) <= sum(bool(line.strip()) for line in span):
            break
        text = "\n".join(_QUOTED.sub("", line, count=1) for line in _quote(lines, quoted))
    text = _without_fences(text) if "```" in text or "~~~" in text else text
    if "MESSAGE" not in text:
        return text
    from toolkit.facts.text.journal import as_lines  # noqa: PLC0415 few texts hold the journal's fields

    return as_lines(text)


def _quote(lines: list[str], quoted: list[bool]) -> list[str]:
    """Without the few lines of the mail before the quote and behind it."""
    first, last = quoted.index(True), len(quoted) - quoted[::-1].index(True)
    before, behind = lines[:first], lines[last:]
    if _few(before):
        before = []
    if _few(behind):
        behind = [""]
    return [*before, *lines[first:last], *behind]


def _few(lines: list[str]) -> bool:
    return sum(bool(line.strip()) for line in lines) <= _ROUND


def _without_fences(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _FENCE.match(line))
