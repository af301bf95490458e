"""The parts of the page of a fleet, each folded by what is equal, and the page that they make.

One self-contained page for a browser; see ``toolkit.report.pages``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from toolkit.checks.check import Check, Gap, Impact
from toolkit.checks.outliers import Difference
from toolkit.facts.rdma.perftest import MeasuredPair
from toolkit.features.page.show.fold import Fold, Who
from toolkit.features.page.show.seen import Carry, Heat
from toolkit.plural import counted
from toolkit.report.pages import render

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


class PartLine(Struct, frozen=True):
    """One check in the summary."""

    check: Check
    nodes: int
    fold: int  # number of its first finding


class PartBlock(Struct, frozen=True):
    """The checks of one impact that fail somewhere."""

    impact: Impact
    means: str
    nodes: int
    lines: tuple[PartLine, ...]


class PartRow(Struct, frozen=True):
    """Nodes with the same answer in every column."""

    who: Who
    cells: tuple[Fold | None, ...]  # None: not judged there
    gaps: int  # further checks that could not be judged


class PartMatrix(Struct, frozen=True):
    columns: tuple[Check, ...]
    rows: tuple[PartRow, ...]
    left: Who | None  # nodes of rows that are not drawn
    same: int  # checks that are fine, or do not apply, on every node
    gaps: bool  # whether some row has gaps


class Grid(Struct, frozen=True):
    who: Who
    heat: Heat


class PartCarrying(Struct, frozen=True):
    who: Who
    carry: Carry
    measured: tuple[str, ...]  # of each path; "" where nothing was


class OddPart(Struct, frozen=True):
    """Nodes that differ from their kind in the same way."""

    who: Who
    differences: tuple[Difference, ...]
    unread: tuple[str, ...]


class KindPart(Struct, frozen=True):
    """Nodes that are measured by the same norm."""

    nodes: int
    marks: tuple[Difference, ...]
    odd: tuple[OddPart, ...]


class NodePart(Struct, frozen=True):
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
    measured: tuple[MeasuredPair, ...] = ()
    error: str = ""
    hint: str = ""


class Page(Struct, frozen=True):
    profile: str
    version: str
    when: datetime
    states: tuple[tuple[str, str, int], ...]  # state, class of its colour, nodes
    blocks: tuple[PartBlock, ...]
    folds: tuple[Fold, ...]
    gaps: tuple[tuple[str, tuple[Fold, ...]], ...]  # by reason
    grids: tuple[Grid, ...]
    grids_left: int
    carries: tuple[PartCarrying, ...]
    carries_left: int
    matrix: PartMatrix
    kinds: tuple[KindPart, ...]  # of nodes that are compared with one another
    own: tuple[str, ...]  # properties in which each node is unlike every other
    nodes: tuple[NodePart, ...]

    def having(self, *statuses: str) -> list[Fold]:
        return [
            each
            for each in self.folds
            if each.finding.status.value in statuses and each.finding.gap is Gap.NONE
        ]


def html(page: Page, command: str) -> Iterator[str]:
    """The page, part by part.

    :param command: what made it, as an operator would type it.
    """
    ready = sum(count for state, _, count in page.states if state == "ready")
    total = counted(len(page.nodes), "node")
    title = f"{ready:,} of {len(page.nodes):,} nodes are ready for GPUDirect RDMA"
    if len(page.nodes) == 1:
        title = f"{page.nodes[0].name} is {page.nodes[0].state}"
    return render(
        "fleet.html",
        {"page": page, "title": title, "total": total, "command": command},
        styles=("base.css", "fleet.css"),
        scripts=("fleet.js",),
    )
