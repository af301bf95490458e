"""The simulation of fleets larger than one controller keeps the laws that real ones keep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import scale
from tests.bench.scale_engines import KINDS, change, constants, look, shared_machine, ssh, ways
from tests.bench.scale_rollout import rolled
from tests.bench.scale_sim import Engine, Piece, Times, Turn, changes, simulate
from tests.laws import tried

DOCS = Path(__file__).parents[2] / "docs/scale.md"
TIMES = Times(drain_s=600, apply_s=60, reboot_s=300, settle_s=30)
turns = st.lists(
    st.builds(
        Turn,
        st.lists(
            st.builds(Piece, st.floats(0, 50), st.sampled_from([(), ("a",), ("a", "b")])),
            max_size=4,
        ).map(tuple),
        st.booleans(),
    ),
    max_size=30,
)


@tried(60)
@given(turns, st.integers(1, 9), st.integers(1, 9), st.floats(0, 5))
def test_never_more_than_the_budget_and_no_node_is_lost_or_made(
    given_turns: list[Turn], slots: int, budget: int, begins_s: float
) -> None:
    engine = Engine("any", slots, begins_s, {"a": 2, "b": 1})
    run = simulate(given_turns, engine, budget)
    assert run.most_unavailable <= budget
    assert run.most_in_hand <= min(slots, budget)
    assert run.done + run.failed + run.left == len(given_turns)
    assert run.left == 0 or run.failed >= budget
    assert all(0 <= share <= 1 + 1e-9 for share in run.busy.values())
    least = max((sum(p.seconds for p in turn.pieces) for turn in given_turns), default=0.0)
    assert run.left or run.seconds >= least - 1e-6


def test_more_at_once_is_never_slower() -> None:
    taken = tuple(changes(300, TIMES, before=(), after=(), seed=3))
    spans = [simulate(taken, Engine("x", slots), 300).seconds for slots in (1, 2, 5, 20, 300)]
    assert spans == sorted(spans, reverse=True)
    budgets = [simulate(taken, Engine("x", 300), budget).seconds for budget in (1, 3, 30, 300)]
    assert budgets == sorted(budgets, reverse=True)


def test_a_turn_is_the_same_for_every_engine_and_another_for_another_seed() -> None:
    one, two, other = (
        tuple(changes(9, TIMES, before=(), after=(), seed=seed)) for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other
    assert change(ssh(64), 50, 5, TIMES) == change(ssh(64), 50, 5, TIMES)


def test_one_at_a_time_takes_the_sum_of_all_turns() -> None:
    taken = tuple(changes(40, TIMES, before=(), after=(), seed=1))
    total = sum(piece.seconds for turn in taken for piece in turn.pieces)
    assert simulate(taken, Engine("x", 1), 40).seconds == pytest.approx(total)


def test_what_is_shared_is_worked_off_in_turn() -> None:
    taken = [Turn((Piece(2.0, ("core",)),))] * 10
    run = simulate(taken, Engine("x", 10, 0.0, {"core": 2}), 10)
    assert (run.seconds, run.busy["core"]) == (10.0, 1.0)


def test_nodes_that_fail_use_the_budget_up_and_the_rest_is_left() -> None:
    taken = [Turn((Piece(1.0),), fails=at < 2) for at in range(10)]
    run = simulate(taken, Engine("x", 10), 2)
    assert (run.done, run.failed, run.left) == (0, 2, 8)


def test_beginnings_keep_their_distance() -> None:
    run = simulate([Turn((Piece(1.0),))] * 11, Engine("x", 99, 2.0), 99)
    assert run.seconds == pytest.approx(21.0)


def test_every_way_reads_and_changes_every_node() -> None:
    for way in ways(400):
        assert look(way, 400).done * way.together >= 400
        run = change(way, 400, 8, TIMES)
        assert run.left == 0
        assert run.most_unavailable * way.together <= 8


def test_every_constant_says_how_it_is_known() -> None:
    for each in constants().values():
        assert each.kind in KINDS, each.name
        assert each.unit, each.name
        assert each.source, each.name
        assert each.value > 0, each.name


@pytest.mark.parametrize(("nodes", "fanout", "wall"), scale.MEASURED)
def test_the_simulation_is_near_what_was_measured(nodes: int, fanout: int, wall: float) -> None:
    assert shared_machine(nodes, fanout) == pytest.approx(wall, rel=0.3)


@pytest.mark.parametrize("name", ["validation", "volumes", "constants"])
def test_the_page_has_the_tables_as_they_are(name: str) -> None:
    page = DOCS.read_text("utf-8")
    for line in scale.TABLES[name]():
        assert line in page, f"python -m tests.bench.scale {name}"


def test_the_page_names_no_table_that_there_is_not() -> None:
    named = set(re.findall(r"tests\.bench\.scale (\w+)", DOCS.read_text("utf-8")))
    assert named <= set(scale.TABLES)


def test_a_rollouts_own_cost_is_a_few_writes_a_node(tmp_path: Path) -> None:
    own = rolled(12, tmp_path)
    assert own.events == 10
    assert own.journal_bytes < 20_000
    assert own.written == 11
