"""What a journal says of a host decides whether it is drained, looked at, or booted again."""

from __future__ import annotations

import pytest

from toolkit.rollout.plan.batches import Past, Phase, Step, pasts, standing

BEGUN, DRAINING, DRAINED = Phase.BEGUN, Phase.DRAINING, Phase.DRAINED
APPLYING, REBOOTING, LOOKING = Phase.APPLYING, Phase.REBOOTING, Phase.LOOKING
UNDRAINING, DONE, FAILED = Phase.UNDRAINING, Phase.DONE, Phase.FAILED


def past(*phases: Phase, boot_id: str = "b1") -> Past:
    return Past(tuple(Step("gpu1", phase, boot_id) for phase in phases))


@pytest.mark.parametrize(
    ("phases", "drained", "maybe_out"),
    [
        pytest.param((), False, False, id="never-begun"),
        pytest.param((BEGUN, DRAINING), False, True, id="killed-amid-the-drain"),
        pytest.param((BEGUN, DRAINING, FAILED), False, True, id="the-drain-failed"),
        pytest.param(
            (BEGUN, DRAINING, FAILED, BEGUN, LOOKING), False, True, id="and-was-looked-at"
        ),
        pytest.param((BEGUN, DRAINING, DRAINED, APPLYING), True, True, id="at-work"),
        pytest.param((DRAINED, APPLYING, UNDRAINING), False, True, id="killed-amid-the-undrain"),
        pytest.param((DRAINED, APPLYING, UNDRAINING, DONE), False, False, id="given-back"),
    ],
)
def test_whether_a_node_is_out_of_service(
    phases: tuple[Phase, ...], drained: bool, maybe_out: bool
) -> None:
    assert (past(*phases).drained, past(*phases).maybe_out) == (drained, maybe_out)


@pytest.mark.parametrize(
    ("phases", "boot_id", "booted"),
    [
        pytest.param((APPLYING, REBOOTING), "b1", False, id="the-boot-has-not-ended-yet"),
        pytest.param((APPLYING, REBOOTING), "b2", True, id="it-has"),
        pytest.param((APPLYING, REBOOTING, LOOKING, FAILED), "b2", True, id="and-nothing-since"),
        pytest.param((REBOOTING, APPLYING), "b2", False, id="changed-since"),
        pytest.param((APPLYING, FAILED), "b2", False, id="never-asked"),
    ],
)
def test_whether_our_reboot_has_been(phases: tuple[Phase, ...], boot_id: str, booted: bool) -> None:
    assert past(*phases).booted(boot_id) is booted


@pytest.mark.parametrize(
    ("phases", "waited_for"),
    [
        pytest.param((APPLYING, REBOOTING), True, id="asked-for"),
        pytest.param((APPLYING, REBOOTING, LOOKING), True, id="not-seen-well"),
        pytest.param((APPLYING, REBOOTING, FAILED), True, id="not-back-in-time"),
        pytest.param((REBOOTING, FAILED, BEGUN), True, id="killed-as-its-turn-came-again"),
        pytest.param((BEGUN, APPLYING), False, id="no-boot-in-sight"),
        pytest.param((REBOOTING, APPLYING, LOOKING), False, id="changed-since"),
    ],
)
def test_who_may_be_booting_is_waited_for(phases: tuple[Phase, ...], waited_for: bool) -> None:
    assert past(*phases).may_be_booting is waited_for


def test_done_hosts_stay_done_and_begun_ones_count_as_away() -> None:
    steps = [Step("a", DONE), Step("b", APPLYING), Step("c", Phase.PLANNED), Step("d", FAILED)]
    now = standing(pasts(steps), lost=["a", "e"])
    assert now.done == {"a"}
    assert now.down == {"b", "d", "e"}
