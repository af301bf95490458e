"""Shell prompts, in the forms that people paste: whose shell it was, and what was typed there.

Sources: bash(1), PROMPTING; the defaults of zsh, of Debian, RHEL, SUSE and macOS, of busybox and
PowerShell; themes of oh-my-zsh (robbyrussell, agnoster, bira), starship and Kali, whose prompts
have two lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.facts.kinds import commanded


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line at which somebody typed something."""

    host: str  # "" where the prompt does not name it
    command: str  # "" for a prompt at which nothing was typed


_BEFORE = r"^\s*(?:\([\w.-]+\) ?)?"  # "(base) ", an environment of Python's
_SIGNED = (
    # "user@host:~$ ", "[root@host dir]# ", "user@host:~> ", "user@host ~ % "
    r"\[?[\w.-]+@(?P<at>[\w.-]+)(?:[^$#\n]*\]?\s?[$#]|[: ][~/][^\s>%]* ?[>%](?=\s|$))",
    r"(?P<of>[\w.-]+):[~/]\S* ?[$#>%]",  # "host:~ # "
    r"(?:ba|z|k)?sh-[\d.]+[$#]|\$",
    r"[~/][\w./~-]* ?[$#](?=\s|$)",  # "/ # ", "/workspace# "
    r"PS [^>\n]*>(?=\s|$)|[A-Z]:\\[^>\n]*>",
    r"[\u250c\u256d][\u2500\u2574]*\S*?\(?[\w.-]+[@\u327f](?P<above>[\w.-]+)[^\n$#]*(?=$)",
    r"[\u2514\u2570][\u2500\u2574>\u27a4]*[$#\u276f\u27a4]?(?=\s|$)",
    r"(?P<arrow>[\u279c\u276f\u03bb\u00bb\u25b6\u2771])(?=\s|$)",
)
_PROMPT = re.compile(
    _BEFORE + "(?:" + "|".join(_SIGNED) + r")(?:(?:\s+|(?<=\S>)(?=\S))(?P<typed>.*))?$"
)
_GIT = re.compile(r"^git:\(\S*\) *|^[\u2717\u2718\u00b1] *")
_PLACE = re.compile(r"^\S+ +")


def prompt_of(line: str) -> Prompt | None:
    """The prompt that a line is, without colours; None for one that a tool printed."""
    found = _PROMPT.match(line)
    if found is None:
        return None
    typed = (found["typed"] or "").strip()
    if found["arrow"]:
        typed = _behind_arrow(typed)
    return Prompt(found["at"] or found["of"] or found["above"] or "", typed)


def _behind_arrow(typed: str) -> str:
    """Without the folder and the branch that themes put before what is typed."""
    for text in (typed, _PLACE.sub("", typed, count=1)):
        bare = text
        while (shorter := _GIT.sub("", bare)) != bare:
            bare = shorter
        if commanded(bare) is not None:
            return bare
    return typed
