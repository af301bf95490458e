"""Blocks of our pages and of the help of verbs, and the commands in them. Pure.

What is indented by four, or fenced as ``sh``, is what one types; ``text`` is what one sees,
where lines behind ``$`` were typed. Whatever else stands in a block says what it is: ```toml.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_CRON = re.compile(r"(?:[\d*/,-]+ +){5}\w+ +(.*)")
_SCRIPTS = ("run", "script", "before_script", "after_script")  # GitHub's and GitLab's


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of a page, without their indent or fence."""

    page: str
    line: int  # of the first of them, from 1
    kind: str  # what its fence says; "sh" for what is indented
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> Iterator[Block]:
    """Those of a page in Markdown. A fence that says nothing has the kind ""."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = re.match(r" *```(.*)", lines[at])
        if fence:
            end = lines.index("```", at + 1)
            yield Block(page, at + 2, fence[1].strip(), "\n".join(lines[at + 1 : end]) + "\n")
            at = end + 1
        elif lines[at].startswith("    ") and not (at and lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inner = "\n".join(line[4:] for line in lines[at:end]).rstrip("\n")
            yield Block(page, at + 1, "sh", inner + "\n")
            at = end
        else:
            at += 1


def prose(text: str) -> str:
    """A page without its blocks."""
    kept = re.sub(r"^ *```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", "", kept)


def examples(page: str, docstring: str) -> Block:
    """What stands below ``Examples:`` in the help of a verb."""
    _, found, below = docstring.partition("Examples:\n")
    lines = [line.strip() for line in below.split("\n")] if found else []
    end = lines.index("") if "" in lines else len(lines)
    return Block(page, 1, "sh", "".join(f"{line}\n" for line in lines[:end]))


def script(block: Block) -> str:
    """What a shell would run of a block: without what is said of a command two spaces behind it."""
    match block.kind:
        case "text":
            typed = re.findall(r"^\$ (.*)", block.text, re.MULTILINE)
        case "crontab":
            typed = [found[1] for line in block.text.split("\n") if (found := _CRON.match(line))]
        case "yaml":
            typed = list(_scripts(yaml.safe_load(block.text)))
        case "sh":
            typed = re.sub(r"\\\n *", "", block.text).split("\n")
        case _:
            typed = []
    return "".join(re.split(r"(?<=\S) {2,}", line)[0] + "\n" for line in typed)


def _scripts(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key in _SCRIPTS:
                for each in value if isinstance(value, list) else [value]:
                    yield from str(each).split("\n")
            else:
                yield from _scripts(value)
    elif isinstance(found, list):
        for each in found:
            yield from _scripts(each)


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of a script: without redirections, assignments and sudo."""
    for line in text.split("\n"):
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for word in lexer:
            if not set(word) <= set("();<>|&"):
                words.append(word)
            elif word[0] in "<>":
                next(lexer)
                words = words[:-1] if words[-1:] and words[-1].isdigit() else words
            else:
                yield from _one(words)
                words = []
        yield from _one(words)


def _one(words: list[str]) -> Iterator[tuple[str, ...]]:
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in {"sudo", "export", "nice"}):
        words = words[1:]
    if words:
        yield tuple(words)
