"""The compiler that a kernel was built with, and those that a node has.

Source: CONFIG_CC_VERSION_TEXT, which is the first line of ``$CC --version``; scripts/cc-version.sh.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

# "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", "gcc (GCC) 11.5.0 2024 (Red Hat)"
_GCC = re.compile(r"(\S*g?cc\S*) \((?:[^()]|\([^()]*\))*\) (\d+)(?:\.\d+)*")
# "clang version 14.0.6", "Ubuntu clang version 18.1.3 (1ubuntu1)"
_CLANG = re.compile(r"(?:.* )?clang version (\d+)")


@dataclass(frozen=True, slots=True)
class Compiler:
    """One compiler, as far as builds of modules care."""

    command: str  # "x86_64-linux-gnu-gcc-12"; for clang always "clang"
    clang: bool
    major: int  # 12

    def __str__(self) -> str:
        return f"{'clang' if self.clang else 'gcc'} {self.major}"


def parse_cc_version(text: str) -> Compiler:
    """Read CONFIG_CC_VERSION_TEXT.

    :raises Unparsable: where neither gcc nor clang says its version there.
    """
    if found := _CLANG.match(text):
        return Compiler("clang", True, int(found[1]))
    if found := _GCC.match(text):
        return Compiler(found[1], False, int(found[2]))
    raise Unparsable("CONFIG_CC_VERSION_TEXT", text)


def parse_tools(text: str) -> frozenset[str]:
    """Read the probe's list of commands that builds need and the node has, one a line.

    :raises Unparsable: at a line that is no name of a command.
    """
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if not re.fullmatch(r"[\w.+-]+", line):
            raise Unparsable("commands in PATH", line, number)
    return frozenset(text.split())


def parse_gcc_major(text: str) -> int:
    """``gcc -dumpfullversion -dumpversion``: "11.4.0" or "12".

    :raises Unparsable: where it begins with no number.
    """
    found = re.match(r"(\d+)(?:\.|$)", text.strip())
    if found is None:
        raise Unparsable("gcc -dumpversion", text.strip())
    return int(found[1])
