"""One predicted figure: what it is, how sure it is, and what limits it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Range


class Unit(StrEnum):
    GBS = "GB/s"  # 10^9 bytes a second, one way
    US = "us"


class Layer(StrEnum):
    """Where a figure would be measured; figures of two layers are never compared."""

    VERBS = "verbs"  # ib_write_bw --use_cuda, ib_send_lat
    MPI = "MPI"  # osu_bw and osu_latency with buffers in GPU memory
    MAPPED = "MPI, mapped staging"  # through host memory by gdrcopy
    MEMCPY = "MPI, memcpy staging"  # through host memory by cudaMemcpy
    RING = "collective, ring bound"  # bus bandwidth of nccl-tests, without reduction in switches


class Estimate(Struct, frozen=True):
    """A figure with its interval: 0 <= low <= value <= high."""

    value: float
    low: float
    high: float
    unit: Unit
    limit: str  # "wire (400G RoCE, MTU 4096)"
    layer: Layer
    confidence: Confidence
    assumptions: tuple[str, ...] = ()  # what was taken for granted, each in words
    open: bool = False  # no figure of the interval is likelier than another: see ``left_open``

    @property
    def figure(self) -> str:
        """ "49.0 GB/s (45-50)"; "2.8-60 GB/s" where it is open."""
        low, high = _short(self.low), _short(self.high)
        if self.open:
            return f"{low}-{high} {self.unit}"
        span = f" ({low}-{high})" if low != high else ""
        return f"{_figure(self.value)} {self.unit}{span}"

    @property
    def said(self) -> str:
        """ "49.0 GB/s (45-50), limited by wire (400G RoCE, MTU 4096)"."""
        return f"{self.figure}, limited by {self.limit}"


def estimate(
    span: Range, limit: str, layer: Layer, sure: Confidence, assumptions: Iterable[str] = ()
) -> Estimate:
    """A bandwidth; ``lasting`` makes a latency of one."""
    return Estimate(
        span.value, span.low, span.high, Unit.GBS, limit, layer, sure, tuple(assumptions)
    )


def left_open(found: Estimate) -> Estimate:
    """Of an HCA whose rate could be any; its value is the middle in proportion, and not shown."""
    middle = min(max(sqrt(found.low * found.high), found.low), found.high)
    return replace(found, value=middle, open=True)


def lasting(found: Estimate) -> Estimate:
    """The same figure as a time."""
    return replace(found, unit=Unit.US)


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
