"""RDMA devices of one machine; its limits, and what is ours."""

from __future__ import annotations

from toolkit.facts.fact import fact
from toolkit.facts.node_pci import Pci
from toolkit.facts.ours import Placed, parse_contents, parse_placed
from toolkit.facts.pci import PciFunction
from toolkit.facts.rdma import RdmaDevice, parse_infiniband


class Devices(Pci):
    """RDMA devices of one machine; its limits, and what is ours."""

    @fact
    def rdma_devices(self) -> tuple[RdmaDevice, ...]:
        return parse_infiniband(self._text("infiniband"))

    @fact
    def rdma_nodes(self) -> tuple[str, ...]:
        """Device files below /dev/infiniband."""
        return tuple(self._text("rdma-nodes").split())

    @fact
    def hcas(self) -> tuple[PciFunction, ...]:
        """PCI functions of the HCAs: those that drive an RDMA device, else those that could."""
        functions = self.pci.functions
        driving = [each.address for each in self.rdma_devices if each.address in functions]
        if driving:
            return tuple(functions[address] for address in dict.fromkeys(driving))
        return tuple(each for each in functions.values() if each.may_be_hca)

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
