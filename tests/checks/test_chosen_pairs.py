"""For which pairs and in which direction NCCL would take its path."""

from __future__ import annotations

import pytest

from tests.checks.test_chosen import (
    AMPERE,
    CLOSED,
    DMABUF,
    MIXED,
    NEAR,
    NO_NVLINK,
    NONE,
    NV_MEM,
    NVLINK,
    PEERMEM,
    RECEIVE,
    SEND,
    TURING,
    UNKNOWN,
    VOLTA,
    conf,
    of,
    way,
)
from tests.evidence.board import GPUS, Board
from tests.evidence.frames import DENIED, Override
from toolkit.checks.consumers.chosen import Way
from toolkit.checks.consumers.chosen_nccl import by_distance
from toolkit.compat.reader import shipped
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.pci.topology import Distance


def test_near_pairs_take_it_and_far_ones_do_not() -> None:
    found = of("nccl", NO_NVLINK)  # and NVLink is not needed: these are newer than Turing
    assert found.nearest == NEAR
    for gpu, hca in NEAR:
        assert way(found, gpu, hca, RECEIVE)[0] is way(found, gpu, hca, SEND)[0] is DMABUF
    assert way(found, GPUS[0], "mlx5_1", SEND) == (NONE, "SYS, and the limit is PXB")
    assert way(found, GPUS[0], "mlx5_2", SEND) == (NONE, "PHB, and the limit is PXB")


def test_a_far_gpu_may_go_through_the_one_beside_the_hca_over_nvlink() -> None:
    assert "by PXN" in way(of("nccl", NVLINK), GPUS[0], "mlx5_1", SEND)[1]
    assert "PXN" not in way(of("nccl", {**NVLINK, **NV_MEM}, nccl="2.9.8"), *NEAR[0], SEND)[1]


@pytest.mark.parametrize(
    ("lines", "gpu_hca", "path", "why"),
    [
        pytest.param(
            ("NCCL_NET_GDR_LEVEL=SYS",), (GPUS[0], "mlx5_1"), DMABUF, "prefers", id="SYS"
        ),
        pytest.param(
            ("NCCL_NET_GDR_LEVEL=LOC",), NEAR[0], NONE,
            "PIX, and the limit is LOC by NCCL_NET_GDR_LEVEL", id="LOC",
        ),
        pytest.param(("NCCL_NET_GDR_LEVEL=0",), NEAR[0], NONE, "the limit is LOC", id="zero"),
        pytest.param(("NCCL_NET_GDR_LEVEL=3",), (GPUS[0], "mlx5_2"), DMABUF, "", id="old-3-is-PHB"),
        pytest.param(
            ("NCCL_NET_GDR_LEVEL=2",), (GPUS[0], "mlx5_2"), NONE, "the limit is PXB", id="old-2"
        ),
        pytest.param(("NCCL_NET_GDR_LEVEL=near",), NEAR[0], DMABUF, "", id="no-level"),
        pytest.param(
            ("NCCL_TOPO_FILE=/etc/topo.xml",), NEAR[0], UNKNOWN, "in place of the PCI tree",
            id="topology-file",
        ),
    ],
)  # fmt: skip
def test_settings_move_the_limit(
    lines: tuple[str, ...], gpu_hca: tuple[str, str], path: Way, why: str
) -> None:
    found = way(of("nccl", {**conf(*lines), **NO_NVLINK}, nccl="2.27"), *gpu_hca, RECEIVE)
    assert found[0] is path
    assert why in found[1]


@pytest.mark.parametrize(
    ("version", "distance", "settings", "allowed"),
    [
        ("2.4.8", Distance.PXB, "", True),
        ("2.4.8", Distance.PHB, "", False),
        ("2.18.3", Distance.P2C, "", False),
        ("2.26.2", Distance.P2C, "", False),
        ("2.26.2", Distance.P2C, "1", True),
        ("2.26.2", Distance.PHB, "1", False),
        ("2.27.3", Distance.P2C, "", True),
        ("2.27.3", Distance.P2C, "0", False),
        ("2.30.7", Distance.P2C, "", True),
        ("2.30.7", Distance.PHB, "", False),
        ("2.30.7", Distance.NODE, "", False),
    ],
)
def test_what_a_coherent_platform_may_by_version(
    version: str, distance: Distance, settings: str, allowed: bool
) -> None:
    name = "NCCL_NET_GDR_C2C"
    said = {name: Setting(name, settings, "/etc/nccl.conf")} if settings else {}
    found = by_distance(shipped().nccl_distances(version), said, distance)
    assert (found is None) is allowed


@pytest.mark.parametrize(
    ("version", "allowed"), [("2.27.3", True), ("2.28.9", True), ("2.30.7", False)]
)
def test_a_level_that_was_set_counts_on_a_coherent_platform_too(
    version: str, allowed: bool
) -> None:
    """Up to 2.28 a path over C2C counts as the shortest before the level is looked at."""
    said = {"NCCL_NET_GDR_LEVEL": Setting("NCCL_NET_GDR_LEVEL", "PXB", "/etc/nccl.conf")}
    found = by_distance(shipped().nccl_distances(version), said, Distance.P2C)
    assert (found is None) is allowed
    if found is not None:
        assert found.why == "P2C, and the limit is PXB by NCCL_NET_GDR_LEVEL"


def test_the_oldest_levels_are_not_guessed_at() -> None:
    said = {"NCCL_NET_GDR_LEVEL": Setting("NCCL_NET_GDR_LEVEL", "3", "/etc/nccl.conf")}
    found = by_distance(shipped().nccl_distances("2.4.8"), said, Distance.PIX)
    assert found is not None
    assert found.way is UNKNOWN


def test_a_distance_that_is_not_known_makes_the_choice_not_known() -> None:
    found = by_distance(shipped().nccl_distances("2.27"), {}, Distance.UNKNOWN)
    assert found is not None
    assert found.way is UNKNOWN
    apart = by_distance(shipped().nccl_distances("2.27"), {}, Distance.APART)
    assert apart is not None
    assert (apart.way, apart.why) == (NONE, "PHB or SYS, and the limit is PXB")


# --- in which direction ---


@pytest.mark.parametrize(
    ("frames", "lines", "send"),
    [
        pytest.param(NO_NVLINK, (), NONE, id="pcie-only"),
        pytest.param(NVLINK, (), PEERMEM, id="nvlink"),
        pytest.param({"nvidia-topology": DENIED}, (), UNKNOWN, id="nvlink-not-read"),
        pytest.param(NO_NVLINK, ("NCCL_NET_GDR_READ=1",), PEERMEM, id="forced"),
        pytest.param(NVLINK, ("NCCL_NET_GDR_READ=0",), NONE, id="forbidden"),
    ],
)
def test_before_ampere_sending_needs_nvlink_and_receiving_nothing(
    frames: dict[str, Override], lines: tuple[str, ...], send: Way
) -> None:
    found = of("nccl", {**frames, **conf(*lines), **CLOSED}, board=VOLTA, nccl="2.27")
    assert way(found, *NEAR[0], RECEIVE)[0] is PEERMEM
    assert way(found, *NEAR[0], SEND)[0] is send
    assert found.way is (PEERMEM if send is PEERMEM else MIXED)


@pytest.mark.parametrize(("board", "send"), [(VOLTA, NONE), (TURING, NONE), (AMPERE, PEERMEM)])
def test_ampere_is_the_first_that_sends_without_nvlink(board: Board, send: Way) -> None:
    found = of("nccl", {**NO_NVLINK, **CLOSED}, board=board, nccl="2.27")
    assert way(found, *NEAR[0], SEND)[0] is send


@pytest.mark.parametrize(("version", "send"), [("2.18.6", NONE), ("2.19.1", DMABUF)])
def test_before_2_19_a_new_gpu_needs_nvlink_too(version: str, send: Way) -> None:
    found = of("nccl", NO_NVLINK, nccl=version)
    assert way(found, *NEAR[0], SEND)[0] is send
    assert way(found, *NEAR[0], RECEIVE)[0] is DMABUF
    assert of("nccl", NVLINK, nccl=version).way is DMABUF


def test_a_single_old_gpu_may_be_read() -> None:
    alone = VOLTA.without(GPUS[1])
    assert of("nccl", {**NO_NVLINK, **CLOSED}, board=alone).way is PEERMEM
