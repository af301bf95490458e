"""All GPUs and HCAs of a node together, and what GPUDirect is worth to a cluster of such nodes.

Of a node the ring bound, and what host memory leaves without GPUDirect; of a cluster the
all-reduce of one training step, and of a run.
"""

from __future__ import annotations

import re
from functools import partial

from msgspec import Struct

from toolkit.checks.check import Status
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.checks.gpu.gpu import gpu_class
from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants, CpuClass, Range, constants
from toolkit.errors import NoEvidence, Unparsable, UsageError, read_or
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import Pairs
from toolkit.facts.pci.topology import Distance
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.plural import counted, figure
from toolkit.throughput.estimate import Estimate, Layer, estimate, left_open
from toolkit.throughput.inputs import Load, PairInputs
from toolkit.throughput.model import Term, least
from toolkit.throughput.pair import COHERENT, PairPrediction, link_term, predict_pair
from toolkit.throughput.ports import no_port_up
from toolkit.throughput.reading import Gaps, know, read_pair
from toolkit.want import Want

_ANY_MEMORY = Range(300, 100, 1000)  # GB/s of STREAM, where nothing tells


def ring(told: list[PairInputs], made: list[PairPrediction], c: Constants) -> Term:
    """Every HCA carries what its best pair does; all GPUs' links together bound them.

    Reduction within switches exceeds it: two nodes then look impossibly fast, and are not.
    """
    best: dict[str, PairPrediction] = {}
    for each in made:
        known = best.get(each.hca)
        if known is None or each.collective.value > known.collective.value:
            best[each.hca] = each
    worst = min(best.values(), key=lambda each: each.collective.value)
    words = f"{worst.collective.limit}, on {counted(len(best), 'HCA')}"
    spans = [_span(each.collective) for each in best.values()]
    # Where shares are equal, as NCCL deals them out, the slowest holds up all.
    whole, slowest = Range.together(spans), min(each.low for each in spans)
    held_up = Range(whole.value, min(whole.low, slowest * len(spans)), whole.high)
    terms = [Term(held_up, words)]
    cards = {
        each.hca.rpartition(".")[0] or each.hca: link_term(
            each.hca_link, each.payload, "HCA", c
        ).span
        for each in told
    }
    if len(cards) < len(best):
        share = Range.together(cards.values()) * c["ring-efficiency"]
        terms.append(Term(share, f"PCIe of {counted(len(cards), 'card')} with several HCAs"))
    if not any(each.distance in COHERENT for each in told):
        own = {each.gpu: link_term(each.gpu_link, each.payload, "GPU", c).span for each in told}
        terms.append(Term(Range.together(own.values()), f"PCIe of {counted(len(own), 'GPU')}"))
    return least(terms)


def _span(found: Estimate) -> Range:
    return Range(found.value, found.low, found.high)


def staged_node(
    told: list[PairInputs], made: list[PairPrediction], memory: Range, c: Constants
) -> Term:
    """Without GPUDirect: the pairs, the uplinks that copies share, and host memory."""
    best: dict[str, float] = {}
    spans: dict[str, Range] = {}
    for each in made:
        if each.without_gdr.value > best.get(each.hca, -1.0):
            best[each.hca] = each.without_gdr.value
            spans[each.hca] = _span(each.without_gdr)
    pairs = Range.together(spans.values())
    words = f"bounce through host memory on {counted(len(spans), 'HCA')}"
    terms = [Term(pairs, words)]
    if memory.value:
        share = memory * c["staged-node"]
        terms.append(Term(share, f"host memory (STREAM {memory.value:.0f} GB/s, four crossings)"))
    shared = _uplinks(told, c)
    if shared is not None:
        terms.append(shared)
    return least(terms)


def _uplinks(told: list[PairInputs], c: Constants) -> Term | None:
    """Where GPU and HCA share an uplink, both directions of the copy cross it: half each."""
    if not all(each.uplink for each in told):
        return None
    widest: dict[str, Range] = {}
    for each in told:
        copy = link_term(each.gpu_link, each.payload, "GPU", c).span * c["copy-efficiency"] * 0.5
        known = widest.get(each.uplink)
        if known is None or copy.value > known.value:
            widest[each.uplink] = copy
    total = Range.together(widest.values())
    return Term(total, f"{counted(len(widest), 'uplink')}, each crossed twice")


def memory_bandwidth(
    node: Node, cpu: CpuClass | None, c: Constants
) -> tuple[Range, tuple[str, ...]]:
    """STREAM of all sockets together, by the channels that the processors have."""
    sockets = read_or(lambda: node.setup.sockets, 0)
    if cpu is None or not cpu.memory:
        return _ANY_MEMORY, ("bandwidth of host memory not known: processor not in the table",)
    whole = c["stream-share"] * cpu.memory
    if sockets:
        note = f"host memory: all channels of {cpu.name} filled"
        # Half of the slots filled is common.
        return (whole * sockets).wider(0.5, 1.0), (note,)
    return Range(whole.value * 2, whole.low / 2, whole.high * 2), ("number of sockets not read",)


class NodeTotal(Struct, frozen=True):
    """All GPUs by all HCAs that serve them, both ways of going."""

    hcas: tuple[str, ...]  # those counted, by name
    gpus: int
    with_gdr: Estimate  # bus bandwidth of a collective between nodes, ring bound
    without_gdr: Estimate


class Prediction(Struct, frozen=True):
    """Of one node: every GPU with every HCA, and all together."""

    pairs: tuple[PairPrediction, ...]
    total: NodeTotal | None  # None without a pair
    source: str  # "PCI tree", "nvidia-smi topo -m"; "" where nothing tells of pairs
    notes: tuple[str, ...] = ()  # what was not read, over all pairs

    @property
    def nearest(self) -> tuple[PairPrediction, ...]:
        return tuple(each for each in self.pairs if each.nearest)


class NodeInputs(Struct, frozen=True):
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
    # HCAs that jobs use: as their roles tell, else those that are nearest to a GPU.
    found = read_or(lambda: {each.address for each in node.compute_hcas}, set())
    near = {each.hca for each in pairs if each.best}
    ours = near & found or near
    none: tuple[RdmaDevice, ...] = ()
    devices = read_or(lambda: node.rdma_hardware, none)
    # A ring goes where a port is up.
    dark = {key for each in devices if no_port_up(each) for key in (each.address, each.name)}
    return NodeInputs(pairs, frozenset(ours - dark or ours), memory, told.source, notes)


def path_gap(node: Node) -> str | None:
    """Why neither path is usable; "" where one is, None where it was not read."""
    peermem = read_or(lambda: peermem_gap(node), None)
    if peermem == "":
        return ""
    dmabuf = read_or(lambda: dmabuf_gap(node, Want()), None)
    if dmabuf == "":
        return ""
    if peermem is None or dmabuf is None:
        return None
    return f"peermem: {peermem}; dma-buf: {dmabuf}"


def gpu_gap(node: Node, address: str) -> str:
    """What the kind of a GPU says against it; "" where nothing does, or nothing tells."""
    try:
        finding = gpu_class.judge(node, Want())
    except (NoEvidence, Unparsable):
        return ""
    if finding.status is not Status.FAIL:
        return ""
    named = [each for each in finding.details if address in each]
    return finding.found if named or not finding.details else ""


def predict_inputs(told: NodeInputs, load: Load, c: Constants) -> Prediction:
    """The same from inputs, as they are or as somebody wishes them."""
    pairs = tuple(predict_pair(each, load, c) for each in told.pairs)
    notes = [note for each in told.pairs for note in each.notes]
    return Prediction(
        pairs, _total(told, pairs, c), told.source, tuple(dict.fromkeys((*notes, *told.notes)))
    )


def _nearest(told: Pairs) -> dict[str, Distance]:
    best: dict[str, Distance] = {}
    for each in told.pairs:
        best[each.gpu] = min(each.distance, best.get(each.gpu, each.distance))
    return best


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
    both = (
        estimate(direct.span, direct.said, Layer.RING, sure, notes),
        estimate(bounce_span, bounce.said, Layer.RING, Confidence.LOW, (*notes, *told.notes)),
    )
    if any(each.wire.guessed for each in ours):
        both = left_open(both[0]), left_open(both[1])
    return NodeTotal(names, len({each.gpu for each in told.pairs}), *both)


_BYTES = 2  # of one gradient, bf16
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_FEW = 2  # nodes up to which the ring's efficiency is that of the points


class TrainingJob(Struct, frozen=True):
    """A training run, as far as its all-reduce goes."""

    nodes: int
    parameters: float
    steps: int

    @property
    def bytes(self) -> float:
        return self.parameters * _BYTES


class Return(Struct, frozen=True):
    """Seconds of all-reduce in a step and hours in a run; with and without GPUDirect."""

    job: TrainingJob
    slowest: str  # the node that bounds the ring with GPUDirect
    with_gdr: Range  # seconds a step
    without_gdr: Range
    assumptions: tuple[str, ...]
    open: bool = False  # the rate of an HCA is not known: no time of the interval is likelier

    @property
    def hours(self) -> tuple[Range, Range]:
        """Of a whole run: with, and without."""
        both = [each * (self.job.steps / 3600) for each in (self.with_gdr, self.without_gdr)]
        return both[0], both[1]

    @property
    def saved(self) -> Range:
        """Hours that a run is shorter with GPUDirect, at most: see the assumptions."""
        fast, slow = self.hours
        return Range(slow.value - fast.value, max(0.0, slow.low - fast.high), slow.high - fast.low)


def model_size(parameters: float) -> str:
    """ "70B": as models are called."""
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if parameters >= scale:
            return f"{figure(parameters / scale)}{letter}"
    return f"{parameters:.0f}"


def parse_parameters(text: str) -> float:
    """ "70B", "7.5e9" or "340M" as a number.

    :raises UsageError: where it is none, or not above zero.
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?(?:e\d{1,2})?)([KMBGT]?)", text.strip(), re.I)
    number = float(found[1]) * _SCALE[found[2].upper()] if found else 0.0
    if not 0 < number <= 1e15:
        raise UsageError(f"--model-size {text!r} is no number of parameters", hint="70B, 7.5e9")
    return number


def gain(
    totals: tuple[tuple[str, NodeTotal | None], ...], job: TrainingJob, c: Constants
) -> Return | None:
    """The return of a job over nodes like these; None where none tells of a pair that carries.

    :param totals: with the names of their nodes, None without a pair; the slowest bounds the ring.
    """
    told = [(name, total) for name, total in totals if total is not None and total.with_gdr.value]
    if not told:
        return None
    name, total = min(told, key=lambda each: each[1].with_gdr.value)
    other, bounce = min(told, key=lambda each: each[1].without_gdr.value)
    many = job.nodes > _FEW
    spread = c["ring-efficiency-many"].over(c["ring-efficiency"]) if many else Range.exactly(1)
    # The bus bandwidth of nccl-tests is that of a ring over all GPUs: 2 (n - 1) / n a byte.
    ranks = job.nodes * total.gpus
    sent = Range.exactly(2 * (ranks - 1) / ranks * job.bytes / 1e9)
    fast, slow = (
        Range(each.value, max(each.low, 1e-3), each.high) * spread
        for each in (total.with_gdr, bounce.without_gdr)
    )
    like = name if other == name else f"{name}, and without GPUDirect like {other}"
    left = [name for name, _ in totals if name not in {name for name, _ in told}]
    ring = "as measured on four nodes" if many else "as measured on two nodes"
    notes: tuple[str, ...] = (
        f"all {job.nodes} nodes are like {like}, and the network between them does not block",
        f"pure data parallelism: {model_size(job.parameters)} gradients of {_BYTES} bytes a step",
        f"one ring over {ranks} GPUs, {ring}; reduction within nodes or switches first is faster",
        "nothing of it overlaps with computation: what a framework hides is not saved twice",
    )
    if left:
        notes = (*notes, f"left out, for no pair that carries a ring is told: {', '.join(left)}")
    unknown = any(each.with_gdr.open for _, each in told)
    return Return(job, name, sent.over(fast), sent.over(slow), notes, unknown)
