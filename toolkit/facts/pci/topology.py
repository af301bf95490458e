"""How far apart two PCI functions are, and what lies between them.

The classes are those of ``nvidia-smi topo -m``; P2C and C2C are NCCL's names for what goes
through the CPU and over its NVLink-C2C. Source: NVIDIA/nccl src/graph/paths.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.gpus import chip
from toolkit.facts.pci.functions import NVIDIA, PciFunction, PciTree
from toolkit.facts.pci.pcie_caps import Link


class Distance(IntEnum):
    """Nearest first; UNKNOWN is last, so that whatever is known is preferred."""

    C2C = 1  # NVLink-C2C alone
    PIX = 2  # one PCIe switch
    PXB = 3  # several switches, not the root complex
    P2C = 4  # PCIe to the CPU, and NVLink-C2C from there to the GPU
    PHB = 5  # through the root complex
    NODE = 6  # between root complexes of one NUMA node
    SYS = 7  # between sockets
    APART = 8  # between root complexes; whether of one socket is not told
    UNKNOWN = 9  # the evidence does not tell

    @property
    def shown(self) -> str:
        return {Distance.UNKNOWN: "?", Distance.APART: "NODE or SYS"}.get(self, self.name)


class Hop(Struct, frozen=True):
    """One physical link."""

    lower: PciFunction
    upper: PciFunction

    @property
    def best(self) -> Link:
        """What both ends can; an end that does not say sets no bound."""
        ends = [each.best for each in (self.lower, self.upper)]
        speeds, widths = [e.speed for e in ends if e.speed], [e.width for e in ends if e.width]
        return Link(min(speeds, default=0.0), min(widths, default=0))

    @property
    def now(self) -> Link:
        """As trained. The link of an idle GPU is counted at full speed: it wakes with traffic."""
        now = self.lower.now
        if self.lower.is_gpu and now.width:
            return Link(max(now.speed, self.best.speed), now.width)
        return now


class Pair(Struct, frozen=True):
    """A GPU with an HCA, and what lies between them."""

    gpu: PciFunction
    hca: PciFunction
    distance: Distance
    bridges: tuple[PciFunction, ...]  # below the common bridge, on both sides; () beyond PXB
    hops: tuple[Hop, ...] = ()  # the links of the path, up to the root ports where it gets there
    pcie: Distance = Distance.UNKNOWN  # by PCIe alone, as nvidia-smi tells it
    why: str = ""  # what the distance rests on, where that is not the tree alone

    @property
    def limit(self) -> Hop | None:
        """The narrowest link of the path; None where no link tells its bandwidth."""
        told = [each for each in self.hops if each.now.gigabytes]
        return min(told, key=lambda each: each.now.gigabytes, default=None)


def pair(
    tree: PciTree, gpu: PciFunction, hca: PciFunction, ats: frozenset[str] = frozenset()
) -> Pair:
    common = 0
    for ours, theirs in zip(gpu.parents, hca.parents, strict=False):
        if ours != theirs:
            break
        common += 1
    shared = [up for up in gpu.parents[:common] if not up.startswith("pci")]
    sides = (gpu.parents[common:], hca.parents[common:])
    hops = tuple(
        hop
        for function, side in zip((gpu, hca), sides, strict=True)
        for hop in links([function, *_known(tree, reversed(side))])
    )
    if not shared:
        beyond = _beyond(gpu, hca, common)
        return _by_cpu(Pair(gpu, hca, beyond, (), hops, beyond), tree, ats)
    between = tuple(bridge for side in sides for bridge in _known(tree, side))
    # Below the common bridge a single switch leaves one downstream port on each side.
    near = Distance.PIX if all(len(side) <= 1 for side in sides) else Distance.PXB
    return Pair(gpu, hca, near, between, hops, near)


def links(path: list[PciFunction]) -> Iterator[Hop]:
    """The physical links of a path that leads upwards.

    It alternates link, switch, link: the two ports of one switch have no link between them.
    """
    for lower, upper in zip(path[::2], path[1::2], strict=False):
        yield Hop(lower, upper)


def _known(tree: PciTree, addresses: Iterator[str] | tuple[str, ...]) -> list[PciFunction]:
    return [tree.functions[up] for up in addresses if up in tree.functions]


def _beyond(gpu: PciFunction, hca: PciFunction, common: int) -> Distance:
    if not gpu.parents or not hca.parents:
        return Distance.UNKNOWN  # where they hang was not read
    if common:
        return Distance.PHB
    if gpu.numa < 0 or hca.numa < 0:
        return Distance.APART  # one socket or two: the firmware does not tell
    return Distance.SYS if gpu.numa != hca.numa else Distance.NODE


# Root ports of Grace and Vera: GPUs of a superchip hang below these, and on NVLink-C2C.
COHERENT_PORTS = frozenset({0x22B1, 0x22B2, 0x22B8, 0x2F95, 0x2F96})


def is_superchip(device: int) -> bool:
    """Whether GPUs of this id are sold with such a CPU alone: GH200, GB200, GB300."""
    row = chip(device)
    return row is not None and row.multi_node


def coherent(tree: PciTree, gpu: PciFunction, ats: frozenset[str] = frozenset()) -> bool | None:
    """Whether NVLink-C2C joins this GPU to its CPU; None where nothing decides it.

    A plain PCIe card may sit below a Grace root port too, so that the port proves nothing
    alone; nor does the id of a GPU that is sold in both forms, or is newer than our table.

    :param ats: addresses of GPUs that use the page tables of the CPU, says the driver.
    """
    above = tree.bridges_above(gpu)
    if not any(b.vendor == NVIDIA and b.device in COHERENT_PORTS for b in above):
        return False
    return True if is_superchip(gpu.device) or gpu.address in ats else None


def _by_cpu(found: Pair, tree: PciTree, ats: frozenset[str]) -> Pair:
    """The distance of a path through the CPU, where NVLink-C2C may be part of it."""
    if found.pcie not in {Distance.PHB, Distance.NODE, Distance.APART}:
        return found
    joined = coherent(tree, found.gpu, ats)
    if joined and found.pcie is not Distance.APART:
        why = f"GPU 10de:{found.gpu.device:04x} below a root port of its own CPU: NVLink-C2C"
        return replace(found, distance=Distance.P2C, why=why)
    if joined is not False:
        why = "below a Grace or Vera root port; whether NVLink-C2C is the way is not told"
        return replace(found, distance=Distance.UNKNOWN, why=why)
    return found


def all_pairs(
    tree: PciTree, hcas: tuple[PciFunction, ...], ats: frozenset[str] = frozenset()
) -> tuple[Pair, ...]:
    """Each GPU with each HCA."""
    return tuple(pair(tree, gpu, hca, ats) for gpu in tree.gpus for hca in hcas)


def best_pairs(tree: PciTree, hcas: tuple[PciFunction, ...]) -> tuple[Pair, ...]:
    """Each GPU with its nearest HCA; empty where there is no HCA."""
    if not hcas:
        return ()
    return tuple(
        min((pair(tree, gpu, hca) for hca in hcas), key=lambda each: each.distance)
        for gpu in tree.gpus
    )


def path_pairs(tree: PciTree, hcas: tuple[PciFunction, ...]) -> tuple[Pair, ...]:
    """Every pair behind a common switch: the paths on which peer traffic can stay local."""
    return tuple(each for each in all_pairs(tree, hcas) if each.distance <= Distance.PXB)
