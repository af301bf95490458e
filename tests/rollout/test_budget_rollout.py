"""A rollout that shares the budget: it waits for others, and for nobody in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rollout.test_rollout_roll import FOUR, well
from tests.unit.budgeting import Run
from toolkit.errors import TransportError
from toolkit.hosts.host import Host
from toolkit.rollout.budget import books_of
from toolkit.rollout.plan.batches import Standing, Terms
from toolkit.rollout.run import Brakes, Rolled, Rollout, Threads
from toolkit.verbs.provision import Provisioned, done_well
from toolkit.verbs.rollout import ended_event

Work = Callable[[Host], Provisioned]


class Ear:
    """Hears what is said of hosts, and lets something happen at that moment."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.said: list[str] = []
        self._then = then

    def begin(self, title: str, total: int) -> None: ...
    def done(self, host: str, trouble: str = "") -> None: ...
    def finish(self) -> None: ...

    def note(self, host: str, text: str) -> None:
        self.said.append(text)
        if len(self.said) == 2:
            self._then()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[tuple[Run, Run]]:
    """Another run, with two nodes in hand, and ours; two may be unavailable."""
    other, ours = Run(tmp_path, "other", 2), Run(tmp_path, "ours", 2)
    other.ask("gpu8", "gpu9")
    yield other, ours
    ours.close()
    other.close()


def roll(run: Run, ear: Ear, work: Work, stop: Path | None = None) -> Rolled[Provisioned]:
    return Rollout(
        Terms((FOUR,), 2, 4, 4),
        Standing(),
        {name: Host(name) for name in FOUR},
        Threads(work),
        done_well,
        ended_event,
        run.journal,
        Brakes(stop_files=(stop,) if stop else ()),
        ear,
        run.budget,
    ).roll()


def test_a_rollout_waits_until_another_gives_back_and_says_so_while_it_does(
    runs: tuple[Run, Run],
) -> None:
    other, ours = runs
    most, now, lock = 0, 0, threading.Lock()

    def work(host: Host) -> Provisioned:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1
        return well(host.name).get()

    def given_back() -> None:
        other.ended("gpu8", well=True)
        other.ended("gpu9", well=True)

    ear = Ear(given_back)
    rolled = roll(ours, ear, work)
    assert set(ear.said) == {"waits for the budget of 2: run other has 2 nodes in hand"}
    assert rolled.halt == ""
    assert all(outcome.ok for outcome in rolled.outcomes.values())
    assert most <= 2
    assert books_of(ours.budget.runs).nodes == frozenset()


def test_a_stop_file_ends_the_waiting(runs: tuple[Run, Run], tmp_path: Path) -> None:
    stop = tmp_path / "halt"
    rolled = roll(runs[1], Ear(stop.touch), lambda host: well(host.name).get(), stop)
    assert rolled.halt == f"the stop file {stop} is there"


def test_nobody_is_waited_for_whose_nodes_were_left(runs: tuple[Run, Run]) -> None:
    other, ours = runs
    for host in ("gpu8", "gpu9"):
        other.acts(host, "applying")
    rolled = roll(ours, Ear(other.dies), lambda host: well(host.name).get())
    assert rolled.halt.startswith("2 nodes are unavailable, and no more than 2 may be")


def test_a_host_that_fails_midway_keeps_its_share_and_one_that_was_not_touched_does_not(
    runs: tuple[Run, Run],
) -> None:
    other, ours = runs
    other.ended("gpu8", well=True)
    other.ended("gpu9", well=True)

    def work(host: Host) -> Provisioned:
        if host.name == "gpu1":
            ours.acts("gpu1", "applying")
        raise TransportError(f"{host.name}: gone")

    roll(ours, Ear(lambda: None), work)
    assert [(s.node, s.why) for s in books_of(ours.budget.runs).shares] == [
        ("gpu1", "ended amid applying")
    ]


def test_nothing_is_begun_without_books(runs: tuple[Run, Run]) -> None:
    ours = runs[1]
    ours.budget.book.close()
    rolled = roll(ours, Ear(lambda: None), lambda host: well(host.name).get())
    assert "cannot be used" in rolled.halt
    assert ours.journal.of("gpu1") == ()
