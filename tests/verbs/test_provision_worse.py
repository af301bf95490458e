"""When a node is worse than before: a boot on trial is given up for it, a rollout stops at it."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from toolkit.checks.check import Finding, Status, Tense
from toolkit.checks.judged import Judged, judge_node
from toolkit.facts.boot.next_boot import MARK
from toolkit.plan.trial import CommandLines
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.provision import Provisioned, _worse, harm
from toolkit.want import Want

PASS, FAIL, UNKNOWN, NA = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.NA
WELL = judge_node("gpu1", node(), Want(), date(2026, 11, 22))
NOW = next(v.check.id for v in WELL.verdicts if v.check.tense is Tense.NOW)
AT_BOOT = next(v.check.id for v in WELL.verdicts if v.check.tense is Tense.AT_BOOT)


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
