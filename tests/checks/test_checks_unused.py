"""A library that will not use GPUDirect, by what stands on the node, keeps it from being ready."""

from __future__ import annotations

from datetime import date

import pytest

from tests.evidence.board import FLAT
from tests.evidence.build import GUEST_CPU, PROPRIETARY, node, without_module
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_consumers import nccl, ucx_info
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.consumers.chosen import Way
from toolkit.checks.judged import judge_node
from toolkit.want import PeerPath, Want

TODAY = date(2026, 11, 23)
ALONE: dict[str, Override] = {"libraries": nccl("2.27.3"), "ucx-info": ABSENT}
NO_PEERMEM: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
CLOSED: dict[str, Override] = {"nvidia-version": PROPRIETARY}


def conf(*lines: str) -> dict[str, Override]:
    return {**ALONE, "nccl-conf": "".join(line + "\n" for line in lines)}


GUEST: dict[str, Override] = {**ALONE, "cpu": GUEST_CPU}
# What stands on a node by which nothing goes by GPUDirect.
DARK: dict[str, dict[str, Override]] = {
    "no-hca-of-that-name": conf("NCCL_IB_HCA=mlx4"),
    "level-loc": conf("NCCL_NET_GDR_LEVEL=LOC"),
    "disabled": conf("NCCL_IB_DISABLE=1"),
    "ucx-told-off": {
        "libraries": "",
        "ucx-info": ucx_info("1.18.0"),
        "consumer-settings": "environment:UCX_IB_GPU_DIRECT_RDMA=n\n",
    },
}

ROWS = [
    Row("healthy", "consumer.gdr", PASS, "NCCL 2.27.3: dmabuf", ALONE),
    Row(
        "no-hca-left", "consumer.gdr", FAIL, "NCCL_IB_HCA leaves none", DARK["no-hca-of-that-name"]
    ),
    Row("told-loc", "consumer.gdr", FAIL, "NCCL_NET_GDR_LEVEL", DARK["level-loc"]),
    Row("flat-guest", "consumer.gdr", FAIL, "PHB", GUEST, FLAT),
    Row("topology-file", "consumer.gdr", UNKNOWN, "NCCL_TOPO_FILE", conf("NCCL_TOPO_FILE=/x.xml")),
    Row("another-net", "consumer.gdr", UNKNOWN, "rules of its own", conf("NCCL_NET=AWS Libfabric")),
    Row("not-read", "consumer.gdr", UNKNOWN, "libraries", {**ALONE, "libraries": DENIED}),
    Row("in-containers", "consumer.gdr", NA, "containers bring", {**ALONE, "libraries": ""}),
    Row("nobody-can", "consumer.gdr", NA, "path.selected", {**ALONE, **NO_PEERMEM, **CLOSED}),
    Row(
        "ucx-of-the-distribution",
        "consumer.gdr",
        NA,
        "containers bring",
        {"libraries": "", "ucx-info": ucx_info("1.18.0", "--without-cuda")},
    ),
    Row("healthy", "consumer.gdr_part", PASS, "none does so", ALONE),
    Row(
        "sending-is-off",
        "consumer.gdr_part",
        FAIL,
        "2 of 2 GPUs, sending: NCCL_NET_GDR_READ=0",
        conf("NCCL_NET_GDR_READ=0"),
    ),
    Row(
        "one-hca-for-two",
        "consumer.gdr_part",
        FAIL,
        "1 of 2 GPUs, sending and receiving",
        conf("NCCL_IB_HCA==mlx5_0"),
    ),
    Row("not-read", "consumer.gdr_part", UNKNOWN, "libraries", {**ALONE, "libraries": DENIED}),
    Row("in-containers", "consumer.gdr_part", NA, "containers bring", {**ALONE, "libraries": ""}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_each_case(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("path", [*PeerPath, None])
@pytest.mark.parametrize("frames", DARK.values(), ids=list(DARK))
def test_no_node_is_ready_below_whose_lines_stands_a_library_without_a_path(
    frames: dict[str, Override], path: PeerPath | None
) -> None:
    judged = judge_node("n", node(frames), Want(path=path), TODAY)
    assert any(each.way is Way.NONE for each in judged.chosen), "the line stands there"
    assert judged.state in {"broken", "slow"}
