"""GPUs with HCAs: how far apart, by which links, and what each HCA is for."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from toolkit.errors import read_or
from toolkit.facts.fact import fact
from toolkit.facts.gpu.topo_matrix import Matrix, parse_matrix
from toolkit.facts.nccl.nccl_xml import parse_nccl_xml
from toolkit.facts.node.devices import Devices
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.lspci import differences
from toolkit.facts.pci.pairs import Pairs, PairSource, matrix_pairs, nccl_pairs, tree_pairs
from toolkit.facts.pci.platform import is_coherent_gpu
from toolkit.facts.pci.topology import Distance, Pair, all_pairs, coherent
from toolkit.facts.rdma.hca_roles import HcaRole, HcaUse, hca_roles
from toolkit.facts.reading import given, parsed


class Topology(Devices):
    """GPUs with HCAs: how far apart, by which links, and what each HCA is for."""

    # Whether the evidence tells of RDMA devices; lspci's text alone does not.
    has_rdma = given("infiniband")
    # Whether nvidia-smi was asked for the GPUs and their memory.
    has_gpu_rows = given("nvidia-smi")
    # Whether the kernel log is part of the evidence.
    has_log = given("dmesg")
    # What ``nvidia-smi topo -m`` said; None where it said nothing.
    matrix = parsed("nvidia-topology", parse_matrix)

    @fact
    def cross_matrix(self) -> Matrix | None:
        """The same as a second opinion: None too where the command did not answer."""
        if not self._given("nvidia-topology") or not self._read_well("nvidia-topology"):
            return None
        return self.matrix

    # The XML file that NCCL dumped, or is given.
    nccl_topology = parsed("nccl-topology", parse_nccl_xml)

    @fact
    def dark_devices(self) -> tuple[str, ...]:
        """GPUs and HCAs that NCCL found unable when it dumped the topology; () without a dump."""
        if self.probed or not self._given("nccl-topology"):
            return ()
        devices = (*self.nccl_topology.gpus, *self.nccl_topology.hcas)
        return tuple(each.name for each in devices if each.gdr is False)

    @fact
    def hca_names(self) -> dict[str, str]:
        """RDMA names by PCI address: "0000:19:00.0" is "mlx5_0"."""
        return {each.address: each.name for each in self.rdma_hardware if each.address}

    @fact
    def _ats(self) -> frozenset[str]:
        """GPUs that use the CPU's page tables, says the driver: asked where ids leave C2C open."""
        if not self._given("nvidia-smi-q") or all(
            coherent(self.pci, each) is not None for each in self.pci.gpus
        ):
            return frozenset()
        told = read_or(lambda: self.smi.gpus, ())
        return frozenset(each.address for each in told if each.addressing == "ATS")

    @fact
    def coherent_gpus(self) -> tuple[PciFunction, ...]:
        """GPUs that share memory with their CPU over NVLink-C2C."""
        return tuple(e for e in self.pci.gpus if is_coherent_gpu(e) or e.address in self._ats)

    @fact
    def _pairs_of_tree(self) -> tuple[Pair, ...]:
        return all_pairs(self.pci, self.hcas, self._ats)

    @fact
    def tree_pairs(self) -> tuple[Pair, ...]:
        """Every GPU with every HCA of the PCI tree."""
        pairs = self._pairs_of_tree
        if all(each.pcie is not Distance.APART for each in pairs) or not self._given("numa-nodes"):
            return pairs
        if self.numa_nodes > 1:
            return pairs
        # Firmware that tells no node (-1) leaves no doubt where there is one only.
        functions = {a: replace(each, numa=0) for a, each in self.pci.functions.items()}
        return all_pairs(replace(self.pci, functions=functions), self.hcas, self._ats)

    @fact
    def near_pairs(self) -> tuple[Pair, ...]:
        """Those behind a common switch: the paths on which peer traffic can stay local."""
        return tuple(each for each in self._pairs_of_tree if each.distance <= Distance.PXB)

    @fact
    def pairs(self) -> Pairs:
        """The same by name, from the first source that tells distances.

        :raises NoEvidence: where the evidence has none of the sources.
        """
        if self._given("pci"):
            return self._of_tree(PairSource.TREE)
        sources: tuple[tuple[str, Callable[[], Pairs | None]], ...] = (
            ("lspci", lambda: self._of_tree(PairSource.LSPCI)),
            ("nvidia-topology", self._of_matrix),
            ("nccl-topology", lambda: nccl_pairs(self.nccl_topology)),
            ("lspci-tree", lambda: self._of_tree(PairSource.DRAWING)),
        )
        answers = (source() for key, source in sources if self._given(key))
        told = [each for each in answers if each is not None]
        if not told:
            return self._of_tree(PairSource.TREE)  # raises: nothing is given
        return next((each for each in told if each.told), told[0])

    @fact
    def lists_no_hca(self) -> str:
        """The loose file that lists all GPUs and NICs, and no HCA; "" for none of that kind.

        A topology file that somebody wrote may leave HCAs out; a dump of NCCL's has them.
        """
        told: Pairs | None = None
        if self._given("nvidia-topology"):
            told = self._of_matrix()
        elif self._given("nccl-topology") and "<net " in self._text("nccl-topology"):
            told = nccl_pairs(self.nccl_topology)
        return told.source if told and told.gpus and not told.hcas else ""

    def _of_tree(self, source: PairSource) -> Pairs:
        if source is PairSource.DRAWING:
            tree = self.lspci_tree
            hcas = tree.adapters
            pairs = all_pairs(tree, hcas, self._ats)
        else:
            tree, hcas, pairs = self.pci, self.hcas, self.tree_pairs
        gpus, others = (tuple(each.address for each in ends) for ends in (tree.gpus, hcas))
        named = tree_pairs(pairs, gpus, others, source)
        return replace(named, whole=tree.whole)

    def _of_matrix(self) -> Pairs | None:
        return matrix_pairs(self.matrix) if self.matrix else None

    @fact
    def lspci_differences(self) -> tuple[str, ...]:
        """Where lspci's words contradict the bytes of a config space; () without both."""
        if not self._given("lspci"):
            return ()
        bytes_of = self.pci_config if self._given("pci") else self.lspci
        found: list[str] = []
        for address, words in self.lspci.functions.items():
            ours = bytes_of.functions.get(address)
            shown = words.printed and words.printed.capabilities
            if shown and ours and ours.config:
                found += differences(words, ours)
        return tuple(found)

    @fact
    def own_interfaces(self) -> dict[str, str]:
        """Interfaces that the node itself lives on, with what each carries."""
        carrying: dict[str, str] = {}
        for key, what in (
            ("default-routes", "the default route"),
            ("ssh-interface", "our session"),
        ):
            if self._given(key) and self._there(key):
                for name in self._text(key).split():
                    carrying[name] = f"{carrying[name]} and {what}" if name in carrying else what
        return carrying

    @fact
    def hca_roles(self) -> dict[str, HcaRole]:
        """The use of each HCA, by address; of nodes without GPU none is told."""
        interfaces = {e.address: (*e.netdevs, *e.uppers) for e in self.rdma_hardware}
        roles = hca_roles(self.tree_pairs, interfaces, self.own_interfaces)
        return {each.address: each for each in roles}

    @fact
    def compute_hcas(self) -> tuple[PciFunction, ...]:
        """The HCAs that serve GPUs; all of them where their uses are not told.

        Virtual functions are left to whoever is given one: most registers of theirs read as
        zero, for those of the physical function count, and idle ones have no port that is up.
        """
        hcas = tuple(each for each in self.hcas if not each.virtual)
        if not self.has_rdma:
            return hcas
        roles = self.hca_roles
        return tuple(
            each
            for each in hcas
            if each.address not in roles or roles[each.address].use is HcaUse.COMPUTE
        )
