"""The throughput model against published measurements whose source it was not fitted to."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.accuracy.__main__ import PAGE, main
from dev.accuracy.fit import FITS, fitted
from dev.accuracy.judge import Judged, detected, judge, score
from dev.accuracy.points import Point, Tier, parse_points
from dev.accuracy.table import section, taken
from tests.corpus.known import POINTS
from toolkit.errors import Unparsable
from toolkit.throughput import Basis, constants

C = constants()


@pytest.fixture(scope="module")
def points() -> tuple[Point, ...]:
    return parse_points(POINTS.read_text("utf-8"))


@pytest.fixture(scope="module")
def judged(points: tuple[Point, ...]) -> tuple[Judged, ...]:
    return judge(points, C)


def test_physics_is_right_within_four_percent_at_the_median(judged: tuple[Judged, ...]) -> None:
    found = score(judged, Tier.A, lambda each: each.error)
    assert found.median <= 0.04
    assert found.within_10 >= 0.75
    assert found.within_25 == 1.0


def test_software_is_right_within_a_factor_of_two(judged: tuple[Judged, ...]) -> None:
    found = score(judged, Tier.B, lambda each: each.error)
    assert found.median <= 0.25
    assert found.within_2x >= 0.80


def test_the_naive_predictor_does_not_pass_the_same_bars(judged: tuple[Judged, ...]) -> None:
    tiers = (score(judged, tier, lambda each: each.naive_error) for tier in (Tier.A, Tier.B))
    assert [found.median > bar for found, bar in zip(tiers, (0.04, 0.25), strict=True)] == [
        True
    ] * 2


def test_at_four_fifths_hardly_a_broken_node_is_missed_and_no_sound_one_is_blamed(
    judged: tuple[Judged, ...],
) -> None:
    missed, bad, alarms, good = detected(judged, 0.80)
    assert (missed <= 1, bad >= 10, alarms, good >= 30) == (True, True, 0, True)


def test_every_fitted_constant_has_its_fit_and_no_other_has_one() -> None:
    known = {name for name, row in C.rows.items() if row.basis is Basis.FITTED}
    assert {fit.name for fit in FITS} == known


def test_shipped_constants_are_those_of_all_points(points: tuple[Point, ...]) -> None:
    for name, row in fitted(points, C).rows.items():
        if row.basis is Basis.FITTED:
            assert C[name].value == pytest.approx(row.range.value, rel=0.005), name


def test_no_constant_rests_on_the_source_that_is_judged(points: tuple[Point, ...]) -> None:
    """Another figure in a source changes nothing of what is said of that source."""
    lies = tuple(
        Point(**{n: getattr(e, n) for n in Point.__slots__} | {"measured": e.measured * 3})
        if e.source == points[0].source
        else e
        for e in points
    )
    ours = [e.said for e in judge(points, C) if e.point.source == points[0].source]
    theirs = [e.said for e in judge(lies, C) if e.point.source == points[0].source]
    assert ours == theirs
    assert fitted(lies, C).rows != fitted(points, C).rows


def test_the_page_shows_this_table(judged: tuple[Judged, ...]) -> None:
    page = PAGE.read_text("utf-8")
    assert taken(page) == section(judged, C), "write it anew: python -m dev.accuracy --write"


def test_a_row_that_is_none_is_refused_with_its_line() -> None:
    head, first = POINTS.read_text("utf-8").split("\n")[:2]
    with pytest.raises(Unparsable, match="line 2"):
        parse_points(f"{head}\n{first.replace(',B,', ',Z,')}\n")


def test_the_command_prints_the_table_and_says_where_points_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 0
    assert "| this model | A | 43 |" in capsys.readouterr().out
    assert main([str(tmp_path / "none.csv")]) == 64
    assert "none.csv is not there" in capsys.readouterr().err
