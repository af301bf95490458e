"""PCI functions and the IOMMU of one machine."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.firmware.cpu_setup import count_nodes
from toolkit.facts.pci.functions import (
    PciFunction,
    PciTree,
    parse_pci,
    spaces,
    with_config,
    with_dead,
    without_answer,
)
from toolkit.facts.pci.iommu import Domain, parse_groups
from toolkit.facts.pci.kernel_log import AerCounts, parse_aer
from toolkit.facts.pci.lspci import parse_lspci
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.reading import Reading


class Pci(Reading):
    """PCI functions and the IOMMU of one machine."""

    @fact
    def pci(self) -> PciTree:
        """The PCI functions, without their config space; from lspci's text if need be."""
        if not self._given("pci"):
            return self._printed_tree()
        tree = parse_pci(
            self._text("pci"), self._text("pci-links"), self._text("pci-resources"), ""
        )
        alive = with_dead(tree, self._silent)
        if alive is not tree:
            self.cited.append("pci-config")
        return alive

    @fact
    def _silent(self) -> frozenset[str]:
        """Functions that do not answer, by their first bytes alone; what was refused marks none."""
        given = self._given("pci-config")
        return without_answer(self.sources.frame("pci-config").text if given else "")

    @fact
    def pci_config(self) -> PciTree:
        """The same with the config space of bridges, GPUs, HCAs and NVMe."""
        if not self._given("pci"):
            return self._printed_tree()
        return with_config(self.pci, self._spaces)

    @fact
    def _spaces(self) -> tuple[tuple[str, bytes], ...]:
        """What is read of each config space: equal machines differ in what is not."""
        return spaces(self._text("pci-config"))

    @fact
    def nvswitches(self) -> tuple[PciFunction, ...]:
        """NVSwitches on the node's own bus that answer."""
        functions = self.pci.functions.values()
        return tuple(each for each in functions if each.was_nvswitch and not each.dead)

    @fact
    def lspci(self) -> PciTree:
        """What ``lspci -vvv`` printed, where its text is part of the evidence."""
        return parse_lspci(self._text("lspci"))

    @fact
    def lspci_tree(self) -> PciTree:
        """What ``lspci -tv`` drew, where its text is part of the evidence."""
        return parse_lspci_tree(self._text("lspci-tree"))

    def _printed_tree(self) -> PciTree:
        if self._given("lspci"):
            return self.lspci
        if self._given("lspci-tree"):
            return self.lspci_tree
        return parse_pci(self._text("pci"), "", "", "")  # raises: it is not given

    @fact
    def numa_nodes(self) -> int:
        """How many NUMA nodes the machine has; 1 where its kernel knows no NUMA.

        :raises Unparsable: where the list is of another form than "0-1" or "0,8".
        """
        return count_nodes(self._text("numa-nodes")) if self._there("numa-nodes") else 1

    @fact
    def aer(self) -> AerCounts | None:
        """Errors that PCI Express functions reported since boot; None without AER."""
        return parse_aer(self._text("aer")) if self._there("aer") else None

    @fact
    def iommu_groups(self) -> dict[str, Domain]:
        return parse_groups(self._text("iommu-groups"))

    @fact
    def iommu_units(self) -> tuple[str, ...]:
        """The IOMMUs that the kernel drives: "dmar0", "ivhd0"; none when it is off."""
        paths = (line.split(" -> ")[0] for line in self._text("iommu-units").split("\n") if line)
        return tuple(path.rpartition("/")[2] for path in paths)
