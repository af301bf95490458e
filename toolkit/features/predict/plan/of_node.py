"""What one node's GPUs and HCAs can do together, from its own evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants, Range, constants
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import Pairs
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.features.predict.plan.node_total import memory_bandwidth, ring, staged_node
from toolkit.features.predict.plan.usable import gpu_gap, path_gap
from toolkit.throughput.estimate import Estimate, Layer, estimate
from toolkit.throughput.inputs import Load, PairInputs
from toolkit.throughput.pair import PairPrediction, predict_pair
from toolkit.throughput.ports import no_port_up
from toolkit.throughput.reading import Gaps, attempt, know, read_pair


@dataclass(frozen=True, slots=True)
class NodeTotal:
    """All GPUs by all HCAs that serve them, both ways of going."""

    hcas: tuple[str, ...]  # those counted, by name
    gpus: int
    with_gdr: Estimate  # bus bandwidth of a collective between nodes, ring bound
    without_gdr: Estimate


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of one node: every GPU with every HCA, and all together."""

    pairs: tuple[PairPrediction, ...]
    total: NodeTotal | None  # None without a pair
    source: str  # "PCI tree", "nvidia-smi topo -m"; "" where nothing tells of pairs
    notes: tuple[str, ...] = ()  # what was not read, over all pairs

    @property
    def nearest(self) -> tuple[PairPrediction, ...]:
        return tuple(each for each in self.pairs if each.nearest)


@dataclass(frozen=True, slots=True)
class NodeInputs:
    """What the model is told of a node."""

    pairs: tuple[PairInputs, ...]
    serving: frozenset[str]  # HCAs that serve GPUs, by address or name
    memory: Range  # STREAM, GB/s of all sockets
    source: str
    notes: tuple[str, ...] = ()


def predict(node: Node, load: Load | None = None, c: Constants | None = None) -> Prediction:
    """Predict a node; never raises for what was not read: it widens and is listed."""
    used = c or constants()
    return predict_inputs(read_node(node, used), load or Load(), used)


def read_node(node: Node, c: Constants) -> NodeInputs:
    try:
        told = node.pairs
    except (NoEvidence, Unparsable) as why:
        return NodeInputs((), frozenset(), Range(0, 0, 0), "", (str(why),))
    known = know(node, c, Gaps(path_gap(node), partial(gpu_gap, node)))
    best = _nearest(told)
    pairs = tuple(
        read_pair(known, each, c, best=each.distance is best[each.gpu]) for each in told.pairs
    )
    memory, notes = memory_bandwidth(node, known.cpu, c)
    return NodeInputs(pairs, _serving(node, pairs), memory, told.source, notes)


def predict_inputs(told: NodeInputs, load: Load, c: Constants) -> Prediction:
    """The same from inputs, as they are or as somebody wishes them."""
    pairs = tuple(predict_pair(each, load, c) for each in told.pairs)
    notes = [note for each in told.pairs for note in each.notes]
    return Prediction(
        pairs,
        _total(told, pairs, c),
        told.source,
        tuple(dict.fromkeys((*notes, *told.notes))),
    )


def _nearest(told: Pairs) -> dict[str, Distance]:
    best: dict[str, Distance] = {}
    for each in told.pairs:
        best[each.gpu] = min(each.distance, best.get(each.gpu, each.distance))
    return best


def _serving(node: Node, pairs: tuple[PairInputs, ...]) -> frozenset[str]:
    """HCAs that jobs use: as their roles tell, else those that are nearest to a GPU."""
    try:
        found = {each.address for each in node.compute_hcas}
    except (NoEvidence, Unparsable):
        found = set()
    near = {each.hca for each in pairs if each.best}
    ours = near & found or near
    none: tuple[RdmaDevice, ...] = ()
    devices = attempt(lambda: node.rdma_hardware, none)
    dark = {key for each in devices if no_port_up(each) for key in (each.address, each.name)}
    return frozenset(ours - dark or ours)  # a ring goes where a port is up


def _total(told: NodeInputs, pairs: tuple[PairPrediction, ...], c: Constants) -> NodeTotal | None:
    if not pairs:
        return None
    chosen = [each for each in told.pairs if each.best and each.hca in told.serving]
    ours = chosen or list(told.pairs)
    names = tuple(dict.fromkeys(each.name for each in ours))
    keys = {(each.gpu, each.hca) for each in ours}
    made = [each for each in pairs if (each.gpu, each.hca) in keys]
    direct, bounce = ring(ours, made, c), staged_node(ours, made, told.memory, c)
    # Never above: save where GPUDirect is known to fail one way, and memory alone carries.
    bounce_span = bounce.span.at_most(direct.span) if direct.span.value else bounce.span
    notes = tuple(dict.fromkeys(note for each in ours for note in each.notes))
    sure = min((each.collective.confidence for each in made), key="LMH".index)
    return NodeTotal(
        names,
        len({each.gpu for each in told.pairs}),
        estimate(direct.span, direct.said, Layer.RING, sure, notes),
        estimate(bounce_span, bounce.said, Layer.RING, Confidence.LOW, (*notes, *told.notes)),
    )
