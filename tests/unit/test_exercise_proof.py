"""What a test shows of itself: on which machines, by which ports, and how much those carry."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.exercising import captured, frame, measured, planned, table, view
from toolkit.change.exercise_judge import Result, judge
from toolkit.change.exercise_proof import Proof, by_ports
from toolkit.checks.check import Status
from toolkit.facts.exercise import Measured
from toolkit.facts.hca_counters import Moved
from toolkit.facts.node import Node

FULL = 45900.0  # MB/s (2^20): 48.1 GB/s
DEEP = next(each for each in planned(view("gpu1"), view("gpu2")).tests if each.gpu)


def one(found: Measured) -> Result:
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
    assert [each.proof for each in points] == [Proof.OPEN, Proof.OPEN]
