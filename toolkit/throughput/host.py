"""Host memory by one HCA: the wire and the HCA's own link; the links of GPUs are not on the way."""

from __future__ import annotations

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants
from toolkit.errors import read_or
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.throughput.estimate import Estimate, Layer, estimate
from toolkit.throughput.inputs import HcaWire, LinkTold, Load
from toolkit.throughput.model import Term, in_flight, least, line, wire
from toolkit.throughput.pair import link_term
from toolkit.throughput.ports import HcaKind, wire_of

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
