"""Exercise: tests held against the prediction; who is suspect where one falls short.

What a test should come to is what the model has of both ends: the slower one decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.compat.throughput import constants
from toolkit.errors import ExitCode, Unparsable, worst
from toolkit.facts.nccl.nccl_tests import parse_nccl_tests
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Kind as DeviceKind
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.facts.rdma.exercise import End, Kind, Measured, Role, Said, Test
from toolkit.facts.rdma.perftest import parse_perftest_run
from toolkit.facts.rdma.perftest_text import PerftestTrouble, Why, parse_perftest_trouble
from toolkit.facts.rdma.ucx import parse_ucx_perf
from toolkit.features.exercise.plan_proof import (
    Point,
    ProofState,
    by_line,
    by_machine,
    by_memory,
    by_nccl,
    by_ports,
    by_ucx,
)
from toolkit.features.predict.plan.totals import read_node
from toolkit.throughput.estimate import Estimate, Layer, Unit, estimate, lasting
from toolkit.throughput.inputs import Load, PairInputs
from toolkit.throughput.model import verbs_latency
from toolkit.throughput.pair import predict_pair
from toolkit.throughput.ports import host_bandwidth, host_bound, sure_of

_FETCHES = frozenset({(Role.DRIVE, "ib_write_bw"), (Role.DRIVE, "ucx_perftest")}) | {
    (Role.SERVE, "ib_read_bw")
}
_DEEP = 128  # what UCX has in flight of fragments, near enough


class ExpectedFigure(Struct, frozen=True):
    """What is predicted, or why nothing is."""

    estimate: Estimate | None
    why: str = ""  # where there is none
    redirects: tuple[str, ...] = ()  # bridges between GPU and HCA that redirect, at either end
    translated: bool = False  # an IOMMU translates at either end


def expected(test: Test, nodes: Mapping[str, Node]) -> ExpectedFigure:
    """What the slower end makes of it; nothing where an end's node was not read."""
    if test.kind is Kind.COLLECTIVE:
        return ExpectedFigure(
            None, "between GPUs of one node through its own HCAs: nothing predicts it"
        )
    found: list[Estimate] = []
    redirects: list[str] = []
    translated = False
    for role, end in test.ends:
        node = nodes.get(end.host)
        if node is None:
            return ExpectedFigure(None, f"{end.host} was not read")
        one = _of_end(test, role, end, node)
        if one.estimate is None:
            return one
        found.append(one.estimate)
        redirects += [f"{end.host}: {each}" for each in one.redirects]
        translated = translated or one.translated
    latency = test.kind is Kind.LATENCY
    ranked = sorted(found, key=lambda each: each.value)
    return ExpectedFigure(ranked[-1] if latency else ranked[0], "", tuple(redirects), translated)


def _of_end(test: Test, role: Role, end: End, node: Node) -> ExpectedFigure:
    device = next((e for e in node.rdma_devices if e.name == end.hca), None)
    if device is None:
        return ExpectedFigure(None, f"{end.hca} of {end.host} was not read")
    if device.kind is DeviceKind.SOFTWARE:
        return ExpectedFigure(None, f"{end.hca} is software: its speed is the processor's")
    if end.buffer.gpu:
        return _of_gpu(test, role, end, node, device)
    return ExpectedFigure(_of_host(test, node, device))


def _inputs(node: Node, hca: str, gpu: str = "") -> PairInputs | None:
    told = read_node(node, constants()).pairs
    ours = [each for each in told if each.name == hca and gpu in {"", each.gpu}]
    return min(ours, key=lambda each: each.distance, default=None)


def _of_gpu(test: Test, role: Role, end: End, node: Node, device: RdmaDevice) -> ExpectedFigure:
    told = _inputs(node, device.name, end.gpu)
    if told is None:
        return ExpectedFigure(None, f"{end.gpu} with {end.hca} of {end.host}: the way was not read")
    found = predict_pair(
        told, Load(test.size, _DEEP if test.tool == "ucx_perftest" else test.depth), constants()
    )
    if test.kind is Kind.LATENCY:
        picked = found.latency.verbs
    else:
        picked = found.read if (role, test.tool) in _FETCHES else found.with_gdr
    return ExpectedFigure(picked, "", told.redirects or (), bool(told.translated))


def _of_host(test: Test, node: Node, device: RdmaDevice) -> Estimate:
    c = constants()
    notes: list[str] = []
    bound, width = host_bound(node, device, c, notes), c["width-physics"]
    if test.kind is not Kind.LATENCY:
        return host_bandwidth(bound, Load(test.size, test.depth), c, notes)
    time = verbs_latency(test.size, bound.span, bound.span, c["latency-verbs-host"])
    wide = time.wider(width.low, width.high)
    return lasting(estimate(wide, "the HCAs and the wire", Layer.VERBS, sure_of(notes), notes))


THRESHOLD = 0.8  # docs/prediction.md: it parts published degraded cases from healthy ones
# One message in flight feels a longer path at once; low confidence, of few published pairs.
_SHALLOW_SHARE = 0.6
_BROKEN = frozenset({Why.PEERMEM, Why.DMABUF, Why.GPU_DMABUF, Why.COMPLETION})
# What a transfer ended with, by enum ibv_wc_status, where that points at somebody.
_OF_STATUS = {
    4: "ACS or a translating IOMMU: the HCA may not reach the memory (local protection error)",
    10: "ACS or a translating IOMMU at the other end (remote access error)",
    12: "cable, fabric or ACS: the other end did not acknowledge (retries exceeded)",
}


class Figure(Struct, frozen=True):
    """What a tool measured, and what it said of how."""

    value: float  # GB/s (10^9), or us
    moved: int = 0  # bytes, at least
    mtu: int = 0
    points: tuple[Point, ...] = ()


class JudgedTest(Struct, frozen=True):
    """One test, judged."""

    test: Test
    status: Status
    found: str  # in one line
    value: float | None = None
    unit: Unit = Unit.GBS
    expected: ExpectedFigure | None = None
    ratio: float | None = None  # of what is predicted; more is better, of latency too
    suspect: str = ""  # where it falls short
    points: tuple[Point, ...] = ()
    troubles: tuple[str, ...] = ()  # counters of trouble that grew


def judge(
    measured: Sequence[Measured],
    nodes: Mapping[str, Node],
    *,
    threshold: float = THRESHOLD,
    wanted: float | None = None,
) -> tuple[JudgedTest, ...]:
    """Judge each test, then those of one rail by one another.

    :param wanted: GB/s that deep tests are held to in place of the prediction.
    """
    alone = [_judge_one(each, nodes, threshold, wanted) for each in measured]
    return tuple(_beside(each, alone) for each in alone)


def exit_code(results: Sequence[JudgedTest]) -> ExitCode:
    """2 where a test falls short, 3 where one came to nothing, or nothing was tested."""
    codes = {Status.FAIL: ExitCode.FAILED, Status.UNKNOWN: ExitCode.UNKNOWN}
    if not results:
        return ExitCode.UNKNOWN
    return worst([codes.get(each.status, ExitCode.OK) for each in results])


def _judge_one(
    measured: Measured, nodes: Mapping[str, Node], threshold: float, wanted: float | None
) -> JudgedTest:
    test = measured.test
    role = Role.ALONE if test.serve is None else Role.DRIVE
    said = measured.said.get(role)
    unit = Unit.US if test.kind is Kind.LATENCY else Unit.GBS
    if said is None and Role.SERVE in measured.said:
        return _without(measured, measured.said[Role.SERVE], "the end that listens never did")
    if said is None:
        return JudgedTest(test, Status.UNKNOWN, "the evidence of the end that reports is not here")
    try:
        figure = _figure(measured, said)
    except Unparsable as why:
        return _without(measured, said, str(why))
    ended: tuple[Point, ...] = ()
    if said.trouble:
        words = f"{dict(test.ends)[role].host}: {said.trouble}"
        ended = (Point(ProofState.OPEN, words),)
    ports = (*by_machine(measured, nodes), *by_ports(measured, figure.moved, figure.mtu))
    above = by_line(test, figure.value, nodes) if unit is Unit.GBS else ()
    points = (*ended, *figure.points, *ports, *above)
    troubles = tuple(_troubles(measured))
    if not figure.value:
        few = f"{test.tool} says 0: too little was moved in the time, or its clock was not steady"
        return JudgedTest(test, Status.UNKNOWN, few, points=points, troubles=troubles)
    told = expected(test, nodes)
    goal = wanted if wanted is not None and test.kind is Kind.DEEP else None
    if goal is None and told.estimate is not None:
        goal = told.estimate.value
    ratio = _ratio(figure.value, goal, unit)
    result = JudgedTest(
        test, Status.NA, shown(figure.value, unit), figure.value, unit, told, ratio, "", points,
        troubles,
    )  # fmt: skip
    weighed = _weighed(result, threshold)
    if ended and weighed.status is Status.PASS:
        # Nobody knows what else went wrong with a tool that did not end well.
        return replace(weighed, status=Status.UNKNOWN)
    return weighed


def _weighed(result: JudgedTest, threshold: float) -> JudgedTest:
    refuted = [each.words for each in result.points if each.proof is ProofState.REFUTED]
    if refuted:
        return replace(result, status=Status.FAIL, suspect=f"a silent fallback: {refuted[0]}")
    if result.test.kind is Kind.COLLECTIVE:
        proven = any(each.proof is ProofState.SHOWN for each in result.points)
        return replace(result, status=Status.PASS if proven else Status.UNKNOWN)
    if result.ratio is None:
        # Where nothing predicts a bandwidth nobody knows whether it is good; of latency likewise.
        return replace(result, status=Status.UNKNOWN)
    if result.ratio >= threshold:
        return replace(result, status=Status.PASS)
    return replace(result, status=Status.FAIL, suspect=_suspect(result))


def _ratio(value: float, goal: float | None, unit: Unit) -> float | None:
    if not goal:
        return None
    return goal / value if unit is Unit.US else value / goal


def _suspect(result: JudgedTest) -> str:
    if result.troubles:
        return f"the wire: {result.troubles[0]}"
    told = result.expected
    if told and result.test.gpu and told.redirects:
        return f"ACS redirect: {told.redirects[0]}"
    if told and told.translated:
        return "an IOMMU that translates"
    return ""


def _beside(result: JudgedTest, others: Sequence[JudgedTest]) -> JudgedTest:
    """The same beside the test of host memory on that rail, which tells the wire from the GPU."""
    if not result.test.gpu or result.value is None or result.test.serve is None:
        return result
    twin = next((each for each in others if _twins(each.test, result.test)), None)
    if twin is None or not twin.value or result.unit is Unit.US:
        return result
    share, beside = result.value / twin.value, shown(twin.value, twin.unit)
    if result.status is Status.FAIL and not result.suspect:
        low = twin.status is Status.FAIL
        way = "the wire or the HCA: host memory is as slow" if low else ""
        between = "the way between GPU and HCA"
        way = way or f"{between}: host memory reaches {beside} on the same ports"
        return replace(result, suspect=way)
    shallow = result.test.kind is Kind.SHALLOW
    if shallow and result.status is Status.PASS and share < _SHALLOW_SHARE:
        why = (
            f"the way between GPU and HCA: with one message in flight host memory reaches {beside}"
        )
        return replace(result, status=Status.FAIL, suspect=f"{why}; ACS redirect does that")
    return result


def _twins(one: Test, other: Test) -> bool:
    """Whether the first is the second with host memory."""
    if one.gpu or one.serve is None or other.serve is None:
        return False
    same = [(end.host, end.hca) for _, end in one.ends] == [
        (end.host, end.hca) for _, end in other.ends
    ]
    tool = "ib_write_bw" if other.kind is not Kind.LATENCY else other.tool
    return same and one.kind is other.kind and one.tool == tool


def _figure(measured: Measured, said: Said) -> Figure:
    """:raises Unparsable: the tool came to no result."""
    test = measured.test
    if test.tool == "ucx_perftest":
        ucx = parse_ucx_perf(said.text)
        moved = test.size * ucx.iterations
        return Figure(ucx.bandwidth, moved, 0, tuple(by_ucx(ucx.lanes, test)))
    if test.kind is Kind.COLLECTIVE:
        ran = parse_nccl_tests(said.text)
        points = tuple(by_nccl(said.text))
        if not ran.right:
            points = (Point(ProofState.REFUTED, "values that arrived were wrong"), *points)
        return Figure(ran.largest.bus, 0, 0, points)
    run = parse_perftest_run(said.text)
    seen = tuple(by_memory(measured))
    if run.latencies:
        row = run.latencies[-1]
        return Figure(row.typical or row.average, row.size * row.iterations, run.mtu, seen)
    best = run.bandwidths[-1]
    return Figure(best.average, best.size * best.iterations, run.mtu, seen)


def _without(measured: Measured, said: Said, why: str) -> JudgedTest:
    """No result: what either end said of it; the end that listens may know the cause."""
    test = measured.test
    if said.trouble and not said.text.strip():
        return JudgedTest(test, Status.UNKNOWN, said.trouble)
    if test.tool in {"ucx_perftest", "all_reduce_perf"}:
        return JudgedTest(test, Status.UNKNOWN, why)
    trouble = parse_perftest_trouble(said.text)
    where = test.drive.host
    other = measured.said.get(Role.SERVE)
    if other is not None and test.serve is not None and _follows(trouble):
        cause = parse_perftest_trouble(other.text)
        if not _follows(cause):
            trouble, where = cause, test.serve.host
    if said.trouble.endswith("abandoned"):
        return JudgedTest(test, Status.UNKNOWN, said.trouble)
    broken = trouble.why in _BROKEN
    suspect = _OF_STATUS.get(trouble.completion, "") or (trouble.why.value if broken else "")
    status = Status.FAIL if broken else Status.UNKNOWN
    return JudgedTest(test, status, f"{where}: {trouble}", suspect=suspect)


def _follows(trouble: PerftestTrouble) -> bool:
    """Whether that may be but the other end's failure."""
    return trouble.why in {Why.OTHER, Why.CONNECT, Why.LOST, Why.QUEUE_PAIR}


def _troubles(measured: Measured) -> list[str]:
    return [
        f"{name} grew by {count} on {end.host} {end.hca}"
        for role, end in measured.test.ends
        for port in (measured.said[role].ports if role in measured.said else ())
        if (port.device, port.port) == (end.hca, end.port)
        for name, count in port.troubles
    ]


def shown(value: float, unit: Unit) -> str:
    """ "48.3 GB/s"; small figures with three digits."""
    return f"{value:.3g} {unit}" if value < 10 else f"{value:.1f} {unit}"
