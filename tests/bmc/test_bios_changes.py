"""The verb's way through a change: nothing unasked, nothing unkept, nothing claimed unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.personas import PERSONAS
from tests.bmc.simulator import Simulator
from tests.bmc.site import QUICK, Site, only, with_
from tests.bmc.test_client_changes import wanted
from tests.unit.holdings import UVERBS, user
from toolkit.errors import ApplyError, ExitCode, NoEvidence, TransportError
from toolkit.features.bios.run import kept_by
from toolkit.features.bios.run_reset import NotHeeded
from toolkit.rollout.history import read_run
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.pool import NotBegun

DELL = "sr-iov=on"


def offering(simulate: Simulate, *kinds: str) -> Simulator:
    """One of Dell's that offers these resets and no other."""
    bmc = simulate("dell", resets=kinds)
    action = bmc.persona.tree[bmc.persona.system]["Actions"]["#ComputerSystem.Reset"]
    action["ResetType@Redfish.AllowableValues"] = [*kinds]
    return bmc


def test_a_look_and_a_plan_write_nothing_and_leave_no_session(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    (looked,) = site.look()
    assert looked.get().lines
    (planned,) = site.look(DELL)
    assert [e.name for e in planned.get().plan.edits] == ["SriovGlobalEnable"]
    assert planned.get().to_do is ExitCode.PENDING
    changes = [each for each in bmc.log.writes if "Sessions" not in each.path]
    assert (changes, bmc.sessions) == ([], 0)


def test_read_plan_change_reboot_and_read_again(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", post_s=0.3)
    site = Site(tmp_path, [bmc])
    done = only(site.apply(DELL))
    assert (done.exit_code, done.resets, done.missed) == (ExitCode.OK, 1, ())
    assert bmc.machine.active["SriovGlobalEnable"] == "Enabled"
    assert (len(bmc.log.of("PATCH")), bmc.machine.boots, bmc.sessions) == (1, 1, 0)


def test_what_was_there_is_on_disk_before_anything_is_sent(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.DROP, "PATCH")
    site = Site(tmp_path, [bmc])
    rolled = site.apply(DELL, with_(QUICK, reboot=False))
    phases = [event.phase for event in site.events()]
    assert phases.index("kept") < phases.index(Phase.APPLYING)
    kept = next(event.detail for event in site.events() if event.phase == "kept")
    assert '["SriovGlobalEnable", "Disabled", null, "Enabled"]' in kept
    assert rolled.outcomes["gpu1"].error is not None


def test_without_reboot_nothing_is_reset_and_one_is_owed(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    done = only(site.apply(DELL, with_(QUICK, reboot=False)))
    assert (done.exit_code, done.busy) == (ExitCode.PENDING, "resets were not allowed: --reboot")
    assert (bmc.machine.boots, bmc.machine.pending) == (0, {"SriovGlobalEnable": "Enabled"})


def test_the_next_run_says_what_is_pending_and_sends_nothing_again(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    site.apply(DELL, with_(QUICK, reboot=False))
    (planned,) = site.look(DELL)
    assert [each.name for each in planned.get().plan.owed] == ["SriovGlobalEnable"]
    done = only(site.apply(DELL))
    assert (done.exit_code, len(bmc.log.of("PATCH"))) == (ExitCode.OK, 1)
    assert bmc.machine.active["SriovGlobalEnable"] == "Enabled"


def test_what_only_a_reset_opens_takes_two(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", live_registry=True)
    bmc.machine.active |= {"SysProfile": "PerfPerWattOptimizedDapc", "PcieAspmL1": "Enabled"}
    site = Site(tmp_path, [bmc])
    done = only(site.apply("power-profile=Custom,aspm=off"))
    assert (done.exit_code, done.resets) == (ExitCode.OK, 2)
    assert len(bmc.log.of("PATCH")) == 2
    assert bmc.machine.active["PcieAspmL1"] == "Disabled"


def test_what_a_start_did_not_take_over_is_missed_by_name(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell", drops=("SriovGlobalEnable",))
    done = only(Site(tmp_path, [bmc]).apply(DELL))
    assert [each.name for each in done.missed] == ["SriovGlobalEnable"]
    assert done.exit_code is ExitCode.FAILED


def test_a_job_that_fails_is_told_in_the_bmc_s_words(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", job_fails=True)
    error = Site(tmp_path, [bmc]).apply(DELL).outcomes["gpu1"].error
    assert isinstance(error, ApplyError)
    assert "failed to apply" in str(error)


def test_a_lockdown_is_told_of_before_anything_is_sent(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", lockdown=True)
    done = only(Site(tmp_path, [bmc]).apply(DELL))
    (blocked,) = done.after.plan.stopped
    assert "the BMC's lockdown is on (Lockdown.1" in blocked.reason
    assert (done.exit_code, done.sent) == (ExitCode.FAILED, False)
    assert not bmc.log.of("PATCH")


def test_a_job_of_somebody_s_keeps_the_machine_up(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    site.nodes["gpu1"].users = "".join(
        f"|{line}\n" for line in user(7, "python3", UVERBS, "/dev/nvidia0").split("\n")[:-1]
    )
    done = only(site.apply(DELL))
    assert "at work: python3, pid 7 of alice" in done.busy
    assert (bmc.machine.boots, done.exit_code) == (0, ExitCode.PENDING)
    over = only(site.apply(DELL, with_(QUICK, over_jobs=True)))
    assert (bmc.machine.boots, over.exit_code) == (1, ExitCode.OK)


def test_a_node_that_cannot_be_asked_may_have_jobs(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    site.nodes["gpu1"].answers = False
    done = only(site.apply(DELL))
    assert "nobody can tell whether a job is at work" in done.busy
    assert bmc.machine.boots == 0


def test_a_machine_that_is_off_is_switched_on_and_nobody_asked(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    bmc.machine.power = "Off"
    done = only(Site(tmp_path, [bmc]).apply(DELL))
    assert (done.exit_code, bmc.machine.power) == (ExitCode.OK, "On")


def test_the_lock_is_handed_on_before_the_reset(simulate: Simulate, tmp_path: Path) -> None:
    site = Site(tmp_path, [simulate("dell")])
    only(site.apply(DELL))
    scripts = site.nodes["gpu1"].scripts
    assert any(each.startswith("gdr_apply restart boot-0 ") for each in scripts)
    assert (Phase.REBOOTING, "boot-0") in [(e.phase, e.boot_id) for e in site.events()]


def test_a_reset_that_is_not_heeded_is_forced_only_by_consent(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell", deaf=True)
    site = Site(tmp_path, [bmc])
    error = site.apply(DELL).outcomes["gpu1"].error
    assert isinstance(error, NotHeeded)
    assert bmc.machine.boots == 0
    done = only(site.apply(DELL, with_(QUICK, force=True)))
    assert (done.exit_code, bmc.machine.boots) == (ExitCode.OK, 1)


def test_a_machine_without_a_graceful_restart_is_shut_down_and_switched_on(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = offering(simulate, "On", "ForceOff", "ForceRestart", "GracefulShutdown")
    done = only(Site(tmp_path, [bmc]).apply(DELL))
    kinds = [each.body for each in bmc.log.of("POST") if "Reset" in each.path]
    assert (done.exit_code, len(kinds)) == (ExitCode.OK, 2)
    assert bmc.machine.power == "On"


def test_a_machine_that_can_only_be_forced_is_left_alone(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = offering(simulate, "On", "ForceOff", "ForceRestart")
    error = Site(tmp_path, [bmc]).apply(DELL).outcomes["gpu1"].error
    assert "offers no graceful reset" in str(error)
    assert bmc.machine.boots == 0


def test_a_bmc_that_vanishes_while_its_machine_starts_is_waited_for(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell", vanishes=True, post_s=1.0)
    done = only(Site(tmp_path, [bmc]).apply(DELL))
    assert (done.exit_code, bmc.sessions) == (ExitCode.OK, 0)


def test_the_canary_keeps_the_others_untouched(simulate: Simulate, tmp_path: Path) -> None:
    bmcs = [simulate("dell", drops=("SriovGlobalEnable",)), simulate("dell")]
    site = Site(tmp_path, bmcs)
    rolled = site.apply(DELL, serial="1,1")
    assert rolled.outcomes["gpu1"].get().missed
    assert isinstance(rolled.outcomes["gpu2"].error, NotBegun)
    assert not bmcs[1].log.of("PATCH")


def test_one_bad_bmc_costs_the_others_nothing(simulate: Simulate, tmp_path: Path) -> None:
    bad, good = simulate("dell"), simulate("hpe")
    bad.fails(Kind.HTML, times=99)
    rolled = Site(tmp_path, [bad, good]).apply("acs=off,sr-iov=on")
    assert isinstance(rolled.outcomes["gpu1"].error, TransportError)
    assert rolled.outcomes["gpu2"].get().exit_code is ExitCode.OK


def test_an_undo_restores_what_was_there(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", live_registry=True)
    bmc.machine.active |= {"SysProfile": "PerfPerWattOptimizedDapc", "PcieAspmL1": "Enabled"}
    bmc.machine.active["ProcCStates"] = "Enabled"
    before = dict(bmc.machine.active)
    site = Site(tmp_path, [bmc])
    only(site.apply("power-profile=Custom,aspm=off"))
    assert dict(bmc.machine.active) != before
    runs = tmp_path / "runs"
    back = dict(kept_by(read_run(runs, sorted(runs.iterdir())[-1].name)))
    done = only(site.apply("", asking=site.asking("", back)))
    assert done.exit_code is ExitCode.OK
    assert dict(bmc.machine.active) == before


def test_an_undo_restores_what_followed_by_itself_too(simulate: Simulate, tmp_path: Path) -> None:
    bmc = simulate("dell", live_registry=True)
    bmc.machine.active |= {"SysProfile": "Custom", "PcieAspmL1": "Enabled"}
    before = dict(bmc.machine.active)
    site = Site(tmp_path, [bmc])
    only(site.apply("power-profile=PerfOptimized"))
    assert bmc.machine.active["PcieAspmL1"] == "Disabled"
    runs = tmp_path / "runs"
    back = dict(kept_by(read_run(runs, sorted(runs.iterdir())[-1].name)))
    done = only(site.apply("", asking=site.asking("", back)))
    assert (done.exit_code, done.resets) == (ExitCode.OK, 2)
    assert dict(bmc.machine.active) == before


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_every_maker_s_bios_is_read_planned_changed_reset_and_read_again(
    name: str, simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate(name)
    site = Site(tmp_path, [bmc])
    (profile,) = site.look("profile")
    assert profile.get().lines
    ((attribute, value),) = wanted(bmc).items()
    rolled = site.apply(f"raw:{attribute}={value}", with_(QUICK, force=True))
    done = only(rolled)
    assert (done.exit_code, done.missed) == (ExitCode.OK, ())
    assert bmc.machine.active[attribute] == value
    assert (len(bmc.log.of("PATCH")), bmc.sessions) == (1, 0)


@pytest.mark.parametrize("change", ["acs=off"])
def test_a_change_is_taken_up_by_another_maker_s_bmc(
    change: str, simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("hpe")
    done = only(Site(tmp_path, [bmc]).apply(change))
    assert (done.exit_code, bmc.sessions) == (ExitCode.OK, 0)
    assert bmc.machine.active["AccessControlService"] == "Disabled"


@pytest.mark.parametrize("code", [403, 500])
def test_nothing_is_planned_on_a_registry_that_could_not_be_read(
    simulate: Simulate, tmp_path: Path, code: int
) -> None:
    """One that is offered tells what depends on what: without it half of a plan is a guess."""
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "GET", "/Registries", code=code, times=99)
    site = Site(tmp_path, [bmc])
    (outcome,) = site.look("acs=off")
    assert isinstance(outcome.error, NoEvidence)
    assert str(code) in str(outcome.error)
    (seen,) = site.look()
    assert seen.get().lines
