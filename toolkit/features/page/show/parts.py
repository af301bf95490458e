"""The parts of the page of a fleet, each folded by what is equal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from toolkit.checks.check import Check, Gap, Impact
from toolkit.checks.outliers import Difference
from toolkit.facts.rdma.measured import Measured
from toolkit.features.page.show.carry import Carry
from toolkit.features.page.show.fold import Fold, Who
from toolkit.features.page.show.heat import Heat

# Worst first: what is counted at the top, and what may be chosen there.
STATES = (
    "sick",
    "broken",
    "slow",
    "fragile",
    "unknown",
    "cut off",
    "out of reach",
    "error",
    "no GPU",
    "n/a",
    "ready",
)
MEANS = {
    Impact.SICK: "hardware or firmware is failing: drain the node",
    Impact.BROKEN: "GPUDirect cannot work",
    Impact.SLOW: "it works, and slower than the hardware can",
    Impact.FRAGILE: "it works now, not after the next boot, update or restart",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One check in the summary."""

    check: Check
    nodes: int
    fold: int  # number of its first finding


@dataclass(frozen=True, slots=True)
class Block:
    """The checks of one impact that fail somewhere."""

    impact: Impact
    means: str
    nodes: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Nodes with the same answer in every column."""

    who: Who
    cells: tuple[Fold | None, ...]  # None: not judged there
    gaps: int  # further checks that could not be judged


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: tuple[Check, ...]
    rows: tuple[Row, ...]
    left: Who | None  # nodes of rows that are not drawn
    same: int  # checks that are fine, or do not apply, on every node
    gaps: bool  # whether some row has gaps


@dataclass(frozen=True, slots=True)
class Grid:
    who: Who
    heat: Heat


@dataclass(frozen=True, slots=True)
class Carrying:
    who: Who
    carry: Carry
    measured: tuple[str, ...]  # of each path; "" where nothing was


@dataclass(frozen=True, slots=True)
class OddPart:
    """Nodes that differ from their kind in the same way."""

    who: Who
    differences: tuple[Difference, ...]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KindPart:
    """Nodes that are measured by the same norm."""

    nodes: int
    marks: tuple[Difference, ...]
    odd: tuple[OddPart, ...]


@dataclass(frozen=True, slots=True)
class NodePart:
    """One node."""

    number: int
    name: str
    state: str
    shade: str  # class of its colour
    about: tuple[tuple[str, str], ...] = ()
    open: tuple[Fold, ...] = ()  # what fails or is not known, gaps aside
    gaps: int = 0  # checks that are open for a reason that has nothing to do with them
    passed: int = 0
    idle: int = 0  # n/a
    grid: int = -1  # number of its grid; -1 for none
    no_grid: str = ""
    measured: tuple[Measured, ...] = ()
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    profile: str
    version: str
    when: datetime
    states: tuple[tuple[str, str, int], ...]  # state, class of its colour, nodes
    blocks: tuple[Block, ...]
    folds: tuple[Fold, ...]
    gaps: tuple[tuple[str, tuple[Fold, ...]], ...]  # by reason
    grids: tuple[Grid, ...]
    grids_left: int
    carries: tuple[Carrying, ...]
    carries_left: int
    matrix: Matrix
    kinds: tuple[KindPart, ...]  # of nodes that are compared with one another
    own: tuple[str, ...]  # properties in which each node is unlike every other
    nodes: tuple[NodePart, ...]

    def having(self, *statuses: str) -> list[Fold]:
        return [
            each
            for each in self.folds
            if each.finding.status.value in statuses and each.finding.gap is Gap.NONE
        ]
