"""What is wrong with a port, told apart."""

from __future__ import annotations

import pytest

from tests.checks.test_checks_fabric import SLOW, at, ethernet
from tests.evidence.board import HCAS
from tests.evidence.build import DOWN, hca_lines
from tests.evidence.frames import Override
from tests.evidence.judging import FAIL, PASS, Row, judged


@pytest.mark.parametrize(
    ("frames", "hint"),
    [
        pytest.param(ethernet(("1: DOWN", "3: Disabled")), "ip link set ib0 up", id="ethernet"),
        pytest.param(
            {"infiniband": hca_lines("mlx5_0", HCAS[0], ("1: DOWN", "3: Disabled"))},
            "ibportstate",
            id="switched-off",
        ),
        pytest.param(
            {"infiniband": hca_lines("mlx5_0", HCAS[0], DOWN)}, "no partner answers", id="polling"
        ),
        pytest.param(
            {"infiniband": hca_lines("mlx5_0", HCAS[0], ("3: ARMED", "5: LinkUp"))},
            "has not finished",
            id="armed",
        ),
        pytest.param(
            {"infiniband": hca_lines("mlx5_0", HCAS[0], ("1: DOWN", "6: LinkErrorRecovery"))},
            "mlxlink",
            id="does-not-train",
        ),
    ],
)
def test_states_of_a_port_are_different_faults(frames: dict[str, Override], hint: str) -> None:
    finding = judged(Row("", "rdma.port", FAIL, "", frames)).finding
    assert finding.found.startswith("1 of 1 HCAs without a port that is up: mlx5_0 ")
    assert hint in finding.hint


def test_a_port_slower_than_its_card_can_is_told_though_it_passes() -> None:
    row = Row("", "rdma.rate", PASS, "", at("200 Gb/sec (4X HDR)"))
    assert judged(row).finding.details == tuple(
        f"mlx5_{n} port 1: 200 of the 400 Gb/s of ConnectX-7: as the board or the switch can"
        for n in (0, 1)
    )


def test_ports_that_are_slow_all_alike_are_looked_for_at_what_they_share() -> None:
    alike, one = (Row("", "rdma.rate", FAIL, "", frames) for frames in (
        at("10 Gb/sec (4X SDR)"), {"infiniband": SLOW}
    ))  # fmt: skip
    assert "before any single cable" in judged(alike).finding.hint
    assert not judged(one).finding.hint
