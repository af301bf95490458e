"""The throughput model against published measurements whose source it was not fitted to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.accuracy.__main__ import PAGE, main
from dev.accuracy.fit import FITS, fitted
from dev.accuracy.judge import Judged, detected, judge, score
from dev.accuracy.points import Point, Tier, parse_points
from dev.accuracy.table import section, taken
from tests.corpus.known import POINTS
from toolkit.compat.throughput import Basis, constants
from toolkit.errors import Unparsable

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


def test_nor_does_one_that_is_said_to_be_fitted_on_nothing(points: tuple[Point, ...]) -> None:
    """A constant that names a source, and is not fitted anew without it, says nothing of it."""
    before = judge(points, C)
    for source in {each.source for each in points}:
        issue = source.replace("#", " issue ")
        named = issue if "#" in source else " ".join(source.split()[:2])
        rows = [r for r in C.rows.values() if r.basis is not Basis.FITTED and named in r.source]
        other = C.but({row.id: row.range.value * 2 for row in rows})
        for ours, theirs in zip(before, judge(points, other), strict=True):
            assert ours.point.source != source or ours.said == theirs.said, ours.point.id


def test_nor_does_what_is_shipped_say_anything_of_a_point(points: tuple[Point, ...]) -> None:
    """What a fit does not find anew must not come from the table that all points made."""
    known = [name for name, row in C.rows.items() if row.basis is Basis.FITTED]
    other = C.but({name: C[name].value * 1.5 for name in known})
    for ours, theirs in zip(judge(points, C), judge(points, other), strict=True):
        assert theirs.said.value == pytest.approx(ours.said.value), ours.point.id


def test_the_naive_predictor_is_told_of_as_many_gpus_as_the_model(
    judged: tuple[Judged, ...],
) -> None:
    """Four of them share a wire of 50 GB/s; one alone has a link of 31.5."""
    found = {e.point.op: e.naive for e in judged if e.point.op.startswith("NFSoRDMA")}
    assert found["NFSoRDMA read, 1 GPU"] == pytest.approx(31.5, abs=0.1)
    assert found["NFSoRDMA read, 4 GPU"] == pytest.approx(50.0)


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
    assert re.search(r"^\| this model \| A \| \d+ \|", capsys.readouterr().out, re.MULTILINE)
    assert main([str(tmp_path / "none.csv")]) == 64
    assert "none.csv is not there" in capsys.readouterr().err
