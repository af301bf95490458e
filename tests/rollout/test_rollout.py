"""Which hosts are begun next: the three laws, whatever happens."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.rollout.plan.batches import (
    NO_LIMIT,
    Next,
    Standing,
    Terms,
    advance,
    batches,
    begun,
    ended,
    over,
    terms_of,
)

SIX = tuple(f"gpu{number:02d}" for number in range(6))


def terms(*cut: tuple[str, ...], budget: int = 99, failures: int = 0, at_once: int = 64) -> Terms:
    return Terms(cut or (SIX[:1], SIX[1:3], SIX[3:]), budget, failures, at_once)


def through(now: Standing, *hosts: str, well: bool = True) -> Standing:
    now = begun(now, hosts)
    for host in hosts:
        now = ended(now, host, well=well)
    return now


def test_the_canary_goes_alone() -> None:
    assert advance(terms(), Standing()) == Next(SIX[:1])
    assert advance(terms(), begun(Standing(), SIX[:1])) == Next()


def test_a_batch_begins_once_the_one_before_it_has_ended() -> None:
    after = through(Standing(), SIX[0])
    assert advance(terms(), after) == Next(SIX[1:3])
    half = ended(begun(after, SIX[1:3]), SIX[1], well=True)
    assert advance(terms(), half) == Next()
    assert advance(terms(), ended(half, SIX[2], well=True)) == Next(SIX[3:])


def test_a_canary_that_fails_touches_nobody_else_whatever_may_fail() -> None:
    failed = through(Standing(), SIX[0], well=False)
    assert advance(terms(failures=99), failed) == Next(halt="the canary gpu00 failed")


def test_a_single_batch_has_no_canary() -> None:
    failed = through(Standing(), SIX[0], well=False)
    assert advance(terms(SIX, failures=1), failed) == Next(SIX[1:])


def test_more_failures_than_allowed_begin_nothing_more() -> None:
    now = through(through(Standing(), SIX[0]), SIX[1], well=False)
    assert advance(terms(failures=1), now) == Next((SIX[2],))
    assert (
        advance(terms(failures=0), now).halt == "1 host has failed, and no more than 0 may: gpu01"
    )


def test_failed_and_lost_nodes_count_against_the_budget() -> None:
    failed = through(through(Standing(), SIX[0]), SIX[1], well=False)
    assert advance(terms(budget=2, failures=9), failed) == Next((SIX[2],))
    assert advance(terms(budget=1, failures=9), failed).halt.startswith("1 node is unavailable")
    lost = Standing(down=frozenset({"elsewhere"}))
    assert advance(terms(SIX, budget=3), lost) == Next(SIX[:2])


def test_a_host_that_is_down_already_goes_first_and_costs_nothing() -> None:
    now = Standing(down=frozenset({SIX[4]}))
    assert advance(terms(SIX, budget=1), now) == Next((SIX[4],))
    assert advance(terms(SIX, budget=2), now) == Next((SIX[4], SIX[0]))


def test_more_down_than_the_budget_begin_nothing_not_even_themselves() -> None:
    """Who was out of reach for a moment may serve: to take him in hand would cost one."""
    step = advance(terms(SIX, budget=1), Standing(down=frozenset(SIX[4:])))
    assert step == Next(halt="2 nodes are unavailable, and no more than 1 may be")


def test_all_done_is_no_halt() -> None:
    now = through(Standing(), *SIX)
    assert over(terms(), now)
    assert advance(terms(), now) == Next()


names = st.integers(1, 12).map(lambda count: tuple(f"n{at}" for at in range(count)))
serials = st.lists(st.sampled_from(["1", "2", "5", "10%", "50%", "100%"]), max_size=3).map(",".join)


@st.composite
def agreed(draw: st.DrawFn) -> Terms:
    cut = tuple(batches(draw(names), draw(serials)))
    return Terms(cut, draw(st.integers(1, 12)), draw(st.integers(0, 12)), draw(st.integers(1, 12)))


@given(given_terms=agreed(), down=st.integers(0, 3), dice=st.randoms(use_true_random=False))
def test_the_laws_hold_after_every_step(given_terms: Terms, down: int, dice: Random) -> None:
    hosts = [host for batch in given_terms.batches for host in batch]
    now = Standing(down=frozenset(hosts[len(hosts) - down :]))
    before = len(now.unavailable)
    begun_once: list[str] = []
    while True:
        step = advance(given_terms, now)
        _hold(given_terms, now, step)
        begun_once += step.begin
        now = begun(now, step.begin)
        assert len(now.unavailable) <= max(given_terms.budget, before)
        assert not step.begin or len(now.unavailable) <= given_terms.budget
        assert len(now.in_hand) <= given_terms.at_once
        if not now.in_hand:
            break
        host = sorted(now.in_hand)[int(dice.random() * len(now.in_hand))]
        now = ended(now, host, well=dice.random() < 0.8)
    assert len(begun_once) == len(set(begun_once)), "a host was begun twice"
    assert over(given_terms, now) or step.halt


def _hold(given_terms: Terms, now: Standing, step: Next) -> None:
    canary = set(given_terms.canary)
    if canary & now.failed or len(now.failed) > given_terms.failures:
        assert not step.begin
    for host in step.begin:
        at = next(at for at, batch in enumerate(given_terms.batches) if host in batch)
        earlier = {each for batch in given_terms.batches[:at] for each in batch}
        assert earlier <= now.done | now.failed, "a batch was begun before its turn"


@pytest.mark.parametrize(
    ("count", "serial", "sizes"),
    [
        pytest.param(128, "1,10%,50%", [1, 12, 64, 51], id="the-usual"),
        pytest.param(10, "1,10%,50%", [1, 1, 5, 3], id="small-fleet"),
        pytest.param(5, "2", [2, 2, 1], id="the-last-is-repeated"),
        pytest.param(5, "1%", [1, 1, 1, 1, 1], id="a-share-is-at-least-one"),
        pytest.param(3, "100%", [3], id="all-at-once"),
        pytest.param(3, "", [3], id="not-said"),
        pytest.param(0, "1", [], id="nobody"),
    ],
)
def test_batches_are_cut(count: int, serial: str, sizes: list[int]) -> None:
    hosts = [f"n{at}" for at in range(count)]
    cut = batches(hosts, serial)
    assert [len(batch) for batch in cut] == sizes
    assert [host for batch in cut for host in batch] == hosts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"serial": "0"}, "a batch of no hosts", id="empty-batch"),
        pytest.param({"serial": "0%"}, "a batch of no hosts", id="no-share"),
        pytest.param({"serial": "1,,2"}, "--serial ''", id="a-comma-too-many"),
        pytest.param({"serial": "10%%"}, "--serial '10%%'", id="two-signs"),
        pytest.param({"max_unavailable": "0"}, "no node may be touched", id="no-budget"),
        pytest.param({"max_unavailable": "-1"}, "--max-unavailable '-1'", id="negative"),
        pytest.param({"max_unavailable": "0%"}, "no node may be touched", id="no-share-of-it"),
        pytest.param({"at_once": 0}, "--fanout 0: at least 1", id="nobody-at-a-time"),
        pytest.param({"max_fail": "101%"}, "--max-fail '101%'", id="more-than-all"),
    ],
)
def test_terms_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        terms_of(SIX, **options)


def test_what_was_not_said_allows_what_it_always_did() -> None:
    assert terms_of(SIX) == Terms((SIX,), NO_LIMIT, 6, 64)
    assert terms_of(SIX, serial="1").failures == 0
    assert terms_of(SIX, max_unavailable="10%").budget == 1
    least = terms_of(SIX, max_unavailable=" 50% ", max_fail="100%", at_once=1)
    assert least == Terms((SIX,), 3, 6, 1)
    assert terms_of(SIX, max_fail="10%").failures == 0, "of failures a share may be none"


def test_hosts_out_of_reach_keep_nobody_waiting_where_no_limit_was_said() -> None:
    lost = Standing(down=frozenset({"dead1", "dead2"}))
    assert advance(terms_of(SIX[:1]), lost) == Next(SIX[:1])
    assert advance(terms_of(SIX[:1], max_unavailable="1"), lost).halt.startswith("2 nodes are")
