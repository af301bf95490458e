"""GPU and HCA pairs by name, from whichever source tells of them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.facts.gpu.driver import GpuRow
from toolkit.facts.gpu.topo_matrix import Matrix
from toolkit.facts.nccl.nccl_xml import NcclTopology
from toolkit.facts.pci.topology import Distance, Pair


class PairSource(StrEnum):
    TREE = "PCI tree"
    LSPCI = "lspci"
    MATRIX = "nvidia-smi topo -m"
    NCCL = "NCCL topology"
    DRAWING = "lspci -t"


class NamedPair(Struct, frozen=True):
    """A GPU and an HCA as their source names them."""

    gpu: str  # "0000:18:00.0" or "GPU0"
    hca: str  # "0000:19:00.0" or "mlx5_0"
    distance: Distance
    source: PairSource
    path: Pair | None = None  # with the functions and links, where a PCI tree is the source


class Pairs(Struct, frozen=True):
    """What one source tells: it may know GPUs and no HCA, which is an answer too."""

    source: PairSource
    gpus: tuple[str, ...]
    hcas: tuple[str, ...]
    pairs: tuple[NamedPair, ...]
    whole: bool = True  # False: an excerpt, which may lack devices

    @property
    def told(self) -> bool:
        return any(each.distance is not Distance.UNKNOWN for each in self.pairs)


def tree_pairs(
    pairs: tuple[Pair, ...], gpus: tuple[str, ...], hcas: tuple[str, ...], source: PairSource
) -> Pairs:
    """The pairs of a PCI tree by address.

    :param gpus: all of them, for a node without HCA has no pair.
    :param hcas: all of them, for a node without GPU has none either.
    """
    named = tuple(
        NamedPair(each.gpu.address, each.hca.address, each.distance, source, each) for each in pairs
    )
    return Pairs(source, gpus, hcas, named)


def matrix_pairs(matrix: Matrix) -> Pairs:
    """As the driver prints them; the way through a CPU stays open where it may be NVLink-C2C."""

    def distance(gpu: str, nic: str) -> Distance:
        found = matrix.distance(gpu, nic)
        doubtful = found in {Distance.PHB, Distance.NODE} and matrix.perhaps_coherent
        return Distance.UNKNOWN if doubtful else found

    pairs = tuple(
        NamedPair(gpu, nic, distance(gpu, nic), PairSource.MATRIX)
        for gpu in matrix.gpus
        for nic in matrix.nics
    )
    return Pairs(PairSource.MATRIX, matrix.gpus, matrix.nics, pairs)


def nccl_pairs(topology: NcclTopology) -> Pairs:
    pairs = tuple(
        NamedPair(gpu.name, hca.name, topology.distance(gpu, hca), PairSource.NCCL)
        for gpu in topology.gpus
        for hca in topology.hcas
    )
    gpus, hcas = (tuple(e.name for e in each) for each in (topology.gpus, topology.hcas))
    return Pairs(PairSource.NCCL, gpus, hcas, pairs)


_CPU = (Distance.P2C, Distance.PHB, Distance.NODE, Distance.APART)


def same_class(one: Distance, other: Distance) -> bool:
    """Whether two sources mean the same, as far as their grids are comparable.

    NCCL has no NODE, and takes some chains of switches for one: what counts is whether a
    path stays below the root complex, goes through one CPU, or through two.
    """
    if Distance.UNKNOWN in {one, other}:
        return True
    if Distance.APART in {one, other}:  # NODE or SYS
        return min(one, other) >= Distance.NODE
    near = (one <= Distance.PXB, other <= Distance.PXB)
    cpu = (one in _CPU, other in _CPU)
    return near == (True, True) or cpu == (True, True) or one == other


def disagreements(
    pairs: tuple[Pair, ...], matrix: Matrix, rows: tuple[GpuRow, ...], names: dict[str, str]
) -> tuple[str, ...]:
    """Where nvidia-smi's matrix says otherwise than the PCI tree.

    :param rows: in the order of nvidia-smi's indices, with the addresses of its GPUs.
    :param names: RDMA names of the HCAs, by address.
    """
    labels = {row.address: f"GPU{index}" for index, row in enumerate(rows)}
    found = []
    for each in pairs:
        gpu, hca = labels.get(each.gpu.address, ""), names.get(each.hca.address, "")
        other = matrix.distance(gpu, hca)
        if not same_class(each.pcie, other):
            found.append(
                f"{gpu} to {hca}: {each.pcie.shown} by the PCI tree, {other.shown} by nvidia-smi"
            )
    return tuple(found)
