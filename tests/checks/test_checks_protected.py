"""Confidential computing, and what MPS may keep from GPUDirect RDMA."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, Board
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_fabric import daemons, smi_q
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name

CLOSED: dict[str, Override] = {"nvidia-smi-q": smi_q(protected=81559)}
B200 = BOARD.but(GPUS[0], ids=(0x10DE, 0x2901)).but(GPUS[1], ids=(0x10DE, 0x2901))
MPS = {"daemons": daemons((3000, "nvidia-cuda-mps", "8388608"))}
CHECK = "nvidia.confidential"
ROWS = [
    Row("nothing-told", CHECK, NA, "tells of no protected memory"),
    Row("off", CHECK, PASS, "no protected", {"nvidia-smi-q": smi_q(protected=0)}),
    Row("hopper", CHECK, FAIL, "on 2 of 2 GPUs: bounce buffers", CLOSED),
    Row("blackwell", CHECK, UNKNOWN, "of a kind that may let HCAs in", CLOSED, B200),
    Row("no-driver", CHECK, NA, "no NVIDIA driver", {"nvidia-version": ABSENT}),
    Row("not-read", CHECK, UNKNOWN, "permission", {"nvidia-smi-q": DENIED}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_confidential(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("said", [{}, {"nvidia-smi-q": smi_q(protected=0)}])
@pytest.mark.parametrize(
    ("frames", "board", "told"),
    [
        pytest.param(MPS, B200, True, id="mps-on-b200"),
        pytest.param(MPS, BOARD, False, id="mps-on-h100"),
        pytest.param({}, B200, False, id="b200-without-mps"),
        pytest.param({"daemons": DENIED}, B200, False, id="daemons-not-read"),
    ],
)
def test_parts_of_a_gpu_that_nccl_does_without_gpudirect_for_are_told(
    frames: dict[str, Override], board: Board, told: bool, said: dict[str, Override]
) -> None:
    finding = judged(Row("", CHECK, PASS, "", {**frames, **said}, board)).finding
    assert ["NCCL_NET_GDR_MLOPART=1" in each for each in finding.details] == [True] * told
