"""A node whose GPUs have gone from the bus: no check applies to it, and it is not well."""

from __future__ import annotations

from datetime import date

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import node
from toolkit.checks.judged import judge_node
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.plan.artefact import Trigger
from toolkit.plan.plan import Plan
from toolkit.verbs.cli.provision import _beside, _told
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import Provisioned, _worse, done_well, harm
from toolkit.want import Want

DAY = date(2026, 11, 22)
THERE = judge_node("gpu1", node(), Want(), DAY)
GONE = judge_node("gpu1", node(board=BOARD.without(*GPUS)), Want(), DAY)
SENTENCE = "no GPU is on its bus any more"


def test_no_check_of_it_fails() -> None:
    """Guards those below: were it otherwise, they would show nothing."""
    assert (THERE.exit_code, GONE.exit_code) == (ExitCode.OK, ExitCode.OK)


def test_a_node_that_lost_its_gpus_is_not_given_back_and_counts_as_harmed() -> None:
    lost = Provisioned(THERE, GONE)
    assert not done_well(Outcome("gpu1", lost))
    assert (lost.exit_code, harm(lost)) == (ExitCode.FAILED, SENTENCE)


def test_a_boot_on_trial_that_brings_no_gpu_is_worse_than_before() -> None:
    start, now = Planned(THERE, NO_CHANGE), Planned(GONE, NO_CHANGE)
    assert _worse(now, start) == {SENTENCE}
    assert _worse(start, start) == set()


def test_a_node_that_never_had_one_is_as_it_was() -> None:
    none = Provisioned(GONE, GONE)
    assert done_well(Outcome("login1", none))
    assert (none.exit_code, harm(none)) == (ExitCode.OK, "")


def test_it_is_told_of_by_name() -> None:
    assert _beside([Outcome("gpu1", Provisioned(THERE, GONE))]) == ["", f"gpu1: {SENTENCE}"]
    assert _beside([Outcome("gpu1", Provisioned(THERE, THERE))]) == []


def test_what_no_verdict_tells_of_has_a_block_of_its_kind() -> None:
    owed = Plan(triggers=(Trigger.REBOOT,))
    busy = Provisioned(THERE, THERE, left=owed, busy="jobs 7")
    idle = Provisioned(THERE, THERE, left=owed)
    done = {
        "gpu1": Provisioned(THERE, GONE),
        "gpu2": busy,
        "gpu3": idle,
        "gpu4": Provisioned(THERE, THERE, service="drained", pruned=("run 1", "run 2")),
    }
    away: Outcome[Provisioned] = Outcome("gpu5", error=TransportError("gpu5: away"))
    outcomes = [*(Outcome(host, each) for host, each in done.items()), away]
    assert "\n".join(_beside(outcomes)).split("\n\n") == [
        f"\ngpu1: {SENTENCE}",
        "gpu2: not rebooted, jobs 7\n"
        "1 node owes a reboot and has jobs: drain, or --over-jobs\n"
        "1 node owes a reboot for it: run again with --reboot",
        "gpu4: drained",
        "gpu4: pruned: run 1\ngpu4: pruned: run 2",
    ]
    assert _told(done["gpu4"]).steps == ("pruned: run 1", "pruned: run 2", "drained")
    assert _told(busy).steps == ("not rebooted, jobs 7",)
    assert _told(busy).plan is owed
