"""Published measurements, printed as their tools would: none that was healthy fails, none that
fell back passes.

Held out: no threshold of the checks was chosen by what they say here. Where a point's path was told
it is told in the same paste, and left out as well.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dev.accuracy.judge import DEGRADED
from dev.accuracy.points import Point, Tier, parse_points
from tests.checks.measured import Job, Run, nccl_speeds, nccl_tests, perftest, ports
from tests.checks.test_checks_traffic import COLLECTIVE, MATRIX, PAIR, found
from tests.corpus.known import POINTS
from toolkit.checks.check import Finding, Status

FORMS = 20  # of each point
LAYERS = {"ib": "InfiniBand", "roce": "Ethernet"}
DISTANCES = {"switch": "PIX", "acs_redirect": "PIX", "rc_same": "NODE", "rc_cross": "SYS"}


def points() -> list[Point]:
    """Those of tools that we read, over a wire whose kind was told."""
    told = [each for each in parse_points(POINTS.read_text("utf-8")) if each.fabric in LAYERS]
    return [each for each in told if each.kind == "verbs_bw" or each.op.startswith("nccl_")]


def judged(point: Point, draw: Random, *, path: bool) -> Finding:
    layer = LAYERS[point.fabric]
    names = tuple(f"mlx5_{at}" for at in range(point.hcas))
    beside = [ports(int(point.gbits), names, layer, draw)]
    if point.kind == "verbs_bw":
        run = Run(
            point.measured / (2 if point.both_ways else 1), "mlx5_0",
            {"InfiniBand": "IB"}.get(layer, layer), int(point.mtu), int(point.size),
            point.depth, point.pairs, not point.host, point.both_ways,
        )  # fmt: skip
        if path and point.path in DISTANCES and not point.host:
            beside.append(MATRIX.format(DISTANCES[point.path]))
        return found(PAIR, perftest(run, draw), *beside)
    test = "sendrecv" if "pair" in point.op else "all_reduce"
    job = Job(point.measured, test, 2, point.hcas)
    said = nccl_speeds(int(point.gbits), names) if path else ""
    return found(COLLECTIVE, said + nccl_tests(job, draw), *beside)


@pytest.mark.parametrize("point", points(), ids=lambda point: point.id)
def test_what_was_published_is_not_called_what_it_was_not(point: Point) -> None:
    draw = Random(point.id)  # noqa: S311 # drawn again the same
    forbidden = Status.PASS if point.kind in DEGRADED else Status.FAIL
    for _ in range(FORMS):
        for path in (True, False):
            finding = judged(point, draw, path=path)
            assert finding.status is not forbidden, (point, finding)


def test_most_of_what_was_healthy_passes_and_some_of_what_fell_back_fails() -> None:
    """Else the claim above would hold of a check that knows nothing."""
    draw = Random(5)  # noqa: S311 # drawn again the same
    told = [e for e in points() if e.tier is Tier.A or e.kind in DEGRADED]
    seen = Counter((e.kind in DEGRADED, judged(e, draw, path=True).status) for e in told)
    healthy = sum(count for (bad, _), count in seen.items() if not bad)
    assert seen[False, Status.PASS] >= 0.9 * healthy, seen
    assert seen[True, Status.FAIL] >= 1, seen
