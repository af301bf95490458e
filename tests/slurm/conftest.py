"""One Slurm for all of these tests; each test has nodes of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, cluster

# By number, for their kinds go round: 2 owes a reboot, 4 a reload of modules, 1 nothing.
STUBS = ("demo004", "demo014", "demo024", "demo034", "demo044", "demo054", "demo064", "demo074")
REBOOTS = ("demo002", "demo012", "demo022")
HEALTHY = "demo001"
GATED = "demo011"  # healthy too; its prolog is a gate
FEATURES = dict.fromkeys((*STUBS, *REBOOTS), "h100,ib")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    with cluster(folder, (*STUBS, *REBOOTS, HEALTHY, GATED), FEATURES) as made:
        yield made
