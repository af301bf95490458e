"""What a GPU is able to do, by its PCI device id: toolkit/compat/data/gpus.toml, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toolkit.untrusted import read_toml

_TABLE = Path(__file__).parent / "data" / "gpus.toml"

# Their chips have no open kernel modules, and so no dma-buf.
BEFORE_TURING = frozenset({"Maxwell", "Pascal", "Volta"})


@dataclass(frozen=True, slots=True)
class Chip:
    """One row: GPUs with a device id from ``first`` to ``last``."""

    first: int
    last: int
    architecture: str  # as nvidia-smi -q writes it
    source: str
    confidence: str  # "H", "M" or "L"
    datacentre: bool = False  # no product of this chip is a GeForce
    unified: bool = False  # one memory for CPU and GPU
    nvl5: bool = False  # NVSwitches behind an HCA
    multi_node: bool = False  # NVLink spans nodes


@cache
def chips() -> tuple[Chip, ...]:
    """Every row, lowest device id first."""
    rows = read_toml(_TABLE.read_text("utf-8"))["gpus"]
    return tuple(Chip(**row) for row in rows)


@cache
def with_display_modes() -> frozenset[int]:
    """PCI device ids of cards whose BAR1 depends on whether they may drive a display."""
    rows = read_toml(_TABLE.read_text("utf-8"))["display_modes"]
    return frozenset(int(device, 16) for row in rows for device in row["devices"])


def chip(device: int) -> Chip | None:
    """The row of a device id; None for one that the table does not know."""
    return next((each for each in chips() if each.first <= device <= each.last), None)
