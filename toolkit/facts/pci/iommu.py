"""IOMMU groups, their default domains, and what the kernel logs of an IOMMU.

Sources: Documentation/ABI/testing/sysfs-kernel-iommu_groups; drivers/iommu/iommu.c,
iommu_subsys_init; drivers/iommu/intel/dmar.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import NeedsRoot, Unparsable
from toolkit.facts.gpu.kernel_trouble import Trouble, when
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.pci.config_space import ConfigSpace


class Domain(StrEnum):
    IDENTITY = "identity"  # passthrough
    DMA = "DMA"  # translated, strict
    DMA_FQ = "DMA-FQ"  # translated, lazy flushing
    BLOCKED = "blocked"
    UNMANAGED = "unmanaged"  # owned by a user: vfio
    AUTO = "auto"
    UNKNOWN = "unknown"  # what the kernel prints for types that it has no name for

    @property
    def translated(self) -> bool:
        return self in {Domain.DMA, Domain.DMA_FQ}


def parse_groups(text: str) -> dict[str, Domain]:
    """Read "12/type:identity" lines: domain type by group number.

    :raises Unparsable: at a type that the kernel does not document.
    """
    groups: dict[str, Domain] = {}
    for path, value in named_lines(text, "iommu_groups"):
        try:
            groups[path.partition("/")[0]] = Domain(value.strip())
        except ValueError as why:
            raise Unparsable("iommu_groups", f"{path}:{value}") from why
    return groups


class IommuSaid(Struct, frozen=True):
    """What the kernel logged of its IOMMU."""

    passthrough: bool | None = None  # the default domain type; None where the log tells none
    enabled: bool = False  # it is at work, or was asked for
    cmdline: str | None = None  # the kernel's arguments, as it logged them
    by_argument: bool = False  # "(set via kernel command line)"
    faults: tuple[str, ...] = ()  # GPUs and HCAs whose DMA it refused, by address


# The prefixes of dmesg differ: "[   5.2] ", "<6>[ 5.2] ", "kern  :info  : 2025-02-10T16:28:06 ".
_DEFAULT = re.compile(
    r"\biommu: Default domain type: (Passthrough|Translated)\b(.*\bset (?:via|by) )?"
)
# "IOMMU enabled": the argument was read; the other two: an IOMMU is at work (intel_iommu_init,
# init_iommu_perf_ctr), by whatever the kernel was built to do without arguments.
_ENABLED = re.compile(
    r"\bDMAR: (?:IOMMU enabled\b|Intel\(R\) Virtualization Technology for Directed I/O)"
    r"|\bAMD-Vi: IOMMU performance counters supported"
)
_FAULT = re.compile(
    r"\b(?:nvidia|mlx[45]_core|bnxt_en|ionic|irdma|efa) (\S+): AMD-Vi: Event logged \[IO_PAGE_FAULT"
)
_CMDLINE = re.compile(r"(?:Kernel c|\bC)ommand line: (.*)")


def parse_iommu_log(lines: Iterable[str]) -> IommuSaid:
    """Any text is a log; what it does not tell stays open.

    DMAR and DMAR-IR lines alone mean nothing: tables and interrupt remapping are there
    without translation, and a default domain type is logged even without an IOMMU.
    """
    passthrough, enabled, cmdline, by_argument = None, False, None, False
    faults: dict[str, None] = {}
    for line in lines:
        if found := _DEFAULT.search(line):
            passthrough, by_argument = found[1] == "Passthrough", bool(found[2])
        elif _ENABLED.search(line):
            enabled = True
        elif fault := _FAULT.search(line):
            faults[fault[1]] = None
        elif cmdline is None and (found := _CMDLINE.search(line)):
            cmdline = found[1]
    return IommuSaid(passthrough, enabled, cmdline, by_argument, tuple(faults))


# DMA that an IOMMU refused. Intel's units name no PCI domain, AMD's and old kernels' not always; an
# Arm one tells whose DMA it was since Linux 6.15. Faults of interrupts and tables are not meant.
# Sources: drivers/iommu/intel/dmar.c, dmar_fault_do_one; amd/iommu.c, amd_iommu_report_page_fault;
# arm/arm-smmu-v3, arm_smmu_dump_event.
_FUNCTION = r"(?P<at>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_REFUSED_DMA = (
    re.compile(
        r"\[DMA (?:Read|Write)\b[^\]]{0,24}\] Request device \[(?P<at>[0-9a-fA-Fx:.]{7,12})\]"
    ),
    re.compile(rf"\b{_FUNCTION}: AMD-Vi: Event logged \[IO_PAGE_FAULT\b"),
    re.compile(rf"\bAMD-Vi: Event logged \[IO_PAGE_FAULT device={_FUNCTION}"),
    re.compile(
        r"\barm-smmu-v3 \S+ event: F_(?:TRANSLATION|ADDR_SIZE|ACCESS|PERMISSION) "
        rf"client: {_FUNCTION}"
    ),
)


def dma_faults(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """Each transfer that an IOMMU refused, oldest first; the address is as far as it was told."""
    found = (
        (line, next(filter(None, (each.search(line) for each in _REFUSED_DMA)), None))
        for line in lines
        if "DMA" in line or "AMD-Vi" in line or "client:" in line
    )
    return tuple(
        Trouble(at["at"].replace("0x", "").lower(), when(line), line[at.start() :].strip())
        for line, at in found
        if at is not None
    )


# The firmware's table of IOMMUs: Intel's DMAR and AMD's IVRS, as bytes.
# Sources: Intel VT-d specification, chapter 8.1 (DMAR flags at byte 37: include/acpi/actbl1.h,
# ACPI_DMAR_*); AMD I/O Virtualization specification, chapter 5.2 (IVinfo at byte 36:
# drivers/iommu/amd/amd_iommu_types.h, IOMMU_IVINFO_*).
_HEADER, _DMAR_FLAGS, _IVINFO = 48, 37, 36
_ATSR = 2  # ACPI_DMAR_TYPE_ROOT_ATS
_ALL_PORTS = 0x01


class IommuTable(Struct, frozen=True):
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
        if name == "DMAR":
            return _dmar(data)
        info = int.from_bytes(data[_IVINFO : _IVINFO + 4], "little")
        return IommuTable("IVRS", None, None, bool(info & 2), None)
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
