"""A gate as a real Slurm's Prolog: no job begins on a node that is no longer as it was."""

from __future__ import annotations

import pytest

from tests.slurm.cluster import Cluster, wait_for
from tests.slurm.conftest import GATED
from tests.slurm.test_drain import lose_the_ports

pytestmark = pytest.mark.slurm


def test_a_prolog_lets_a_job_in_and_drains_with_the_reason(slurm: Cluster) -> None:
    made = slurm.run("gate", "--hosts", GATED, "--out", str(slurm.folder / f"gate.{GATED}"))
    assert made.returncode == 0, made.stderr
    first = slurm.submit(GATED, "true", "--partition=all")
    wait_for(lambda: slurm.job(first) == "COMPLETED", lambda: slurm.job(first))
    lose_the_ports(slurm, GATED)
    second = slurm.submit(GATED, "true", "--partition=all")
    wait_for(lambda: "DRAIN" in slurm.state(GATED), lambda: slurm.reason(GATED))
    assert slurm.reason(GATED).startswith("gate: port mlx5_0/1: 1: DOWN, expected 4: ACTIVE")
    assert slurm.job(second) != "COMPLETED"
    slurm.slurm("scancel", second)
