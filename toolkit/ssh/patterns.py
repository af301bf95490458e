"""Patterns as ssh_config(5) and known_hosts files write them: "*", "?", and "!" before one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


def listed(patterns: Iterable[str], text: str) -> bool:
    """Whether one pattern matches ``text``, in any case, and no negated one does."""
    found = False
    for pattern in patterns:
        if pattern.startswith("!") and like(pattern[1:], text):
            return False
        found = found or (not pattern.startswith("!") and like(pattern, text))
    return found


def like(pattern: str, text: str) -> bool:
    pattern, text = pattern.lower(), text.lower()
    if "*" in pattern or "?" in pattern:
        return _compiled(pattern).fullmatch(text) is not None
    return pattern == text


@lru_cache(maxsize=65536)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile("".join(parts), re.DOTALL)
