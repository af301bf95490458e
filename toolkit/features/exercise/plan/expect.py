"""What a test should come to, as the model has it of both ends: the slower one decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.compat.throughput import constants
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Kind as DeviceKind
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.facts.rdma.exercise import End, Kind, Role, Test
from toolkit.features.predict.plan.of_node import read_node
from toolkit.throughput.estimate import Estimate, Layer, estimate, lasting
from toolkit.throughput.host import host_bandwidth, host_bound, sure_of
from toolkit.throughput.inputs import Load, PairInputs
from toolkit.throughput.model import verbs_latency
from toolkit.throughput.pair import predict_pair

_FETCHES = frozenset({(Role.DRIVE, "ib_write_bw"), (Role.DRIVE, "ucx_perftest")}) | {
    (Role.SERVE, "ib_read_bw")
}
_DEEP = 128  # what UCX has in flight of fragments, near enough


@dataclass(frozen=True, slots=True)
class Expected:
    """What is predicted, or why nothing is."""

    estimate: Estimate | None
    why: str = ""  # where there is none
    redirects: tuple[str, ...] = ()  # bridges between GPU and HCA that redirect, at either end
    translated: bool = False  # an IOMMU translates at either end


def expected(test: Test, nodes: Mapping[str, Node]) -> Expected:
    """What the slower end makes of it; nothing where an end's node was not read."""
    if test.kind is Kind.COLLECTIVE:
        return Expected(None, "between GPUs of one node through its own HCAs: nothing predicts it")
    found: list[Estimate] = []
    redirects: list[str] = []
    translated = False
    for role, end in test.ends:
        node = nodes.get(end.host)
        if node is None:
            return Expected(None, f"{end.host} was not read")
        one = _of_end(test, role, end, node)
        if one.estimate is None:
            return one
        found.append(one.estimate)
        redirects += [f"{end.host}: {each}" for each in one.redirects]
        translated = translated or one.translated
    latency = test.kind is Kind.LATENCY
    ranked = sorted(found, key=lambda each: each.value)
    return Expected(ranked[-1] if latency else ranked[0], "", tuple(redirects), translated)


def _of_end(test: Test, role: Role, end: End, node: Node) -> Expected:
    device = next((e for e in node.rdma_devices if e.name == end.hca), None)
    if device is None:
        return Expected(None, f"{end.hca} of {end.host} was not read")
    if device.kind is DeviceKind.SOFTWARE:
        return Expected(None, f"{end.hca} is software: its speed is the processor's")
    if end.buffer.gpu:
        return _of_gpu(test, role, end, node, device)
    return Expected(_of_host(test, node, device))


def _inputs(node: Node, hca: str, gpu: str = "") -> PairInputs | None:
    told = read_node(node, constants()).pairs
    ours = [each for each in told if each.name == hca and gpu in {"", each.gpu}]
    return min(ours, key=lambda each: each.distance, default=None)


def _of_gpu(test: Test, role: Role, end: End, node: Node, device: RdmaDevice) -> Expected:
    told = _inputs(node, device.name, end.gpu)
    if told is None:
        return Expected(None, f"{end.gpu} with {end.hca} of {end.host}: the way was not read")
    found = predict_pair(
        told, Load(test.size, _DEEP if test.tool == "ucx_perftest" else test.depth), constants()
    )
    if test.kind is Kind.LATENCY:
        picked = found.latency.verbs
    else:
        picked = found.read if (role, test.tool) in _FETCHES else found.with_gdr
    return Expected(picked, "", told.redirects or (), bool(told.translated))


def _of_host(test: Test, node: Node, device: RdmaDevice) -> Estimate:
    c = constants()
    notes: list[str] = []
    bound, width = host_bound(node, device, c, notes), c["width-physics"]
    if test.kind is not Kind.LATENCY:
        return host_bandwidth(bound, Load(test.size, test.depth), c, notes)
    time = verbs_latency(test.size, bound.span, bound.span, c["latency-verbs-host"])
    wide = time.wider(width.low, width.high)
    return lasting(estimate(wide, "the HCAs and the wire", Layer.VERBS, sure_of(notes), notes))
