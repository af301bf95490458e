"""What is left of a build that failed.

DKMS keeps /var/lib/dkms/MODULE/VERSION/build after a failure only. The log begins with
"DKMS make.log for MODULE-VERSION for kernel RELEASE (ARCH)", "DKMS (MODULE-VERSION) for
kernel RELEASE (ARCH)" since 3.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.lines import blocks

_PATH = re.compile(r"/var/lib/dkms/([^/]+)/([^/]+)/build/make\.log")
_FOR_KERNEL = re.compile(r"for (?:module build on )?kernel:? ([^\s(]+)")
_ON_KERNEL = re.compile(r"on kernel:? ([^\s(]+)")


@dataclass(frozen=True, slots=True)
class BuildLog:
    """One log: its telling lines, in order."""

    module: str  # DKMS name; "" in a log that does not say
    version: str
    kernel: str  # kernel release; "" in a log that does not say
    lines: tuple[str, ...]

    @property
    def last(self) -> str:
        return next((line for line in reversed(self.lines) if line.strip()), "")


def parse_build_failures(text: str) -> tuple[BuildLog, ...]:
    """Read the probe's extract of the logs that failed builds left.

    :raises NeedsRoot: where one of them is for root alone.
    :raises Unparsable: at a heading that is no such log, or a block of another form.
    """
    logs = []
    for path, lines in blocks(text, "make.log"):
        found = _PATH.fullmatch(path)
        if found is None:
            raise Unparsable("make.log", path)
        if lines == ["unreadable"]:
            raise NeedsRoot(f"{path}: permission denied")
        if len(lines) < 2 or not lines[0].startswith("first: ") or lines[-1][:6] != "last: ":
            raise Unparsable("make.log", path)
        told = (lines[0][7:], *lines[1:-1], lines[-1][6:])
        kernel = _FOR_KERNEL.search(told[0])
        logs.append(BuildLog(found[1], found[2], kernel[1] if kernel else "", told))
    return tuple(logs)


def parse_make_log(text: str) -> BuildLog:
    """A whole log, or what a package manager printed around a build. Any text is one."""
    lines = tuple(line.rstrip() for line in text.split("\n") if line.strip())
    where = _PATH.search(text)
    kernel = _FOR_KERNEL.search(text) or _ON_KERNEL.search(text)
    return BuildLog(
        where[1] if where else "", where[2] if where else "", kernel[1] if kernel else "", lines
    )
