"""Does a collective move what the ports of its nodes, or NVLink within one, carry?"""

from __future__ import annotations

from msgspec import Struct

from toolkit.checks.check import Finding, failed, passed, unknown
from toolkit.checks.traffic.ports import RATES, by_path, pairs_told, wire_told, with_rate
from toolkit.checks.traffic.verdict import Goal, together, weigh
from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Range, constants
from toolkit.errors import read_or
from toolkit.facts.gpu.topo_matrix import Matrix
from toolkit.facts.nccl.nccl_tests import CollectiveRun
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.estimate import Layer, estimate
from toolkit.throughput.inputs import HcaWire, Load
from toolkit.throughput.model import Layer2, pcie, wire
from toolkit.throughput.pair import COHERENT, NEAR

_COUNT = "nvidia-smi topo -m, or the log of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET, beside it"
_SHORT = "see nccl.log, acs.redirect and pcie.distance; all of them with NCCL_DEBUG=INFO"
_WIDER = "larger messages: -b 256M -e 8G -f 2"
_RING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
_TWO = 2
_RISES = 1.1  # from one size to the next: then larger messages would get more
_NVLINK = 20.0  # GB/s of one link, one way, in its first generation
_FASTEST = Link(32.0, 16)  # PCIe that GPUs without NVLink have at best, below FLITs
_SLOWEST = Link(8.0, 16)
_ANY_MTU = Range(4096, 1024, 4096)


class _Ports(Struct, frozen=True):
    """Those of one node that carry a collective."""

    wire: HcaWire  # of one
    count: int
    sure: bool  # whether that many serve GPUs
    source: str


def judge(node: Node) -> Finding:
    """The check traffic.collective, where a measurement was given."""
    findings = [_of(node, each) for each in node.collective_runs]
    return together(findings)


def _of(node: Node, run: CollectiveRun) -> Finding:
    if not run.right:
        return failed(
            "values that arrived were wrong",
            expected="#wrong 0 at every size",
            hint="drain the node: see gpu.ecc, gpu.xid and rdma.port_errors",
        )
    value = run.largest.best
    shown = f"{value:.1f} GB/s bus bandwidth at {_size(run.largest.size)}"
    if run.below_own:
        return failed(
            f"{shown}; over all sizes {run.average:g}, marked FAILED",
            expected="nine tenths of NCCL_TESTS_MIN_BW, which the run was given",
            hint=_SHORT,
        )
    if not run.nodes:
        return unknown(
            f"{shown}; on how many nodes is not told", hint="the whole output, with its ranks"
        )
    shown = f"{shown}, {len(run.gpus)} GPUs on {run.nodes} " + (
        "nodes" if run.nodes > 1 else "node"
    )
    return _between(node, run, shown) if run.nodes > 1 else _within(node, run, shown)


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} bytes"


def _rises(run: CollectiveRun) -> bool:
    """Whether a larger message would still get more, as far as its sizes tell."""
    rows = sorted(run.rows, key=lambda each: each.size)
    before = [each for each in rows if each.size < rows[-1].size]
    return not before or rows[-1].best > _RISES * before[-1].best


def _between(node: Node, run: CollectiveRun, shown: str) -> Finding:
    ports = _ports(node)
    if ports is None:
        return unknown(f"{shown}; the rates of its ports are not told", hint=RATES)
    gpus = max(1, len(run.gpus) // run.nodes)
    ring = run.test in _RING or run.largest.redop not in {"", "none"}
    carried = _carried(node, ports, gpus, run.nodes)
    # Of all to all each GPU has but its own part of the ports; a test that is not told may be so.
    most = carried.all if ring or not run.test else carried.all * (1 / gpus)
    least = carried.sure if ring else carried.sure * (1 / gpus)
    said = f"{min(ports.count, gpus)} of {ports.wire.said} ({ports.source})"
    sure = Confidence.MEDIUM if ports.sure else Confidence.LOW
    rises = _rises(run)
    goal = Goal(
        None if rises else estimate(least, said, Layer.RING, sure),
        estimate(most, said, Layer.RING, sure),
        asks=_WIDER if rises else "" if ports.sure else _COUNT,
    )
    return weigh(run.largest.best, shown, goal, short=_SHORT)


class _Carried(Struct, frozen=True):
    """GB/s of the ports of one node together."""

    all: Range  # those that seem to serve GPUs
    sure: Range  # those that surely do


def _carried(node: Node, ports: _Ports, gpus: int, nodes: int) -> _Carried:
    c = constants()
    count = min(ports.count, gpus)
    share = c["ring-efficiency" if nodes == _TWO else "ring-efficiency-many"]
    ways = _by_path(node, ports.wire)[:count]
    if len(ways) == count:
        together = Range.together(ways) * (share.value / c["ring-efficiency"].value)
        return _Carried(together, together)
    one = wire(ports.wire.gbits, ports.wire.mtu, ports.wire.layer, c) * share
    slow = pcie(_SLOWEST, c["payload-assumed"], c)  # where the links of GPUs are not told
    floor = Range(one.value, min(one.low, slow.low), one.high)
    return _Carried(one * count, floor * (count if ports.sure else 1))


def _by_path(node: Node, on: HcaWire) -> list[Range]:
    """What a ring gets of each HCA near a GPU, by the path between them; none where not told."""
    near = [each for each in pairs_told(node) if each.distance in NEAR | COHERENT]
    best: dict[str, Range] = {}
    for each, found in by_path(node, near, on, Load()):
        ring = found.collective
        span = Range(ring.value, ring.low, ring.high)
        best[each.hca] = max(best.get(each.hca, span), span, key=lambda one: one.value)
    return list(best.values())


def _ports(node: Node) -> _Ports | None:
    """From NCCL's own log, else from lists of the node's ports; None where nothing tells."""
    log = read_or(lambda: node.nccl_log, None)
    if log is not None and log.speeds:
        rates = [speed / 1000 for _, speed in log.speeds]
        count = len([each for each in rates if each == max(rates)])
        told = HcaWire(Range.exactly(max(rates)), Layer2.UNKNOWN, _ANY_MTU)
        return _Ports(told, count, sure=True, source="as NCCL says")
    devices = with_rate(node)
    if not devices:
        return _of_topology(node)
    best = max(port.gbits for each in devices for port in each.ports)
    fast = [each for each in devices if any(port.gbits == best for port in each.ports)]
    serving = {each.hca for each in pairs_told(node) if each.distance in NEAR | COHERENT} & {
        key for each in fast for key in (each.name, each.address)
    }
    told = wire_told(node, fast[0], constants())
    return _Ports(told, len(serving) or len(fast), bool(serving), "its ports that are up")


def _of_topology(node: Node) -> _Ports | None:
    """From the topology that NCCL dumped."""
    told = read_or(lambda: node.nccl_topology, None)
    rates = [each.gbits for each in told.hcas if each.gbits] if told is not None else []
    if not rates:
        return None
    count = len([each for each in rates if each == max(rates)])
    found = HcaWire(Range.exactly(max(rates)), Layer2.UNKNOWN, _ANY_MTU)
    return _Ports(found, count, sure=True, source="NCCL's topology")


def _within(node: Node, run: CollectiveRun, shown: str) -> Finding:
    links = _nvlink(node)
    if links is None:
        return unknown(
            f"{shown}; whether they have NVLink is not told",
            hint="nvidia-smi topo -m (or nvidia-smi nvlink -s) of that node, in the same paste",
        )
    if not links:
        return unknown(
            f"{shown}; without NVLink, and nothing predicts what PCIe carries between GPUs",
            hint="compare it with another node of the kind",
        )
    c = constants()
    value, raw = run.largest.best, links * _NVLINK
    bus = pcie(_FASTEST, c["payload-assumed"], c).high
    if value > bus and value >= raw / 2:
        return passed(f"{shown}: more than PCIe carries, so that it went by NVLink ({links} links)")
    if value <= bus and raw > 2 * bus and not _rises(run):
        return failed(
            f"{shown}: no more than PCIe carries ({bus:.0f} GB/s)",
            expected=f"NVLink, of which each GPU has {links}: {raw:.0f} GB/s at the least",
            hint="see nvlink.links and nvidia.fabricmanager; NCCL_P2P_DISABLE must not be set",
        )
    return unknown(f"{shown}, by GPUs with {links} NVLinks", hint=_WIDER)


def _nvlink(node: Node) -> int | None:
    """How many links the GPU with fewest has; None where nothing tells."""
    none: tuple[int, ...] = ()
    told = (
        read_or(lambda: tuple(len(each.active) for each in node.nvlinks), none)
        if node.has_nvlinks
        else ()
    )
    if told:
        return min(told)
    matrix: Matrix | None = read_or(lambda: node.matrix, None)
    if matrix is None or len(matrix.gpus) < 2:
        return None
    return min(
        sum(_links(matrix, one, other) for other in matrix.gpus if other != one)
        if not _switched(matrix)
        else _links(matrix, one, next(each for each in matrix.gpus if each != one))
        for one in matrix.gpus
    )


def _links(matrix: Matrix, one: str, other: str) -> int:
    cell = matrix.cells.get((one, other), "")
    return int(cell[2:]) if cell[:2] == "NV" else 0


def _switched(matrix: Matrix) -> bool:
    """Behind NVSwitches every pair shows all the links of a GPU, not links of its own."""
    cells = {_links(matrix, a, b) for a in matrix.gpus for b in matrix.gpus if a != b}
    return len(cells) == 1
