"""RDMA devices, PCI functions and the IOMMU of one machine; its limits, and what is ours."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.iommu import Domain, parse_groups
from toolkit.facts.ours import Placed, parse_contents, parse_placed
from toolkit.facts.pci import PciFunction, PciTree, parse_pci
from toolkit.facts.rdma import RdmaDevice, parse_infiniband
from toolkit.facts.reading import Reading


class Devices(Reading):
    """RDMA devices, PCI functions and the IOMMU of one machine."""

    @fact
    def rdma_devices(self) -> tuple[RdmaDevice, ...]:
        return parse_infiniband(self._text("infiniband"))

    @fact
    def rdma_nodes(self) -> tuple[str, ...]:
        """Device files below /dev/infiniband."""
        return tuple(self._text("rdma-nodes").split())

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
    def hcas(self) -> tuple[PciFunction, ...]:
        """PCI functions of the HCAs: those that drive an RDMA device, else those that could."""
        functions = self.pci.functions
        driving = [each.address for each in self.rdma_devices if each.address in functions]
        if driving:
            return tuple(functions[address] for address in dict.fromkeys(driving))
        return tuple(each for each in functions.values() if each.may_be_hca)

    @fact
    def iommu_groups(self) -> dict[str, Domain]:
        return parse_groups(self._text("iommu-groups"))

    @fact
    def iommu_units(self) -> tuple[str, ...]:
        """The IOMMUs that the kernel drives: "dmar0", "ivhd0"; none when it is off."""
        paths = (line.split(" -> ")[0] for line in self._text("iommu-units").split("\n") if line)
        return tuple(path.rpartition("/")[2] for path in paths)

    @fact
    def dmesg(self) -> tuple[str, ...]:
        """Lines of the kernel log."""
        return tuple(self._text("dmesg").split("\n")[:-1])

    @fact
    def memlock_files(self) -> str:
        """Lines of limits.conf and limits.d that set memlock, as "FILE:LINE"."""
        return self._text("limits")

    @fact
    def service_limits(self) -> str:
        """systemd's system.conf and its drop-ins, as "FILE:LINE"."""
        return self._text("service-limits")

    @fact
    def placed(self) -> dict[str, Placed]:
        """Files that lie where artefacts would go, by path."""
        return parse_placed(self._text("placed"))

    @fact
    def ours(self) -> dict[str, str]:
        """The text of those files, by path."""
        return parse_contents(self._text("ours"))

    @fact
    def owned(self) -> frozenset[str]:
        """Paths that an earlier run of ours placed."""
        text = self._text("owned") if self._there("owned") else ""
        return frozenset(line for line in text.split("\n") if line)

    @fact
    def pending(self) -> tuple[str, ...]:
        """Triggers that an earlier run still owes."""
        text = self._text("pending") if self._there("pending") else ""
        return tuple(line for line in text.split("\n") if line)
