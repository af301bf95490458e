"""What an Xid means, by its number: toolkit/compat/data/xids.toml, read once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from toolkit.untrusted import read_toml

_TABLE = Path(__file__).parent / "data" / "xids.toml"


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
    rows = read_toml(_TABLE.read_text("utf-8"))["xids"]
    return tuple(XidRow(**{**row, "act": Act(row["act"])}) for row in rows)


def xid_row(number: int) -> XidRow | None:
    """The row of a number; None for one that the table does not know."""
    return next((each for each in xid_rows() if each.first <= number <= each.last), None)
