"""PCI functions and RDMA devices of one machine; its limits, and what is ours."""

from __future__ import annotations

from toolkit.compat.gpus import Chip, chip
from toolkit.compat.reader import maker
from toolkit.errors import NoEvidence
from toolkit.facts.fact import fact
from toolkit.facts.firmware.cpu_setup import count_nodes
from toolkit.facts.lines import filled
from toolkit.facts.modules.kernel_modules import parse_modules
from toolkit.facts.modules.placed_files import parse_contents, parse_left, parse_placed
from toolkit.facts.nccl.containers import NETNS
from toolkit.facts.node.fabric import Fabric
from toolkit.facts.pci.functions import (
    PciFunction,
    PciTree,
    parse_pci,
    spaces,
    with_config,
    with_dead,
    without_answer,
)
from toolkit.facts.pci.iommu import parse_groups
from toolkit.facts.pci.kernel_log import parse_aer
from toolkit.facts.pci.lspci import parse_lspci
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.rdma.devices import Kind, RdmaDevice, parse_infiniband, parse_node_guids
from toolkit.facts.rdma.rdma_lists import closed_nodes, lists_all_nodes, parse_rdma_nodes
from toolkit.facts.rdma.registration import Registration, parse_registration
from toolkit.facts.reading import Reading, given, parsed, where_given, where_there


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

    # What is read of each config space: equal machines differ in what is not.
    _spaces = parsed("pci-config", spaces)

    @fact
    def nvswitches(self) -> tuple[PciFunction, ...]:
        """NVSwitches on the node's own bus that answer."""
        functions = self.pci.functions.values()
        return tuple(each for each in functions if each.was_nvswitch and not each.dead)

    # What ``lspci -vvv`` printed, where its text is part of the evidence.
    lspci = parsed("lspci", parse_lspci)
    # What ``lspci -tv`` drew, where its text is part of the evidence.
    lspci_tree = parsed("lspci-tree", parse_lspci_tree)

    def _printed_tree(self) -> PciTree:
        if self._given("lspci"):
            return self.lspci
        if self._given("lspci-tree"):
            return self.lspci_tree
        return parse_pci(self._text("pci"), "", "", "")  # raises: it is not given

    # How many NUMA nodes the machine has; 1 where its kernel knows no NUMA.
    numa_nodes = where_there("numa-nodes", count_nodes, 1)
    # Errors that PCI Express functions reported since boot; None without AER.
    aer = where_there("aer", parse_aer, None)
    iommu_groups = parsed("iommu-groups", parse_groups)

    @fact
    def iommu_units(self) -> tuple[str, ...]:
        """The IOMMUs that the kernel drives: "dmar0", "ivhd0"; none when it is off."""
        paths = (line.split(" -> ")[0] for line in filled(self._text("iommu-units")))
        return tuple(path.rpartition("/")[2] for path in paths)


class Devices(Pci, Fabric):
    """RDMA devices of one machine; its limits, and what is ours."""

    @fact
    def rdma_devices(self) -> tuple[RdmaDevice, ...]:
        """From sysfs; in evidence put together from loose files, as a tool printed them."""
        if self._given("infiniband") or self.probed:
            return parse_infiniband(self._text("infiniband"))
        return self.said_devices

    @fact
    def node_guids(self) -> dict[str, int]:
        """Of each RDMA device by name, from sysfs; no check asks for it."""
        return parse_node_guids(self._text("infiniband"))

    @fact
    def rdma_hardware(self) -> tuple[RdmaDevice, ...]:
        """Without those of software, though they may stand on an Ethernet card's function."""
        return tuple(each for each in self.rdma_devices if each.kind is not Kind.SOFTWARE)

    @fact
    def namespaced(self) -> tuple[PciFunction, ...]:
        """Driven HCAs whose RDMA devices are another network namespace's.

        In ib_core's exclusive mode /sys/class/infiniband shows those of the reader's own alone.
        """
        if not self._given("containers") or f"{NETNS}:N" not in self._text("containers"):
            return ()
        ours = {each.address for each in self.rdma_devices}
        unseen = (e for e in self.pci.adapters if e.address not in ours and not e.virtual)
        return tuple(e for e in unseen if e.driver not in {"", "vfio-pci"} and self._with_rdma(e))

    def _with_rdma(self, adapter: PciFunction) -> bool:
        """Whether its RDMA module is loaded; a driver in the kernel itself may have its there."""
        whose = maker(adapter.vendor, adapter.device)
        if whose is None or not self._given("modules"):
            return True
        loaded = {each.name for each in parse_modules(self._text("modules"))}
        beside = {*whose.modules} - {*whose.drivers}
        return adapter.driver not in loaded or not beside or not beside.isdisjoint(loaded)

    @fact
    def registration(self) -> Registration | None:
        """Which HCA took the memory of which GPU; None where nobody asked for that to be tried.

        :raises NoEvidence: it was tried, and broke off or found no Python.
        """
        if not self._given("registration"):
            return None
        if not self._there("registration"):
            raise NoEvidence(
                "no Python 3 is on the node: nothing was tried", hint="install python3"
            )
        return parse_registration(self._text("registration"))

    @fact
    def tells_rdma(self) -> bool:
        """Whether the evidence lists RDMA devices or PCI functions, in any form."""
        listings = ("infiniband", "ibstat", "ibv-devinfo", "ibdev2netdev", "ibstatus", "rdma-link")
        return any(self._given(key) for key in (*listings, "pci", "lspci"))

    @fact
    def gpu_chips(self) -> dict[str, Chip | None]:
        """Each GPU by its address, with what its device id tells; None for an unknown one."""
        if self._given("pci") or self.probed or (self._given("lspci") and self.pci.gpus):
            return {each.address: chip(each.device) for each in self.pci.gpus}
        return {each.address: chip(each.device) for each in self.smi.gpus}

    @fact
    def unified_memory(self) -> bool:
        """Every GPU shares one memory with the CPU, so that GPUDirect RDMA is not for it."""
        chips = self.gpu_chips.values()
        return bool(chips) and all(each is not None and each.unified for each in chips)

    @fact
    def bar1_sizes(self) -> dict[str, int]:
        """Bytes of BAR1 of each GPU by address, as nvidia-smi -q tells them; 0 for not told."""
        return {each.address: each.bar1_mib << 20 for each in self.smi_shown.gpus}

    # Whether somebody has listed /dev/infiniband.
    nodes_listed = given("rdma-nodes-said")
    # Who alone may open uverbs nodes, says ls -l; "" where all may, or it was not asked.
    nodes_closed = where_given("rdma-nodes-said", closed_nodes, "")

    @fact
    def rdma_nodes(self) -> tuple[str, ...]:
        """Device files below /dev/infiniband; from ls, where that was given as a loose file."""
        if self.nodes_listed and not self._given("rdma-nodes"):
            return parse_rdma_nodes(self._text("rdma-nodes-said"))
        return tuple(self._text("rdma-nodes").split())

    @property
    def nodes_whole(self) -> bool:
        """Whether there are no other device files than those: of ls, people paste parts."""
        key = "rdma-nodes-said"
        if not self.nodes_listed or self._given("rdma-nodes"):
            return True
        return lists_all_nodes(self._text(key), self._typed(key))

    @property
    def no_uverbs(self) -> bool | None:
        """Whether user space can open no RDMA device; None where a part of ls leaves it open."""
        if any("/uverbs" in path for path in self.rdma_nodes):
            return False
        return True if self.nodes_whole else None

    @fact
    def hcas(self) -> tuple[PciFunction, ...]:
        """PCI functions of the HCAs: those that drive an RDMA device, else those that could."""
        functions = self.pci.functions
        if not self._given("infiniband"):
            return tuple(each for each in functions.values() if each.may_be_hca)
        driving = [each.address for each in self.rdma_hardware if each.address in functions]
        if driving:
            driving += [each.address for each in self.namespaced]
            return tuple(functions[address] for address in dict.fromkeys(driving))
        return tuple(each for each in functions.values() if each.may_be_hca)

    @fact
    def dmesg(self) -> tuple[str, ...]:
        """Lines of the kernel log."""
        return tuple(self._text("dmesg").split("\n")[:-1])

    @fact
    def log_since_boot(self) -> bool:
        """Whether the kernel log still has its beginning; on a busy node it is overwritten."""
        return any("Linux version " in line for line in self.dmesg)

    # Lines of limits.conf and limits.d that set memlock, as "FILE:LINE".
    memlock_files = parsed("limits", str)
    # systemd's system.conf and its drop-ins, as "FILE:LINE".
    service_limits = parsed("service-limits", str)
    # Files that lie where artefacts would go, by path.
    placed = parsed("placed", parse_placed)
    # The text of those files, by path.
    ours = parsed("ours", parse_contents)

    @fact
    def owned(self) -> frozenset[str]:
        """Paths that an earlier run of ours placed."""
        return frozenset(filled(self._text("owned")) if self._there("owned") else ())

    # Hash of what our latest run left at a path, or "absent", by path; none of an older probe,
    # which did not look.
    left = where_given("left", parse_left, dict[str, str]())
    # Triggers that an earlier run still owes.
    pending = where_there("pending", filled, ())
