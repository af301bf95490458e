"""What the topology of one node is shown as: its tree, its pairs, what stands in the way."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import Acs, AcsRegisters
from toolkit.facts.pci.functions import PciFunction, PciTree
from toolkit.facts.pci.pairs import NamedPair, PairSource
from toolkit.facts.rdma.hca_roles import HcaRole
from toolkit.facts.recall import Sources

_BITS = {
    Acs.REQUEST_REDIRECT: "ReqRedir",
    Acs.COMPLETION_REDIRECT: "CmpltRedir",
    Acs.EGRESS_CONTROL: "EgressCtrl",
}
NOT_READ = "not read"
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s


class TreePlace(Struct, frozen=True):
    """One function of the tree."""

    address: str
    kind: str  # "root port", "switch", "port", "GPU", "HCA"
    name: str  # "NVIDIA H100 80GB HBM3", "mlx5_0"; "" where none is known
    ids: str  # "10de:2330"
    use: str  # of an HCA: "compute"
    why: str  # and the reason
    now: str  # "32 GT/s x16"; "" where not told
    best: str
    acs: str  # redirect bits that are set; "" for none; NOT_READ
    below: tuple[TreePlace, ...]
    generation: int = 0  # of PCIe, of the link as it is; 0 where not told
    gigabytes: float = 0.0  # its bandwidth, GB/s one way; 0 where not told
    register: str = ""  # "ACSCap 0x005f, ACSCtl 0x001d"; "" where there is none, or not read


class Root(Struct, frozen=True):
    """One root complex, or rather the part of it that leads to GPUs and HCAs."""

    name: str  # "pci0000:15"
    numa: int  # -1: not told, or several
    below: tuple[TreePlace, ...]
    several: bool = False  # its functions tell different NUMA nodes


class GpuWay(Struct, frozen=True):
    """One GPU with one HCA."""

    gpu: str
    hca: str
    distance: str  # "PIX"; "?" where not told
    limit: str  # the narrowest link: "32 GT/s x16"; "" where not told
    gigabytes: float  # its bandwidth, GB/s one way; 0 where not told
    limited_at: str  # address of the lower end of that link
    redirects: tuple[str, ...] | None  # "0000:17:00.0: ReqRedir"; None where not read or no path
    nearest: bool  # no HCA is nearer to this GPU
    why: str


class TopologyView(Struct, frozen=True):
    host: str
    source: str  # "PCI tree", "lspci", "nvidia-smi topo -m"
    gpus: tuple[str, ...]
    hcas: tuple[str, ...]
    roots: tuple[Root, ...]  # () where the source is no tree
    ways: tuple[GpuWay, ...]
    notes: tuple[str, ...] = ()


def view(host: str, evidence: Evidence | Sources) -> TopologyView:
    """The topology of a node.

    :param evidence: its own, or the sources of one that is looked at already.
    :raises NoEvidence: where the evidence has nothing that tells of it.
    """
    node = Node(evidence)
    told = node.pairs
    names = _names(node)
    roots: tuple[Root, ...] = ()
    if told.source in {PairSource.TREE, PairSource.LSPCI, PairSource.DRAWING}:
        tree = node.lspci_tree if told.source is PairSource.DRAWING else node.pci
        roots = _Tree(node, tree, told.hcas, names).roots()
    best = {
        gpu: min(e.distance for e in told.pairs if e.gpu == gpu)
        for gpu in told.gpus
        if any(e.gpu == gpu for e in told.pairs)
    }
    ways = tuple(
        _way(node, each, names, nearest=each.distance is best[each.gpu]) for each in told.pairs
    )
    shown = tuple(names.get(hca, hca) for hca in told.hcas)
    notes = list(dict.fromkeys(f"{way.gpu}: {way.why}" for way in ways if way.why))
    if read_or(lambda: node.is_guest, otherwise=False):
        notes.append("a guest's PCI tree is not the machine's: distances may be made up")
    if node.knows_pci and not read_or(lambda: node.root, otherwise=True):
        notes.append("not read as root: ACS is not known")
    notes += read_or(lambda: node.lspci_differences, ())
    return TopologyView(host, told.source, told.gpus, shown, roots, ways, tuple(notes))


def _names(node: Node) -> dict[str, str]:
    none: dict[str, str] = {}
    gpus = read_or(lambda: {row.address: row.name for row in node.gpu_rows}, none)
    return gpus | read_or(lambda: node.hca_names, none)


def _acs(node: Node, function: PciFunction) -> AcsRegisters | None:
    """None where the bridge has no ACS; raises where its registers are not known."""
    return read_or(lambda: node.pci_config.functions[function.address], function).acs_registers()


def _register(node: Node, function: PciFunction) -> str:
    registers = read_or(lambda: _acs(node, function), None)
    if registers is None:
        return ""
    return f"ACSCap 0x{registers.capability:04x}, ACSCtl 0x{registers.control:04x}"


def _redirects(node: Node, function: PciFunction) -> str:
    """The redirect bits of a bridge; NOT_READ where its registers are not known."""
    try:
        registers = _acs(node, function)
    except (NoEvidence, Unparsable):
        return NOT_READ
    if registers is None:
        return ""
    return " ".join(name for bit, name in _BITS.items() if registers.redirects & bit)


class _Tree:
    """The part of the PCI tree that leads to GPUs and HCAs."""

    def __init__(
        self, node: Node, tree: PciTree, hcas: tuple[str, ...], names: dict[str, str]
    ) -> None:
        self._node = node
        self._names = names
        self._pci = tree
        unknown: dict[str, HcaRole] = {}
        self._uses = read_or(lambda: node.hca_roles, unknown)
        ends = (*tree.gpus, *(tree.functions[each] for each in hcas))
        self._ends = {each.address: each for each in ends}
        self._children: dict[str, list[str]] = {}
        for end in self._ends.values():
            chain = (*end.parents, end.address)
            for above, below in pairwise(chain):
                children = self._children.setdefault(above, [])
                if below not in children:
                    children.append(below)

    def roots(self) -> tuple[Root, ...]:
        tops = dict.fromkeys(each.parents[0] for each in self._ends.values() if each.parents)
        return tuple(self._root(top) for top in sorted(tops))

    def _root(self, top: str) -> Root:
        nodes = {each.numa for each in self._ends.values() if each.parents[:1] == (top,)} - {-1}
        numa = next(iter(nodes)) if len(nodes) == 1 else -1
        return Root(top, numa, self._below(top), len(nodes) > 1)

    def _below(self, above: str) -> tuple[TreePlace, ...]:
        return tuple(self._place(each) for each in sorted(self._children.get(above, [])))

    def _place(self, address: str) -> TreePlace:
        function = self._pci.functions.get(address)
        below = self._below(address)
        if function is None:
            return TreePlace(address, "bridge", "", "", "", "", "", "", NOT_READ, below)
        use = self._uses.get(address)
        return TreePlace(
            address,
            self._kind(function),
            self._names.get(address, ""),
            f"{function.vendor:04x}:{function.device:04x}",
            use.use.value if use else "",
            use.why if use else "",
            str(function.now) if function.now.width else "",
            str(function.best) if function.best.width else "",
            _redirects(self._node, function) if function.is_bridge else "",
            below,
            _GENERATIONS.get(function.now.speed, 0),
            round(function.now.gigabytes, 1) if function.now.width else 0.0,
            _register(self._node, function) if function.is_bridge else "",
        )

    def _kind(self, function: PciFunction) -> str:
        if not function.is_bridge:
            return "GPU" if function.is_gpu else "HCA"
        if function.parents[-1:] and function.parents[-1].startswith("pci"):
            return "root port"
        # Below a root port or a port of a switch stands the upper port of the next one.
        ports = len(function.parents) - 1
        return "switch" if ports % 2 else "port"


def _way(node: Node, each: NamedPair, names: dict[str, str], *, nearest: bool) -> GpuWay:
    path = each.path
    limit = path.limit if path else None
    redirects: tuple[str, ...] | None = None
    if path is not None and path.bridges:
        bits = {bridge.address: _redirects(node, bridge) for bridge in path.bridges}
        if NOT_READ not in bits.values():
            redirects = tuple(f"{address}: {set_}" for address, set_ in bits.items() if set_)
    return GpuWay(
        each.gpu,
        names.get(each.hca, each.hca),
        each.distance.shown,
        str(limit.now) if limit else "",
        round(limit.now.gigabytes, 1) if limit else 0.0,
        limit.lower.address if limit else "",
        redirects,
        nearest,
        path.why if path else "",
    )
