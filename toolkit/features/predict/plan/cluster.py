"""What GPUDirect is worth to a cluster: the all-reduce of one training step, and of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.compat.throughput import Constants, Range
from toolkit.errors import UsageError
from toolkit.features.predict.plan.of_node import NodeTotal
from toolkit.throughput.estimate import Estimate

_BYTES = 2  # of one gradient, bf16
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_FEW = 2  # nodes up to which the ring's efficiency is that of the points


@dataclass(frozen=True, slots=True)
class Job:
    """A training run, as far as its all-reduce goes."""

    nodes: int
    parameters: float
    steps: int

    @property
    def bytes(self) -> float:
        return self.parameters * _BYTES


@dataclass(frozen=True, slots=True)
class Return:
    """Seconds of all-reduce in a step and hours in a run; with and without GPUDirect."""

    job: Job
    slowest: str  # the node that bounds the ring with GPUDirect
    with_gdr: Range  # seconds a step
    without_gdr: Range
    assumptions: tuple[str, ...]

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


def counted(parameters: float) -> str:
    """ "70B": as models are called."""
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if parameters >= scale:
            return f"{parameters / scale:.3g}{letter}"
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


def gain(totals: tuple[tuple[str, NodeTotal | None], ...], job: Job, c: Constants) -> Return | None:
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
    fast, slow = (_span(each) * spread for each in (total.with_gdr, bounce.without_gdr))
    like = name if other == name else f"{name}, and without GPUDirect like {other}"
    left = [name for name, _ in totals if name not in {name for name, _ in told}]
    notes = _assumptions(job, like, ranks, many=many)
    if left:
        notes = (*notes, f"left out, for no pair that carries a ring is told: {', '.join(left)}")
    return Return(job, name, sent.over(fast), sent.over(slow), notes)


def _span(found: Estimate) -> Range:
    return Range(found.value, max(found.low, 1e-3), found.high)


def _assumptions(job: Job, name: str, ranks: int, *, many: bool) -> tuple[str, ...]:
    ring = "as measured on four nodes" if many else "as measured on two nodes"
    return (
        f"all {job.nodes} nodes are like {name}, and the network between them does not block",
        f"pure data parallelism: {counted(job.parameters)} gradients of {_BYTES} bytes a step",
        f"one ring over {ranks} GPUs, {ring}; reduction within nodes or switches first is faster",
        "nothing of it overlaps with computation: what a framework hides is not saved twice",
    )
