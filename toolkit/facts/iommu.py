"""IOMMU groups and their default domains.

Source: Documentation/ABI/testing/sysfs-kernel-iommu_groups.
"""

from __future__ import annotations

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
