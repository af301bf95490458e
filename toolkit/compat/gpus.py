"""What a GPU is able to do, by its PCI device id: toolkit/compat/data/gpus.toml, read once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from toolkit.untrusted import read_toml

_TABLE = Path(__file__).parent / "data" / "gpus.toml"

# Their chips have no open kernel modules, and so no dma-buf.
BEFORE_TURING = frozenset({"Maxwell", "Pascal", "Volta"})
_XIDS = Path(__file__).parent / "data" / "xids.toml"


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


class Act(StrEnum):
    """What an Xid asks for; the least first."""

    NONE = "none"
    RESTART = "restart"  # the job
    WORD = "word"  # the rest of the line decides
    RESET = "reset"  # the GPU
    REBOOT = "reboot"  # the node
    EXCHANGE = "exchange"  # the GPU, or what feeds it


@dataclass(frozen=True, slots=True)
class XidRow:
    """One row: Xids from ``first`` to ``last``."""

    first: int
    last: int
    kind: str  # "application", "uncontained ECC", "bus"
    act: Act
    text: str  # in a clause, what happened
    source: str
    confidence: str  # "H", "M" or "L"


@cache
def xid_rows() -> tuple[XidRow, ...]:
    """Every row, lowest number first."""
    rows = read_toml(_XIDS.read_text("utf-8"))["xids"]
    return tuple(XidRow(**{**row, "act": Act(row["act"])}) for row in rows)


def xid_row(number: int) -> XidRow | None:
    """The row of a number; None for one that the table does not know."""
    return next((each for each in xid_rows() if each.first <= number <= each.last), None)
