"""When a node is worse than before: a boot on trial is given up for it, a rollout stops at it."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.evidence.build import node
from toolkit.checks.check import Finding, Status, Tense
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome, ToolkitError, TransportError
from toolkit.facts.boot.next_boot import MARK
from toolkit.hosts.host import Host
from toolkit.plan.artefact import Trigger
from toolkit.plan.plan import Plan
from toolkit.plan.trial import CommandLines
from toolkit.rollout.events import Nobody
from toolkit.rollout.plan.batches import Past, Phase, Step
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import Provisioned, ProvisionOptions, _worse, harm
from toolkit.verbs.provision_node import TurnWork, _Turn
from toolkit.want import Want

PASS, FAIL, UNKNOWN, NA = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.NA
WELL = judge_node("gpu1", node(), Want(), date(2026, 11, 22))
NOW = next(v.check.id for v in WELL.verdicts if v.check.tense is Tense.NOW)
AT_BOOT = next(v.check.id for v in WELL.verdicts if v.check.tense is Tense.AT_BOOT)

FLEET = Fleet((Host("gpu1"),), lambda _: pytest.fail("it is reached"), Access())


def judged(status: Status, check: str = NOW) -> Judged:
    """All is well, but for one check, which ends so."""
    verdicts = tuple(
        replace(each, finding=Finding(status, "x")) if each.check.id == check else each
        for each in WELL.verdicts
    )
    return replace(WELL, verdicts=verdicts)


def planned(found: Judged, *, trial: bool = False) -> Planned:
    return Planned(found, NO_CHANGE, lines=CommandLines((f"{MARK}=1",) if trial else ()))


@pytest.mark.parametrize("trial", [False, True])
@pytest.mark.parametrize(
    ("then", "now", "is_worse"),
    [
        (PASS, FAIL, True),
        (NA, FAIL, True),
        (FAIL, FAIL, False),
        (UNKNOWN, FAIL, False),
        (PASS, UNKNOWN, True),
        (NA, UNKNOWN, True),
        (FAIL, UNKNOWN, True),
        (UNKNOWN, UNKNOWN, False),
        (FAIL, PASS, False),
        (UNKNOWN, PASS, False),
        (PASS, PASS, False),
    ],
)
def test_a_node_is_worse_where_a_check_fails_anew_or_became_unknown(
    then: Status, now: Status, is_worse: bool, trial: bool
) -> None:
    """A driver that does not answer after a boot is as bad as one that fails."""
    found = _worse(planned(judged(now), trial=trial), planned(judged(then)))
    assert found == ({NOW} if is_worse else set())


@pytest.mark.parametrize("status", [FAIL, UNKNOWN])
def test_a_trials_next_boot_is_the_old_entry_and_says_nothing(status: Status) -> None:
    now, start = judged(status, AT_BOOT), planned(WELL)
    assert _worse(planned(now, trial=True), start) == set()
    assert _worse(planned(now), start) == {AT_BOOT}


def test_evidence_that_was_cut_off_is_worse() -> None:
    cut = replace(WELL, complete=False)
    assert _worse(planned(cut), planned(WELL)) == {"the end of the evidence"}


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (PASS, FAIL, f"worse than before: {NOW}"),
        (FAIL, FAIL, ""),
        (UNKNOWN, FAIL, ""),
        (PASS, UNKNOWN, ""),
    ],
)
def test_a_rollout_stops_where_a_check_fails_that_did_not(
    then: Status, now: Status, told: str
) -> None:
    assert harm(Provisioned(judged(then), judged(now))) == told


# --- a turn that goes on ---

SOME, MORE = Plan(triggers=(Trigger.DEPMOD,)), Plan(triggers=(Trigger.DEPMOD, Trigger.REBOOT))
AWAY = TransportError("gpu1: away")


class Going(Struct):
    """A turn of a host with such a past, for which that plan was shown; it finds these, in turn."""

    agreed: Plan | ToolkitError
    past: tuple[Phase, ...]
    found: tuple[Plan | ToolkitError, ...]

    def start(self, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, list[Plan | ToolkitError]]:
        """What is to be done, and what it has not looked at."""
        left = list(self.found)

        def look(_: object) -> Planned:
            found = left.pop(0)
            if isinstance(found, ToolkitError):
                raise found
            return Planned(WELL, found)

        monkeypatch.setattr(_Turn, "_look", look)
        monkeypatch.setattr("time.sleep", lambda _: None)
        past = Past(tuple(Step("gpu1", each) for each in self.past))
        agreed: Outcome[Planned] = (
            Outcome("gpu1", error=self.agreed)
            if isinstance(self.agreed, ToolkitError)
            else Outcome("gpu1", Planned(WELL, self.agreed))
        )
        folder = cast("RunFolder", None)  # nothing is kept of it here
        work = TurnWork(FLEET, Want(), WELL.today, ProvisionOptions(), folder, {"gpu1": agreed})
        way = cast("Transport", SimpleNamespace(close=lambda: None))
        return _Turn(work, Host("gpu1"), way, Nobody(), past)._start().plan, left


@pytest.mark.parametrize(
    ("going", "done"),
    [
        (Going(SOME, (), ()), SOME),
        (Going(SOME, (Phase.PLANNED,), ()), SOME),
        (Going(SOME, (Phase.BEGUN,), (SOME,)), SOME),
        (Going(MORE, (Phase.APPLYING,), (SOME,)), SOME),
        (Going(AWAY, (Phase.APPLYING,), (MORE,)), MORE),
        (Going(SOME, (Phase.REBOOTING,), (AWAY, AWAY, SOME)), SOME),
    ],
    ids=["first", "planned", "begun", "done-in-part", "was-away", "boots"],
)
def test_a_turn_that_was_begun_is_of_what_is_found_now(
    going: Going, done: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert going.start(monkeypatch) == (done, [])


@pytest.mark.parametrize(
    ("going", "why"),
    [
        (Going(SOME, (Phase.BEGUN,), (MORE,)), "more is to be done than when the plan was made"),
        (
            Going(
                SOME,
                (Phase.APPLYING,),
                (
                    AWAY,
                    SOME,
                ),
            ),
            "away",
        ),
    ],
    ids=["more", "no-boot-is-waited-for"],
)
def test_a_turn_that_was_begun_stops_before_what_nobody_agreed_to(
    going: Going, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolkitError, match=f"gpu1: {why}"):
        going.start(monkeypatch)
