"""What a cluster gets of GPUDirect: the ring's bytes over what carries them, what is assumed."""

from __future__ import annotations

import pytest

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Range, constants
from toolkit.features.predict.plan.totals import NodeTotal, TrainingJob, gain
from toolkit.throughput.estimate import Layer, estimate

C = constants()


def total(direct: Range, bounce: Range, gpus: int = 2) -> NodeTotal:
    fast, slow = (
        estimate(span, "wire", Layer.RING, Confidence.HIGH, ()) for span in (direct, bounce)
    )
    return NodeTotal(("mlx5_0",), gpus, fast, slow)


FAST = total(Range(90, 80, 100), Range(30, 20, 40))


@pytest.mark.parametrize(
    ("nodes", "ring", "spread"),
    [
        (2, "as measured on two nodes", False),
        (3, "as measured on four nodes", True),
        (64, "as measured on four nodes", True),
    ],
)
def test_seconds_are_the_ring_s_bytes_over_what_the_slowest_carries(
    nodes: int, ring: str, spread: bool
) -> None:
    """A ring over n GPUs sends each byte 2 (n - 1) / n times; a gradient has two bytes."""
    found = gain((("gpu1", FAST),), TrainingJob(nodes, 7e9, 3600), C)
    assert found is not None
    share = C["ring-efficiency-many"].over(C["ring-efficiency"]) if spread else Range.exactly(1)
    sent = 2 * (2 * nodes - 1) / (2 * nodes) * 14
    for seconds, span in ((found.with_gdr, (90, 80, 100)), (found.without_gdr, (30, 20, 40))):
        assert seconds.value == pytest.approx(sent / (span[0] * share.value))
        assert seconds.low == pytest.approx(sent / (span[2] * share.high))
        assert seconds.high == pytest.approx(sent / (span[1] * share.low))
    assert found.hours == (found.with_gdr, found.without_gdr)  # of 3600 steps
    saved = found.saved
    assert saved.value == pytest.approx(found.without_gdr.value - found.with_gdr.value)
    assert saved.low == pytest.approx(max(0.0, found.without_gdr.low - found.with_gdr.high))
    assert saved.high == pytest.approx(found.without_gdr.high - found.with_gdr.low)
    assert found.assumptions == (
        f"all {nodes} nodes are like gpu1, and the network between them does not block",
        "pure data parallelism: 7B gradients of 2 bytes a step",
        f"one ring over {2 * nodes} GPUs, {ring}; reduction within nodes or switches first is "
        "faster",
        "nothing of it overlaps with computation: what a framework hides is not saved twice",
    )


def test_a_bound_of_nothing_does_not_last_for_ever() -> None:
    found = gain(
        (("gpu1", total(Range(90, 80, 100), Range(30, 0, 40))),), TrainingJob(2, 1e9, 1), C
    )
    assert found is not None
    assert found.without_gdr.high == pytest.approx(3.0 / 1e-3)


def test_hours_that_may_not_be_saved_at_all_are_none() -> None:
    """Where the bounds overlap the least that is saved is nothing, never less."""
    found = gain(
        (("gpu1", total(Range(40, 10, 50), Range(30, 20, 45))),), TrainingJob(2, 1e9, 3600), C
    )
    assert found is not None
    assert found.saved.low == 0.0
    assert found.saved.value > 0.0


def test_nodes_that_tell_of_no_ring_are_left_out_and_named() -> None:
    mute = total(Range(0, 0, 0), Range(0, 0, 0))
    found = gain((("none", None), ("gpu1", FAST), ("mute", mute)), TrainingJob(2, 1e9, 1), C)
    assert found is not None
    assert found.slowest == "gpu1"
    assert found.assumptions[-1] == (
        "left out, for no pair that carries a ring is told: none, mute"
    )
    assert gain((("none", None), ("mute", mute)), TrainingJob(2, 1e9, 1), C) is None
