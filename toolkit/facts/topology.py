"""How far apart two PCI functions are.

The classes are those of ``nvidia-smi topo -m``. Source: NVIDIA/nccl src/graph/paths.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from toolkit.facts.pci import PciFunction, PciTree


class Distance(IntEnum):
    """Nearest first."""

    PIX = 1  # one PCIe switch
    PXB = 2  # several switches, not the root complex
    PHB = 3  # through the root complex
    NODE = 4  # between root complexes of one NUMA node
    SYS = 5  # between sockets


@dataclass(frozen=True, slots=True)
class Pair:
    """A GPU with an HCA, and what lies between them."""

    gpu: PciFunction
    hca: PciFunction
    distance: Distance
    bridges: tuple[PciFunction, ...]  # below the common bridge, on both sides; () beyond PXB


def pair(tree: PciTree, gpu: PciFunction, hca: PciFunction) -> Pair:
    common = 0
    for ours, theirs in zip(gpu.parents, hca.parents, strict=False):
        if ours != theirs:
            break
        common += 1
    shared = [up for up in gpu.parents[:common] if not up.startswith("pci")]
    if not shared:
        return Pair(gpu, hca, _beyond(gpu, hca, common), ())
    sides = (gpu.parents[common:], hca.parents[common:])
    between = tuple(tree.functions[up] for side in sides for up in side if up in tree.functions)
    # Below the common bridge a single switch leaves one downstream port on each side.
    near = all(len(side) <= 1 for side in sides)
    return Pair(gpu, hca, Distance.PIX if near else Distance.PXB, between)


def _beyond(gpu: PciFunction, hca: PciFunction, common: int) -> Distance:
    if common:
        return Distance.PHB
    return Distance.SYS if gpu.numa != hca.numa else Distance.NODE


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
    pairs = (pair(tree, gpu, hca) for gpu in tree.gpus for hca in hcas)
    return tuple(each for each in pairs if each.distance <= Distance.PXB)
