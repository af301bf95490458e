"""What a trial does not do: boot another menu than was meant, or end a job to go back."""

from __future__ import annotations

from datetime import date
from typing import cast

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.unit.planning import TRANSLATED
from toolkit.checks.judged import judge_node
from toolkit.errors import ApplyError
from toolkit.plan.change import Blocked, Change
from toolkit.plan.trial import CommandLines, Trial
from toolkit.rollout.events import Nobody
from toolkit.ssh.transport import Transport
from toolkit.verbs import trial as flow
from toolkit.verbs.plan import NO_CHANGE, Planned
from toolkit.verbs.trial import Hands, _leave, _misread, _unfit
from toolkit.want import Want

OLD = ("root=/dev/sda1", "ro")
JUDGED = judge_node("gpu1", node(TRANSLATED), Want(), date(2026, 11, 22))


@pytest.fixture
def trial() -> Trial:
    return Trial("1", ("iommu=pt",), (), OLD, cast("Change", None), ())


def planned(lines: CommandLines, *, complete: bool = True) -> Planned:
    judged = replace(JUDGED, complete=complete)
    return Planned(judged, NO_CHANGE, boot_id="boot-2", lines=lines)


def test_a_menu_that_is_as_meant_is_booted(trial: Trial) -> None:
    once = (*OLD, *trial.words, trial.mark)
    assert _misread(planned(CommandLines(OLD, OLD, once)), trial) == ""


@pytest.mark.parametrize(
    ("usual", "once", "why"),
    [
        pytest.param((*OLD, "nosmt"), "all", "its default entry would have changed", id="default"),
        pytest.param((), "all", "its default entry would have changed to: ", id="no-default"),
        pytest.param(OLD, "", "would not boot it next", id="the-loader-forgot"),
        pytest.param(OLD, "iommu=pt", "would not boot it next", id="no-mark"),
        pytest.param(OLD, "mark", "would not boot it next", id="no-word"),
    ],
)
def test_another_menu_than_was_meant_is_not_booted(
    trial: Trial, usual: tuple[str, ...], once: str, why: str
) -> None:
    words = {
        "all": (*OLD, *trial.words, trial.mark),
        "mark": (*OLD, trial.mark),
        "": (),
    }.get(once, (*OLD, *trial.words))
    assert why in _misread(planned(CommandLines(OLD, usual, words)), trial)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the node."""
    calls: list[str] = []
    monkeypatch.setattr(
        flow, "note", lambda _, name, how, why: calls.append(f"{how} {name}: {why}")
    )
    monkeypatch.setattr(flow, "reboot", lambda _, boot, **__: calls.append(f"reboot of {boot}"))
    return calls


def hands(after: CommandLines, busy: str = "") -> Hands:
    def settled() -> Planned:
        return planned(after)

    return Hands(
        "gpu1",
        cast("Transport", None),
        Nobody(),
        5,
        5.0,
        say=lambda _: None,
        log=lambda _: None,
        look=settled,
        settle=settled,
        busy=lambda: busy,
        worse=lambda _: set(),
    )


def left(trial: Trial, after: CommandLines, busy: str = "") -> ApplyError:
    now = planned(CommandLines((*OLD, *trial.words, trial.mark), OLD))
    with pytest.raises(ApplyError) as caught:
        _leave(hands(after, busy), planned(CommandLines(OLD, OLD)), now, trial, "it was worse")
    return caught.value


def test_it_goes_back_by_a_reboot(trial: Trial, done: list[str]) -> None:
    error = left(trial, CommandLines(OLD, OLD))
    assert "it was worse; it is on the old command line" in str(error)
    assert done == ["given-up 1: it was worse", "reboot of boot-2"]


def test_a_job_that_began_meanwhile_is_not_ended_to_go_back(trial: Trial, done: list[str]) -> None:
    error = left(trial, CommandLines(OLD, OLD), busy="python3 has a GPU open")
    assert "it runs with that still: python3 has a GPU open" in str(error)
    assert done == ["given-up 1: it was worse"]  # and no later run takes it for one that works


@pytest.mark.parametrize(
    ("complete", "worse", "last", "outcome"),
    [
        (False, set(), False, "unread"),
        (False, {"the end of the evidence", "ib.port"}, False, "unread"),  # unknown is not failed
        (False, set(), True, "given-up"),
        (False, {"iommu.passthrough"}, False, "given-up"),
        (True, {"ib.port"}, False, "given-up"),
    ],
)
def test_what_broke_off_is_not_called_worse_until_it_did_so_twice(
    trial: Trial, done: list[str], *, complete: bool, worse: set[str], last: bool, outcome: str
) -> None:
    now = planned(CommandLines((*OLD, *trial.words, trial.mark), OLD), complete=complete)
    with_worse = replace(hands(CommandLines(OLD, OLD)), worse=lambda _: worse)
    with pytest.raises(ApplyError):
        _leave(with_worse, planned(CommandLines(OLD, OLD)), now, replace(trial, last=last), "why")
    assert done[0] == f"{outcome} 1: why"


def test_a_node_that_came_back_with_yet_another_line_is_not_called_as_before(
    trial: Trial, done: list[str]
) -> None:
    error = left(trial, CommandLines((*OLD, "single"), OLD))
    assert "its command line is now: root=/dev/sda1 ro single" in str(error)
    assert "nothing else was touched" not in str(error)
    assert done[-1] == "reboot of boot-2"


@pytest.mark.parametrize(
    ("before", "why"), [("boot.arguments", ""), ("ofed.dkms", "iommu=pt was given up")]
)
def test_what_stood_in_the_way_before_a_trial_does_not_speak_against_it(
    before: str, why: str
) -> None:
    """Arguments that were given up once stay blocked while a kernel is tried."""
    start, now = (
        replace(planned(CommandLines(OLD, OLD)), plan=replace(NO_CHANGE, blocked=(each,)))
        for each in (Blocked(before, "as ever"), Blocked("boot.arguments", "iommu=pt was given up"))
    )
    assert _unfit(hands(now.lines), start, now) == why
