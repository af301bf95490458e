"""PCI functions and the IOMMU of one machine."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.iommu import Domain, parse_groups
from toolkit.facts.pci import PciTree, parse_pci
from toolkit.facts.reading import Reading


class Pci(Reading):
    """PCI functions and the IOMMU of one machine."""

    @fact
    def pci(self) -> PciTree:
        """The PCI functions, without their config space."""
        return parse_pci(
            self._text("pci"), self._text("pci-links"), self._text("pci-resources"), ""
        )

    @fact
    def pci_config(self) -> PciTree:
        """The same with the config space of bridges, GPUs, HCAs and NVMe."""
        frames = ("pci", "pci-links", "pci-resources", "pci-config")
        return parse_pci(*(self._text(key) for key in frames))

    @fact
    def iommu_groups(self) -> dict[str, Domain]:
        return parse_groups(self._text("iommu-groups"))

    @fact
    def iommu_units(self) -> tuple[str, ...]:
        """The IOMMUs that the kernel drives: "dmar0", "ivhd0"; none when it is off."""
        paths = (line.split(" -> ")[0] for line in self._text("iommu-units").split("\n") if line)
        return tuple(path.rpartition("/")[2] for path in paths)
