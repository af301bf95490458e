"""The throughput model against published measurements whose source it was not fitted to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from dev.accuracy.__main__ import PAGE, main
from dev.accuracy.apply import predicted
from dev.accuracy.fit import FITS, fitted
from dev.accuracy.judge import Judged, detected, judge, score
from dev.accuracy.points import Point, Tier, parse_points
from dev.accuracy.table import section, taken
from tests.corpus.known import POINTS
from toolkit.compat.throughput import Basis, Range, constants
from toolkit.errors import Unparsable
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.model import Poster

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
    assert found.median <= 0.12
    assert found.within_2x >= 0.95


@pytest.mark.parametrize("tier", [Tier.A, Tier.B])
def test_the_interval_that_is_told_holds_nine_in_ten(
    judged: tuple[Judged, ...], tier: Tier
) -> None:
    """Fewer would be a promise that is not kept, more one that says too little."""
    inside = [each.inside for each in judged if each.point.tier is tier]
    assert 0.85 <= sum(inside) / len(inside) <= 0.95


def test_one_gpu_is_not_faster_by_a_second_port_nor_two_ports_as_slow_as_one(
    points: tuple[Point, ...],
) -> None:
    """Of collectives each port has a GPU of its own; of a pair one GPU's link bounds all ports."""
    told = next(each for each in points if each.id == "TP018")
    two = replace(told, hcas=2, gbits=200.0)
    for kind, op in [("verbs_bw", "write"), ("staged", "osu_bw D D"), ("mpi_bw", "osu_bw D D")]:
        one, both, four = (
            predicted(replace(two, kind=kind, op=op, hcas=count), C).value for count in (1, 2, 4)
        )
        assert both == pytest.approx(2 * one, rel=0.1), kind
        assert four == pytest.approx(predicted(replace(two, kind=kind, op=op, hcas=8), C).value)
    ring = [
        predicted(replace(two, kind="coll", op="nccl_allreduce_busbw", hcas=count), C).value
        for count in (1, 8)
    ]
    assert ring[1] == pytest.approx(8 * ring[0])


def test_reads_of_gpu_memory_through_a_processor_are_its_reads(points: tuple[Point, ...]) -> None:
    told = replace(
        next(each for each in points if each.id == "TP051"), cpu="rome", link=Link(8.0, 16)
    )
    ways = [predicted(replace(told, op=f"p2p {way}"), C).value for way in ("write", "read")]
    assert ways == pytest.approx([14.3, 6.1], abs=0.2)


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


def test_what_stands_in_for_a_fit_has_its_own_bounds_and_reports_have_a_voice() -> None:
    """With no point at all: the prior of a crossing, and of the gap what reports say."""
    found = fitted((), C)
    assert found["cross-genoa"] == Range(1.0, 0.35, 1.0)
    assert found["message-gap"].value == pytest.approx((0.116 + 0.176) / 2)


def test_what_has_a_constant_of_its_own_is_no_voice_of_another(points: tuple[Point, ...]) -> None:
    """Small messages through host memory, reads, Broadcom, guests, EFA, more than two nodes."""
    known = {each.id: each for each in points}
    odd = (
        replace(known["TP037"], size=4096, measured=0.3),
        replace(known["TP043"], size=4096, measured=0.2),
        replace(known["TP051"], op="p2p read", measured=6.0),
        replace(known["TP001"], poster=Poster.BROADCOM, measured=0.1),
        replace(known["TP001"], poster=Poster.GUEST, measured=0.1),
        replace(known["TP086"], fabric="efa", measured=15.0),
        replace(known["TP047"], nodes=4, measured=160.0),
    )
    strangers = tuple(replace(each, source="another") for each in odd)
    before, after = fitted(points, C), fitted((*points, *strangers), C)
    assert {name: after[name] for name in C.rows} == {name: before[name] for name in C.rows}


def test_shipped_constants_are_those_of_all_points(points: tuple[Point, ...]) -> None:
    for name, row in fitted(points, C).rows.items():
        if row.basis is Basis.FITTED:
            assert C[name].value == pytest.approx(row.range.value, rel=0.005), name


def test_no_constant_rests_on_the_source_that_is_judged(points: tuple[Point, ...]) -> None:
    """Another figure in a source changes nothing of what is said of that source."""
    lies = tuple(
        Point(**{n: getattr(e, n) for n in Point.__struct_fields__} | {"measured": e.measured * 3})
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
