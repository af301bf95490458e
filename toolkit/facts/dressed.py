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
_DEEP = 3  # quotes within quotes


def undressed(text: str) -> str:
    """The text as the tool printed it, as far as one can tell; its lines end with ``\\n``."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    for _ in range(_DEEP):
        lines = text.split("\n")
        said = [line for line in lines if line.strip()]
        if 2 * sum(bool(_QUOTED.match(line)) for line in said) <= len(said):
            break
        text = "\n".join(_QUOTED.sub("", line, count=1) for line in lines)
    return _without_fences(text) if "```" in text or "~~~" in text else text


def _without_fences(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _FENCE.match(line))
