"""All HCAs of a node together: the ring bound, and what host memory leaves without GPUDirect."""

from __future__ import annotations

from toolkit.compat.throughput import Constants, CpuClass, Range
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import PairInputs
from toolkit.throughput.model import Term, least
from toolkit.throughput.pair import COHERENT, PairPrediction, link_term

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
    cards = _cards(told, c)
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


def _cards(told: list[PairInputs], c: Constants) -> dict[str, Range]:
    """The link of each card: the functions of one share it."""
    return {
        each.hca.rpartition(".")[0] or each.hca: link_term(
            each.hca_link, each.payload, "HCA", c
        ).span
        for each in told
    }


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
    try:
        sockets = node.setup.sockets
    except (NoEvidence, Unparsable):
        sockets = 0
    if cpu is None or not cpu.memory:
        return _ANY_MEMORY, ("bandwidth of host memory not known: processor not in the table",)
    whole = c["stream-share"] * cpu.memory
    if sockets:
        note = f"host memory: all channels of {cpu.name} filled"
        # Half of the slots filled is common.
        return (whole * sockets).wider(0.5, 1.0), (note,)
    return Range(whole.value * 2, whole.low / 2, whole.high * 2), ("number of sockets not read",)
