"""What the model is told of one GPU with one HCA; what is not known is a range, and said so."""

from __future__ import annotations

from msgspec import Struct

from toolkit.compat.throughput import CpuClass, Range
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.throughput.model import MANY, Layer2, Poster

NOT_TOLD = "whether GPUDirect can work was not read"


class LinkTold(Struct, frozen=True):
    """The narrowest link of one side of a path."""

    value: Link
    low: Link
    high: Link
    at: str  # address of its lower end; "" where not told

    @classmethod
    def known(cls, link: Link, at: str) -> LinkTold:
        return cls(link, link, link, at)

    @property
    def certain(self) -> bool:
        return self.low == self.high


class HcaWire(Struct, frozen=True):
    """The port of an HCA, or what its kind has at most."""

    gbits: Range
    layer: Layer2
    mtu: Range  # bytes of an RDMA packet
    poster: Poster = Poster.CORE
    datagrams: bool = False  # EFA: its own reliable protocol, whose latency is another
    guessed: bool = False  # neither port nor kind is known: any rate of any HCA

    @property
    def said(self) -> str:
        """ "400G RoCE, MTU 4096"."""
        name = {Layer2.ETHERNET: "RoCE", Layer2.INFINIBAND: "InfiniBand"}.get(self.layer, "link")
        top = f"{self.gbits.value:g}G"
        rate = f"{f'{self.gbits.low:g}G to {self.gbits.high:g}G' if self.guessed else top} {name}"
        unsure = self.gbits.low != self.gbits.high
        rate = f"{rate}, rate not read" if unsure else rate
        if self.layer is Layer2.INFINIBAND:
            return rate
        mtu = f"MTU {self.mtu.value:g}" if self.mtu.low == self.mtu.high else "MTU not read"
        return f"{rate}, {mtu}"


class PairInputs(Struct, frozen=True):
    """One GPU with one HCA, as far as the evidence tells."""

    gpu: str  # "0000:18:00.0" or "GPU0"
    hca: str  # "0000:19:00.0" or "mlx5_0"
    name: str  # "mlx5_0"; the address where no name is known
    distance: Distance
    gpu_link: LinkTold
    hca_link: LinkTold
    payload: Range  # Max_Payload_Size, bytes
    tags: Range  # read requests that the HCA may have on order
    request: Range  # Max_Read_Request_Size of the HCA, bytes
    wire: HcaWire
    cpu: CpuClass | None
    redirects: tuple[str, ...] | None  # "0000:17:00.0: ReqRedir"; None where not read
    translated: bool | None  # the IOMMU translates what the HCA sends; None where not told
    ats: bool | None = False  # the HCA translates for itself; None where not read
    uplink: str = ""  # the port under which both lie; "" for none
    blocked: str = ""  # what keeps GPUDirect from working; "" for nothing that was read
    notes: tuple[str, ...] = ()  # what was not read, and what was taken in its place
    best: bool = False  # no HCA is nearer to this GPU


class Load(Struct, frozen=True):
    """What is sent: a large message and a deep queue, as ib_write_bw has them."""

    size: int = 1 << 20  # bytes
    depth: int = 128  # messages in flight of one queue pair
    pairs: int = 1  # queue pairs

    @property
    def shallow(self) -> bool:
        """Too few in flight to hide a longer way."""
        return self.depth < MANY


LATENCY_SIZE = 8  # bytes of the message whose latency is told
