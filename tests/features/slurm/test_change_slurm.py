"""Whose a node of Slurm's is: only what bears our name is ours."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from toolkit.facts.slurm import SlurmJob, SlurmNode
from toolkit.features.slurm.plan import (
    Drained,
    SlurmStand,
    drained_by_us,
    left_alone,
    reason,
    stand,
    unsure,
    who_runs,
)

RUN, OTHER = "2026-11-22T14-00-00-provision", "2026-11-21T09-00-00-provision"


def node(*states: str, why: str = "") -> SlurmNode:
    return SlurmNode("gpu01", states=frozenset(states), reason=why, reason_by="bob")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(node("IDLE"), SlurmStand.SERVING, id="idle"),
        pytest.param(node("MIXED", "RESERVED"), SlurmStand.SERVING, id="at-work"),
        pytest.param(node("IDLE", "DRAIN", why="bad dimm"), SlurmStand.THEIRS, id="theirs"),
        pytest.param(
            node("DOWN", "DRAIN", why="bad dimm"), SlurmStand.THEIRS, id="theirs-and-down"
        ),
        pytest.param(node("IDLE", "DRAIN"), SlurmStand.THEIRS, id="no-reason-at-all"),
        pytest.param(
            node("IDLE", "DRAIN", why="see gdr-toolkit: " + RUN),
            SlurmStand.THEIRS,
            id="names-us-amid",
        ),
        pytest.param(
            node("IDLE", "DRAIN", why="gdr-toolkit-x: y"), SlurmStand.THEIRS, id="like-us"
        ),
        pytest.param(
            node("MIXED", "DRAIN", why=reason(RUN, "in hand")), SlurmStand.OURS, id="this-run"
        ),
        pytest.param(
            node("DOWN", "DRAIN", "REBOOT_ISSUED", why=reason(RUN, "in hand") + " : reboot issued"),
            SlurmStand.OURS,
            id="this-run-booting",
        ),
        pytest.param(
            node("IDLE", "DRAIN", why=reason(OTHER, "in hand")),
            SlurmStand.ANOTHER_RUN,
            id="other-run",
        ),
        pytest.param(
            node("IDLE", "DRAIN", why=reason(OTHER, "failed: peermem.loaded")),
            SlurmStand.OURS,
            id="left-out-by-another-run-of-ours",
        ),
        pytest.param(
            node("DOWN", "NOT_RESPONDING", why="Not responding"), SlurmStand.AWAY, id="down"
        ),
        pytest.param(node("IDLE", "POWERED_DOWN"), SlurmStand.AWAY, id="asleep"),
        pytest.param(node("IDLE", "REBOOT_REQUESTED"), SlurmStand.AWAY, id="about-to-boot"),
        # A reason may outlive its drain: then nobody holds the node.
        pytest.param(
            node("IDLE", why="bad dimm"), SlurmStand.SERVING, id="a-reason-without-a-drain"
        ),
    ],
)
def test_whose_a_node_is(found: SlurmNode, expected: SlurmStand) -> None:
    assert stand(found, RUN) is expected


@pytest.mark.parametrize(
    ("state", "sure"),
    [
        *((state, True) for state in (
            "DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "INVAL", "INVALID_REG",
            "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "REBOOT_REQUESTED",
            "REBOOT_ISSUED", "REBOOT",
        )),
        ("NOT_RESPONDING", False),
    ],
)  # fmt: skip
def test_no_job_can_begin_where_slurm_says_that_it_is_away(state: str, sure: bool) -> None:
    """Of one that has not answered yet nobody knows; beside another word it is known."""
    assert stand(node("IDLE", state), RUN) is SlurmStand.AWAY
    assert unsure(node("IDLE", state)) is not sure
    assert not unsure(node("IDLE", "NOT_RESPONDING", *[state] * sure, *["DRAIN"] * (not sure)))
    assert left_alone(node(state, "IDLE"), RUN) == "+".join(sorted({"IDLE", state}))


def test_what_is_left_alone_is_left_alone_in_the_words_of_whoever_holds_it() -> None:
    theirs = node("IDLE", "DRAIN", why="bad dimm")
    theirs = replace(theirs, reason_since="2026-11-21T08:00:00")
    assert left_alone(theirs, RUN) == "drained by bob since 2026-11-21T08:00:00: bad dimm"
    assert left_alone(replace(theirs, reason_by=""), RUN) == "drained: bad dimm"
    assert left_alone(replace(theirs, reason_by="", reason=""), RUN) == "drained: no reason given"
    other = reason(OTHER, "in hand")
    assert left_alone(node("IDLE", "DRAIN", why=other), RUN) == (
        f"a run has it, or died with it: {other}"
    )
    assert left_alone(node("DOWN", why="Not responding"), RUN) == "DOWN: Not responding"
    assert left_alone(node("IDLE"), RUN) == ""
    assert left_alone(node("IDLE", "DRAIN", why=reason(RUN, "in hand")), RUN) == ""


def test_a_reason_is_one_line_of_bounded_length_and_can_be_read_back() -> None:
    said = reason(RUN, 'failed: a "b"\n c' + "x" * 400)
    assert "\n" not in said
    assert '"' not in said
    assert len(said) <= 240
    back = drained_by_us(said)
    assert back is not None
    assert (back.run, back.why[:14]) == (RUN, "failed: a 'b' ")
    assert len(said) == 240
    assert drained_by_us(f"gdr-toolkit: {RUN}") == Drained(RUN, "")
    assert drained_by_us("gdr-toolkit") is None


def test_who_is_waited_for_is_named() -> None:
    jobs = tuple(SlurmJob(str(n), "alice", "RUNNING", "5:00", "", "x") for n in range(1, 6))
    assert who_runs(jobs[:1]) == "job 1 of alice, 5:00 left"
    assert who_runs(jobs[:2]) == "jobs 1 of alice, 2 of alice"
    assert who_runs(jobs[:3]) == "jobs 1 of alice, 2 of alice, 3 of alice"
    assert who_runs(jobs) == "jobs 1 of alice, 2 of alice, 3 of alice and 2 more"
    assert who_runs((replace(jobs[0], left="UNLIMITED"),)) == "job 1 of alice"
    assert who_runs((replace(jobs[0], left=""),)) == "job 1 of alice"
    assert who_runs(()) == "what its last job left behind"
