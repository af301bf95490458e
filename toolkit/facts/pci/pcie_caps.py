"""What the PCI Express capability of a function says: payload, requests, ordering, tags, link.

Sources: include/uapi/linux/pci_regs.h (PCI_EXP_*, PCI_REBAR_*); PCI Express Base
Specification 5.0, chapters 7.5.3 and 7.8.6.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from msgspec import Struct

from toolkit.errors import NoEvidence
from toolkit.facts.pci.config_space import REBAR, SRIOV, ConfigSpace

# GT/s by the code of Link Capabilities and Link Status.
_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class PortType(IntEnum):
    """Device/Port Type of the PCI Express capabilities register."""

    ENDPOINT = 0
    LEGACY_ENDPOINT = 1
    ROOT_PORT = 4
    UPSTREAM = 5  # of a switch
    DOWNSTREAM = 6  # of a switch
    TO_PCI = 7
    FROM_PCI = 8
    INTEGRATED = 9  # endpoint within the root complex
    EVENT_COLLECTOR = 10


class Link(Struct, frozen=True):
    """Speed in GT/s, width in lanes; 0 where the function does not say."""

    speed: float
    width: int

    def __str__(self) -> str:
        return f"{self.speed:g} GT/s x{self.width}"

    @property
    def gigabytes(self) -> float:
        """GB/s one way after line coding, before packet headers; 0 where not told."""
        coding = 0.8 if self.speed <= 5 else 128 / 130 if self.speed <= 32 else 242 / 256
        return self.speed * self.width * coding / 8


class Express(Struct, frozen=True):
    """The registers of one PCI Express function that bear on peer traffic."""

    port: PortType
    payload_max: int  # bytes it can take in one packet
    payload: int  # bytes it may send in one packet: Max_Payload_Size
    read_request: int  # bytes it may ask for at once: Max_Read_Request_Size
    relaxed_ordering: bool
    tags_8bit_possible: bool  # Extended Tag Field Supported
    tags_8bit: bool
    tags_10bit_completer: bool | None  # None: the capability is too old to say
    tags_10bit_requester: bool | None
    tags_10bit: bool | None  # None: not told
    now: Link
    best: Link


class Resizable(Struct, frozen=True):
    """One region whose size software may choose; sizes in bytes."""

    bar: int
    now: int
    largest: int


@lru_cache(maxsize=256)  # several checks ask the functions of one node in turn
def read_express(space: ConfigSpace) -> Express | None:
    """Decode the capability; None for a conventional PCI function.

    :raises NoEvidence: where the register lies beyond what was readable.
    """
    at = space.express()
    if at is None:
        return None
    kind, able, control = space.word(at + 2), space.dword(at + 4), space.word(at + 8)
    able2 = control2 = None
    if kind & 0xF >= 2:  # version 2 has the second set of registers
        able2, control2 = space.dword(at + 0x24), space.word(at + 0x28)
    code = kind >> 4 & 0xF
    if code not in list(PortType):
        raise NoEvidence(f"config space of {space.address}: port type {code} is not defined")
    return Express(
        PortType(code),
        128 << (able & 7),
        128 << (control >> 5 & 7),
        128 << (control >> 12 & 7),
        bool(control & 0x0010),
        bool(able & 0x20),
        bool(control & 0x0100),
        None if able2 is None else bool(able2 & 0x0001_0000),
        None if able2 is None else bool(able2 & 0x0002_0000),
        None if control2 is None else bool(control2 & 0x1000),
        _link(space.word(at + 0x12)),
        _link(space.dword(at + 0x0C)),
    )


def card_in_slot(space: ConfigSpace) -> bool:
    """Whether a port with a slot says that a card sits in it, be the link up or not.

    :raises NoEvidence: as ``read_express``.
    """
    at = space.express()
    if at is None or not space.word(at + 2) & 0x0100:  # Slot Implemented
        return False
    return bool(space.word(at + 0x1A) & 0x0040)  # Presence Detect State


def read_resizable(space: ConfigSpace) -> tuple[Resizable, ...]:
    """The regions of the Resizable BAR capability; () without it."""
    at = space.extended(REBAR)
    if at is None:
        return ()
    count = space.dword(at + 8) >> 5 & 7
    found = []
    for index in range(count):
        able, control = space.dword(at + 4 + 8 * index), space.dword(at + 8 + 8 * index)
        # Bit 4 of the capability is 1 MiB; 2**43 bytes and more continue in the control's half.
        sizes = able >> 4 | (control >> 16) << 28
        largest = 1 << (20 + sizes.bit_length() - 1) if sizes else 0
        found.append(Resizable(control & 7, 1 << (20 + (control >> 8 & 0x3F)), largest))
    return tuple(found)


def _link(register: int) -> Link:
    """Both link registers have speed in bits 3:0 and width in bits 9:4."""
    return Link(_SPEEDS.get(register & 0xF, 0.0), register >> 4 & 0x3F)


# What firmware set on links and virtual functions: ASPM, target speed, SR-IOV.
# Sources: include/uapi/linux/pci_regs.h (PCI_EXP_LNKCTL, PCI_EXP_LNKCTL2, PCI_SRIOV_*); PCI
# Express Base Specification 5.0, chapters 7.5.3 and 9.3.3.
# GT/s by code
_ASPM = {0: "", 1: "L0s", 2: "L1", 3: "L0s and L1"}


class LinkControl(Struct, frozen=True):
    """How a port was told to run its link."""

    aspm: str  # "L0s", "L1", "L0s and L1": how it may rest; "" for not at all
    best: float  # GT/s that it can
    target: float  # GT/s that it shall not exceed; 0 where not told


class Sriov(Struct, frozen=True):
    """Virtual functions of a physical one."""

    total: int
    enabled: int


def read_link_control(space: ConfigSpace) -> LinkControl | None:
    """None for a conventional PCI function.

    :raises NoEvidence: where the register lies beyond what was readable.
    """
    at = space.express()
    if at is None:
        return None
    target = 0.0
    if space.word(at + 2) & 0xF >= 2:  # version 2 has the second set of registers
        target = _SPEEDS.get(space.word(at + 0x30) & 0xF, 0.0)
    best = _SPEEDS.get(space.dword(at + 0x0C) & 0xF, 0.0)
    return LinkControl(_ASPM[space.word(at + 0x10) & 3], best, target)


def read_sriov(space: ConfigSpace) -> Sriov | None:
    """None where the function has no SR-IOV capability.

    :raises NoEvidence: where the extended config space was not readable.
    """
    at = space.extended(SRIOV)
    if at is None:
        return None
    enabled = space.word(at + 0x10) if space.word(at + 0x08) & 1 else 0
    return Sriov(space.word(at + 0x0E), enabled)
