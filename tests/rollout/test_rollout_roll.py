"""The loop of a rollout: what stops it, what it finishes, and what it says of the rest."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.hosts.host import Host
from toolkit.progress import Progress, Silent
from toolkit.rollout.journal import About, Journal, JournalError
from toolkit.rollout.plan.batches import Standing, Terms
from toolkit.rollout.plan.window import parse_window
from toolkit.rollout.run import Brakes, HostWorkers, Rolled, Rollout, Threads
from toolkit.ssh.pool import Abandoned, NotBegun
from toolkit.verbs.provision import Provisioned, done_well
from toolkit.verbs.rollout import ended_event

FOUR = ("gpu1", "gpu2", "gpu3", "gpu4")
BY_ONE = tuple((name,) for name in FOUR)
NIGHT = datetime(2026, 11, 21, 23)
Before = Callable[[str], None]


class Content:
    """Stands in for a judged node of which only the exit code and failures are asked."""

    exit_code = ExitCode.OK
    gpus = True
    whole = property(lambda self: self)

    def having(self, status: Status) -> tuple[Verdict, ...]:
        return ()


def well(host: str) -> Outcome[Provisioned]:
    judged = cast("Judged", Content())
    return Outcome(host, Provisioned(judged, judged))


class Instant(HostWorkers[Provisioned]):
    """Every host is done as soon as it is asked for; ``before`` is called first."""

    def __init__(self, before: Before = lambda _: None) -> None:
        self.begun: list[str] = []
        self._waiting: list[str] = []
        self._before = before

    def begin(self, host: Host) -> None:
        self.begun.append(host.name)
        self._waiting.append(host.name)

    def next(self, limit_s: float) -> Outcome[Provisioned] | None:
        self._before(self._waiting[0])
        return well(self._waiting.pop(0))


class Listener(Silent):
    def __init__(self) -> None:
        self.heard: dict[str, str] = {}

    def done(self, host: str, trouble: str = "") -> None:
        self.heard[host] = trouble


def rolled(
    hands: HostWorkers[Provisioned],
    *,
    progress: Progress | None = None,
    brakes: Brakes | None = None,
    journal: Journal | None = None,
    batches: tuple[tuple[str, ...], ...] = BY_ONE,
    standing: Standing | None = None,
) -> Rolled[Provisioned]:
    hosts = {name: Host(name) for name in FOUR}
    terms = Terms(batches, 4, 0, 4)
    return Rollout(
        terms,
        standing or Standing(),
        hosts,
        hands,
        done_well,
        ended_event,
        journal,
        brakes or Brakes(),
        progress or Silent(),
    ).roll()


def test_all_hosts_in_order_and_nothing_to_explain() -> None:
    hands = Instant()
    ended = rolled(hands)
    assert hands.begun == list(FOUR)
    assert ended.halt == ""
    assert all(outcome.ok for outcome in ended.outcomes.values())


def test_the_first_ctrl_c_finishes_what_is_in_hand_and_begins_no_other() -> None:
    def press(host: str) -> None:
        if host == "gpu2":
            os.kill(os.getpid(), signal.SIGINT)

    hands = Instant(press)
    ended = rolled(hands)
    assert hands.begun == ["gpu1", "gpu2"]
    assert ended.interrupted
    assert ended.outcomes["gpu2"].ok
    assert isinstance(ended.outcomes["gpu3"].error, NotBegun)
    assert ended.halt == "interrupted"


def test_the_second_ctrl_c_ends_at_once_and_says_what_was_at_work() -> None:
    def press_twice(host: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    ended = rolled(Instant(press_twice), batches=(FOUR[:2], FOUR[2:]))
    kinds = {name: type(outcome.error) for name, outcome in ended.outcomes.items()}
    assert kinds == dict(zip(FOUR, [Abandoned, Abandoned, NotBegun, NotBegun], strict=True))


def test_a_stop_file_begins_no_other(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    hands = Instant(lambda _: stop.touch())
    ended = rolled(hands, brakes=Brakes(stop_files=(stop,)))
    assert hands.begun == ["gpu1"]
    assert ended.halt == f"the stop file {stop} is there"


def test_a_window_that_closes_begins_no_other_and_says_when_it_opens() -> None:
    now = [NIGHT]
    hands = Instant(lambda _: now.append(NIGHT.replace(day=22, hour=4)))
    window = parse_window("Sat 22:00-04:00", NIGHT)
    ended = rolled(hands, brakes=Brakes(window, clock=lambda: now[-1]))
    assert hands.begun == ["gpu1"]
    assert ended.halt == "the window Sat 22:00-04:00 is closed; it opens Sat 2026-11-28 22:00"


def test_a_disk_that_is_full_stops_before_the_next_host(tmp_path: Path) -> None:
    about = About("provision", "op@here", datetime.now(UTC).isoformat())
    with Journal.create(tmp_path / "run", about) as journal:

        def fill(host: str) -> None:
            pages = journal._base.execute("PRAGMA page_count").fetchone()[0]
            journal._base.execute("CREATE TABLE stuff (x)")
            journal._base.execute(f"PRAGMA max_page_count = {pages}")
            journal._base.execute("PRAGMA query_only = 1")

        hands = Instant(fill)
        ended = rolled(hands, journal=journal)
    assert hands.begun == ["gpu1"]
    assert "cannot be used" in ended.halt
    assert ended.outcomes["gpu1"].ok, "what was in hand is told of all the same"
    assert isinstance(ended.outcomes["gpu2"].error, NotBegun)


def test_what_ends_a_rollout_ends_it_amid_a_batch(tmp_path: Path) -> None:
    """Each is looked at before a host is begun, and not once for all that may be begun."""
    stop = tmp_path / "stop"

    class Then(Instant):
        def __init__(self, then: Callable[[], object]) -> None:
            super().__init__()
            self.then = then

        def begin(self, host: Host) -> None:
            super().begin(host)
            self.then()

    hands = Then(stop.touch)
    ended = rolled(hands, batches=(FOUR,), brakes=Brakes(stop_files=(stop,)))
    assert (hands.begun, ended.halt) == (["gpu1"], f"the stop file {stop} is there")
    about = About("provision", "op@here", datetime.now(UTC).isoformat())
    with Journal.create(tmp_path / "run", about) as journal:
        hands = Then(lambda: journal._base.execute("PRAGMA query_only = 1"))
        ended = rolled(hands, batches=(FOUR,), journal=journal)
    assert hands.begun == ["gpu1"], "what cannot be written down is not begun"
    assert "cannot be used" in ended.halt


def test_a_turn_that_could_not_be_written_down_begins_no_other() -> None:
    def work(host: Host) -> Provisioned:
        raise JournalError(f"{host.name}: the disk is full")

    ended = rolled(Threads(work))
    assert ended.halt == "gpu1: the disk is full"
    assert isinstance(ended.outcomes["gpu2"].error, NotBegun)


def test_what_was_done_in_an_earlier_turn_is_not_begun_again() -> None:
    hands = Instant()
    ended = rolled(hands, standing=Standing(done=frozenset({"gpu1", "gpu3"})))
    assert hands.begun == ["gpu2", "gpu4"]
    assert set(ended.outcomes) == {"gpu2", "gpu4"}


def test_threads_hand_over_each_outcome_once() -> None:
    def work(host: Host) -> Provisioned:
        if host.name == "gpu2":
            raise TransportError("gpu2: gone")
        return well(host.name).get()

    listener = Listener()
    ended = rolled(Threads(work), batches=(FOUR[:1], FOUR[1:]), progress=listener)
    assert listener.heard == {**dict.fromkeys(FOUR, ""), "gpu2": "gpu2: gone"}
    assert [name for name in FOUR if ended.outcomes[name].ok] == ["gpu1", "gpu3", "gpu4"]
    with pytest.raises(TransportError):
        ended.outcomes["gpu2"].get()
