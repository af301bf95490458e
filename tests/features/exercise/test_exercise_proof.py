"""What a test shows of itself: on which machines, by which ports, and how much those carry."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.exercise.exercising import captured, frame, measured, planned, table, view
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Measured
from toolkit.facts.rdma.hca_health import Moved
from toolkit.features.exercise.plan_judge import JudgedTest, judge
from toolkit.features.exercise.plan_proof import ProofState, by_ports

FULL = 45900.0  # MB/s (2^20): 48.1 GB/s
DEEP = next(each for each in planned(view("gpu1"), view("gpu2")).tests if each.gpu)


def one(found: Measured) -> JudgedTest:
    [result] = judge([found], {name: Node(captured("healthy")) for name in ("gpu1", "gpu2")})
    return result


def test_two_names_of_one_machine_are_no_two_nodes() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    said = {role: replace(each, boot_id="b") for role, each in good.said.items()}
    result = one(replace(good, said=said))
    assert (result.status, result.suspect) == (
        Status.FAIL, "a silent fallback: gpu1 and gpu2 are one machine by two names",
    )  # fmt: skip


def test_machines_of_one_snapshot_are_two_by_their_gids() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    said = {role: replace(each, boot_id="b") for role, each in good.said.items()}
    gid = "mlx5_0/ports/1/gids/0:fe80:0000:0000:0000:5054:00ff:fe12:3456\n"
    other = captured("healthy").plus([frame("rdma-gids", gid)])
    nodes = {"gpu1": Node(captured("healthy")), "gpu2": Node(other)}
    assert judge([replace(good, said=said)], nodes)[0].status is Status.PASS


def test_what_no_port_carries_went_another_way() -> None:
    """400 Gb/s are 50 GB/s: even where ports tell nothing this did not go by them."""
    result = one(measured(DEEP, table(DEEP, FULL * 1.2)))
    assert result.status is Status.FAIL
    assert "57.8 GB/s is more than mlx5_0 of gpu2 carries (50.0)" in result.suspect


def test_packets_of_a_size_that_nobody_told_refute_nothing() -> None:
    """As where UCX ran over Soft-RoCE."""
    good = measured(DEEP, table(DEEP, FULL))
    port = Moved("mlx5_0", 1, None, None, 9000, 9000)
    said = {role: replace(each, ports=(port,)) for role, each in good.said.items()}
    points = by_ports(replace(good, said=said), 10**9, 0)
    assert [each.proof for each in points] == [ProofState.OPEN, ProofState.OPEN]


@pytest.mark.parametrize(
    ("port", "verb", "shown"),
    [
        pytest.param(Moved("mlx5_0", 1, 900, 10), "sent", ProofState.SHOWN, id="sent"),
        pytest.param(
            Moved("mlx5_0", 1, 899, 1000), "sent", ProofState.REFUTED, id="sent-too-little"
        ),
        pytest.param(Moved("mlx5_0", 1, 10, 900), "received", ProofState.SHOWN, id="received"),
        pytest.param(
            Moved("mlx5_0", 1, 1000, 10), "received", ProofState.REFUTED, id="the-wrong-way"
        ),
        pytest.param(
            Moved("mlx5_0", 1, None, None, 9, 1), "sent", ProofState.SHOWN, id="packets-out"
        ),
        pytest.param(
            Moved("mlx5_0", 1, None, None, 1, 9), "received", ProofState.SHOWN, id="packets-in"
        ),
        pytest.param(
            Moved("mlx5_0", 1, None, None, 1, 9),
            "sent",
            ProofState.REFUTED,
            id="packets-the-wrong-way",
        ),
        pytest.param(
            Moved("mlx5_0", 1, 0, None, 9, 9), "sent", ProofState.REFUTED, id="bytes-first"
        ),
    ],
)
def test_the_end_that_drives_a_write_sends_and_the_other_receives(
    port: Moved, verb: str, shown: ProofState
) -> None:
    """Of 1000 bytes nine tenths are enough; packets count as the MTU, 100 bytes here."""
    good = measured(DEEP, table(DEEP, FULL))
    said = {role: replace(each, ports=(port,)) for role, each in good.said.items()}
    serve, drive = by_ports(replace(good, said=said), 1000, 100)
    assert (drive if verb == "sent" else serve).proof is shown


def test_a_port_beside_it_that_moved_half_of_them_is_named() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    ports = (
        Moved("mlx5_0", 1, 0, 0), Moved("mlx5_1", 1, 450, 450), Moved("mlx5_2", 1, 449, 449),
    )  # fmt: skip
    said = {role: replace(each, ports=ports) for role, each in good.said.items()}
    serve, drive = by_ports(replace(good, said=said), 1000, 100)
    assert drive.words == "mlx5_0 of gpu1 sent 0 bytes of 1.0 kB: mlx5_1 moved them"
    assert serve.words == "mlx5_0 of gpu2 received 0 bytes of 1.0 kB: mlx5_1 moved them"
