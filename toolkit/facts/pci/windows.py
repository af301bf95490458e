"""Where in the address space PCI lies: windows of host bridges, and regions of functions.

Sources: /proc/iomem, whose addresses are zeroes for all but root (kernel/resource.c);
/sys/bus/pci/devices/*/resource with include/linux/ioport.h for its flags.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.lines import named_lines, rows

FOUR_GIB = 1 << 32
_WINDOW = re.compile(
    r"( *)([0-9a-f]{1,16})-([0-9a-f]{1,16}) : PCI Bus ([0-9a-f]{4,8}:[0-9a-f]{2})\s*"
)
_MEMORY, _NO_PLACE = 0x0000_0200, 0x2000_0000  # IORESOURCE_MEM, IORESOURCE_UNSET
_FIRST_VIRTUAL, _LAST_VIRTUAL = 7, 12  # PCI_IOV_RESOURCES: behind six regions and the ROM


class Window(Struct, frozen=True):
    """Addresses that a host bridge passes on; bytes, the end belongs to it."""

    bus: str  # its root bus: "0000:15"
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start + 1

    @property
    def high(self) -> bool:
        """Above 4 GiB."""
        return self.start >= FOUR_GIB


class Region(Struct, frozen=True):
    """One memory region of a PCI function, in bytes."""

    index: int  # 0 to 5; of its virtual functions 7 to 12
    start: int
    size: int
    placed: bool  # False: neither firmware nor kernel found room for it

    @property
    def of_virtual(self) -> bool:
        """The room for the regions of all virtual functions together."""
        return _FIRST_VIRTUAL <= self.index <= _LAST_VIRTUAL


def parse_iomem(text: str) -> tuple[Window, ...]:
    """The windows of host bridges, from the lines of /proc/iomem that name a PCI bus.

    :param text: lines of the two outermost levels; those of a bridge lie within one before.
    :raises NeedsRoot: where all addresses are shown as zero.
    :raises Unparsable: for a line of another shape.
    """
    found: list[Window] = []
    for row in rows(text, _WINDOW, "/proc/iomem"):
        window = Window(row[4], int(row[2], 16), int(row[3], 16))
        inner = row[1] and any(w.start <= window.start and window.end <= w.end for w in found)
        if not inner:
            found.append(window)
    if found and not any(each.end for each in found):
        raise NeedsRoot("/proc/iomem: addresses are shown to root alone")
    return tuple(found)


def parse_regions(text: str) -> dict[str, tuple[Region, ...]]:
    """Memory regions by PCI address, those of virtual functions among them.

    A region without place is shown from zero on, or not at all by kernels that forget it.

    :raises Unparsable: for a line that is not ``start end flags``.
    """
    lines: dict[str, list[str]] = {}
    for path, line in named_lines(text, "resource"):
        lines.setdefault(path.removesuffix("/resource"), []).append(line)
    return {address: tuple(_regions(address, rows)) for address, rows in lines.items()}


def _regions(address: str, rows: list[str]) -> list[Region]:
    found = []
    for index, line in enumerate(rows[: _LAST_VIRTUAL + 1]):
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError as why:
            raise Unparsable(f"resources of {address}", line, index + 1) from why
        if index != 6 and end > start and flags & _MEMORY:  # the seventh is the ROM
            placed = start > 0 and not flags & _NO_PLACE
            found.append(Region(index, start, end - start + 1, placed))
    return found
