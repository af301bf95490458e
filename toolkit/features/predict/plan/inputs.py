"""What the model is told of one GPU with one HCA; what is not known is a range, and said so.

The wire of an HCA: its rate, its link layer, and the MTU that RDMA gets of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from toolkit.compat.throughput import Constants, CpuClass, Range
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.features.predict.plan.model import MANY, Layer2

NOT_TOLD = "whether GPUDirect can work was not read"


@dataclass(frozen=True, slots=True)
class LinkTold:
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


@dataclass(frozen=True, slots=True)
class HcaWire:
    """The port of an HCA, or what its kind has at most."""

    gbits: Range
    layer: Layer2
    mtu: Range  # bytes of an RDMA packet

    @property
    def said(self) -> str:
        """ "400G RoCE, MTU 4096"."""
        name = {Layer2.ETHERNET: "RoCE", Layer2.INFINIBAND: "InfiniBand"}.get(self.layer, "link")
        rate = f"{self.gbits.value:g}G {name}"
        unsure = self.gbits.low != self.gbits.high
        rate = f"{rate}, rate not read" if unsure else rate
        if self.layer is Layer2.INFINIBAND:
            return rate
        mtu = f"MTU {self.mtu.value:g}" if self.mtu.low == self.mtu.high else "MTU not read"
        return f"{rate}, {mtu}"


@dataclass(frozen=True, slots=True)
class PairInputs:
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


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: a large message and a deep queue, as ib_write_bw has them."""

    size: int = 1 << 20  # bytes
    depth: int = 128  # messages in flight of one queue pair
    pairs: int = 1  # queue pairs

    @property
    def shallow(self) -> bool:
        """Too few in flight to hide a longer way."""
        return self.depth < MANY


LATENCY_SIZE = 8  # bytes of the message whose latency is told


_RDMA_MTUS = (256, 512, 1024, 2048, 4096)
_HEADERS = 58  # of RoCE, with options: what an Ethernet frame must have room for beside an MTU
_ANY_MTU = Range(4096, 1024, 4096)
_ANY_RATE = Range(200, 25, 800)

T = TypeVar("T")
D = TypeVar("D")


def read_or(read: Callable[[], T], otherwise: D) -> T | D:
    """A prediction, a test or a picture may lack a part; only a verdict may not."""
    try:
        return read()
    except (NoEvidence, Unparsable):
        return otherwise


@dataclass(frozen=True, slots=True)
class HcaKind:
    """What is known of an HCA without its ports."""

    ids: tuple[int, int] = (0, 0)  # PCI vendor and device
    gbits: float = 0.0  # as NCCL was told of the port


def no_port_up(device: RdmaDevice) -> bool:
    """Whether all of its ports were read, and none is up."""
    return bool(device.ports) and all(each.state and not each.up for each in device.ports)


def wire_of(
    node: Node, device: RdmaDevice | None, kind: HcaKind, c: Constants, notes: list[str]
) -> HcaWire:
    """The fastest port that is up; else what such an HCA has at most."""
    ports = [each for each in device.ports if each.gbits] if device else []
    if kind.gbits and not ports:
        notes.append("link layer and MTU of the HCA not read")
        return HcaWire(Range.exactly(kind.gbits), _layer(device), _ANY_MTU)
    if device is None or not ports:
        what = device.name if device else "the HCA"
        down = device is not None and no_port_up(device)
        why = f"no port of {what} is up, so that it carries nothing now: told is"
        notes.append(f"{why if down else f'no port of {what} was read:'} its kind's rate at most")
        top = c.rates.get(kind.ids)
        return HcaWire(Range(top, top / 4, top) if top else _ANY_RATE, _layer(device), _ANY_MTU)
    port = max(ports, key=lambda each: each.gbits)
    return HcaWire(Range.exactly(port.gbits), _layer_of(port), _mtu(node, device, port, notes))


def _layer(device: RdmaDevice | None) -> Layer2:
    return (
        next((_layer_of(port) for port in device.ports), Layer2.UNKNOWN)
        if device
        else Layer2.UNKNOWN
    )


def _layer_of(port: Port) -> Layer2:
    return Layer2(port.link_layer) if port.link_layer in set(Layer2) else Layer2.UNKNOWN


def packet_of(mtu: int) -> int:
    """The RDMA packet that fits into a net device's MTU; 0 where none does."""
    return max((size for size in _RDMA_MTUS if size + _HEADERS <= mtu), default=0)


def _mtu(node: Node, device: RdmaDevice, port: Port, notes: list[str]) -> Range:
    """Bytes of an RDMA packet: as the port says, else by the MTU of its net device."""
    if port.active_mtu:
        return Range.exactly(port.active_mtu)
    seen = read_or(lambda: node.devinfo, None) or {}
    twin = seen.get(device.name)
    said = [each.active_mtu for each in twin.ports if each.number == port.number] if twin else []
    if any(said):
        return Range.exactly(max(said))
    if port.link_layer == Layer2.INFINIBAND:
        return _ANY_MTU  # its efficiency does not tell them apart
    devices = read_or(lambda: node.net_devices, None) or {}
    of_net = [devices[name].mtu for name in device.netdevs if name in devices]
    packet = packet_of(max(of_net, default=0))
    if packet:
        return Range.exactly(packet)
    notes.append(f"MTU of {device.name} not read")
    return _ANY_MTU
