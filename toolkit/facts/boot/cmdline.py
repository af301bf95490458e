"""The kernel command line, live and as the boot loader would pass it.

Source: Documentation/admin-guide/kernel-parameters and lib/cmdline.c, next_arg: words
split at blanks, double quotes protect them (around a value or the whole word), "-" and
"_" in names are the same, the last of several equal names counts, and what follows a
lone "--" goes to init.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_WORD = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')  # an unended quote reaches to the end


class Cmdline(Struct, frozen=True):
    words: tuple[str, ...]  # ("ro", "iommu=pt", "intel_iommu=on")

    def __getitem__(self, name: str) -> str:
        """The last value of ``name``; "" when it is not there or has none."""
        return next(iter(list(self.values(name))[-1:]), "")

    def __contains__(self, name: str) -> bool:
        return any(_name(word) == name.replace("-", "_") for word in self.words)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Name and value of each word, in order; names with "_", "" for no value."""
        for word in self.words:
            yield _name(word), word.strip('"').partition("=")[2].strip('"')

    def values(self, name: str) -> Iterator[str]:
        """Every value of ``name``, in order."""
        wanted = name.replace("-", "_")
        return (value for own, value in self.pairs() if own == wanted)

    def listed(self, name: str) -> frozenset[str]:
        """The comma-separated values of ``name``, all occurrences together."""
        return frozenset(one for value in self.values(name) for one in value.split(",") if one)


def _name(word: str) -> str:
    return word.strip('"').partition("=")[0].replace("-", "_")


def parse_cmdline(text: str) -> Cmdline:
    """Read /proc/cmdline or the arguments of one boot entry. Any text is a command line."""
    words = _WORD.findall(text)
    ours = words[: words.index("--")] if "--" in words else words
    return Cmdline(tuple(ours))


_GRUB_DEFAULT = re.compile(r"(?m)^[ \t]*(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)=(.*)$")


def parse_grub_default(text: str) -> Cmdline:
    """Read /etc/default/grub: what GRUB_CMDLINE_LINUX and its _DEFAULT give, in GRUB's order."""
    values = dict(_GRUB_DEFAULT.findall(text))
    return parse_cmdline(" ".join(values[name].strip().strip("\"'") for name in sorted(values)))
