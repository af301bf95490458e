"""The ports that a measurement went by, as far as the same paste tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from toolkit.compat.throughput import Constants, Range, constants
from toolkit.errors import read_or
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import NamedPair
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.throughput.inputs import HcaWire, Load
from toolkit.throughput.model import Layer2
from toolkit.throughput.pair import PairPrediction, predict_pair
from toolkit.throughput.ports import HcaKind, wire_of
from toolkit.throughput.reading import Gaps, know, read_pair

RATES = "ibstat (or ibv_devinfo -v) of that node, in the same paste"
_LAYERS = {"IB": Layer2.INFINIBAND, "Ethernet": Layer2.ETHERNET}


def with_rate(node: Node) -> tuple[RdmaDevice, ...]:
    """HCAs of which a port is up whose rate is told."""
    none: tuple[RdmaDevice, ...] = ()
    devices = read_or(lambda: node.rdma_hardware, none)
    return tuple(each for each in devices if any(port.gbits for port in each.ports))


def named(node: Node, name: str) -> RdmaDevice | None:
    """The HCA of a name, or any where none is named and all are equally fast; None else."""
    told = with_rate(node)
    if name:
        return next((each for each in told if each.name == name), None)
    rates = {max(port.gbits for port in each.ports) for each in told}
    return told[0] if len(rates) == 1 else None


def by_path(
    node: Node, pairs: Iterable[NamedPair], on: HcaWire, load: Load
) -> Iterator[tuple[NamedPair, PairPrediction]]:
    """What is predicted of each of some pairs over that wire, as if GPUDirect works."""
    c = constants()
    known = know(node, c, Gaps(path=""))
    for each in pairs:
        inputs = replace(read_pair(known, each, c, best=True), wire=on)
        yield each, predict_pair(inputs, load, c)


def pairs_told(node: Node) -> tuple[NamedPair, ...]:
    """GPUs with HCAs as far as a tree, a matrix or NCCL's file tells; none else."""
    none: tuple[NamedPair, ...] = ()
    return read_or(lambda: node.pairs.pairs, none)


def wire_told(
    node: Node, device: RdmaDevice, c: Constants, link: str = "", mtu: int = 0
) -> HcaWire:
    """Its wire.

    :param link: as perftest says it, "IB" or "Ethernet", and ``mtu`` in bytes: what a run used
        counts before what the port could.
    """
    found = wire_of(node, device, HcaKind(), c, [])
    if link in _LAYERS:
        found = replace(found, layer=_LAYERS[link])
    return replace(found, mtu=Range.exactly(mtu)) if mtu else found
