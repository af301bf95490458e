"""The PCI functions of a simulated node, and their configuration space.

Layouts: PCI Local Bus 3.0 chapter 6 (headers), PCI Express Base 5.0 section 7.5.3 (the
Express capability) and 7.7.8 (ACS); constants as in linux/pci_regs.h.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from msgspec import Struct

MIB, GIB = 1 << 20, 1 << 30


class ExpressType(IntEnum):
    """What the Express capability says that a function is."""

    ENDPOINT = 0
    ROOT_PORT = 4
    UPSTREAM = 5
    DOWNSTREAM = 6


BRIDGES = frozenset({ExpressType.ROOT_PORT, ExpressType.UPSTREAM, ExpressType.DOWNSTREAM})

# Bits of the ACS control register.
ACS_REDIRECT = 0x1D  # SrcValid, ReqRedir, CmpltRedir and UpstreamFwd, as firmware leaves it


class Link(Struct, frozen=True):
    """A PCIe link, as trained and as possible."""

    gen: int  # 1 to 5: 2.5, 5, 8, 16, 32 GT/s
    width: int
    max_gen: int = 0  # 0: as trained
    max_width: int = 0

    @property
    def possible(self) -> tuple[int, int]:
        return self.max_gen or self.gen, self.max_width or self.width


SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}  # GT/s


class Function(Struct, frozen=True):
    """One PCI function."""

    address: str  # "0000:18:00.0"
    parent: str  # address of the bridge above; "" directly below the root complex
    ids: tuple[int, int]  # vendor, device
    pci_class: int  # 24 bits
    label: str  # as lspci prints it
    port: ExpressType
    link: Link
    numa: int
    driver: str = ""
    module: str = ""  # loading it binds the driver; "" for drivers that are always there
    bars: tuple[tuple[int, int], ...] = ()  # (index, size in bytes), all 64-bit prefetchable
    acs: int | None = None  # the ACS control register; None without the capability
    below: tuple[int, int] = (0, 0)  # bridges: secondary and subordinate bus number
    physfn: str = ""  # virtual functions: the physical one
    revision: int = 0
    mrrs: int = 4096  # maximum read request size, bytes

    @property
    def bus(self) -> int:
        return int(self.address[5:7], 16)

    @property
    def is_bridge(self) -> bool:
        return self.port in BRIDGES


def resource(function: Function) -> str:
    """The sysfs file "resource": start, end and flags of 13 regions (17 for bridges)."""
    count = 17 if function.is_bridge else 13
    regions = [(0, 0, 0)] * count
    for index, size in function.bars:
        start = _bar_start(function, index)
        regions[index] = (start, start + size - 1, 0x14220C)  # IORESOURCE_MEM_64, prefetchable
    return "".join(f"0x{start:016x} 0x{end:016x} 0x{flags:016x}\n" for start, end, flags in regions)


def _bar_start(function: Function, index: int) -> int:
    """An address for a region; what matters is its size, and that no two overlap."""
    large = next(size for each, size in function.bars if each == index) >= GIB
    return (function.bus << 39) + (1 << 38 if large else (index + 1) << 32)


def config_space(function: Function) -> bytes:
    """All 4096 bytes, capability lists included."""
    space = bytearray(4096)
    vendor, device = function.ids
    struct.pack_into("<HHHH", space, 0, vendor, device, 0x0406, 0x0010)  # status: has capabilities
    struct.pack_into("<I", space, 8, function.pci_class << 8 | function.revision)
    space[0x0E] = 1 if function.is_bridge else 0
    if function.is_bridge:
        struct.pack_into("<BBB", space, 0x18, function.bus, *function.below)
    else:
        for index, _ in function.bars:
            low = _bar_start(function, index) | 0x0C  # 64-bit, prefetchable
            struct.pack_into("<Q", space, 0x10 + 4 * index, low)
        struct.pack_into("<HH", space, 0x2C, vendor, 0x16C1)
    space[0x34] = 0x40
    struct.pack_into("<BBHHH", space, 0x40, 0x01, 0x60, 0x0003, 0x0008, 0)  # power management
    _express(space, 0x60, function)
    # AER for everyone, then ACS where there is one; the lists end with a zero pointer.
    acs_at = 0x148 if function.acs is not None else 0
    struct.pack_into("<I", space, 0x100, 0x0001 | 2 << 16 | acs_at << 20)
    if function.acs is not None:
        struct.pack_into("<IHH", space, acs_at, 0x000D | 1 << 16, 0x005F, function.acs)
    return bytes(space)


def _express(space: bytearray, at: int, function: Function) -> None:
    """The PCI Express capability, version 2, last of the list."""
    gen, width = function.link.gen, function.link.width
    max_gen, max_width = function.link.possible
    mrrs = max(0, function.mrrs.bit_length() - 8)  # 128 bytes is code 0
    struct.pack_into("<BBH", space, at, 0x10, 0, 2 | function.port << 4)
    struct.pack_into("<I", space, at + 0x04, 0x8001)  # up to 256 bytes of payload
    struct.pack_into("<H", space, at + 0x08, 0x0010 | 1 << 5 | mrrs << 12)  # relaxed ordering, 256
    struct.pack_into("<I", space, at + 0x0C, max_gen | max_width << 4)
    struct.pack_into("<H", space, at + 0x12, gen | width << 4 | 1 << 12)
    struct.pack_into("<I", space, at + 0x2C, (2 << max_gen) - 2)  # supported speeds
    struct.pack_into("<H", space, at + 0x30, max_gen)
