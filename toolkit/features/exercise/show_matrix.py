"""Exercise: pairs as a page: each node with each other one, rail by rail, and over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from toolkit.features.exercise.plan_bisect import NamedPart
from toolkit.features.exercise.plan_judge import shown
from toolkit.features.exercise.plan_pairs import RanPair
from toolkit.features.exercise.plan_past import Decline
from toolkit.features.exercise.plan_proof import in_short
from toolkit.features.exercise.show_pairs import PairsReport, worst_of
from toolkit.report.pages import render
from toolkit.throughput.estimate import Unit

_STYLES, _SCRIPTS = ("base.css", "matrix.css"), ("matrix.js",)
_FINE, _FAIR = 0.95, 0.9  # of what it should reach; below the bound it is "broken"


class MatrixCell(Struct, frozen=True):
    """What one pair reached on one rail; the worst of its runs."""

    share: float | None
    measured: str  # "48.1 GB/s"
    predicted: str
    kind: str  # the class of its colour

    @property
    def figure(self) -> str:
        return "?" if self.share is None else f"{self.share:.2f}"


class MatrixRail(Struct, frozen=True):
    """The HCAs of one name at whoever connects, with their counterparts."""

    name: str  # "mlx5_0"
    id: str
    cells: Mapping[tuple[int, int], MatrixCell]  # by the numbers of both nodes, either way round
    median: str


class MatrixPage(Struct, frozen=True):
    title: str
    counted: str
    threshold: str
    simulated: bool
    nodes: Sequence[str]
    rails: Sequence[MatrixRail]
    named: Sequence[NamedPart] = ()
    notes: Sequence[str] = ()
    falls: Sequence[tuple[str, ...]] = ()  # cells of a row


def matrix_page(
    report: PairsReport,
    falls: Sequence[Decline],
    *,
    when: str,
    simulated: bool,
    threshold: float,
    notes: Sequence[str] = (),
) -> MatrixPage:
    """What the page shows of a run."""
    nodes = sorted({end.host for run in report.runs for end in run.ends})
    numbers = {host: at for at, host in enumerate(nodes)}
    rails: dict[str, dict[tuple[int, int], MatrixCell]] = {}
    for run in report.runs:
        one, other = (numbers[end.host] for end in run.ends)
        cell = _cell(run, report, threshold)
        cells = rails.setdefault(run.ends[0].hca, {})
        known = cells.get((one, other))
        if known is None or known.share is None or (cell.share or 9.0) < known.share:
            cells[one, other] = cells[other, one] = cell
    return MatrixPage(
        f"Pairs of {len(nodes)} nodes, {when}",
        report.counted,
        f"{threshold:.2f}",
        simulated,
        nodes,
        tuple(
            MatrixRail(name, f"rail{at}", cells, _median(cells))
            for at, (name, cells) in enumerate(sorted(rails.items()))
        ),
        report.named,
        tuple(notes),
        tuple(map(_fall, falls)),
    )


def _cell(run: RanPair, report: PairsReport, threshold: float) -> MatrixCell:
    share = report.ledger.norms.worst(run.run)
    worst = worst_of(run.results)
    told = worst.expected.estimate if worst is not None and worst.expected else None
    if share is None:
        kind = "unknown"
    elif share < threshold:
        kind = "broken"
    else:
        kind = "ready" if share >= _FINE else "middle" if share >= _FAIR else "slow"
    return MatrixCell(
        share,
        shown(worst.value, worst.unit) if worst is not None and worst.value else "no result",
        shown(told.value, Unit(told.unit)) if told else "not predicted",
        kind,
    )


def _median(cells: Mapping[tuple[int, int], MatrixCell]) -> str:
    shares = sorted(each.share for each in cells.values() if each.share is not None)
    return f"{shares[len(shares) // 2]:.2f}" if shares else "-"


def _fall(one: Decline) -> tuple[str, ...]:
    return (
        " with ".join(f"{end.host} {end.hca}" for _, end in reversed(one.test.test.ends)),
        in_short(one.test.test),
        shown(one.test.value or 0.0, one.test.unit),
        shown(one.usual, one.test.unit),
        f"{one.share:.2f}",
        f"{one.runs} since {one.since}",
    )


def matrix_html(page: MatrixPage, command: str) -> Iterator[str]:
    """The page, part by part."""
    values = {**asdict(page), "command": command}
    return render("matrix.html", values, styles=_STYLES, scripts=_SCRIPTS)
