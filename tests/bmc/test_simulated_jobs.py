"""Dell's jobs as the simulator has them: values wait for a job, and a job for a boot."""

from __future__ import annotations

import time

from tests.bmc.conftest import Simulate
from tests.bmc.machine import JobState
from tests.bmc.plain import Plain, plain, said
from tests.bmc.simulator import Simulator

WANTED = {"SriovGlobalEnable": "Enabled"}


def state(client: Plain, number: str) -> str:
    return str(client.get(f"{client.bmc.manners.jobs}/{number}")["JobState"])


def started(client: Plain) -> str:
    """PATCH with an apply time; the job's number."""
    taken = client.patch(WANTED, "OnReset")
    assert taken.status_code == 202
    return taken.headers["Location"].rpartition("/")[2]


def until(client: Plain, number: str, wanted: JobState) -> None:
    end = time.monotonic() + 20
    while state(client, number) != wanted:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_job_waits_for_a_boot_runs_during_it_and_ends(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=600)
    with plain(bmc) as client:
        number = started(client)
        assert state(client, number) == "Scheduled"
        assert client.get(f"/redfish/v1/TaskService/Tasks/{number}")["TaskState"] == "Pending"
        client.reset("GracefulRestart")
        assert state(client, number) == "Running"
        bmc.machine.end_boot()
        assert state(client, number) == JobState.COMPLETED
    assert bmc.machine.active["SriovGlobalEnable"] == "Enabled"


def test_while_a_job_is_scheduled_no_other_change_is_taken(simulate: Simulate) -> None:
    with plain(simulate("dell")) as client:
        started(client)
        assert said(client.patch({"LogicalProc": "Disabled"}, "OnReset")) == ["SYS011"]


def test_values_without_a_job_wait_over_every_boot(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=0)
    with plain(bmc) as client:
        assert client.patch(WANTED).status_code == 200
        client.reset("ForceRestart")
        assert bmc.machine.pending == WANTED
        made = client.ask("POST", bmc.manners.jobs, {"TargetSettingsURI": bmc.persona.waiting})
        assert made.headers["Location"].startswith(bmc.manners.jobs)
        client.reset("ForceRestart")
    assert bmc.machine.active["SriovGlobalEnable"] == "Enabled"


def _clear(client: Plain, bmc: Simulator) -> int:
    action = client.get(bmc.persona.waiting)["Actions"]["Oem"]
    target = action["DellManager.v1_0_0#DellManager.ClearPending"]["target"]
    return client.ask("POST", target, {}).status_code


def test_what_waits_is_cleared_by_the_action_or_with_its_job(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with plain(bmc) as client:
        started(client)
        assert _clear(client, bmc) == 200
        assert bmc.machine.pending == {}
        number = started(client)
        assert client.ask("DELETE", f"{bmc.manners.jobs}/{number}").status_code == 200
        assert bmc.machine.pending == {}
        assert client.patch(WANTED, "OnReset").status_code == 202


def test_a_job_that_fails_changes_nothing(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=0, job_fails=True)
    with plain(bmc) as client:
        number = started(client)
        client.reset("ForceRestart")
        until(client, number, JobState.FAILED)
    assert bmc.machine.active["SriovGlobalEnable"] == "Disabled"


def test_a_job_may_end_with_a_value_left_out(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=0, drops=("SriovGlobalEnable",))
    with plain(bmc) as client:
        number = started(client)
        client.reset("ForceRestart")
        until(client, number, JobState.COMPLETED_WITH_ERRORS)


def test_newer_firmware_says_200_where_values_wait_already(simulate: Simulate) -> None:
    bmc = simulate("dell", quiet_when_pending=True)
    with plain(bmc) as client:
        client.patch({"LogicalProc": "Disabled"})
        taken = client.patch(WANTED, "OnReset")
    assert (taken.status_code, "Location" in taken.headers) == (200, False)


def test_an_action_with_if_match_is_refused(simulate: Simulate) -> None:
    bmc = simulate("dell")
    target = "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset"
    with plain(bmc) as client:
        refused = client.ask("POST", target, {"ResetType": "ForceRestart"}, If_Match='"x"')
    assert (refused.status_code, bmc.machine.boots) == (412, 0)
