"""What the same tests came to in earlier runs: a pair over time, and where it declines. Pure.

A test that is still above its bound may be slower than it was: a cable that ages, a firmware that
was changed. That is told before it fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from toolkit.features.exercise.plan_judge import JudgedTest
from toolkit.features.exercise.plan_proof import Earlier, SameTest, same
from toolkit.throughput.estimate import Unit

_LEAST = 3  # earlier figures, before a lower one is told
_DROP = 0.05  # of what is usual: less is no decline
_SPREADS = 4.0  # of the earlier figures' own spread, as a standard deviation
_AS_SIGMA = 1.4826  # of normal noise the standard deviation, of the median deviation


class Decline(Struct, frozen=True):
    """A test that is worse than it used to be."""

    test: JudgedTest
    usual: float  # median of the earlier figures
    runs: int  # of which
    since: str  # the oldest of them: "2026-11-20"

    @property
    def share(self) -> float:
        """Of what is usual; of a latency its inverse."""
        value = self.test.value or 0.0
        return self.usual / value if self.test.unit is Unit.US else value / self.usual


def declines(
    results: Iterable[JudgedTest], past: Iterable[Earlier], *, simulated: bool = False
) -> list[Decline]:
    """Those that are below what earlier runs measured between the same ends, the worst first.

    :param simulated: held to simulated figures alone, which no others are held to.
    """
    before: dict[SameTest, list[Earlier]] = defaultdict(list)
    for one in past:
        if one.value and not one.fell_back and one.simulated is simulated:
            before[one.same].append(one)
    found = []
    for each in results:
        known = before.get(same(each.test), [])
        if each.value and len(known) >= _LEAST and (told := _decline(each, known)):
            found.append(told)
    return sorted(found, key=lambda one: one.share)


def _decline(now: JudgedTest, known: Sequence[Earlier]) -> Decline | None:
    values = [one.value for one in known]
    usual = median(values)
    spread = _AS_SIGMA * median(abs(value - usual) for value in values)
    worse = (now.value or 0.0) - usual if now.unit is Unit.US else usual - (now.value or 0.0)
    if worse <= max(_DROP * usual, _SPREADS * spread):
        return None
    return Decline(now, usual, len(values), min(one.when for one in known)[:10])
