"""Which part of a fleet is slow: by the runs of simulated fleets, noise and all."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from tests.features.exercise.exercising import planned, view
from tests.laws import NIGHT
from toolkit.features.exercise.plan_bisect import Bisect, PairLedger, possible
from toolkit.features.exercise.plan_judge import expected
from toolkit.features.exercise.plan_pairs import (
    Ends,
    Norms,
    PairEnd,
    PairFigure,
    PairRun,
    PairWay,
    rounds,
)

DEEP, HOST = "ib_write_bw, GPU, deep queue", "ib_write_bw, host, deep queue"
ONE, OTHER = view("gpu1"), view("gpu2")
PREDICTED = {
    (DEEP if test.gpu else HOST): found.value
    for test in planned(ONE, OTHER).tests
    if test.tool == "ib_write_bw" and test.kind.value == "deep queue"
    and (found := expected(test, {"gpu1": ONE.node, "gpu2": OTHER.node}).estimate)
}  # fmt: skip
GPU = "0000:18:00.0"


def hosts_of(count: int) -> list[str]:
    return [f"gpu{at:04}" for at in range(count)]


@dataclass
class SimulatedFleet:
    """Nodes whose figures are the model's, with noise, and slower where a part is."""

    count: int
    rails: int = 8
    slow: dict[str, float] = field(default_factory=dict)  # "gpu0007 mlx5_3", its share
    of_gpus: dict[str, float] = field(default_factory=dict)  # the same, host memory aside
    noise: float = 0.0  # of each run
    spread: float = 0.0  # of healthy parts
    bias: float = 1.0  # of the model, for the whole fleet
    disturbed: float = 0.0  # share of runs that something else made slow
    seed: int = 0
    subnets: Callable[[int, int], str] = lambda _, rail: f"10.{rail}.0.0/16"
    leaves: Callable[[int, int], str] = lambda *_: ""
    made: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 no secret is made of it
        self.hosts = hosts_of(self.count)
        self.ends = {
            host: [
                PairEnd(host, f"mlx5_{rail}", GPU, self.subnets(at, rail), self.leaves(at, rail))
                for rail in range(self.rails)
            ]
            for at, host in enumerate(self.hosts)
        }
        self.own = {
            end: math.exp(self.random.gauss(0, self.spread)) * self._slow(end, self.slow)
            for ends in self.ends.values()
            for end in ends
        }

    def _slow(self, end: PairEnd, slow: dict[str, float]) -> float:
        names = (end.host, str(end), end.subnet, end.hca, end.leaf)
        return min((slow[name] for name in names if name in slow), default=1.0)

    def ways(self, one: str, other: str) -> list[Ends]:
        return list(zip(self.ends[one], self.ends[other], strict=True))

    def run(self, ends: Ends) -> PairRun:
        self.made += 1
        hit = self.random.uniform(0.2, 0.7) if self.random.random() < self.disturbed else 1.0
        figures = []
        for name, predicted in PREDICTED.items():
            share = min(self.own[end] for end in ends)
            if name == DEEP:
                share *= min(self._slow(end, self.of_gpus) for end in ends)
            noise = math.exp(self.random.gauss(0, self.noise))
            value = predicted * self.bias * share * noise * hit
            figures.append(PairFigure(name, name == DEEP, value, predicted))
        return PairRun(ends, tuple(figures))


def bisected(fleet: SimulatedFleet) -> tuple[Bisect, int]:
    """All rounds, and how many there were; no two of a round share a node."""
    bisect = Bisect(list(fleet.hosts), fleet.ways, PairLedger(0.8))
    count = 0
    while found := bisect.next():
        count += 1
        busy = [end.host for ends in found for end in ends]
        assert len(busy) == len(set(busy))
        assert count < 60, "it comes to an end"
        bisect.ledger.learn([fleet.run(ends) for ends in found])
    return bisect, count


def named(bisect: Bisect) -> list[str]:
    return [f"{part.kind} {part.name}" for part in bisect.ledger.named()]


def test_a_fleet_without_fault_takes_one_run_an_end_pair_and_names_nobody() -> None:
    fleet = SimulatedFleet(8, rails=4)
    bisect, count = bisected(fleet)
    assert (fleet.made, count, named(bisect)) == (16, 4, [])
    assert bisect.ledger.good == {end for ends in fleet.ends.values() for end in ends}
    assert possible(32, 8) == 112


@pytest.mark.parametrize("count", [3, 4, 5, 7, 8, 9, 32])
@pytest.mark.parametrize(
    ("slow", "of_gpus", "part"),
    [
        pytest.param({"gpu0001 mlx5_2": 0.4}, {}, "HCA gpu0001 mlx5_2", id="hca"),
        pytest.param({}, {"gpu0002 mlx5_0": 0.4}, f"GPU gpu0002 {GPU}", id="gpu"),
        pytest.param({"gpu0001": 0.4}, {}, "node gpu0001", id="node"),
    ],
)
def test_one_part_is_named_and_no_other(
    count: int, slow: dict[str, float], of_gpus: dict[str, float], part: str
) -> None:
    fleet = SimulatedFleet(count, 4, slow, of_gpus)
    bisect, _ = bisected(fleet)
    assert named(bisect) == [part]
    assert bisect.ledger.open(bisect.ledger.named()) == []
    screen = math.ceil(count / 2) * 4
    assert fleet.made <= screen + (6 if "node" not in part else 12), "few runs beside the first"


def test_what_a_leaf_has_in_common_is_one_part() -> None:
    """Eight nodes of a rack; each rack has a leaf of its own, and is slow to the others."""
    racks = SimulatedFleet(32, 2, {"10.9.1.0/24": 0.5}, subnets=lambda n, _: f"10.9.{n // 8}.0/24")
    assert named(bisected(racks)[0]) == ["subnet 10.9.1.0/24"]
    rails = SimulatedFleet(32, 4, {"10.2.0.0/16": 0.5})
    assert named(bisected(rails)[0]) == ["subnet 10.2.0.0/16"]
    infiniband = SimulatedFleet(32, 4, {"mlx5_2": 0.5}, subnets=lambda *_: "")
    assert named(bisected(infiniband)[0]) == ["rail mlx5_2"]
    told = SimulatedFleet(32, 4, {"leaf12": 0.5}, leaves=lambda n, rail: f"leaf{n // 16}{rail}")
    assert named(bisected(told)[0]) == ["leaf leaf12"]


def test_two_bad_ends_that_met_each_other_first_are_both_named() -> None:
    """No end of that rail is known to be good at first; of four nodes two are bad."""
    for one, other in combinations(hosts_of(4), 2):
        fleet = SimulatedFleet(4, 2, {f"{one} mlx5_1": 0.4, f"{other} mlx5_1": 0.5})
        assert named(bisected(fleet)[0]) == [f"HCA {one} mlx5_1", f"HCA {other} mlx5_1"]


def test_two_nodes_alone_cannot_tell_which_of_them_it_is() -> None:
    bisect, _ = bisected(SimulatedFleet(2, 1, {"gpu0001": 0.4}))
    assert named(bisect) == []
    [run] = {each.ends for each in bisect.ledger.open([])}
    assert {end.host for end in run} == {"gpu0000", "gpu0001"}


def test_good_ends_that_never_do_well_together_are_told_as_a_pair() -> None:
    fleet = SimulatedFleet(6, 1)
    plain = fleet.run
    pair = {"gpu0000", "gpu0005"}  # these meet in the first round

    def run(ends: Ends) -> PairRun:
        found = plain(ends)
        if {end.host for end in ends} != pair:
            return found
        return PairRun(ends, tuple(PairFigure(f.name, f.gpu, f.value / 3, f.predicted)
                                   for f in found.figures))  # fmt: skip

    fleet.run = run  # type: ignore[method-assign] # this fleet alone runs otherwise
    bisect, _ = bisected(fleet)
    assert named(bisect) == []
    assert {run.hosts for run in bisect.ledger.open([])} == {frozenset(pair)}


def test_a_run_that_was_disturbed_comes_right_and_names_nobody() -> None:
    fleet = SimulatedFleet(8, 1)
    bisect = Bisect(list(fleet.hosts), fleet.ways, PairLedger(0.8))
    first = [fleet.run(ends) for ends in bisect.next()]
    hit = first[0]
    slow = tuple(PairFigure(f.name, f.gpu, f.value / 2, f.predicted) for f in hit.figures)
    bisect.ledger.learn([PairRun(hit.ends, slow), *first[1:]])
    while found := bisect.next():
        bisect.ledger.learn([fleet.run(ends) for ends in found])
    assert named(bisect) == []
    assert {run.ends for run in bisect.ledger.unsteady([])} == {hit.ends}
    assert bisect.ledger.open([]) == []


def test_a_model_that_is_off_for_all_makes_nobody_odd() -> None:
    fleet = SimulatedFleet(32, 4, {"gpu0003 mlx5_1": 0.5}, bias=0.7, noise=0.02)
    bisect, _ = bisected(fleet)
    assert named(bisect) == ["HCA gpu0003 mlx5_1"]
    told = {name: round(share, 1) for name, share, _ in bisect.ledger.norms.whole(0.8)}
    assert told == {DEEP: 0.7, HOST: 0.7}


def test_what_nothing_predicts_is_held_to_what_most_of_the_set_reach() -> None:
    """Soft-RoCE is as fast as its processor."""
    fleet = SimulatedFleet(8, 1, {"gpu0005": 0.3}, noise=0.03)
    plain = fleet.run
    fleet.run = lambda ends: PairRun(  # type: ignore[method-assign] # this fleet alone runs otherwise
        ends, tuple(PairFigure(f.name, f.gpu, f.value) for f in plain(ends).figures)
    )
    assert named(bisected(fleet)[0]) == ["HCA gpu0005 mlx5_0"]


def test_a_run_without_a_figure_blames_nobody_and_is_run_once_more() -> None:
    fleet = SimulatedFleet(6, 1)
    plain = fleet.run
    fleet.run = lambda ends: PairRun(  # type: ignore[method-assign] # this fleet alone runs otherwise
        ends, () if any(end.host == "gpu0004" for end in ends) else plain(ends).figures
    )
    bisect, _ = bisected(fleet)
    assert named(bisect) == []
    assert [run.hosts & {"gpu0004"} for run in bisect.ledger.void] == [{"gpu0004"}] * 2


def test_who_is_dropped_is_run_no_more() -> None:
    fleet = SimulatedFleet(6, 2)
    bisect = Bisect(list(fleet.hosts), fleet.ways, PairLedger(0.8))
    bisect.ledger.learn([fleet.run(ends) for ends in bisect.next()])
    bisect.drop("gpu0002")
    while found := bisect.next():
        assert "gpu0002" not in {end.host for ends in found for end in ends}
        bisect.ledger.learn([fleet.run(ends) for ends in found])


SLOW: tuple[dict[str, float], ...] = (
    {},
    {"gpu0123 mlx5_1": 0.6},
    {"gpu0500": 0.5},
    {"gpu0001 mlx5_0": 0.3, "gpu0998 mlx5_0": 0.65, "gpu0400 mlx5_1": 0.5},
)


@pytest.mark.parametrize("seed", range(100 if NIGHT else 3))
def test_of_a_thousand_noisy_nodes_the_slow_parts_are_named_and_no_healthy_one(seed: int) -> None:
    """Model off by up to 8 %, parts by 2 %, runs by 3 %, and one run in 100 is disturbed."""
    chance = random.Random(seed)  # noqa: S311 no secret is made of it
    slow = SLOW[seed % len(SLOW)]
    fleet = SimulatedFleet(
        1000, 2, slow, noise=0.03, spread=0.02, bias=chance.uniform(0.92, 1.08),
        disturbed=0.01, seed=seed,
    )  # fmt: skip
    bisect, count = bisected(fleet)
    wanted = [f"{'HCA' if ' ' in name else 'node'} {name}" for name in slow]
    assert sorted(named(bisect)) == sorted(wanted)
    assert fleet.made <= 1000 + 60 + 8 * len(slow), "a thousand touch every end once"
    assert count <= 2 + math.log2(1000)


def test_the_share_of_a_part_is_the_median_of_its_runs() -> None:
    parts = bisected(SimulatedFleet(8, 2, {"gpu0003 mlx5_1": 0.41}))[0].ledger.named()
    [found] = parts
    assert (round(found.share, 2), found.runs) == (0.41, 4)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9])
def test_in_a_tournament_each_meets_each_other_once(count: int) -> None:
    fleet = SimulatedFleet(count, 1)
    found = list(rounds(PairWay.ALL, fleet.hosts, fleet.ways))
    met = [tuple(sorted(end.host for end in ends)) for pairs in found for ends in pairs]
    assert sorted(met) == list(combinations(fleet.hosts, 2))
    assert len(found) == count - 1 + count % 2
    for pairs in found:
        hosts = [end.host for ends in pairs for end in ends]
        assert len(hosts) == len(set(hosts))


@pytest.mark.parametrize(
    ("way", "count", "made"),
    [(PairWay.RING, 2, 1), (PairWay.RING, 5, 5), (PairWay.RING, 8, 8), (PairWay.RAIL, 8, 24)],
)
def test_in_a_ring_each_meets_its_neighbours(way: PairWay, count: int, made: int) -> None:
    fleet = SimulatedFleet(count, 3)
    found = list(rounds(way, fleet.hosts, fleet.ways))
    assert sum(map(len, found)) == made
    assert {ends[0].hca for pairs in found for ends in pairs} == (
        {"mlx5_0"} if way is PairWay.RING else {"mlx5_0", "mlx5_1", "mlx5_2"}
    )
    for pairs in found:
        hosts = [end.host for ends in pairs for end in ends]
        assert len(hosts) == len(set(hosts))


def test_a_norm_needs_many_ends_and_is_never_more_than_what_is_predicted() -> None:
    def runs(count: int, value: float, predicted: float) -> tuple[list[PairRun], PairFigure]:
        figure = PairFigure(DEEP, True, value, predicted)
        names = hosts_of(2 * count)
        ends = [(PairEnd(a, "x"), PairEnd(b, "x")) for a, b in zip(names[::2], names[1::2])]  # noqa: B905 an even number
        return [PairRun(each, (figure,)) for each in ends], figure

    rows = (
        (20, 60, 48, 1.25),
        (3, 24, 48, 0.5),
        (20, 24, 48, 1.0),
        (2, 24, 0, None),
        (9, 24, 0, 1.0),
    )
    for count, value, predicted, share in rows:
        made, figure = runs(count, value, predicted)
        assert Norms(made).share(figure) == share
        assert Norms(made[:1] * 40).share(figure) == (value / predicted if predicted else None)
    assert Norms([]).share(PairFigure(DEEP, True, 24, 48, refuted=True)) == 0.0
