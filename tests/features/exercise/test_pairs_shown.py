"""What is printed, written and drawn of pairs, whole: a change of it is read in review.

Each situation stands in ``pairs_shown.txt``; to accept another, run with GDR_ACCEPT=1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from tests.features.exercise.exercising import planned, view
from toolkit.checks.check import Status
from toolkit.compat.reader import Confidence
from toolkit.facts.rdma.exercise import Kind, Test
from toolkit.features.exercise.plan_bisect import PairLedger
from toolkit.features.exercise.plan_judge import ExpectedFigure, JudgedTest
from toolkit.features.exercise.plan_pairs import PairEnd, RanPair
from toolkit.features.exercise.plan_past import Decline
from toolkit.features.exercise.plan_proof import Point, ProofState
from toolkit.features.exercise.show import decline_lines
from toolkit.features.exercise.show_matrix import matrix_page
from toolkit.features.exercise.show_pairs import (
    PairsReport,
    pair_lines,
    pairs_json,
    planned_pairs_lines,
)
from toolkit.report.document import Json
from toolkit.report.table import Painter
from toolkit.throughput.estimate import Estimate, Layer, Unit

KEPT = Path(__file__).with_name("pairs_shown.txt")
TESTS = planned(view("gpu1"), view("gpu2")).tests
DEEP = next(each for each in TESTS if each.gpu and each.kind is Kind.DEEP)
HOST = next(each for each in TESTS if not each.gpu and each.kind is Kind.DEEP)
LATE = next(each for each in TESTS if each.kind is Kind.LATENCY)
BOUND = 0.8
FIGURE = Estimate(1.0, 0.5, 2.0, Unit.GBS, "the wire", next(iter(Layer)), Confidence.HIGH)
PREDICTED = ExpectedFigure(FIGURE)
REFUTED = (Point(ProofState.REFUTED, "by another port"),)


def reached(share: float | None, test: Test = DEEP, suspect: str = "") -> JudgedTest:
    """A test of which 1 GB/s is predicted, or 1 us."""
    unit = Unit.US if test is LATE else Unit.GBS
    if share is None:
        return JudgedTest(test, Status.UNKNOWN, "it broke off", None, unit, PREDICTED)
    status = Status.PASS if share >= BOUND else Status.FAIL
    value = 1 / share if unit is Unit.US and share else share
    return JudgedTest(test, status, "", value, unit, PREDICTED, share, suspect=suspect)


def ran(number: int, one: str, other: str, *results: JudgedTest) -> RanPair:
    """A run between two ends, each "node/rail"; four of them a round."""
    ends = [PairEnd(host, f"mlx5_{rail}", f"0000:{rail}8:00.0")
            for host, _, rail in (each.partition("/") for each in (one, other))]  # fmt: skip
    return RanPair(number, 1 + number // 4, (ends[0], ends[1]), results)


def report(*runs: RanPair, bound: float = BOUND, **left: str) -> PairsReport:
    ledger = PairLedger(bound)
    ledger.learn(run.run for run in runs)
    hosts = {end.host for run in runs for end in run.ends}
    return PairsReport("bisect", len(hosts), runs, ledger, left)


def partners(bad: str, count: int, *results: JudgedTest) -> list[RanPair]:
    """Ends that do well among themselves, and one that falls short with each of them."""
    good = [f"n{at}/0" for at in range(count)]
    well = [ran(at, one, other, reached(1.0)) for at, (one, other) in
            enumerate(zip(good, [*good[1:], good[0]], strict=True))]  # fmt: skip
    return [*well, *(ran(count + at, bad, one, *results) for at, one in enumerate(good))]


SITUATIONS = {
    "nothing was run": report(),
    "each at a bound": report(
        *(
            ran(at, f"n{2 * at}/0", f"n{2 * at + 1}/0", reached(share))
            for at, share in enumerate((1.0, 0.95, 0.949, 0.9, 0.899, BOUND, 0.799, None))
        )
    ),
    "the worst test of a run, one of the same rail again, and another rail": report(
        ran(1, "b/0", "a/0", reached(0.99), reached(0.85, HOST)),
        ran(2, "b/0", "a/0", reached(0.97), reached(0.9, LATE)),
        ran(3, "a/0", "b/0", reached(1.0)),
        ran(4, "b/1", "a/1", reached(0.96, HOST)),
        ran(5, "b/1", "a/1"),
        ran(6, "c/1", "a/1", reached(None)),
        ran(7, "c/1", "a/1", reached(0.98)),
        ran(8, "c/2", "a/2", replace(reached(0.9), expected=None)),
        ran(9, "c/2", "a/2", replace(reached(0.88), ratio=None)),
    ),
    "an HCA": report(*partners("bad/0", 4, reached(0.5, suspect="ACS redirect"))),
    "one run too few for a name": report(*partners("bad/0", 3, reached(0.5))),
    "a GPU": report(*partners("bad/0", 5, reached(0.5, suspect="far"), reached(0.9, HOST))),
    "what is called a silent fallback": report(
        *partners("bad/0", 4, replace(reached(1.0), points=REFUTED, suspect="a silent fallback"))
    ),
    "what most tests say, and those without a result": report(
        *partners("bad/0", 4, reached(0.5, suspect="the wire"), reached(None, HOST)),
        ran(99, "bad/0", "n1/0", replace(reached(0.4), suspect="once")),
    ),
    "nobody is suspected, and some tests are without a result": report(
        *partners("bad/0", 4, reached(0.5), reached(None, HOST))
    ),
    "a node": report(
        *partners("bad/0", 3, reached(0.5)),
        *(ran(50 + at, "bad/1", f"n{at}/0", reached(0.6)) for at in range(3)),
    ),
    "came right when run again": report(
        ran(1, "a/0", "b/0", reached(0.5)), ran(2, "a/0", "b/0", reached(0.95))
    ),
    "left out": report(ran(1, "a/0", "b/0", reached(1.0)), n7="a job", n9="gone", n8="a job"),
    "most fall short": report(
        *(ran(at, f"n{2 * at}/0", f"n{2 * at + 1}/0", reached(0.7)) for at in range(8))
    ),
    "most of too few fall short": report(
        *(ran(at, f"n{2 * at}/0", f"n{2 * at + 1}/0", reached(0.7)) for at in range(7))
    ),
    "as many lines as are shown": report(
        *(ran(at, f"m{at}/0", f"n{at}/0", reached(None)) for at in range(19))
    ),
    "one line more": report(
        *(ran(at, f"m{at}/0", f"n{at}/0", reached(None)) for at in range(20))
    ),
    "held to less": report(ran(1, "a/0", "b/0", reached(0.5)), bound=0.5),
}  # fmt: skip


WHOLE = {"each at a bound", *(name for name in SITUATIONS if name.startswith("the worst"))}


def fallen(count: int) -> Sequence[Decline]:
    slow = replace(reached(0.5), value=50.0)
    late = replace(reached(0.5, LATE), value=4.0)
    told = (Decline(slow, 100.0, 3, "2026-11-20"), Decline(late, 2.0, 5, "2026-11-21"))
    return [told[at % 2] for at in range(count)]


def shown() -> Iterator[str]:
    plain = Painter(coloured=False)
    for name, told in SITUATIONS.items():
        yield f"== {name}"
        brief, whole = (pair_lines(told, plain, verbose=verbose) for verbose in (False, True))
        yield from brief
        if name in WHOLE:
            yield from ("-- verbose", *whole)
        yield "-- document"
        for key, value in pairs_json(told).items():
            if key != "runs":
                yield f"{key}: {json.dumps(value)}"
            elif name in WHOLE:
                yield from map(json.dumps, cast("list[Json]", value))
        yield "-- matrix"
        page = matrix_page(
            told, fallen(2), when="today", simulated=False, threshold=told.ledger.threshold
        )
        yield f"{page.title}; {page.counted}; {page.threshold}; {' '.join(page.nodes)}"
        for rail in page.rails:
            yield f"{rail.id} {rail.name}: median {rail.median}"
            for (one, other), cell in sorted(rail.cells.items()):
                assert rail.cells[other, one] == cell
                if one > other:
                    continue
                kinds = f"{cell.measured}, {cell.predicted}, {cell.kind}"
                yield f"  {page.nodes[one]} {page.nodes[other]}: {cell.figure}: {kinds}"
        yield from (f"{each}" for each in page.named)
    yield from (str(each) for each in page.falls)


def planned_shown() -> Iterator[str]:
    ends = (PairEnd("a", "mlx5_0"), PairEnd("b", "mlx5_1"))
    for way, count, verbose in (("ring", 2, False), ("bisect", 20, False), ("bisect", 20, True)):
        first = [(ends, FIGURE), *[(ends, None)] * (count - 1)]
        yield f"== planned: {way}, {count}, {verbose}"
        yield from planned_pairs_lines(first, count, 1, way, verbose=verbose)
    for count in (0, 2, 20, 21):
        yield f"== {count} that decline"
        yield from decline_lines(fallen(count))


def test_what_is_shown_of_pairs() -> None:
    text = "".join(f"{line}\n" for line in (*shown(), *planned_shown()))
    if os.environ.get("GDR_ACCEPT") == "1":
        KEPT.write_text(text)
    assert text == KEPT.read_text()
