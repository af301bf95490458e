"""What firmware set on links and virtual functions: ASPM, target speed, SR-IOV.

Sources: include/uapi/linux/pci_regs.h (PCI_EXP_LNKCTL, PCI_EXP_LNKCTL2, PCI_SRIOV_*); PCI
Express Base Specification 5.0, chapters 7.5.3 and 9.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.facts.pci.config_space import SRIOV, ConfigSpace

_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s by code
_ASPM = {0: "", 1: "L0s", 2: "L1", 3: "L0s and L1"}


@dataclass(frozen=True, slots=True)
class LinkControl:
    """How a port was told to run its link."""

    aspm: str  # "L0s", "L1", "L0s and L1": how it may rest; "" for not at all
    best: float  # GT/s that it can
    target: float  # GT/s that it shall not exceed; 0 where not told


@dataclass(frozen=True, slots=True)
class Sriov:
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
