"""The model's answer to one published measurement, by the functions that ``predict`` uses.

Nothing here knows a point: a row is told apart by its kind and its path alone.
"""

from __future__ import annotations

import re

from dev.accuracy.points import Point
from toolkit.compat.throughput import Constants, Range
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.model import (
    Layer2,
    gpu_base,
    in_flight,
    line,
    mpi_latency,
    mpi_messages,
    pcie,
    raw,
    staged_latency,
    verbs_latency,
    wire,
)

_LARGE = float(1 << 30)  # bytes, where a source does not tell its size
_UNLIMITED = Range.exactly(1e6)


def on_wire(point: Point, c: Constants) -> Range:
    """One port; Slingshot has no points of a second source and is taken for InfiniBand."""
    if not point.gbits:
        return _UNLIMITED
    layer = Layer2.ETHERNET if point.fabric == "roce" else Layer2.INFINIBAND
    return wire(Range.exactly(point.gbits), Range.exactly(point.mtu), layer, c)


def by_link(point: Point, c: Constants) -> Range:
    """Packets of 256 bytes are assumed throughout: no source tells them."""
    if point.link is None or point.path.startswith("c2c"):
        return _UNLIMITED
    return pcie(point.link, Range.exactly(c["payload-assumed"].value), c)


def factor(point: Point, c: Constants) -> Range:
    """What the way through the processor leaves."""
    by_cpu = {each.id: each for each in c.cpus}
    cpu = by_cpu.get(point.cpu)
    if point.host or point.path not in {"rc_same", "rc_cross"} or point.kind == "pcie_copy":
        return Range.exactly(1)
    if point.path == "rc_cross":
        return c[cpu.cross if cpu else "cross-older"]
    return c[cpu.same] if cpu else Range.exactly(1)


def _gpus(point: Point) -> float:
    """How many share the wire; by the words of the test."""
    return float((re.search(r"(\d+) GPU", point.op) or ["", "1"])[1])


def healthy(point: Point, c: Constants) -> Range:
    """What a sound node with GPUDirect would do in the same test; bandwidths alone."""
    path = on_wire(point, c).at_most(by_link(point, c) * factor(point, c))
    size, many = point.size or _LARGE, float(point.hcas)
    match point.kind:
        case "verbs_bw":
            found = in_flight(size, point.depth or 128, point.pairs, path, c)
        case "mpi_bw":
            found = mpi_messages(size, path, c)
        case "coll" | "acs" | "staged" | "fallback":
            ring = c["ring-efficiency"] if "nccl" in point.op else Range.exactly(1)
            found = path * many * ring
        case "gds":
            found = on_wire(point, c).at_most(by_link(point, c) * factor(point, c) * _gpus(point))
        case "pcie_copy" | "iommu":
            found = by_link(point, c) * c["copy-efficiency"]
        case _:
            found = path
    return found * (2.0 if point.both_ways else 1.0)


def predicted(point: Point, c: Constants) -> Range:
    """GB/s, or us of a latency."""
    if point.is_latency:
        return _latency(point, c)
    found = healthy(point, c)
    match point.kind, point.path:
        case "acs", _:
            found = found * c["acs-collective"]
        case "iommu", _:
            found = found * c["iommu-client"]
        case "fallback", "tcp":
            found = c["tcp"]
        case "fallback", _:
            found = c["staged-unpipelined"]
        case "staged", _:
            found = _staged(point, c)
    return found


def _staged(point: Point, c: Constants) -> Range:
    if point.path == "c2c_staged":
        return on_wire(point, c) * float(point.hcas) * c["staged-coherent"]
    copy = by_link(point, c) * c["copy-efficiency"]
    whole = on_wire(point, c).at_most(copy) * c["staged"] * float(point.hcas)
    return whole.at_most(c["staged-node"] * point.stream) if point.stream else whole


def _latency(point: Point, c: Constants) -> Range:
    carried = on_wire(point, c)
    if point.kind == "verbs_lat":
        base = c["latency-verbs-host"] if point.host else gpu_base(c)
        return verbs_latency(point.size, by_link(point, c), carried, base)
    base = c["latency-mpi"]
    if point.gdr:
        return mpi_latency(point.size, carried, base, c)
    adder = c["latency-mapped" if point.path == "staged_gdrcopy" else "latency-memcpy"]
    return staged_latency(point.size, carried, base, adder, c)


def naive(point: Point, c: Constants) -> float:
    """What one would say without a model: port rate or raw link, a third without GPUDirect."""
    links = raw(point.link or Link(0.0, 0), c) or 1e6
    if point.is_latency:
        base = 1.5 if point.gdr else 5.0
        return base + point.size / line(point.gbits) / 1e3
    each = min(line(point.gbits) or 1e6, links * _gpus(point))
    both = 2.0 if point.both_ways else 1.0
    return each * point.hcas * both * (1.0 if point.gdr else 1 / 3)
