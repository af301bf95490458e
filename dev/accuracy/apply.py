"""The model's answer to one published measurement, by the functions that ``predict`` uses.

Nothing here knows a point: a row is told apart by its kind and its path alone.
"""

from __future__ import annotations

import re

from dev.accuracy.points import Point
from toolkit.compat.throughput import Constants, CpuClass, Range
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
    staged_messages,
    synchronous,
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


def path(point: Point, c: Constants) -> Range:
    """All ports together, and the links of the GPUs that share them; of host memory, the ports'."""
    ports = on_wire(point, c) * float(point.hcas)
    links = point.hcas if point.host else point.gpus
    return ports.at_most(by_link(point, c) * factor(point, c) * float(links))


def factor(point: Point, c: Constants) -> Range:
    """What the way through the processor leaves."""
    if point.host or point.path not in {"rc_same", "rc_cross"} or point.kind == "pcie_copy":
        return Range.exactly(1)
    cpu = next((each for each in c.cpus if _is(each, point.cpu)), None)
    if point.path == "rc_cross":
        crossing = c[cpu.cross if cpu else "cross-older"]
        return crossing.at_most(c[cpu.same_read]) if cpu and point.reads else crossing
    if cpu is None:
        return c["path-unknown-read" if point.reads else "path-unknown"]
    return c[cpu.same_read if point.reads else cpu.same]


def _is(cpu: CpuClass, told: str) -> bool:
    """By its id, or by its name as people write it: "intel-sapphire-rapids", "icelake"."""
    bare = told.removeprefix("amd-").removeprefix("intel-")
    plain = [re.sub("[ -]", "", each.lower()) for each in (bare, cpu.name)]
    return told == cpu.id or bool(bare and plain[0] in plain[1])


def healthy(point: Point, c: Constants) -> Range:
    """What a sound node with GPUDirect would do in the same test; bandwidths alone."""
    whole, size = path(point, c), point.size or _LARGE
    match point.kind:
        case "verbs_bw":
            depth = point.depth or 128
            found = in_flight(size, depth, point.pairs, whole, c, poster=point.poster)
        case "mpi_bw":
            found = mpi_messages(size, whole, c)
        case "coll" | "acs" | "staged" | "fallback":
            found = whole * _ring(point, c)
        case "pcie_copy" | "iommu":
            found = by_link(point, c) * c["copy-efficiency"]
        case _:
            found = whole
    return found * (2.0 if point.both_ways else 1.0)


def _ring(point: Point, c: Constants) -> Range:
    if "nccl" not in point.op:
        return Range.exactly(1)
    return c["ring-efficiency-many" if point.nodes > 2 else "ring-efficiency"]


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
            found = synchronous(point.size or _LARGE, c)
        case "staged", _:
            found = _staged(point, c)
    return found


def _staged(point: Point, c: Constants) -> Range:
    coherent = point.path == "c2c_staged"
    copy = _UNLIMITED if coherent else by_link(point, c) * c["copy-efficiency"]
    ports = on_wire(point, c) * float(point.hcas)
    share = c["staged-coherent" if coherent else "staged"]
    whole = ports.at_most(copy * float(point.gpus)) * share
    if not coherent and point.stream:
        whole = whole.at_most(c["staged-node"] * point.stream)
    return staged_messages(point.size or _LARGE, whole, c) if point.gpus == 1 else whole


def _latency(point: Point, c: Constants) -> Range:
    carried = on_wire(point, c)
    more = c["latency-srd"] if point.fabric == "efa" else Range.exactly(0)
    if point.kind == "verbs_lat":
        base = (c["latency-verbs-host"] if point.host else gpu_base(c)) + more
        return verbs_latency(point.size, by_link(point, c), carried, base)
    base = c["latency-mpi"] + more
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
    shared = point.hcas if point.host else point.gpus
    each = min((line(point.gbits) or 1e6) * point.hcas, links * shared)
    both = 2.0 if point.both_ways else 1.0
    return each * both * (1.0 if point.gdr else 1 / 3)
