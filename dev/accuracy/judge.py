"""Each point against the model that never saw its source, and the naive predictor beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from dev.accuracy.apply import healthy, naive, predicted
from dev.accuracy.fit import fitted
from dev.accuracy.points import Point, Tier
from toolkit.compat.throughput import Constants, Range

DEGRADED = frozenset({"acs", "staged", "fallback", "iommu"})
THRESHOLDS = (0.70, 0.75, 0.80, 0.85, 0.90)


@dataclass(frozen=True, slots=True)
class Judged:
    """One point with what was said of it before it was seen."""

    point: Point
    said: Range
    naive: float
    healthy: float  # bandwidth of a sound node in this test; 0 for a latency

    @property
    def error(self) -> float:
        return self.said.value / self.point.measured - 1

    @property
    def naive_error(self) -> float:
        return self.naive / self.point.measured - 1

    @property
    def inside(self) -> bool:
        """Whether it lies in the interval that was told."""
        return self.said.low <= self.point.measured <= self.said.high

    @property
    def ratio(self) -> float:
        """Measured against the sound node."""
        return self.point.measured / self.healthy


def judge(points: tuple[Point, ...], c: Constants) -> tuple[Judged, ...]:
    """Leave one source out: constants are fitted anew for each."""
    found: list[Judged] = []
    for source in dict.fromkeys(each.source for each in points):
        others = fitted((each for each in points if each.source != source), c)
        for each in points:
            if each.source == source:
                sound = 0.0 if each.is_latency else healthy(each, others).value
                said = _as_printed(each, predicted(each, others), others)
                found.append(Judged(each, said, naive(each, others), sound))
    return tuple(sorted(found, key=lambda each: each.point.id))


def _as_printed(point: Point, said: Range, c: Constants) -> Range:
    """With the width that ``predict`` gives to bandwidths and to the latency of verbs."""
    width = c["width-physics"]
    by_library = point.kind.startswith("mpi_lat")
    return said if by_library else said.wider(width.low, width.high)


@dataclass(frozen=True, slots=True)
class Score:
    """How a predictor did on the points of one tier; errors as fractions."""

    count: int
    median: float
    within_10: float  # share of points
    within_25: float
    within_2x: float
    worst: float  # the largest error, by its size


def score(judged: Iterable[Judged], tier: Tier, error: Callable[[Judged], float]) -> Score:
    errors = [error(each) for each in judged if each.point.tier is tier]
    sizes = [abs(each) for each in errors]

    def share(inside: Callable[[float], bool]) -> float:
        return sum(map(inside, errors)) / len(errors)

    return Score(
        len(errors),
        median(sizes),
        share(lambda e: abs(e) <= 0.10),
        share(lambda e: abs(e) <= 0.25),
        share(lambda e: 0.5 <= 1 + e <= 2),
        max(sizes),
    )


def detected(judged: Iterable[Judged], threshold: float) -> tuple[int, int, int, int]:
    """Missed of degraded, false alarms of healthy: (missed, degraded, alarms, healthy)."""
    bad = [e for e in judged if e.healthy and e.point.kind in DEGRADED]
    good = [
        e for e in judged if e.healthy and e.point.tier is Tier.A and e.point.kind not in DEGRADED
    ]
    missed = [each for each in bad if each.ratio >= threshold]
    alarms = [each for each in good if each.ratio < threshold]
    return len(missed), len(bad), len(alarms), len(good)
