"""What an NCCL_DEBUG=INFO log says, of any version from 2.4 to 2.30.

It is read by ``nccl_log_reader``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Direction(StrEnum):
    SEND = "send"  # the HCA reads GPU memory
    RECEIVE = "receive"  # the HCA writes it


@dataclass(frozen=True, slots=True)
class Edge:
    """One channel over the network, in one direction."""

    host: str  # who printed it; "" where the prefix is gone
    rank: int  # the rank on that host
    peer: int  # the rank at the other end; -1 for a collective network
    direction: Direction
    network: str  # "IB", "IBext", "AWS Libfabric", "SHARP"
    device: int  # index of the network device, as in NetDevice
    gdr: bool  # GPUDirect RDMA is used
    pci: bool = False  # by the PCIe mapping of a C2C platform
    proxy: int | None = None  # PXN: the rank whose GPU stands between
    collective: bool = False  # COLLNET: in-network reduction


@dataclass(frozen=True, slots=True)
class NetDevice:
    """One entry of "NET/IB : Using [0]mlx5_0:1/RoCE"."""

    host: str
    index: int
    name: str
    link: str  # "IB", "RoCE"


@dataclass(frozen=True, slots=True)
class HcaState:
    """ "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'": whether the HCA could at all."""

    host: str
    index: int
    name: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """ "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 5)"."""

    host: str
    gpu: str  # as printed: an index, a bus id, or a rank by version
    hca: str  # likewise
    enabled: bool
    distance: int | None = None  # a number of that NCCL version alone
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU of the job."""

    host: str
    rank: int
    bus_id: str  # "0000:1b:00.0"; "" where the version does not print it


@dataclass(frozen=True, slots=True)
class NcclLog:
    version: str = ""  # "2.27.3"; "" where no line tells, or they tell of several
    networks: tuple[str, ...] = ()  # "Using network IB", each once
    devices: tuple[NetDevice, ...] = ()
    hcas: tuple[HcaState, ...] = ()
    decisions: tuple[Decision, ...] = ()
    edges: tuple[Edge, ...] = ()
    ranks: tuple[Rank, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()  # NCCL_* "set by environment"
    dmabuf: bool = False  # "DMA-BUF is available on GPU device"
    troubles: tuple[str, ...] = ()  # lines that tell of a failing network, without prefix
    torn: int = 0  # lines that name a network channel and cannot be read
    intra: int = 0  # channels within a node
    versions: tuple[str, ...] = ()  # where they are several: jobs one after the other, in one file
    cuda: str = ""  # "12.4": the CUDA that it was built with; "" where no line tells
    speeds: tuple[tuple[str, int], ...] = ()  # Mb/s of each HCA by name: "NET/IB: [0] ... speed="
    failures: tuple[
        str, ...
    ] = ()  # of calls of CUDA, with where: "transport/nvls.cc:223: Cuda ..."
    # Each host's own part, by its name up to the first dot.
    parts: Mapping[str, NcclLog] = field(default_factory=dict, hash=False, repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that speak in it, in order of their first word."""
        return tuple(self.parts)

    def of(self, host: str) -> NcclLog | None:
        """What one host said of itself; None where it does not speak.

        What goes for the whole job may have been said by another, or without a prefix.

        :param host: a name, of which the part before the first dot counts, as in NCCL.
        """
        own = self.parts.get(host.partition(".")[0])
        if own is None:
            return None
        return replace(
            own,
            version=self.version,
            versions=self.versions,
            cuda=self.cuda,
            networks=own.networks or self.networks,
            settings=own.settings or self.settings,
        )


def network_edges(log: NcclLog) -> Iterator[Edge]:
    """The point-to-point channels: what GPUDirect RDMA is judged by."""
    return (edge for edge in log.edges if not edge.collective)
