"""What a BMC says of its jobs, resets and apply times, in each of the words that vendors use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest
import requests
import sushy

from toolkit.errors import (
    BmcCertificate,
    BmcError,
    BmcLogin,
    BmcRefused,
    BmcSilent,
    UsageError,
)
from toolkit.redfish.access import BmcTrust, Login
from toolkit.redfish.client import Answer, Bmc, Job, JobState, apply_times
from toolkit.redfish.resource import FoundMachine, Resource
from toolkit.redfish.session import LoggedIn, SessionEntry, SushyConnector

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


class Wire:
    """Sushy's connector, as far as we ask it."""

    def __init__(self, comes: requests.Response | Exception) -> None:
        self.comes = comes
        self.sent: list[tuple[str, object, object]] = []

    def get(self, path: str) -> requests.Response:
        return self.patch(path)

    def post(self, path: str, data: object) -> requests.Response:
        return self.patch(path, data)

    def patch(self, path: str, data: object = None, headers: object = None) -> requests.Response:
        self.sent.append((path, data, headers))
        if isinstance(self.comes, Exception):
            raise self.comes
        return self.comes


def answer(status: int, text: str = "{}", **headers: str) -> requests.Response:
    found = requests.Response()
    found.status_code = status
    found._content = text.encode()
    found.headers.update(headers)
    return found


class Inside(Bmc):
    """A BMC at which we are logged in over such a wire."""

    def __init__(self, wire: Wire) -> None:
        super().__init__("bmc1", Login("u", "p"), BmcTrust(insecure=True))
        self._within = LoggedIn(cast("SushyConnector", wire), cast("SessionEntry", None), None)

    def found(self) -> FoundMachine:
        body = {"Actions": {"#ComputerSystem.Reset": {"target": "/reset"}},
                "@Redfish.Settings": {"SupportedApplyTimes": ["OnReset"]}}  # fmt: skip
        return FoundMachine(*(Resource("/s", "", body),) * 3)


class Changing(Inside):
    """One whose settings have such an ETag; its wire answers changes alone."""

    def __init__(self, wire: Wire, etag: str = "") -> None:
        super().__init__(wire)
        self._etag = etag

    def get(self, path: str) -> Resource:
        return Resource(path, "", {}, self._etag)


@pytest.mark.parametrize(
    "name",
    [
        *("Password", "PasswordSalt", "PasswordHash", "Passphrase", "PrivateKey", "Secret"),
        *("SHA256SystemPassword", "Users.2.Password", "iSCSI:Target-Secret", "Password_0aF9"),
        "Password#00FF",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", 'a\\"b', "x"])
def test_what_opens_a_door_is_no_evidence(name: str, value: str) -> None:
    text = f'{{"{name}" : "{value}", "PasswordLength": "12", "Password": ""}}'
    shown = f'{{"{name}" : "hidden", "PasswordLength": "12", "Password": ""}}\n'
    assert Inside(Wire(answer(200, text))).get("/x").text == shown


@pytest.mark.parametrize(
    ("headers", "text", "etag"),
    [
        ({"ETag": "a"}, '{"@odata.etag": "b"}', "a"),
        ({}, '{"@odata.etag": "b"}', "b"),
        ({}, "{}", ""),
    ],
)
def test_the_etag_of_the_header_goes_first(headers: dict[str, str], text: str, etag: str) -> None:
    found = Inside(Wire(answer(200, f"{text}\n\n", **headers))).get("/x")
    assert (found.path, found.text, found.etag) == ("/x", f"{text}\n", etag)


def http_error(status: int) -> sushy.exceptions.HTTPError:
    return sushy.exceptions.HTTPError("GET", "/x", answer(status))


@pytest.mark.parametrize(
    ("comes", "basic", "kind", "says"),
    [
        (http_error(401), False, BmcRefused, "bmc1: GET /x: 401, also in a new session"),
        (http_error(401), True, BmcLogin, "bmc1: refuses the user or the password"),
        (http_error(406), True, BmcRefused, "bmc1: GET /x: 406, refused"),
        (sushy.exceptions.MissingAttributeError(), True, BmcError, "GET /x: MissingAttributeError"),
    ],
)
def test_what_the_library_raises_is_told_as_what_it_means(
    comes: Exception, basic: bool, kind: type[BmcError], says: str
) -> None:
    bmc = Inside(Wire(comes))
    bmc.http.auth = ("u", "p") if basic else None
    with pytest.raises(kind, match=says) as why:
        bmc.get("/x")
    assert getattr(why.value, "status", 401) in {401, 406}


def test_a_reset_is_one_request_and_one_that_broke_off_is_not_known() -> None:
    wire = Wire(answer(204))
    Inside(wire).reset("ForceRestart")
    assert wire.sent[-1] == ("/reset", {"ResetType": "ForceRestart"}, None)
    with pytest.raises(BmcSilent, match="amid a reset: whether the machine starts again"):
        Inside(Wire(BmcError("bmc1: hung up"))).reset("On")
    for why in (BmcRefused("no", 400), BmcLogin("no"), BmcCertificate("no")):
        with pytest.raises(type(why), match="no"):
            Inside(Wire(why)).reset("On")


@pytest.mark.parametrize(
    ("text", "headers", "heard"),
    [
        ('{"Message": "so be it"}', {}, Answer(202, message="so be it")),
        ('{"Message": 3}', {"Location": "https://192.0.2.1/jobs/7"}, Answer(202, "/jobs/7")),
        ('["odd"]', {}, Answer(202)),
        ("so be it", {}, Answer(202)),
        ("", {}, Answer(202)),
    ],
)
def test_what_is_answered_to_a_change(text: str, headers: dict[str, str], heard: Answer) -> None:
    bmc = Changing(Wire(answer(202, text, **headers)))
    assert bmc.change({"A": 1}) == heard


@pytest.mark.parametrize("etag", ["", 'W/"a"'])
@pytest.mark.parametrize(("said", "told"), [("OnReset", "OnReset"), ("Immediate", ""), ("", "")])
def test_a_change_is_one_request(said: str, told: str, etag: str) -> None:
    wire = Wire(answer(204))
    assert Changing(wire, etag).change({"A": 1}, said).apply_time == told
    when = {"@Redfish.SettingsApplyTime": {"ApplyTime": told}} if told else {}
    headers = {"If-Match": etag} if etag else {}
    assert wire.sent == [("/s", {"Attributes": {"A": 1}} | when, headers)]


class Choosy(Changing):
    """One that takes no change but with this If-Match; its settings are read again with ``now``."""

    def __init__(self, takes: str, first: str, now: str) -> None:
        self.takes = takes
        self.etags = iter((first, now))
        self.asked: list[str] = []
        super().__init__(Wire(answer(204)))

    def get(self, path: str) -> Resource:
        return Resource(path, "text", {}, next(self.etags))

    def _patched(self, pending: Resource, body: Mapping[str, object], told: str) -> Answer:
        self.asked.append(pending.etag)
        if pending.etag != self.takes:
            raise BmcRefused("412", 412)
        return super()._patched(pending, body, told)


@pytest.mark.parametrize(
    ("takes", "first", "now"),
    [
        pytest.param("b", "a", "b", id="changed-meanwhile"),
        pytest.param('W/"b"', "", 'W/"b"', id="is-told-by-now"),
        pytest.param('"a"', 'W/"a"', 'W/"a"', id="wants-it-strong"),
        pytest.param("", "a", "", id="has-none-any-more"),
    ],
)
def test_a_change_refused_for_its_etag_is_asked_for_once_more(
    takes: str, first: str, now: str
) -> None:
    bmc = Choosy(takes, first, now)
    assert bmc.change({"A": 1}).status == 204
    assert bmc.asked == [first, takes]


def test_outside_the_block_nothing_is_asked() -> None:
    with pytest.raises(BmcError, match="bmc1: the session was closed"):
        Bmc("bmc1", Login("u", "p"), BmcTrust(insecure=True)).get("/x")
