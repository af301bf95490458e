"""What a BMC says of its jobs, resets and apply times, in each of the words that vendors use."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from toolkit.errors import BmcError, BmcRefused, UsageError
from toolkit.redfish.access import BmcTrust, Login
from toolkit.redfish.client import Answer, Bmc, Job, JobState, apply_times
from toolkit.redfish.resource import FoundMachine, Resource

WORDS = {
    JobState.WAITING: "New Pending Scheduled Starting ReadyForExecution Downloaded Waiting",
    JobState.RUNNING: "Running Stopping Cancelling Service RebootPending Unheard-of",
    JobState.DONE: "Completed",
    JobState.FAILED: "Exception Killed Cancelled Interrupted Failed CompletedWithErrors Suspended"
    " RebootFailed",
}


class Told(Bmc):
    """A BMC that serves these, and whose machine is that."""

    def __init__(self, served: Mapping[str, object], system: Mapping[str, object]) -> None:
        super().__init__("bmc1", Login("u", "p"), BmcTrust(insecure=True))
        self._served = {**served, "/s": system}

    def get(self, path: str) -> Resource:
        if path not in self._served:
            raise BmcRefused(f"{path}: 404", 404)
        body = self._served[path]
        assert isinstance(body, dict)
        return Resource(path, json.dumps(body), body)

    def found(self) -> FoundMachine:
        return FoundMachine(self.get("/s"), self.get("/s"), None)


def bmc(system: Mapping[str, object] | None = None, **served: object) -> Told:
    return Told({f"/{name}": body for name, body in served.items()}, system or {})


@pytest.mark.parametrize("name", ["JobState", "TaskState"])
@pytest.mark.parametrize(
    ("word", "state"),
    [(word, state) for state, words in WORDS.items() for word in words.split()]
    + [("Completed With Errors", JobState.FAILED), ("Ready For Execution", JobState.WAITING)],
)
def test_a_job_in_each_word_of_the_vendors(name: str, word: str, state: JobState) -> None:
    assert bmc(j={name: word}).job(Answer(202, "/j")) == Job(state, word)


@pytest.mark.parametrize(
    ("body", "job"),
    [
        ({"JobState": "Failed", "TaskState": "Running"}, Job(JobState.FAILED, "Failed")),
        ({"TaskState": "Running", "Message": "half"}, Job(JobState.RUNNING, "half")),
        ({"TaskState": "Running", "Messages": [{"Message": "a"}, {"Message": "b"}]},
         Job(JobState.RUNNING, "a")),
        ({"TaskState": "Running", "Messages": ["odd"]}, Job(JobState.RUNNING, "Running")),
        ({"TaskState": "Running", "PercentComplete": 7}, Job(JobState.RUNNING, "Running", 7)),
        ({"TaskState": "Running", "PercentComplete": True}, Job(JobState.RUNNING, "Running", -1)),
        ({"TaskState": "Running", "PercentComplete": "7"}, Job(JobState.RUNNING, "Running", -1)),
    ],
)  # fmt: skip
def test_how_far_a_job_is(body: dict[str, object], job: Job) -> None:
    assert bmc(j=body).job(Answer(202, "/j")) == job


def test_a_change_without_a_job_and_a_job_that_is_gone() -> None:
    assert bmc().job(Answer(200)) == Job(JobState.NONE)
    assert bmc().job(Answer(202, "/j")) == Job(JobState.GONE)


def actions(action: object) -> dict[str, object]:
    return {"Actions": {"#ComputerSystem.Reset": action}}


INFO = {"Parameters": [{"Name": "Other", "AllowableValues": ["No"]}, "odd",
                       {"Name": "ResetType", "AllowableValues": ["On", 3]}]}  # fmt: skip


@pytest.mark.parametrize(
    ("action", "kinds"),
    [
        ({"ResetType@Redfish.AllowableValues": ["On", 3, "ForceOff"]}, ("On", "ForceOff")),
        ({"@Redfish.ActionInfo": {"@odata.id": "/info"}}, ("On",)),
        ({"@Redfish.ActionInfo": "/info"}, ("On",)),
        ({"@Redfish.ActionInfo": "/other"}, ()),
        ({"@Redfish.ActionInfo": "/empty"}, ()),
        ({}, ()),
        ("odd", ()),
    ],
)
def test_the_resets_that_are_offered(action: object, kinds: tuple[str, ...]) -> None:
    told = bmc(actions(action), info=INFO, empty={})
    assert told.resets() == kinds
    with pytest.raises(UsageError):
        told.reset("Nmi")


def test_the_power_state_and_a_machine_that_tells_none() -> None:
    assert (bmc({"PowerState": "On"}).power(), bmc().power()) == ("On", "")


@pytest.mark.parametrize("name", ["@Redfish.Settings", "@Redfish.SettingsApplyTime"])
@pytest.mark.parametrize("key", ["SupportedApplyTimes", "ApplyTime@Redfish.AllowableValues"])
def test_when_changes_can_be_applied(name: str, key: str) -> None:
    bodies = ({name: {key: ["OnReset", 3]}}, {name: {key: ["OnReset", "Immediate"]}}, {name: 3})
    assert apply_times(*bodies) == ("OnReset", "Immediate")
    assert apply_times({name: {key: "OnReset"}}) == ()


def test_a_machine_without_a_place_for_changes_says_so() -> None:
    with pytest.raises(BmcError, match="bmc1: offers no place for changes of BIOS settings"):
        bmc().change({"A": 1})
