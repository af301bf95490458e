"""Latency of a small message by layer: figures of two layers are never one figure's two ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants, Range
from toolkit.facts.pci.topology import Distance
from toolkit.throughput.estimate import Estimate, Layer, estimate, lasting
from toolkit.throughput.inputs import PairInputs
from toolkit.throughput.model import (
    gpu_base,
    mpi_latency,
    pcie,
    staged_latency,
    verbs_latency,
    wire,
)


@dataclass(frozen=True, slots=True)
class MessageLatency:
    """One way, us, of a message of that size."""

    size: int  # bytes
    verbs: Estimate  # with GPUDirect
    mpi: Estimate  # with GPUDirect
    mapped: Estimate  # without, the library copies by gdrcopy
    memcpy: Estimate  # without, by cudaMemcpy

    def __iter__(self) -> Iterator[Estimate]:
        yield from (self.verbs, self.mpi, self.mapped, self.memcpy)


def latency(told: PairInputs, size: int, c: Constants) -> MessageLatency:
    carried = wire(told.wire.gbits, told.wire.mtu, told.wire.layer, c)
    path = Range(
        pcie(told.gpu_link.value, told.payload, c).value,
        pcie(told.gpu_link.low, told.payload, c).low,
        pcie(told.gpu_link.high, told.payload, c).high,
    )
    base, library = gpu_base(c), c["latency-mpi"]
    if told.distance > Distance.PXB or told.redirects or told.translated:
        base, library = (each + c["latency-beyond-switch"] for each in (base, library))
    if told.wire.datagrams:
        base, library = (each + c["latency-srd"] for each in (base, library))
    width = c["width-physics"]
    spans = {
        Layer.VERBS: verbs_latency(size, path, carried, base).wider(width.low, width.high),
        Layer.MPI: mpi_latency(size, carried, library, c),
        Layer.MAPPED: staged_latency(size, carried, library, c["latency-mapped"], c),
        Layer.MEMCPY: staged_latency(size, carried, library, c["latency-memcpy"], c),
    }
    made = {
        layer: lasting(estimate(span, _WHY[layer], layer, _SURE[layer], told.notes))
        for layer, span in spans.items()
    }
    return MessageLatency(
        size, made[Layer.VERBS], made[Layer.MPI], made[Layer.MAPPED], made[Layer.MEMCPY]
    )


_WHY = {
    Layer.VERBS: "the HCAs and a switch at either end",
    Layer.MPI: "the library",
    Layer.MAPPED: "copies by the processor",
    Layer.MEMCPY: "two launches of cudaMemcpy",
}
_SURE = {
    Layer.VERBS: Confidence.MEDIUM,
    Layer.MPI: Confidence.LOW,
    Layer.MAPPED: Confidence.LOW,
    Layer.MEMCPY: Confidence.LOW,
}
