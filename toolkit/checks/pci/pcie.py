"""Are GPU and HCA near each other, and may the root complex carry what goes between them?"""

from __future__ import annotations

import re
from collections import Counter

from toolkit.checks.check import (
    Finding,
    Gap,
    Impact,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.role import PASSED_THROUGH, lent_gpus, role
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction, PciTree
from toolkit.facts.pci.pairs import NamedPair, Pairs, PairSource, disagreements
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.hca_roles import HcaUse
from toolkit.plural import counted
from toolkit.want import Role, Want

FLAT = "a guest's PCI tree is not the machine's"
NEAR = (Distance.C2C, Distance.PIX, Distance.PXB, Distance.P2C)


@check(
    "pcie.distance",
    impact=Impact.SLOW,
    source="NVIDIA/nccl src/graph/paths.cc; nvidia-smi topo -m",
    fix="move the HCA to the GPU's switch; jobs: choose HCAs by topology, never by index",
)
def distance(node: Node, want: Want) -> Finding:
    """Every GPU has an HCA behind a common switch (PIX or PXB), or NVLink-C2C to its CPU (P2C).

    Through the root complex (PHB) NCCL does not use GPUDirect by default; between root
    complexes (NODE) or sockets (SYS) it is slow or refused. Where NVLink-C2C joins GPU and
    CPU, the way through the CPU is the fast one. Judged is each GPU against its nearest
    HCA, those for management left out. Read from the PCI tree, else from lspci, from
    nvidia-smi topo -m or from NCCL's topology file; a guest's tree is often invented.
    """
    told = node.pairs
    best = _best(node, told)
    guest = role(node, want) is Role.VM
    if not best and not told.whole:
        missing = "HCA" if told.gpus else "GPU"
        return unknown(f"{told.source}: no {missing} in this excerpt", hint="give the whole output")
    if not best:
        return not_applicable(f"no HCA in the {told.source}; see rdma.devices")
    open_ = [each for each in best if each.distance is Distance.UNKNOWN]
    far = [each for each in best if each.distance not in NEAR and each not in open_]
    if guest and (far or open_):
        return not_applicable(FLAT)
    shown = _shown(best)
    if far:
        lost = lost_beside(node) if told.source is PairSource.TREE else {}
        return failed(
            f"{len(far)} of {counted(len(best), 'GPU')} {'has' if len(far) == 1 else 'have'} "
            f"no HCA behind {'its' if len(far) == 1 else 'their'} switch ({shown})",
            expected="PIX or PXB for every GPU, or P2C over NVLink-C2C",
            hint=LOST if all(each.gpu in lost for each in far) else "",
            details=(*map(_line, far), *_second_opinion(node, told)),
        )
    if open_:
        what = f"{told.source} does not tell {len(open_)} of {len(best)} GPUs"
        why = _untold(open_, told.source)
        return unknown(f"{what}: {why}", hint="nvidia-smi topo -m; lspci -tv")
    return passed(
        f"GPU to nearest HCA: {shown}", details=(*map(_line, best), *_second_opinion(node, told))
    )


def _untold(pairs: list[NamedPair], source: PairSource) -> str:
    """What these pairs lack for a distance: their own reason, else that of the source."""
    c2c = source is PairSource.MATRIX
    untold = "whether NVLink-C2C joins them to their CPU" if c2c else "where they hang"
    return next((e.path.why for e in pairs if e.path and e.path.why), untold)


_NETWORK = 0x02  # the PCI class of HCAs and other network functions
LOST = "the HCA that was there is lost: see hca.count; moving another one mends nothing"


def lost_beside(node: Node) -> dict[str, str]:
    """GPUs that alone have no HCA behind their switch, each with what shows the loss.

    Most GPUs of the machine have one there, and they do not share a single one. Where none has,
    or some only, it was built so. An
    HCA that is given to a guest, or has no driver, is there. A GPU on a root port, or below
    switches of another kind than theirs, was not built as they are.
    """
    tree, functions = node.pci, node.pci.functions.values()
    cards = [each for each in functions if each.klass >> 16 == _NETWORK and not each.dead]
    beside = {
        gpu.address: [e.address for e in cards if {*e.parents[1:]}.intersection(gpu.parents)]
        for gpu in tree.gpus
    }
    with_one = [each for each in tree.gpus if beside[each.address]]
    built = {_chain(tree, each) for each in with_one}
    alone = [e for e in tree.gpus if e not in with_one and _chain(tree, e) in built]
    served, serving = len(with_one), {e for each in beside.values() for e in each}
    if served < 3 or len(serving) < 2 or served <= len(alone) or not tree.whole:
        return {}
    filled = {up for each in functions for up in each.parents}
    told = {}
    for gpu in alone:
        ports = [
            each.address
            for each in functions
            if each.is_bridge and each.address not in filled and each.parents == gpu.parents[:-1]
        ]
        empty = f"; nothing answers below {ports[0]}" if len(ports) == 1 else ""
        told[gpu.address] = (
            f"{gpu.address}: no HCA behind its switch, as {served} others have{empty}"
        )
    return told


def _chain(tree: PciTree, function: PciFunction) -> tuple[tuple[int, int], ...]:
    """The kinds of bridges above a function, from the root port down."""
    return tuple((each.vendor, each.device) for each in tree.bridges_above(function))


def _best(node: Node, told: Pairs) -> list[NamedPair]:
    """Each GPU with its nearest HCA; unknown where a nearer one may be among those not told."""
    away: set[str] = set()
    if told.source is PairSource.TREE and told.pairs:
        away = {a for a, each in node.hca_roles.items() if each.use is HcaUse.MANAGEMENT}
    best = []
    for gpu in told.gpus:
        own = [each for each in told.pairs if each.gpu == gpu and each.hca not in away]
        nearest = min(own, key=lambda each: each.distance, default=None)
        if nearest is None:
            continue
        doubtful = [each for each in own if each.distance is Distance.UNKNOWN]
        best.append(doubtful[0] if doubtful and nearest.distance not in NEAR else nearest)
    return best


def _shown(best: list[NamedPair]) -> str:
    counts = Counter(each.distance for each in best)
    return ", ".join(f"{count} {kind.shown}" for kind, count in sorted(counts.items()))


def _line(each: NamedPair) -> str:
    limit = each.path.limit if each.path else None
    speed = f", {limit.now} = {limit.now.gigabytes:.1f} GB/s at most" if limit else ""
    return f"{each.gpu}: {each.distance.shown} to {each.hca}{speed}"


def _second_opinion(node: Node, told: Pairs) -> tuple[str, ...]:
    if told.source is not PairSource.TREE:
        return ()
    matrix = node.cross_matrix
    if matrix is None or not node.has_nvidia_smi:
        return ()
    return disagreements(node.tree_pairs, matrix, node.gpu_rows, node.hca_names)


_REFUSED = re.compile(
    r"cannot be used for peer-to-peer DMA as the client and provider \(([0-9a-f:.]+)\)"
)


@check(
    "pcie.hostbridge",
    impact=Impact.SLOW,
    source="drivers/pci/p2pdma.c, calc_map_type_and_dist, pci_p2pdma_whitelist",
    fix="put both devices behind one switch; the whitelist of host bridges is the kernel's own",
)
def hostbridge(node: Node, want: Want) -> Finding:
    """The kernel has not refused peer-to-peer DMA across a host bridge.

    It is the kernel's own p2pdma that refuses: GPUDirect Storage and NVMe over Fabrics in
    P2PDMA mode, and dma-buf importers that ask it. RDMA with nvidia-peermem does not ask.
    The log only knows of what was tried since boot, and forgets.
    """
    refused: dict[str, str] = {}
    for line in node.dmesg:
        if found := _REFUSED.search(line):
            refused[found[1]] = line.split("] ", 1)[-1]
    if refused:
        return failed(
            f"refused for {len(refused)} providers: {', '.join(refused)}",
            expected="client and provider behind one switch, or a whitelisted host bridge",
            hint="see pcie.distance; RDMA through nvidia-peermem is not concerned",
            details=tuple(refused.values()),
        )
    if not node.log_is_whole:
        why = "the kernel log, or this excerpt of it, tells of no refusal"
        return unknown(why, gap=Gap.LOG)
    return no_refusal(node)


def no_refusal(node: Node) -> Finding:
    """Nothing in the kernel log; it is said how far back that reaches."""
    if not node.dmesg:
        return unknown("the kernel log is empty", hint="journalctl -k -b")
    if not node.log_since_boot:
        return passed("no refusal in the kernel log, whose beginning is overwritten")
    return passed("the kernel log tells of no refusal")


@check(
    "rdma.numa",
    impact=Impact.SLOW,
    roles=frozenset({Role.BARE_METAL, Role.VM_HOST}),
    source="/sys/bus/pci/devices/*/numa_node; NVIDIA/nccl src/graph/xml.cc",
    fix="a firmware whose ACPI tables give _PXM for every root complex; an update often does",
)
def numa(node: Node, want: Want) -> Finding:
    """Every GPU and HCA tells its NUMA node, where there is more than one.

    Without it NCCL, UCX and MPI bind to the wrong socket, and nobody can tell a path within
    one socket from a path between two.
    """
    functions = (*node.pci.gpus, *node.hcas)
    silent = [each.address for each in functions if each.numa < 0]
    nodes = node.numa_nodes
    if nodes < 2:
        return not_applicable("one NUMA node")
    if silent:
        return failed(
            f"{len(silent)} of {len(functions)} GPUs and HCAs tell no NUMA node",
            expected=f"one of {nodes} nodes for each",
            details=tuple(silent),
        )
    return passed(f"{len(functions)} GPUs and HCAs on {nodes} nodes")


@check(
    "gpu.vfio_bound",
    impact=Impact.BROKEN,
    source="/sys/bus/pci/devices/*/driver; Documentation/driver-api/vfio.rst",
    fix="with the guest that has it shut down: driverctl unset-override ADDRESS; and drop "
    "vfio-pci.ids= from the kernel command line",
)
def vfio_bound(node: Node, want: Want) -> Finding:
    """No GPU or HCA that the node is to use itself is given to vfio-pci.

    On a host of guests that is what should be, and GPUDirect is the guest's affair. A node
    most of whose GPUs are given away is taken for such a host; one GPU among others is not.
    """
    functions: tuple[PciFunction, ...] = (*node.pci.gpus, *node.pci.adapters)
    if not node.drivers_told or not (functions or node.pci.whole):
        return unknown("what drives GPUs and HCAs was not printed", hint="lspci -k")
    given = [each.address for each in functions if each.driver == PASSED_THROUGH]
    if not node.drivers_told or not functions:
        return unknown("lspci shows no drivers here, or no GPU and HCA", hint="lspci -k")
    if not given:
        return passed(f"none of {len(functions)}")
    stray = lent_gpus(node) if want.role is None and role(node, want) is Role.BARE_METAL else ()
    if want.role is Role.BARE_METAL or stray:
        return failed(
            f"{len(given)} of {len(functions)} GPUs and HCAs are bound to vfio-pci",
            expected="the drivers of the node itself",
            hint='driverctl unset-override ADDRESS; where guests have them: role = "vm-host" in '
            "the site's file"
            if stray
            else "",
            details=tuple(given),
        )
    return not_applicable(f"{len(given)} GPUs and HCAs are for guests: {', '.join(given[:4])}")
