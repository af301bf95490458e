"""IOMMU groups, their default domains, and what the kernel logs of an IOMMU.

Sources: Documentation/ABI/testing/sysfs-kernel-iommu_groups; drivers/iommu/iommu.c,
iommu_subsys_init; drivers/iommu/intel/dmar.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines


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


@dataclass(frozen=True, slots=True)
class IommuSaid:
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
