"""Which nodes of a set are run against which, round by round, and what a run came to. Pure.

    PairWays    of two nodes: the ends of each rail, nearest the GPUs first
    rounds      pairs of which no two share a node, so that none disturbs another
    PairFigure  what one test of a run measured, with more being better
    Norms       what figures are held to: the prediction, and what the others of the set reach

A round of all pairs is one of a round-robin tournament by the circle method: N nodes meet each
other once in N - 1 rounds (N of them where N is odd).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import median_high

from msgspec import Struct, field

from toolkit.checks.check import Status
from toolkit.facts.rdma.exercise import End, Test
from toolkit.features.exercise.plan import Exercise, ExerciseTerms, plan_rail
from toolkit.features.exercise.plan_judge import JudgedTest, expected
from toolkit.features.exercise.plan_proof import ProofState, in_short
from toolkit.features.exercise.plan_rails import (
    ExerciseNode,
    Rail,
    devices,
    gpu_buffer,
    nearest_gpu,
    rails,
    subnets,
)
from toolkit.throughput.estimate import Estimate, Unit

OF_A_RUN = 100  # numbers of tests: 1203 is the third of the twelfth run
_NORM_OF = 16  # ends of one prediction at least, before they have a norm of their own
_ALL = "all"
_LEAST = 6  # ends at least, before what nothing predicts is held to what most reach


class PairWay(StrEnum):
    """Which pairs are run."""

    RING = "ring"  # each node with the next one, over its best HCA
    RAIL = "rail"  # the same over every HCA
    ALL = "all"  # each node with every other one, over its best HCA
    BISECT = "bisect"  # every HCA once; then what falls short, until the part is known


class PairEnd(Struct, frozen=True, order=True):
    """One HCA of one node, with the GPU whose memory it would move."""

    host: str
    hca: str
    gpu: str = ""  # "0000:18:00.0"; "" for host memory
    subnet: str = ""  # of its IPv4 address; "" where it has none
    leaf: str = ""  # the switch at its port; "" where no LLDP tells

    def __str__(self) -> str:
        return f"{self.host} {self.hca}"


Ends = tuple[PairEnd, PairEnd]  # who connects, who listens
PairWays = Callable[[str, str], Sequence[Ends]]


class PairFigure(Struct, frozen=True):
    """What one test came to. Of a latency this is its inverse: more is better, always."""

    name: str  # "ib_write_bw, GPU, deep queue": figures of one name are comparable
    gpu: bool
    value: float
    predicted: float = 0.0  # 0 where nothing predicts it
    refuted: bool = False  # what was to be tested failed, or went another way


class PairRun(Struct, frozen=True):
    """The tests between two ends."""

    ends: Ends
    figures: tuple[PairFigure, ...] = ()  # none where it came to no result

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(end.host for end in self.ends)


def meetings(hosts: Sequence[str], turn: int) -> Iterator[tuple[str, str]]:
    """One round of a tournament, by the circle method: one host stands, the others go round."""
    ring = [*hosts[1:], ""] if len(hosts) % 2 else list(hosts[1:])  # "" pairs with who rests
    at = turn % max(1, len(ring))
    circle = [hosts[0], *ring[at:], *ring[:at]]
    for one, other in zip(circle, reversed(circle[len(circle) // 2 :]), strict=False):
        if one and other:
            yield one, other


def turns(hosts: Sequence[str]) -> int:
    """How many rounds it takes until each has met every other."""
    return len(hosts) - 1 + len(hosts) % 2


def _neighbours(hosts: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Each host with the next one, the last with the first."""
    pairs = list(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    if len(hosts) == 2:
        pairs = pairs[:1]
    even = len(pairs) - len(pairs) % 2
    yield from filter(None, (pairs[0:even:2], pairs[1:even:2], pairs[even:]))


def rounds(
    way: PairWay, hosts: Sequence[str], ways: PairWays, *, every: bool = False
) -> Iterator[tuple[Ends, ...]]:
    """The rounds of every way but ``bisect``, which follows what comes of them.

    :param every: each rail of a pair, in place of the best one.
    """
    if way is PairWay.ALL:
        met: Iterable[list[tuple[str, str]]] = (
            list(meetings(hosts, turn)) for turn in range(turns(hosts))
        )
    else:
        met = _neighbours(hosts)
    for pairs in met:
        rails = [tuple(ways(*pair)) for pair in pairs]
        most = max(map(len, rails), default=0) if every or way is PairWay.RAIL else 1
        for rail in range(most):
            if chosen := tuple(each[rail] for each in rails if rail < len(each)):
                yield chosen


class Norms:
    """What the figures of a set are held to: never more than predicted, nor than most reach.

    Where most of a set fall short by the same share, the prediction or the fabric is off, and no
    part is odd: that is told by ``whole``.
    """

    def __init__(self, runs: Iterable[PairRun]) -> None:
        # Of each end its best run: one that is run often, as bad ones are, counts once.
        best: dict[tuple[str, str], dict[PairEnd, float]] = defaultdict(dict)
        for run in runs:
            for figure in run.figures:
                share = figure.value / (figure.predicted or 1.0)
                for key in {_key(figure), (figure.name, _ALL if figure.predicted else "")}:
                    known = best[key]
                    for end in () if figure.refuted else run.ends:
                        known[end] = max(share, known.get(end, 0.0))
        self._norms = {
            key: (len(known), median_high(known.values())) for key, known in best.items() if known
        }

    def share(self, figure: PairFigure) -> float | None:
        """How much of what it should be; None where nothing tells."""
        if figure.refuted:
            return 0.0
        count, norm = self._norms.get(_key(figure), (0, 0.0))
        if not figure.predicted:
            return figure.value / norm if count >= _LEAST and norm else None
        if count < _NORM_OF:
            count, norm = self._norms.get((figure.name, _ALL), (0, 0.0))
        held = min(1.0, norm) if count >= _NORM_OF and norm else 1.0
        return figure.value / figure.predicted / held

    def worst(self, run: PairRun, *, gpu: bool | None = None) -> float | None:
        """The least share of a run's tests; of those alone that move a GPU's memory, or do not."""
        shares = [
            share
            for each in run.figures
            if gpu in {None, each.gpu} and (share := self.share(each)) is not None
        ]
        return min(shares, default=None)

    def whole(self, threshold: float) -> list[tuple[str, float, int]]:
        """Tests of which most ends of the set fall short: name, median share, ends."""
        return [
            (name, norm, count)
            for (name, kind), (count, norm) in sorted(self._norms.items())
            if kind == _ALL and count >= _NORM_OF and norm < threshold
        ]


def _key(figure: PairFigure) -> tuple[str, str]:
    """Runs of which the same is predicted: unlike nodes are not each other's norm."""
    return figure.name, f"{figure.predicted:.2g}" if figure.predicted else ""


class RanPair(Struct, frozen=True):
    """One run as it was made."""

    number: int
    round: int
    ends: Ends
    results: tuple[JudgedTest, ...] = ()

    @property
    def run(self) -> PairRun:
        return PairRun(self.ends, figures(self.results))


class PairSet(Struct):
    """The nodes that take part, and the rails between any two of them."""

    views: Mapping[str, ExerciseNode]
    terms: ExerciseTerms
    _ways: dict[tuple[str, str], dict[Ends, Rail]] = field(default_factory=dict)
    _ends: dict[tuple[str, str], PairEnd] = field(default_factory=dict)

    def ways(self, one: str, other: str) -> list[Ends]:
        """The first node connects, the second listens."""
        if (one, other) not in self._ways:
            found = rails(self.views[one], self.views[other], self.terms.hca)
            self._ways[one, other] = {
                (self._end(rail.drive), self._end(rail.serve)): rail for rail in found
            }
        return list(self._ways[one, other])

    def _end(self, end: End) -> PairEnd:
        known = self._ends.get((end.host, end.hca))
        if known is None:
            view = self.views[end.host]
            near = nearest_gpu(view, end.hca) if gpu_buffer(view)[0] else None
            device = next(each for each in devices(view) if each.name == end.hca)
            subnet = next(iter(sorted(subnets(view, device))), "")
            gpu = near.gpu if near else ""
            known = PairEnd(end.host, end.hca, gpu, subnet, view.leaf(device))
            self._ends[end.host, end.hca] = known
        return known

    def again(self, results: Sequence[JudgedTest]) -> list[RanPair]:
        """The runs that these tests are of, which their numbers tell; the round is not known."""
        parts: dict[int, list[JudgedTest]] = defaultdict(list)
        for each in results:
            parts[each.test.number // OF_A_RUN].append(each)
        return [
            RanPair(number, 0, self._ends_of(tests[0].test), tuple(tests))
            for number, tests in sorted(parts.items())
        ]

    def _ends_of(self, test: Test) -> Ends:
        return self._end(test.drive), self._end(test.serve or test.drive)

    def tests(self, ends: Ends, run: int) -> Exercise:
        """What is run between two ends, as the ``run``-th of all."""
        one, other = (self.views[end.host] for end in ends)
        self.ways(one.name, other.name)
        rail = self._ways[one.name, other.name][ends]
        return plan_rail(one, other, rail, self.terms, run * OF_A_RUN + 1)

    def predicted(self, ends: Ends) -> Estimate | None:
        """Of the test by which jobs would go: deep, and with GPU memory if there is one."""
        tests = self.tests(ends, 1).tests
        if not tests:
            return None
        nodes = {name: self.views[name].node for name in {e.host for _, e in tests[0].ends}}
        deep = [each for each in tests if each.kind is tests[0].kind]
        return expected(next((each for each in deep if each.gpu), deep[0]), nodes).estimate


def figures(results: Sequence[JudgedTest]) -> tuple[PairFigure, ...]:
    """What the tests of one run came to, those without any result left out."""
    found = []
    for each in results:
        name = in_short(each.test)
        refuted = any(point.proof is ProofState.REFUTED for point in each.points)
        if refuted or (each.value is None and each.status is Status.FAIL):
            found.append(PairFigure(name, each.test.gpu, 0.0, refuted=True))
        elif each.value:
            value = 1 / each.value if each.unit is Unit.US else each.value
            goal = value / each.ratio if each.ratio else 0.0
            found.append(PairFigure(name, each.test.gpu, value, goal))
    return tuple(found)
