"""The firmware's table of IOMMUs: Intel's DMAR and AMD's IVRS, as bytes.

Sources: Intel VT-d specification, chapter 8.1 (DMAR flags at byte 37: include/acpi/actbl1.h,
ACPI_DMAR_*); AMD I/O Virtualization specification, chapter 5.2 (IVinfo at byte 36:
drivers/iommu/amd/amd_iommu_types.h, IOMMU_IVINFO_*).
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.lines import blocks
from toolkit.facts.pci.config_space import ConfigSpace

_HEADER, _DMAR_FLAGS, _IVINFO = 48, 37, 36
_ATSR = 2  # ACPI_DMAR_TYPE_ROOT_ATS
_ALL_PORTS = 0x01
_FOLDED = 4096  # as many bytes as the probe reads


@dataclass(frozen=True, slots=True)
class IommuTable:
    """What the firmware says of the IOMMUs that it offers. None: this maker's table is silent."""

    name: str  # "DMAR", "IVRS"
    interrupt_remapping: bool | None
    x2apic_opt_out: bool | None  # the firmware asks the system to keep off x2APIC
    dma_opt_in: bool  # it protects memory from DMA before the system starts, and asks to go on
    ats: bool | None  # root ports that translate ahead (ATS); None also where the table was cut


def parse_iommu_table(text: str) -> IommuTable | None:
    """Read ``@DMAR`` or ``@IVRS`` with the table below, as ``od -A x -t x1`` prints it.

    :returns: None where the firmware has neither.
    :raises NeedsRoot: where the table is there and no byte of it was shown.
    :raises Unparsable: where the bytes are not those of such a table.
    """
    for name, lines in blocks(text, "ACPI tables"):
        data = ConfigSpace.parse(name, lines).data
        if not data:
            raise NeedsRoot(f"/sys/firmware/acpi/tables/{name}: for root alone")
        if data[:4] != name.encode() or len(data) < _HEADER:
            raise Unparsable(f"ACPI table {name}", data[:16].hex(" "), 1)
        return _dmar(data) if name == "DMAR" else _ivrs(data)
    return None


def _dmar(data: bytes) -> IommuTable:
    flags = data[_DMAR_FLAGS]
    # Whether any structure names root ports with ATS.
    length = int.from_bytes(data[4:8], "little")
    at, found = _HEADER, False
    while at + 4 <= min(length, len(data)):
        kind = int.from_bytes(data[at : at + 2], "little")
        size = int.from_bytes(data[at + 2 : at + 4], "little")
        if size < 4:
            raise Unparsable("ACPI table DMAR", f"a structure of {size} bytes at {at}")
        if kind == _ATSR and at + 8 <= len(data):
            found = found or bool(data[at + 4] & _ALL_PORTS) or size > 8
        at += size
    ats = True if found else None if length > len(data) else False
    return IommuTable("DMAR", bool(flags & 1), bool(flags & 2), bool(flags & 4), ats)


def _ivrs(data: bytes) -> IommuTable:
    info = int.from_bytes(data[_IVINFO : _IVINFO + 4], "little")
    return IommuTable("IVRS", None, None, bool(info & 2), None)
