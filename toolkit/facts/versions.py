"""Versions of kernels, drivers and OFED: small ordered values.

None of them is a Python version: ``packaging`` refuses "5.14.0-427.el9" and turns
"595.71.05" into "595.71.5", which names no driver.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable


class Version(Struct, frozen=True):
    """Compared by its numbers, printed as it was written."""

    text: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every run of digits up to the first letter: "6.8.0-45-generic" is (6, 8, 0, 45)."""
        head = re.split(r"[^\d.\-+~]", self.text, maxsplit=1)[0]
        return tuple(map(int, re.findall(r"\d+", head)))

    def __lt__(self, other: Version) -> bool:
        return self.numbers < other.numbers

    def __le__(self, other: Version) -> bool:
        return self.numbers <= other.numbers

    def __gt__(self, other: Version) -> bool:
        return self.numbers > other.numbers

    def __ge__(self, other: Version) -> bool:
        return self.numbers >= other.numbers

    def at_least(self, *numbers: int) -> bool:
        return self.numbers >= numbers

    def __str__(self) -> str:
        return self.text


def parse_kernel_release(text: str) -> Version:
    """``uname -r``: "5.14.0-427.13.1.el9_4.x86_64".

    :raises Unparsable: unless one word that begins with a major and a minor number.
    """
    release = text.strip()
    if not re.fullmatch(r"\d+\.\d+[\w.+~-]*", release):
        raise Unparsable("kernel release", release)
    return Version(release)


def parse_uname(text: str) -> Version:
    """The release in what ``uname -a`` or ``uname -r`` prints, or /proc/version.

    :raises Unparsable: where none stands there.
    """
    found = _UNAME.search(text)
    return parse_kernel_release(found[1] if found else text)


_UNAME = re.compile(r"^\s*(?:uname: )?Linux (?:version|\S+) (\d+\.\d\S*) ", re.MULTILINE)
# "MLNX_OFED_LINUX-24.10-2.1.8.0:", "OFED-internal-25.10-1.7.1:", "24.10-0.7.0"
_OFED = re.compile(r"(?<![\d.])(\d{1,2}\.\d{1,2})-(\d+(?:\.\d+)+)")


def parse_ofed_version(text: str) -> Version:
    """The ``yy.mm-a.b.c`` that stands somewhere in an answer of ``ofed_info -s``.

    :raises Unparsable: where there is none. The prefix is no guide: doca-ofed installs
        answer with "OFED-internal-".
    """
    found = _OFED.search(text)
    if found is None:
        raise Unparsable("ofed_info -s", text.strip().split("\n", 1)[0])
    return Version(f"{found[1]}-{found[2]}")
