"""One message from GPU to GPU, stage by stage: by GPUDirect, and copied twice through host memory.

By GPUDirect the bytes are in all stages at once, so that the slowest sets the time. Through host
memory the message is copied out of the one GPU, sent, and copied into the other; a library that
cuts it in pieces lets these overlap, one that does not takes their sum.
"""

from __future__ import annotations

from msgspec import Struct

from toolkit.compat.throughput import Constants
from toolkit.throughput.inputs import PairInputs
from toolkit.throughput.model import Term, least
from toolkit.throughput.pair import PairPrediction, copy_side, gpu_side, link_term, wire_term


class Stage(Struct, frozen=True):
    name: str  # "HCA reads GPU memory"
    limit: str  # "PCIe (GPU 0000:18:00.0: 32 GT/s x16)"
    rate: float  # GB/s
    took: float  # us, of one message
    look: str  # of its bar


class Stages(Struct, frozen=True):
    """Of one pair at either end; times in us."""

    direct: tuple[Stage, ...]
    copied: tuple[Stage, ...]
    by_direct: float
    in_pieces: float  # copied, by a library that pipelines
    one_by_one: float  # copied, by one that does not


def stages(told: PairInputs, found: PairPrediction, size: int, c: Constants) -> Stages | None:
    """None where a rate is not known, or one way is not to be had at all."""
    slower = min(found.with_gdr.value, found.read.value)
    if found.with_gdr.open or not slower or not found.without_gdr.value:
        return None

    def stage(name: str, term: Term, look: str, launch: float = 0.0) -> Stage:
        rate = term.span.value
        return Stage(name, term.said, rate, launch + size / rate / 1e3, look)

    wire, copy = wire_term(told, c), copy_side(told, c)
    sent = least([wire, link_term(told.hca_link, told.payload, "HCA", c)])
    launch = c["latency-memcpy"].value / 2  # at either end
    direct = (
        stage("HCA reads GPU memory", gpu_side(told, c, reading=True), "bar-gpu"),
        stage("wire", wire, "bar-wire"),
        stage("HCA writes GPU memory", gpu_side(told, c, reading=False), "bar-gpu"),
    )
    over = stage("HCA to HCA", sent, "bar-wire")
    copied: tuple[Stage, ...] = (over,)
    if copy is not None:
        out = stage("copy to host memory", copy, "bar-copy", launch)
        into = stage("copy to GPU memory", copy, "bar-copy", launch)
        copied = (out, over, into)
    return Stages(
        direct,
        copied,
        size / slower / 1e3,
        size / found.without_gdr.value / 1e3,
        sum(each.took for each in copied),
    )
