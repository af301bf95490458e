"""The same work on many hosts: an Outcome for each, whatever happens."""

from __future__ import annotations

import threading
import time
from _thread import interrupt_main
from collections.abc import Callable

import pytest

from toolkit.errors import ExitCode, Outcome, TransportError, UsageError
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.ssh.pool import Abandoned, Interrupted, NotBegun, failures_allowed, run_all

TEN = [Host(f"n{number}") for number in range(10)]
DOWN = {"n2", "n3", "n5"}
Ours = Callable[[], list[threading.Thread]]


def work(host: Host) -> str:
    if host.name in DOWN:
        raise TransportError(f"{host.name}: down")
    return host.name.upper()


@pytest.fixture
def ours() -> Ours:
    """The threads of a run; those that a test before has left hanging end when they do."""
    before = set(threading.enumerate())

    def begun() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name.startswith("gdr-")]

    return lambda: [each for each in begun() if each not in before]


def test_every_host_has_an_outcome_in_the_order_given(ours: Ours) -> None:
    outcomes = run_all(TEN, work)
    assert [outcome.host for outcome in outcomes] == [host.name for host in TEN]
    assert {outcome.host for outcome in outcomes if not outcome.ok} == DOWN
    assert outcomes[0].get() == "N0"
    assert ours() == []


def test_no_host_is_no_outcome() -> None:
    assert run_all([], work) == []


def test_at_most_fanout_hosts_are_at_work_at_once() -> None:
    at_work, most, lock, full = 0, 0, threading.Lock(), threading.Event()

    def busy(host: Host) -> str:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
            if at_work == 3:
                full.set()
        assert full.wait(60), "fewer than it may have"
        time.sleep(0.02)  # in which a fourth would be seen
        with lock:
            at_work -= 1
        return host.name

    run_all(TEN, busy, fanout=3)
    assert most == 3


def test_what_the_caller_does_meanwhile_is_done_while_hosts_are_at_work() -> None:
    done = threading.Event()
    by: list[threading.Thread] = []

    def meanwhile() -> None:
        by.append(threading.current_thread())
        done.set()

    outcomes = run_all(TEN, lambda _: done.wait(60), fanout=2, meanwhile=meanwhile)
    assert all(outcome.get() for outcome in outcomes)
    assert by == [threading.current_thread()]


@pytest.mark.parametrize(
    ("max_fail", "begun"),
    [
        pytest.param(None, 10, id="no-limit"),
        pytest.param("0", 3, id="none"),
        pytest.param(1, 4, id="one"),
        pytest.param("20%", 6, id="share"),
        pytest.param("100%", 10, id="all"),
    ],
)
def test_no_further_host_is_begun_once_too_many_failed(
    max_fail: int | str | None, begun: int
) -> None:
    outcomes = run_all(TEN, work, fanout=1, max_fail=max_fail)
    assert len(outcomes) == 10
    rest = outcomes[begun:]
    assert not any(isinstance(outcome.error, NotBegun) for outcome in outcomes[:begun])
    assert all(isinstance(outcome.error, NotBegun) for outcome in rest)
    for outcome in rest:
        assert f"{outcome.host}: not begun: " in str(outcome.error)


def test_the_caller_says_what_counts_as_failed() -> None:
    def failed(outcome: Outcome[str]) -> bool:
        return outcome.value == "N1"

    outcomes = run_all(TEN, work, fanout=1, max_fail=0, failed=failed)
    assert [isinstance(each.error, NotBegun) for each in outcomes] == [False] * 2 + [True] * 8


@pytest.mark.parametrize("limit", ["x", "-1", "101%", "%", "1.5", "5 %"])
def test_a_limit_that_makes_no_sense_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match="--max-fail"):
        failures_allowed(limit, 10)


def test_a_fanout_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--fanout 0"):
        run_all(TEN, work, fanout=0)


def test_a_stop_is_heeded_before_the_next_host() -> None:
    stop = threading.Event()

    def stopping(host: Host) -> str:
        if host.name == "n3":
            stop.set()
        return host.name

    outcomes = run_all(TEN, stopping, fanout=1, stop=stop)
    assert [outcome.ok for outcome in outcomes] == [True] * 4 + [False] * 6


@pytest.mark.parametrize("bug", [ValueError("odd"), SystemExit(3)], ids=repr)
def test_a_bug_on_one_host_leaves_the_others_their_results(bug: BaseException) -> None:
    def buggy(host: Host) -> str:
        if host.name == "n4":
            raise bug
        return host.name

    outcomes = run_all(TEN, buggy)
    assert [outcome.host for outcome in outcomes if not outcome.ok] == ["n4"]
    error = outcomes[4].error
    assert error is not None
    assert error.exit_code is ExitCode.BUG
    assert error.__cause__ is bug


@pytest.mark.parametrize("asleep_s", [0, 0.5])
def test_ctrl_c_keeps_the_results_and_names_who_was_at_work(asleep_s: float, ours: Ours) -> None:
    release = threading.Event()

    def hanging(host: Host) -> str:
        if host.name == "n2":
            time.sleep(asleep_s)
            interrupt_main()  # which wakes nobody, as a signal that another thread is given
            release.wait(60)
        return host.name

    begun = time.monotonic()
    with pytest.raises(Interrupted) as stopped:
        run_all(TEN, hanging, fanout=1)
    assert time.monotonic() - begun < 30  # it does not wait for the host that hangs
    outcomes = stopped.value.outcomes
    assert [outcome.host for outcome in outcomes] == [host.name for host in TEN]
    assert [outcome.ok for outcome in outcomes[:2]] == [True, True]
    assert isinstance(outcomes[2].error, Abandoned)
    assert all(isinstance(outcome.error, NotBegun) for outcome in outcomes[3:])
    assert stopped.value.exit_code is ExitCode.INTERRUPTED
    assert all(thread.daemon for thread in ours())  # it cannot hold the process either
    release.set()
    for thread in ours():
        thread.join(60)
    assert ours() == []


def test_progress_hears_of_each_host() -> None:
    heard: dict[str, str] = {}

    class Listener(Silent):
        def done(self, host: str, trouble: str = "") -> None:
            heard[host] = trouble

    run_all(TEN, work, progress=Listener())
    assert set(heard) == {host.name for host in TEN}
    assert heard["n0"] == ""
    assert heard["n2"] == "n2: down"
