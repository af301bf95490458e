"""A test that is worse than it used to be is told before it falls below its bound."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.exercise.test_report_exercise import TESTS, WELL
from toolkit.checks.check import Status
from toolkit.facts.rdma.exercise import Kind
from toolkit.features.exercise.plan_past import declines
from toolkit.features.exercise.plan_proof import Earlier, same
from toolkit.features.exercise.show import decline_lines
from toolkit.throughput.estimate import Unit


def earlier(*values: float, kind: Kind = Kind.DEEP, **more: bool) -> list[Earlier]:
    test = replace(TESTS[0], kind=kind)
    return [
        Earlier(f"run{at}", f"2026-11-{27 - at:02}T09:00:00+00:00", same(test), False, value,
                "GB/s", "pass", **more)
        for at, value in enumerate(values)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("past", "now", "told"),
    [
        pytest.param((48.0, 48.2, 47.9), 44.0, True, id="lower"),
        pytest.param((48.0, 48.2, 47.9), 47.0, False, id="within-what-is-usual"),
        pytest.param((48.0, 48.2), 30.0, False, id="two-runs-are-no-history"),
        pytest.param((48.0, 30.0, 40.0, 25.0), 28.0, False, id="noisy-always"),
        pytest.param((40.0, 40.2, 39.9), 48.0, False, id="better"),
        pytest.param((100.0, 100.0, 100.0), 95.0, False, id="a-twentieth-less-is-none"),
        pytest.param((100.0, 100.0, 100.0), 94.9, True, id="more-than-a-twentieth"),
        pytest.param((100.0, 101.0, 99.0), 94.5, False, id="less-than-four-spreads"),
        pytest.param((100.0, 101.0, 99.0), 94.0, True, id="more-than-four-spreads"),
    ],
)
def test_what_is_lower_than_usual_is_told(past: tuple[float, ...], now: float, told: bool) -> None:
    result = replace(WELL, value=now)
    assert result.status is Status.PASS
    found = declines([result], earlier(*past))
    assert [each.test for each in found] == [result] * told


def test_more_time_is_worse_of_a_latency() -> None:
    slow = replace(WELL, test=replace(TESTS[0], kind=Kind.LATENCY), value=3.0, unit=Unit.US)
    [found] = declines([slow], earlier(2.0, 2.02, 1.99, kind=Kind.LATENCY))
    assert (round(found.share, 2), found.usual, found.runs) == (0.67, 2.0, 3)
    assert declines([replace(slow, value=1.5)], earlier(2.0, 2.0, 2.0, kind=Kind.LATENCY)) == []


def test_only_the_same_test_counts_and_made_up_figures_are_apart() -> None:
    now = replace(WELL, value=44.0)
    past = earlier(48.0, 48.0, 48.0)
    assert declines([now], past)
    assert declines([replace(now, test=replace(now.test, size=8))], past) == []
    assert declines([now], earlier(48.0, 48.0, 48.0, simulated=True)) == []
    assert declines([now], earlier(48.0, 48.0, 48.0, simulated=True), simulated=True)
    assert declines([now], earlier(48.0, 48.0, 48.0, fell_back=True)) == []


def test_a_decline_is_a_line_with_what_is_usual_and_since_when() -> None:
    lines = decline_lines(declines([replace(WELL, value=44.0)], earlier(48.0, 48.0, 48.0)))
    assert lines[1].split()[:2] == ["worse", "than"]
    assert "44.0 GB/s" in lines[2]
    assert lines[2].endswith("48.0 GB/s in 3 runs since 2026-11-25")
    assert decline_lines([]) == []
