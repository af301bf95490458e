"""The config space of one PCI function, as ``od -A x -t x1`` prints it.

An unprivileged reader gets 64 bytes, a conventional PCI function has 256, a PCI Express
one 4096: what lies beyond what was read is not known, which is not the same as not there.
Source: include/uapi/linux/pci_regs.h; PCI Express Base Specification, chapters 7.5 and 7.7.
"""

from __future__ import annotations

import re
from enum import IntFlag
from functools import lru_cache

from msgspec import Struct

from toolkit.errors import NeedsRoot, NoEvidence, Unparsable

_EXPRESS, ACS_CAPABILITY, _ATS = 0x10, 0x000D, 0x000F
# Of a capability, the bytes that are read of it anywhere in the toolkit: what is added there is
# added here, or reads as zero. Status bits and counters of the very machine are left out.
_READ: dict[int, tuple[tuple[int, int], ...]] = {_EXPRESS: ((0, 0x0A), (0x0C, 0x3C))}
SRIOV, REBAR = 0x0010, 0x0015
_READ_BEYOND = {ACS_CAPABILITY: 8, _ATS: 8, SRIOV: 0x14, REBAR: 0x3C}
_WHOLE = 4096  # bytes of a PCI Express function
_MOST, _MOST_BEYOND = 48, 128  # capabilities of one function, below 256 bytes and beyond
_UNPRIVILEGED = 64  # bytes that anybody may read


class Acs(IntFlag):
    """Bits of the ACS control register."""

    SOURCE_VALIDATION = 1
    TRANSLATION_BLOCKING = 2
    REQUEST_REDIRECT = 4
    COMPLETION_REDIRECT = 8
    UPSTREAM_FORWARDING = 16
    EGRESS_CONTROL = 32
    DIRECT_TRANSLATED = 64


# What drivers/pci/p2pdma.c calls redirect: each sends peer traffic up to the root complex.
REDIRECT = Acs.REQUEST_REDIRECT | Acs.COMPLETION_REDIRECT | Acs.EGRESS_CONTROL


class AcsRegisters(Struct, frozen=True):
    """What a function could control, and what it does."""

    capability: Acs  # the services it implements
    control: Acs  # those that are on

    @property
    def redirects(self) -> Acs:
        """The bits by which it sends peer traffic up to the root complex."""
        return self.control & REDIRECT


class Ats(Struct, frozen=True):
    """Address Translation Services of a function that has them."""

    enabled: bool


class ConfigSpace(Struct, frozen=True):
    address: str
    data: bytes  # as far as it was readable

    @classmethod
    def parse(cls, address: str, lines: list[str]) -> ConfigSpace:
        """Unfold what od printed; "*" stands for repetitions of the line above.

        :raises Unparsable: where an offset does not follow from the lines above it.
        """
        data = bytearray()
        row, folded = b"", False
        for number, line in enumerate(lines, start=1):
            if line == "*":
                folded = True
                continue
            try:
                offset, row_now = _od_row(line)
            except ValueError as why:
                raise Unparsable(f"config of {address}", line, number) from why
            if offset > _WHOLE:
                raise Unparsable(f"config of {address}", line, number)
            if folded and row:
                data += row * ((offset - len(data)) // len(row))
            if offset != len(data):
                raise Unparsable(f"config of {address}", line, number)
            data += row_now
            row, folded = row_now, False
        return cls(address, bytes(data))

    def acs(self) -> Acs | None:
        """The ACS control register; None where the function has no ACS capability.

        :raises NoEvidence: where the extended config space was not readable.
        """
        at = self.extended(ACS_CAPABILITY)
        return None if at is None else Acs(self.word(at + 6) & 0x7F)

    def acs_registers(self) -> AcsRegisters | None:
        """Capability and control; None where the function has no ACS capability.

        :raises NoEvidence: where the extended config space was not readable.
        """
        return _acs_registers(self)

    def ats(self) -> Ats | None:
        """None where the function has no ATS capability.

        :raises NoEvidence: where the extended config space was not readable.
        """
        at = self.extended(_ATS)
        return None if at is None else Ats(bool(self.word(at + 6) & 0x8000))

    def express(self) -> int | None:
        """Offset of the PCI Express capability; None for a conventional function.

        :raises NoEvidence: where the function does not answer: all its bits read as one.
        """
        if self.word(0x00) == 0xFFFF:
            raise NoEvidence(
                f"config space of {self.address}: the function does not answer",
                hint="it fell off the bus or sleeps; dmesg, then a cold boot",
            )
        if not self.word(0x06) & 0x10:  # status register: has a capability list
            return None
        at, seen = self.byte(0x34) & 0xFC, 0
        while at and seen < _MOST:
            if self.byte(at) == _EXPRESS:
                return at
            at, seen = self.byte(at + 1) & 0xFC, seen + 1
        return None

    def extended(self, wanted: int) -> int | None:
        """Offset of an extended capability; None where the function has it not.

        :raises NoEvidence: where the extended config space was not readable.
        """
        if self.express() is None:
            return None
        at, seen = 0x100, 0
        while at and seen < _MOST_BEYOND:
            head = self.dword(at)
            if head == 0xFFFFFFFF:
                raise NoEvidence(f"config space of {self.address}: no answer beyond 256 bytes")
            if head == 0:
                return None
            if head & 0xFFFF == wanted:
                return at
            at, seen = head >> 20 & 0xFFC, seen + 1
        return None

    def byte(self, at: int) -> int:
        return self._number(at, 1)

    def word(self, at: int) -> int:
        """16 bits; little-endian, as all registers are."""
        return self._number(at, 2)

    def dword(self, at: int) -> int:
        """32 bits."""
        return self._number(at, 4)

    def _number(self, at: int, size: int) -> int:
        if at + size > len(self.data):
            kind = NeedsRoot if len(self.data) == _UNPRIVILEGED else NoEvidence
            raise kind(
                f"config space of {self.address}: only {len(self.data)} bytes are readable",
                hint="read it as root; in a virtual machine the extended space may be hidden",
            )
        return int.from_bytes(self.data[at : at + size], "little")


@lru_cache(maxsize=256)  # several checks ask the bridges of one node in turn
def _acs_registers(space: ConfigSpace) -> AcsRegisters | None:
    at = space.extended(ACS_CAPABILITY)
    if at is None:
        return None
    return AcsRegisters(Acs(space.word(at + 4) & 0x7F), Acs(space.word(at + 6) & 0x7F))


def as_read(data: bytes) -> bytes:
    """A config space of the same length with zeros for all that is not read of it.

    Addresses, serial numbers, interrupts and errors differ between equal machines: without
    them such machines have equal spaces, and what rests on those is worked out once.
    """
    return _kept(data[:0x07] + b"\0" + data[0x08:0x10] + bytes(0x24) + data[0x34:])[: len(data)]


@lru_cache(maxsize=1024)  # functions repeat from node to node
def _kept(data: bytes) -> bytes:
    """The header as it is, and of capabilities their heads and what is read of them."""
    kept = bytearray(len(data))

    def keep(start: int, end: int) -> None:
        kept[start:end] = data[start:end]

    keep(0, 0x40)
    at, seen = data[0x34] & 0xFC if len(data) > 0x34 and data[0x06] & 0x10 else 0, 0
    while at and at < len(data) and seen < _MOST:
        keep(at, at + 2)
        for start, end in _READ.get(data[at], ()):
            keep(at + start, at + end)
        at, seen = data[at + 1] & 0xFC if at + 1 < len(data) else 0, seen + 1
    at, seen = 0x100, 0
    while at and at + 4 <= len(data) and seen < _MOST_BEYOND:
        head = int.from_bytes(data[at : at + 4], "little")
        keep(at, at + max(4, _READ_BEYOND.get(head & 0xFFFF, 0)))
        at, seen = (head >> 20 & 0xFFC) if head != 0xFFFFFFFF else 0, seen + 1
    return bytes(kept)


_OD = re.compile(r"([0-9a-f]+)((?: [0-9a-f]{2})*)")


@lru_cache(maxsize=4096)  # rows repeat from function to function, and from node to node
def _od_row(line: str) -> tuple[int, bytes]:
    found = _OD.fullmatch(line.rstrip())
    if found is None:
        raise ValueError(line)
    return int(found[1], 16), bytes.fromhex(found[2])
