"""Configuration space of one function: what its registers hold, and which bits can be written.

Layout: PCI Local Bus 3.0, 6.1 and 6.2; PCI-to-PCI Bridge 1.2, 3.2; PCI Express Base 6.0, 7.5.3
(capability 10h), 7.7.11 (extended capability 0Dh) and 7.8.4 (0001h). Names:
include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

SPACE = 4096
_EXPRESS = 0x40  # where we put the capability
_MSIX = 0x80
_AER = 0x100  # an extended list begins here
_ACS = 0x148
_ATS = 0x158


class Port(IntEnum):
    """Device/Port Type of the PCI Express Capabilities Register."""

    ENDPOINT = 0
    ROOT = 4
    UPSTREAM = 5
    DOWNSTREAM = 6


@dataclass(slots=True)
class Registers:
    """Being filled in; the mask has a 1 for each bit that a write changes."""

    value: bytearray = field(default_factory=lambda: bytearray(SPACE))
    mask: bytearray = field(default_factory=lambda: bytearray(SPACE))
    last: int = 0  # of the extended list, where it has one

    def put(self, at: int, form: str, value: int, *, writable: int = 0) -> None:
        """One register: ``form`` is struct's letter, B H I or Q."""
        struct.pack_into(f"<{form}", self.value, at, value)
        struct.pack_into(f"<{form}", self.mask, at, writable)

    def bar(self, number: int, size: int) -> None:
        """A 64-bit prefetchable base address register; takes this and the next number."""
        address = ~(size - 1) & 0xFFFF_FFFF_FFFF_FFF0
        self.put(0x10 + 4 * number, "Q", 0xC, writable=address)

    def extended(self, at: int, ident: int, version: int = 1) -> None:
        """The header of an extended capability, as the last of the list."""
        if self.last:
            (before,) = struct.unpack_from("<I", self.value, self.last)
            self.put(self.last, "I", before | at << 20)
        self.put(at, "I", ident | version << 16)
        self.last = at


def common(ident: tuple[int, int], kind: int, revision: int) -> Registers:
    """What every function has.

    :param ident: vendor and device.
    :param kind: class code, three bytes: 0x030200.
    """
    made = Registers()
    made.put(0x00, "H", ident[0])
    made.put(0x02, "H", ident[1])
    made.put(0x04, "H", 0, writable=0x0546)
    made.put(0x06, "H", 0x0010)  # it has a list of capabilities
    made.put(0x08, "I", kind << 8 | revision)
    made.put(0x0C, "B", 0, writable=0xFF)
    made.put(0x34, "B", _EXPRESS)
    made.put(0x3C, "B", 0, writable=0xFF)
    return made


def bridge(made: Registers, buses: tuple[int, int, int]) -> None:
    """The header of a bridge.

    :param buses: primary, secondary, subordinate.
    """
    made.put(0x0E, "B", 1)
    for at, number in enumerate(buses, start=0x18):
        made.put(at, "B", number, writable=0xFF)
    made.put(0x20, "I", 0x0000_FFF0, writable=0xFFF0_FFF0)  # base above limit: it forwards nothing
    made.put(0x24, "I", 0x0001_FFF1, writable=0xFFF0_FFF0)  # the same, for 64-bit addresses
    made.put(0x28, "I", 0, writable=0xFFFF_FFFF)
    made.put(0x2C, "I", 0, writable=0xFFFF_FFFF)
    made.put(0x3E, "H", 0, writable=0x0043)


def express(made: Registers, port: Port, speed: int, width: int) -> None:
    """The PCI Express capability.

    :param speed: generation: 5 for 32 GT/s.
    :param width: lanes.
    """
    at = _EXPRESS
    made.put(at, "H", 0x0010)  # the last of the list
    made.put(at + 0x02, "H", 2 | port << 4)
    # 512 bytes of payload, extended tags, role-based errors.
    made.put(at + 0x04, "I", 0x0000_8022)
    made.put(at + 0x08, "H", 0x2930, writable=0x7FFF)
    active = port in {Port.ROOT, Port.DOWNSTREAM}  # who reports that the link below is up
    made.put(at + 0x0C, "I", speed | width << 4 | active << 20)
    made.put(at + 0x10, "H", 0x0040, writable=0x0FDB)
    made.put(at + 0x12, "H", speed | width << 4 | active << 13)
    if port is Port.ROOT:
        made.put(at + 0x1C, "H", 0, writable=0x001F)
    made.put(at + 0x24, "I", 0x0000_001F)
    made.put(at + 0x28, "H", 0, writable=0xFFFF)
    made.put(at + 0x2C, "I", (1 << speed) - 1 << 1)
    made.put(at + 0x30, "H", speed, writable=0xFFFF)


def aer(made: Registers, port: Port) -> None:
    """Advanced Error Reporting as after a reset: no error seen, masks and severity as usual.

    A status bit is cleared by writing it; as none is ever set, the registers are read-only here.
    """
    made.extended(_AER, 0x0001, 2)
    made.put(_AER + 0x08, "I", 0, writable=0x07FF_F030)
    made.put(_AER + 0x0C, "I", 0x0046_2030, writable=0x07FF_F030)
    made.put(_AER + 0x14, "I", 0x0000_2000, writable=0x0000_F1C1)  # advisory ones are masked
    if port is Port.ROOT:
        made.put(_AER + 0x2C, "I", 0, writable=0x0000_0007)


def msix(made: Registers, vectors: int) -> None:
    """MSI-X (PCI Local Bus 3.0, 6.8.2): can be turned on, and no vector of it is ever raised."""
    made.put(_EXPRESS + 1, "B", _MSIX)
    made.put(_MSIX, "H", 0x0011)
    made.put(_MSIX + 2, "H", vectors - 1, writable=0xC000)
    made.put(_MSIX + 4, "I", 0x00B9_0000)  # the table, in BAR 0
    made.put(_MSIX + 8, "I", 0x00BA_0000)  # which of them wait


def acs(made: Registers, able: int, control: int) -> None:
    """Access Control Services: of what it is able, a write to the control register stays."""
    made.extended(_ACS, 0x000D)
    made.put(_ACS + 4, "H", able)
    made.put(_ACS + 6, "H", control, writable=able & 0x7F)


def ats(made: Registers, *, enabled: bool) -> None:
    """Address Translation Services."""
    made.extended(_ATS, 0x000F)
    made.put(_ATS + 4, "H", 0x0020)
    made.put(_ATS + 6, "H", 0x8000 if enabled else 0, writable=0x801F)
