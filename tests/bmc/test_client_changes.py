"""What our client asks a BMC to change, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.bmc.client import bmc_on
from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.persona import Etag
from tests.bmc.personas import CHANGES, PERSONAS
from tests.bmc.simulator import Simulator
from toolkit.errors import BmcError, BmcRefused, BmcSilent, UsageError
from toolkit.redfish.client import Answer, Bmc, Job, JobState

DELL = {"SriovGlobalEnable": "Enabled"}


def wanted(bmc: Simulator) -> dict[str, str | int | bool]:
    """One attribute that may be changed, and its other value."""
    return dict(CHANGES[bmc.persona.name])


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_a_change_waits_for_the_start_and_is_in_force_after_it(
    name: str, simulate: Simulate
) -> None:
    bmc = simulate(name)
    change = wanted(bmc)
    with bmc_on(bmc) as ours:
        answer = ours.change(change, "OnReset")
        assert bmc.machine.pending == change
        assert bmc.machine.active.items().isdisjoint(change.items())
        ours.reset("ForceRestart")
        until(lambda: bmc.machine.active.items() >= change.items())
        assert ours.job(answer).state in (JobState.DONE, JobState.NONE)
    assert (len(bmc.log.of("PATCH")), bmc.sessions) == (1, 0)


def test_an_apply_time_is_sent_where_it_is_offered(simulate: Simulate) -> None:
    dell, hpe = simulate("dell", apply_times=("OnReset",)), simulate("hpe", apply_times=())
    told = []
    for each in (dell, hpe):
        with bmc_on(each) as ours:
            told.append(ours.change(wanted(each), "OnReset").apply_time)
    assert told == ["OnReset", ""]
    assert "@Redfish.SettingsApplyTime" in dell.log.of("PATCH")[0].body
    assert "@Redfish.SettingsApplyTime" not in hpe.log.of("PATCH")[0].body


@pytest.mark.parametrize("etag", [*Etag])
@pytest.mark.parametrize("header", [True, False], ids=["header", "body"])
def test_one_request_suits_every_custom_of_etags(
    simulate: Simulate, etag: Etag, header: bool
) -> None:
    bmc = simulate("dell", etag=etag, etag_header=header)
    with bmc_on(bmc) as ours:
        ours.change(wanted(bmc))
    assert len(bmc.log.of("PATCH")) == 1


@pytest.mark.parametrize("code", [412, 428])
def test_an_etag_out_of_date_is_read_again_and_sent_once_more(
    simulate: Simulate, code: int
) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "PATCH", "/Settings", code=code)
    with bmc_on(bmc) as ours:
        ours.change(wanted(bmc))
    assert len(bmc.log.of("PATCH")) == 2


def test_an_etag_that_never_suits_is_told_of(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "PATCH", "/Settings", code=412, times=9)
    with bmc_on(bmc) as ours, pytest.raises(BmcRefused, match="412"):
        ours.change(wanted(bmc))
    assert len(bmc.log.of("PATCH")) == 2
    assert bmc.machine.pending == {}


def test_a_refusal_is_told_in_the_bmc_s_own_words(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours, pytest.raises(BmcRefused, match=r"400 .*Purple") as why:
        ours.change({next(iter(wanted(bmc))): "Purple"})
    assert why.value.status == 400
    assert why.value.codes
    assert (len(bmc.log.of("PATCH")), bmc.machine.pending, bmc.sessions) == (1, {}, 0)


def test_lockdown_is_a_refusal_and_no_reason_to_log_in_again(simulate: Simulate) -> None:
    bmc = simulate("dell", lockdown=True)
    with bmc_on(bmc) as ours, pytest.raises(BmcRefused, match="lockdown mode"):
        ours.change(DELL)
    assert (len(bmc.log.of("PATCH")), bmc.logins) == (1, 1)


@pytest.mark.parametrize("kind", [Kind.DROP, Kind.DROP_AFTER, Kind.CUT])
def test_what_dies_amid_a_change_is_not_known_and_not_sent_again(
    simulate: Simulate, kind: Kind
) -> None:
    bmc = simulate("dell")
    bmc.fails(kind, "PATCH", "/Settings")
    with (
        bmc_on(bmc) as ours,
        pytest.raises(BmcSilent, match="whether it was taken on is not known"),
    ):
        ours.change(wanted(bmc))
    assert (len(bmc.log.of("PATCH")), bmc.sessions) == (1, 0)


def test_a_busy_bmc_gets_the_change_when_it_says(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.BUSY, "PATCH", "/Settings", retry_after_s=1)
    with bmc_on(bmc) as ours:
        ours.change(wanted(bmc))
    assert bmc.machine.pending


def test_a_busy_bmc_that_names_no_time_is_not_pressed(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.BUSY, "PATCH", "/Settings", retry_after_s=-1)
    with bmc_on(bmc) as ours, pytest.raises(BmcError, match="503"):
        ours.change(wanted(bmc))
    assert len(bmc.log.of("PATCH")) == 1


def test_a_session_that_ended_before_a_change_is_entered_once_more(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        ours.found()
        bmc.expire()
        ours.change(wanted(bmc))
    assert (bmc.logins, bmc.sessions, bool(bmc.machine.pending)) == (2, 0, True)


def test_a_job_is_followed(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        answer = ours.change(wanted(bmc), "OnReset")
        assert answer.job
        assert ours.job(answer).state is JobState.WAITING
        ours.reset("ForceRestart")
        until(lambda: ours.job(answer).state is JobState.DONE)
        bmc.machine.jobs.clear()
        assert ours.job(answer) == Job(JobState.GONE)


def test_a_job_that_fails_is_told(simulate: Simulate) -> None:
    bmc = simulate("dell", job_fails=True)
    with bmc_on(bmc) as ours:
        answer = ours.change(wanted(bmc), "OnReset")
        ours.reset("ForceRestart")
        until(lambda: ours.job(answer).state is JobState.FAILED)


def test_a_reset_that_is_not_offered_is_not_sent(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours, pytest.raises(UsageError, match="offers no reset 'Nmi2'") as why:
        ours.reset("Nmi2")
    assert "ForceRestart" in why.value.hint
    assert bmc.log.writes == ()


@pytest.mark.parametrize("match", [True, False])
def test_a_reset_goes_without_if_match(simulate: Simulate, match: bool) -> None:
    bmc = simulate("dell", action_if_match=match)
    with bmc_on(bmc) as ours:
        ours.reset("ForceRestart")
    assert bmc.machine.boots == 1


def test_a_reset_that_dies_is_not_known_and_not_sent_again(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.DROP_AFTER, "POST", "Reset")
    with bmc_on(bmc) as ours, pytest.raises(BmcSilent, match="starts again is not known"):
        ours.reset("ForceRestart")
    assert len(bmc.log.of("POST", "Reset")) == 1


def test_power_is_read_as_it_is(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        assert ours.power() == "On"
        ours.reset("ForceOff")
        assert ours.power() == "Off"


def test_after_the_block_there_is_no_session(simulate: Simulate) -> None:
    ours: Bmc = bmc_on(simulate("dell"))
    with ours:
        ours.power()
    with pytest.raises(BmcError, match="the session was closed"):
        ours.power()


@pytest.mark.parametrize(("method", "code"), [("PATCH", 401), ("PATCH", 406), ("POST", 401)])
def test_who_may_read_and_not_write_is_told_so_and_nothing_is_in_doubt(
    simulate: Simulate, method: str, code: int
) -> None:
    bmc = simulate("dell")
    path = "/Settings" if method == "PATCH" else "ComputerSystem.Reset"
    bmc.fails(Kind.STATUS, method, path, code=code, times=99)
    with pytest.raises(BmcRefused, match=f": {method} .*: {code}, ") as why, bmc_on(bmc) as ours:
        ours.change(DELL) if method == "PATCH" else ours.reset("ForceRestart")
    assert why.value.status == code
    assert bmc.machine.boots == 0
    assert bmc.sessions == 0


def test_a_bmc_that_is_too_busy_for_a_change_has_taken_on_nothing(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.BUSY, "PATCH", retry_after_s=600)
    with pytest.raises(BmcRefused, match="come again in 600 s") as why, bmc_on(bmc) as ours:
        ours.change(DELL)
    assert why.value.status == 503


ASKED: dict[str, Callable[[Bmc], object]] = {
    "power": Bmc.power,
    "resets": Bmc.resets,
    "change": lambda ours: ours.change(DELL),
    "job": lambda ours: ours.job(Answer(202, "/redfish/v1/none")),
}


@pytest.mark.parametrize("asked", ASKED)
def test_each_thing_is_asked_for_in_time_of_its_own(simulate: Simulate, asked: str) -> None:
    bmc = simulate("dell")
    reset = bmc.persona.tree[bmc.persona.system]["Actions"]["#ComputerSystem.Reset"]
    del reset["ResetType@Redfish.AllowableValues"]
    reset["@Redfish.ActionInfo"] = "/redfish/v1/none"
    with bmc_on(bmc) as ours:
        ours.found()
        ours.http._end = time.monotonic() - 1
        ASKED[asked](ours)
