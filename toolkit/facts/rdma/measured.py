"""A bandwidth that was measured over one GPU and one HCA of a node."""

from __future__ import annotations

from dataclasses import dataclass

SIMULATED = " (simulated)"  # how the tool's name ends where a demo node made the figure up


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    gpu: str  # "0000:18:00.0"
    hca: str  # its name: "mlx5_0"
    value: float  # GB/s, between this end and the other
    tool: str  # "ib_write_bw", "ib_write_bw (simulated)"
    when: str  # "2026-11-20"
