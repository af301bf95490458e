"""What stands on the page of a fleet: its parts, each folded by what is equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.checks.check import Finding, Gap, Impact, Status
from toolkit.checks.outliers import Comparison, compare
from toolkit.errors import Outcome
from toolkit.facts.rdma.perftest import MeasuredPair
from toolkit.features.page.show.fold import Fold, Folder
from toolkit.features.page.show.parts import (
    MEANS,
    STATES,
    Grid,
    KindPart,
    NodePart,
    OddPart,
    Page,
    PartBlock,
    PartCarrying,
    PartLine,
    PartMatrix,
    PartRow,
)
from toolkit.features.page.show.seen import Carry, Excerpt, Heat, SeenNode, in_short
from toolkit.package_data import as_called
from toolkit.report.pages import plain
from toolkit.report.table import unjudged

GRIDS = 40  # kinds of topology, and of predictions, that are drawn
ROWS = 300  # of the matrix


def shade(state: str) -> str:
    """The class of a state's colour."""
    return state if state in {*Impact, "ready"} else "unknown"


def make(
    outcomes: Sequence[Outcome[SeenNode]],
    passing: dict[tuple[str, Finding], tuple[Excerpt, ...]],
    profile: str,
    when: datetime,
    measured: Mapping[str, tuple[MeasuredPair, ...]] | None = None,
) -> Page:
    """Fold a fleet.

    :param outcomes: in the order in which nodes are to be told.
    :param passing: of ``Seeing``: what the verdicts rest on that pass.
    :param measured: by host, what earlier runs came to.
    """
    seen = [each.value for each in outcomes]
    folder = Folder(seen, passing)
    folds, every = folder.folds()
    grids, of = _grids(seen, folder)
    figures = measured or {}
    carries = _carries(seen, folder, figures)
    nodes = _nodes(outcomes, every, of, figures)
    totals = Counter(each.state for each in nodes)
    sheets = [each.sheet for each in seen if each]
    compared = compare(sheets) if len(sheets) > 1 else None
    return Page(
        profile,
        __version__,
        when.astimezone(UTC),
        tuple((state, shade(state), totals[state]) for state in STATES if totals[state]),
        tuple(_blocks(folds)),
        tuple(folds),
        tuple(_gaps(folds)),
        tuple(grids[:GRIDS]),
        max(0, len(grids) - GRIDS),
        tuple(carries[:GRIDS]),
        max(0, len(carries) - GRIDS),
        _matrix(seen, folds, folder),
        tuple(_kinds(compared, seen, folder)) if compared else (),
        compared.ignored if compared else (),
        nodes,
    )


def _kinds(
    compared: Comparison, seen: Sequence[SeenNode | None], folder: Folder
) -> Iterator[KindPart]:
    numbers = {each.judged.host: number for number, each in enumerate(seen) if each}
    for kind in compared.kinds:
        odd = tuple(
            OddPart(
                folder.who(sorted(numbers[name] for name in each.hosts)),
                each.differences,
                each.unread,
            )
            for each in kind.odd
        )
        yield KindPart(len(kind.hosts), kind.marks, odd)


def _blocks(folds: list[Fold]) -> list[PartBlock]:
    blocks = []
    for impact in Impact:
        failing = [e for e in folds if e.finding.status is Status.FAIL and not e.waived]
        mine = [each for each in failing if each.check.impact is impact]
        by_check: dict[str, list[Fold]] = {}
        for each in mine:
            by_check.setdefault(each.check.id, []).append(each)
        lines = [
            PartLine(group[0].check, sum(len(each.who) for each in group), group[0].number)
            for group in by_check.values()
        ]
        nodes = len({number for each in mine for number in each.who.numbers})
        if lines:
            lines.sort(key=lambda line: -line.nodes)
            blocks.append(PartBlock(impact, MEANS[impact], nodes, tuple(lines)))
    return blocks


def _gaps(folds: list[Fold]) -> list[tuple[str, tuple[Fold, ...]]]:
    found = [
        (gap.value, tuple(each for each in folds if each.finding.gap is gap))
        for gap in (Gap.LOST, Gap.ROOT, Gap.NOT_COLLECTED, Gap.PATH)
    ]
    return [each for each in found if each[1]]


def _grids(seen: Sequence[SeenNode | None], folder: Folder) -> tuple[list[Grid], dict[int, int]]:
    """Each kind of topology once, the most frequent first, and which one a node has."""
    kinds: dict[Heat, list[int]] = {}
    for number, each in enumerate(seen):
        if each and each.heat and each.heat.gpus and each.heat.hcas:
            kinds.setdefault(each.heat, []).append(number)
    ranked = sorted(kinds.items(), key=lambda each: -len(each[1]))
    of = {number: at for at, (_, numbers) in enumerate(ranked) for number in numbers}
    return [Grid(folder.who(numbers), found) for found, numbers in ranked], of


def _carries(
    seen: Sequence[SeenNode | None], folder: Folder, figures: Mapping[str, tuple[MeasuredPair, ...]]
) -> list[PartCarrying]:
    """Each prediction once, the most frequent first, with what its nodes came to."""
    kinds: dict[Carry, list[int]] = {}
    names = [each.judged.host if each else "" for each in seen]
    for number, each in enumerate(seen):
        if each and each.carry:
            kinds.setdefault(each.carry, []).append(number)
    found = []
    for told, numbers in sorted(kinds.items(), key=lambda each: -len(each[1])):
        theirs = [one for number in numbers for one in figures.get(names[number], ())]
        by_path = tuple(in_short(path, theirs) for path in told.paths)
        found.append(PartCarrying(folder.who(numbers), told, by_path))
    return found


def _matrix(seen: Sequence[SeenNode | None], folds: list[Fold], folder: Folder) -> PartMatrix:
    """Columns are the checks that are not fine everywhere; rows are nodes that answer alike."""
    ill = {Status.FAIL, Status.UNKNOWN}
    told = {e.check.id: e.check for e in folds if e.finding.status in ill and not e.finding.gap}
    order = list(told)
    cells: list[dict[str, Fold]] = [{} for _ in seen]
    for each in folds:
        if each.check.id in told:
            for number in each.who.numbers:
                cells[number][each.check.id] = each
    gaps = Counter(
        n for e in folds if e.finding.gap and e.check.id not in told for n in e.who.numbers
    )
    groups: dict[tuple[tuple[tuple[str, bool], ...], int], list[int]] = {}
    for number, row in enumerate(cells):
        if seen[number]:
            marks = tuple(
                (e.finding.status.value, bool(e.waived)) if (e := row.get(name)) else ("", False)
                for name in order
            )
            groups.setdefault((marks, gaps[number]), []).append(number)
    ranked = sorted(groups.items(), key=lambda each: _badness(*each[0]))
    rows = [
        PartRow(folder.who(numbers), tuple(cells[numbers[0]].get(name) for name in order), open_)
        for (_, open_), numbers in ranked
    ]
    left = sorted(number for row in rows[ROWS:] for number in row.who.numbers)
    every = {each.check.id for each in folds}
    return PartMatrix(
        tuple(told.values()),
        tuple(rows[:ROWS]),
        folder.who(left) if left else None,
        len(every - told.keys() - {each.check.id for each in folds if each.finding.gap}),
        bool(gaps),
    )


def _badness(marks: tuple[tuple[str, bool], ...], gaps: int) -> tuple[int, int]:
    """Rows with most failures stand first."""
    return (-marks.count(("fail", False)), -marks.count(("unknown", False)) - gaps)


def _nodes(
    outcomes: Sequence[Outcome[SeenNode]],
    folds: list[Fold],
    grids: dict[int, int],
    figures: Mapping[str, tuple[MeasuredPair, ...]],
) -> tuple[NodePart, ...]:
    mine: list[list[Fold]] = [[] for _ in outcomes]
    for each in folds:
        for number in each.who.numbers:
            mine[number].append(each)
    return tuple(
        _node(number, outcome, mine[number], grids.get(number, -1), figures.get(outcome.host, ()))
        for number, outcome in enumerate(outcomes)
    )


def _node(
    number: int,
    outcome: Outcome[SeenNode],
    mine: list[Fold],
    grid: int,
    figures: tuple[MeasuredPair, ...],
) -> NodePart:
    name = plain(outcome.host)
    if outcome.value is None:
        state = unjudged(outcome.error)
        hint = plain(as_called(outcome.error.hint)) if outcome.error else ""
        return NodePart(
            number, name, state, shade(state), error=plain(str(outcome.error)), hint=hint
        )
    by_status = Counter(each.finding.status for each in mine)
    told = [e for e in mine if e.finding.status in {Status.FAIL, Status.UNKNOWN}]
    judged = outcome.value.judged
    return NodePart(
        number,
        name,
        judged.state,
        shade(judged.state),
        tuple((key, plain(value)) for key, value in judged.about),
        tuple(each for each in told if each.finding.gap is Gap.NONE),
        sum(each.finding.gap is not Gap.NONE for each in told),
        by_status[Status.PASS],
        by_status[Status.NA],
        grid,
        plain(outcome.value.no_heat),
        figures,
    )
