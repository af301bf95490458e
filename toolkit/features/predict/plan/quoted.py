"""The figures that people quote of GPUDirect, each with the layer that it belongs to."""

from __future__ import annotations

from msgspec import Struct

from toolkit.compat.throughput import Constants, Range
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.estimate import Layer
from toolkit.throughput.model import gpu_base, pcie, raw

_GEN5 = Link(32.0, 16)


class Quoted(Struct, frozen=True):
    figure: str  # as people say it
    layer: str  # where it holds
    say: str  # what the model has there


def quoted(c: Constants) -> tuple[Quoted, ...]:
    """In the order in which they are met."""
    packets = pcie(_GEN5, Range.exactly(256), c)
    mapped = c["latency-mpi"] + c["latency-mapped"]
    copies, base = c["latency-memcpy"], gpu_base(c)
    return (
        Quoted(
            "63 GB/s",
            "PCIe Gen5 x16 before packets",
            f"{raw(_GEN5, c):.1f} on the link, {packets.value:.1f} of payload at 256 B, no more "
            "by one 400G HCA than its wire: 49",
        ),
        Quoted(
            "1.5 us",
            Layer.VERBS,
            f"{c['latency-verbs-host'].value:.2f} from host memory to host memory, "
            f"{base.value:.2f} between GPUs; MPI with GPUDirect takes {c['latency-mpi'].value:.1f}",
        ),
        Quoted(
            "5 us",
            Layer.MAPPED,
            f"{mapped.value:.1f} ({mapped.low:.1f}-{mapped.high:.1f}): to be set against MPI with "
            "GPUDirect, not against verbs",
        ),
        Quoted(
            "+12 us",
            Layer.MEMCPY,
            f"two launches of cudaMemcpy: {copies.low:g} to {copies.high:g} us more, by platform",
        ),
        Quoted(
            "3x",
            "bandwidth without GPUDirect",
            "1.4x with one HCA and a good library, 2-3x on a shared uplink, 5-6x with eight HCAs, "
            "6-13x where the library does not pipeline; no constant",
        ),
    )
