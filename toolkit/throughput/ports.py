"""The wire of an HCA: its rate, its link layer, and the MTU that RDMA gets of it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants, Range
from toolkit.errors import read_or
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.throughput.estimate import Estimate, Layer, estimate
from toolkit.throughput.inputs import HcaWire, LinkTold, Load
from toolkit.throughput.model import Layer2, Poster, Term, in_flight, least, line, wire
from toolkit.throughput.pair import link_term

_RDMA_MTUS = (256, 512, 1024, 2048, 4096)
_HEADERS = 58  # of RoCE, with options: what an Ethernet frame must have room for beside an MTU
_ANY_MTU = Range(4096, 1024, 4096)
_ANY_RATE = Range(200, 25, 800)  # no figure is shown of the value: see HcaWire.guessed
_AMAZON, _BROADCOM = 0x1D0F, 0x14E4
_UNKNOWN = f"{_ANY_RATE.low:g} to {_ANY_RATE.high:g} Gb/s, as HCAs of any kind have"


class HcaKind(Struct, frozen=True):
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
    found = _wire(node, device, kind, c, notes)
    guest = read_or(lambda: node.is_guest, otherwise=False)
    poster = Poster.GUEST if guest else Poster.CORE
    vendor = kind.ids[0]
    return replace(
        found,
        poster=Poster.BROADCOM if vendor == _BROADCOM else poster,
        datagrams=vendor == _AMAZON,
    )


def _wire(
    node: Node, device: RdmaDevice | None, kind: HcaKind, c: Constants, notes: list[str]
) -> HcaWire:
    ports = [each for each in device.ports if each.gbits] if device else []
    if kind.gbits and not ports:
        notes.append("link layer and MTU of the HCA not read")
        return HcaWire(Range.exactly(kind.gbits), _layer(device), _ANY_MTU)
    if device is None or not ports:
        what = device.name if device else "the HCA"
        down = device is not None and no_port_up(device)
        why = f"no port of {what} is up, so that it carries nothing now: told is"
        top = c.rates.get(kind.ids)
        told = "its kind's rate at most" if top else f"{_UNKNOWN}; --what-if rate=400 narrows it"
        notes.append(f"{why if down else f'no port of {what} was read:'} {told}")
        if not top:
            return HcaWire(_ANY_RATE, _layer(device), _ANY_MTU, guessed=True)
        return HcaWire(Range(top, top / 4, top), _layer(device), _ANY_MTU)
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


# Host memory by one HCA: the wire and the HCA's own link; the links of GPUs are not on the way.
_OWN_SHARE = 0.9  # of the bound: below, it is size and depth that limit


def host_bound(
    node: Node, device: RdmaDevice, c: Constants, notes: list[str], told: HcaWire | None = None
) -> Term:
    """The narrowest of what is on the way, before size and depth of messages.

    :param notes: what was not read is added.
    :param told: the wire, where a measurement tells more of it than the node.
    """
    function = read_or(lambda: node.pci.functions.get(device.address), None)
    kind = HcaKind((function.vendor, function.device)) if function is not None else HcaKind()
    on = told or wire_of(node, device, kind, c, notes)
    terms = [Term(wire(on.gbits, on.mtu, on.layer, c), f"wire ({on.said})", line(on.gbits.high))]
    if function is not None and function.now.gigabytes:
        link = LinkTold.known(function.now, device.address)
        terms.append(link_term(link, c["payload-assumed"], "HCA", c))
    else:
        notes.append(f"link of {device.name} not read")
    return least(terms)


def host_bandwidth(bound: Term, load: Load, c: Constants, notes: list[str]) -> Estimate:
    """What messages of a size, so many in flight, get of that bound."""
    span, width = in_flight(load.size, load.depth, load.pairs, bound.span, c), c["width-physics"]
    said = bound.said
    if span.value < bound.span.value * _OWN_SHARE:
        said = f"message size and depth ({load.size} B, {load.depth} in flight)"
    wide = span.wider(width.low, width.high).no_higher(bound.ceiling)
    return estimate(wide, said, Layer.VERBS, sure_of(notes), notes)


def sure_of(notes: list[str]) -> Confidence:
    """How sure a figure is beside what was not read."""
    return Confidence.MEDIUM if notes else Confidence.HIGH
