"""One budget for all who change nodes at once: what is decided, and that nobody gets around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.budgeting import Run
from toolkit.errors import TransportError, UsageError
from toolkit.rollout.budget import Budget, books_of, release, set_aside
from toolkit.rollout.budget_store import Book, BudgetError, BudgetRow
from toolkit.rollout.claims import claim
from toolkit.rollout.plan.batches import Past, Phase, Step
from toolkit.rollout.plan.budget import Answer, Books, CountedAs, Share, ask, left_by

ROOT = Path(__file__).parents[2]
NODES = tuple(f"gpu{number}" for number in range(8))
MIDWAY = ("begun", "applying")


def in_hand(run: str, *nodes: str) -> tuple[Share, ...]:
    return tuple(Share(node, run, CountedAs.IN_HAND) for node in nodes)


def test_the_strictest_of_living_runs_is_obeyed_by_all() -> None:
    books = Books(in_hand("a", "gpu0"), {"a": 8, "b": 2})
    assert ask(books, NODES[1:]).granted == ("gpu1",)


def test_a_node_that_is_unavailable_already_costs_nothing_more() -> None:
    books = Books((Share("gpu0", "a", CountedAs.LEFT),), {"b": 1})
    assert ask(books, ("gpu0",)).granted == ("gpu0",)
    assert ask(books, ("gpu1",), {"gpu1": "drained by root"}).granted == ()


def test_a_run_waits_while_another_has_nodes_in_hand_and_says_for_whom() -> None:
    books = Books(in_hand("a", "gpu0", "gpu1"), {"b": 2})
    waits = "waits for the budget of 2: run a has 2 nodes in hand"
    assert ask(books, ("gpu2",)) == Answer(wait=waits)


def test_nobody_waits_for_what_nobody_will_give_back() -> None:
    books = Books((Share("gpu0", "a", CountedAs.LEFT, "ended amid rebooting"),), {"b": 2})
    halt = (
        "2 nodes are unavailable, and no more than 2 may be: "
        "gpu1 drained by root; gpu0 left midway by a (ended amid rebooting)"
    )
    assert ask(books, ("gpu2",), {"gpu1": "drained by root"}) == Answer(halt=halt)


def test_what_is_set_aside_counts_without_a_node() -> None:
    books = Books((Share("kubernetes/x", "", CountedAs.ASIDE, "a DaemonSet", count=3),), {"b": 4})
    assert books.room() == 1
    assert ask(books, NODES).granted == ("gpu0",)


@given(
    held=st.lists(
        st.tuples(st.sampled_from(NODES), st.sampled_from(list(CountedAs)[:4])), max_size=9
    ),
    away=st.sets(st.sampled_from(NODES)),
    limits=st.lists(st.integers(1, 9), max_size=3),
    aside=st.integers(0, 3),
)
def test_no_more_than_the_strictest_limit_are_ever_unavailable(
    held: list[tuple[str, CountedAs]], away: set[str], limits: list[int], aside: int
) -> None:
    shares = [Share(node, "a", kind) for node, kind in held]
    shares += [Share("engine", "", CountedAs.ASIDE, count=aside)] if aside else []
    books = Books(tuple(shares), {str(at): limit for at, limit in enumerate(limits)})
    answer = ask(books, NODES, dict.fromkeys(away, "reported"))
    now = books.nodes | away
    if answer.granted and limits:
        assert len(now | set(answer.granted)) + aside <= min(limits)
    assert bool(answer.granted) + bool(answer.wait) + bool(answer.halt) == 1
    assert bool(answer.wait) <= any(kind is CountedAs.IN_HAND for _, kind in held)


@pytest.mark.parametrize(
    ("phases", "answered", "left"),
    [
        pytest.param("begun", False, None, id="nothing-was-done"),
        pytest.param("begun looking", False, None, id="it-was-looked-at"),
        pytest.param("begun draining", False, CountedAs.OUT, id="drain-was-asked-for"),
        pytest.param("begun draining failed", False, CountedAs.OUT, id="drain-failed"),
        pytest.param("draining untaken failed", False, None, id="its-jobs-went-on"),
        pytest.param("draining drained applying", False, CountedAs.OUT, id="drained"),
        pytest.param(
            "draining drained applying looking undraining", False, CountedAs.OUT, id="maybe"
        ),
        pytest.param("begun applying", False, CountedAs.LEFT, id="amid-a-change"),
        pytest.param("begun applying rebooting", False, CountedAs.LEFT, id="amid-a-boot"),
        pytest.param("begun applying looking failed", True, None, id="it-answers-and-serves"),
        pytest.param("begun applying failed", False, CountedAs.LEFT, id="the-change-failed"),
        pytest.param(
            "draining drained applying looking failed", True, CountedAs.OUT, id="kept-out"
        ),
        pytest.param("begun applying looking done", False, None, id="done"),
        pytest.param("", False, None, id="nothing-known"),
    ],
)
def test_what_a_run_leaves_behind(phases: str, answered: bool, left: CountedAs | None) -> None:
    past = Past(tuple(Step("gpu0", Phase(phase)) for phase in phases.split()))
    found = left_by(past, answered=answered)
    assert (found[0] if found else None) == left


def test_whoever_brings_a_node_that_was_left_well_gives_its_share_back(tmp_path: Path) -> None:
    dead = Run(tmp_path, "a", 1)
    dead.ask("gpu0")
    dead.acts("gpu0", "applying", "rebooting")
    dead.dies()
    run = Run(tmp_path, "b", 1)
    assert run.ask("gpu1").halt
    assert run.ask("gpu0").granted
    run.ended("gpu0", well=True)
    assert run.ask("gpu1").granted
    run.close()


def test_the_same_run_taken_up_again_has_its_nodes_for_nothing(tmp_path: Path) -> None:
    dead = Run(tmp_path, "a", 1)
    dead.ask("gpu0")
    dead.acts("gpu0", "applying")
    dead.dies()
    with (
        claim(tmp_path, "a", "op@here", ["gpu0:22"], alone=True),
        Budget.open(tmp_path, "a", 1) as again,
    ):
        assert again.ask(["gpu1"]).halt
        assert again.ask(["gpu0"]).granted


def test_a_node_out_of_service_is_given_back_by_whoever_undrains_it(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", 1)
    run.ask("gpu0")
    run.acts("gpu0", "draining", "drained", "applying", "looking")
    run.ended("gpu0", well=False)
    run.close()
    later = Run(tmp_path, "b", 1)
    later.budget.well(["gpu0"])
    assert "gpu0 out of service by a" in later.ask("gpu1").halt
    later.ask("gpu0")
    later.acts("gpu0", "draining", "drained", "applying", "looking", "undraining")
    later.ended("gpu0", well=True)
    assert later.ask("gpu1").granted
    later.close()


def test_a_failed_node_that_answers_and_is_no_worse_serves(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", 1)
    run.ask("gpu0")
    run.acts("gpu0", "applying", "looking")
    run.ended("gpu0", well=False)  # it owes a reboot that was not allowed
    run.ask("gpu1")
    run.ended("gpu1", well=False, harm="worse than before: gpu.count")
    assert run.ask("gpu2").halt.endswith("gpu1 left midway by a (worse than before: gpu.count)")
    run.budget.well(["gpu1"])  # somebody has seen to it, and it is as wanted
    assert run.ask("gpu2").granted
    run.ended("gpu2", well=True, harm="what was said of it before")
    assert run.ask("gpu3").granted, "it serves: that is what counts"
    run.close()


def test_hosts_that_a_living_run_cannot_reach_count_until_it_ends(tmp_path: Path) -> None:
    with claim(tmp_path, "a", "op@here", ["gpu0:22"], alone=True):
        first = Budget.open(tmp_path, "a", None, lost=["root@gpu0"])
        run = Run(tmp_path, "b", 1)
        assert "gpu0 out of reach by a" in run.ask("gpu1").halt
        first.close()
        assert run.ask("gpu1").granted
        run.close()


def test_what_others_report_counts_and_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", 1, reported={"gpu7": "drained in Slurm: bad fan"})
    assert run.ask("gpu0").halt.endswith("gpu7 drained in Slurm: bad fan")
    run.close()


def test_a_run_is_not_ended_by_what_others_reported_a_while_ago(tmp_path: Path) -> None:
    told = [{"gpu7": "Slurm has it IDLE+NOT_RESPONDING"}, {}]
    with (
        claim(tmp_path, "a", "op@here", ["gpu0:22"], alone=True),
        Budget.open(tmp_path, "a", 1, reported=lambda: told.pop(0)) as budget,
    ):
        assert budget.ask(["gpu0"]).granted == ("gpu0",)
    assert told == []


def test_nothing_is_begun_where_what_others_report_cannot_be_read(tmp_path: Path) -> None:
    def broken() -> Mapping[str, str]:
        raise TransportError("slurmctld does not answer")

    with (
        claim(tmp_path, "a", "op@here", ["gpu0:22"], alone=True),
        Budget.open(tmp_path, "a", 9, reported=broken) as budget,
        pytest.raises(TransportError, match="slurmctld"),
    ):
        budget.ask(["gpu0"])
    assert books_of(tmp_path).nodes == frozenset()


def test_a_share_that_a_later_version_wrote_is_not_guessed_at(tmp_path: Path) -> None:
    book = Book(tmp_path)
    with book.moment() as moment:
        moment.put(BudgetRow("gpu1", "a", "frozen", "", "2026-11-22T20:00:00Z"))
    book.close()
    assert book.file == tmp_path / ".budget.sqlite", "where that version looks, too"
    for look in (lambda: books_of(tmp_path), lambda: release(tmp_path, ["gpu1"])):
        with pytest.raises(BudgetError, match="gpu1 as 'frozen'"):
            look()


def test_an_operator_releases_what_no_living_run_holds(tmp_path: Path) -> None:
    set_aside(tmp_path, "kubernetes/x", 2, "a DaemonSet")
    run = Run(tmp_path, "a", 3)
    assert run.ask("gpu0", "gpu1").granted == ("gpu0",)
    with pytest.raises(UsageError, match="gpu0: run a is at work there"):
        release(tmp_path, ["gpu0"])
    with pytest.raises(UsageError, match="gpu9: nothing of the budget is held there"):
        release(tmp_path, ["gpu9"])
    assert [share.count for share in release(tmp_path, ["kubernetes/x"])] == [2]
    assert run.ask("gpu1", "gpu2").granted == ("gpu1", "gpu2")
    run.close()
    assert books_of(tmp_path).nodes == frozenset(), "nothing was done to them"


def test_no_more_is_set_aside_than_there_is_room_for(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", 4)
    run.ask("gpu1", "gpu2")
    set_aside(tmp_path, "ansible/site", 2, "")
    with pytest.raises(BudgetError, match=r"no more than 4 may be .* 2 nodes are by then: no room"):
        set_aside(tmp_path, "ansible/site", 3, "")  # in place of the two, not beside them
    with pytest.raises(BudgetError, match="4 nodes are by then"):  # what others hold counts
        set_aside(tmp_path, "kubernetes/x", 1, "")
    assert books_of(tmp_path).aside == 2
    assert run.ask("gpu3").wait
    run.close()
    set_aside(tmp_path, "ansible/site", 300, "")  # nobody lives who was told of a limit
