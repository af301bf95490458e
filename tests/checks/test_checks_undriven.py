"""Nodes without the NVIDIA driver, and without root: nothing that follows from it is a gap."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GIB, GPUS, Board, Registers
from tests.evidence.build import without_module
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name

_NO_ANSWER = failed(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver.\n")
UNDRIVEN: dict[str, Override] = {
    "nvidia-version": ABSENT,
    "nvidia-params": ABSENT,
    "nvidia-smi": _NO_ANSWER,
    "nvidia-smi-q": _NO_ANSWER,
    "nvidia-topology": _NO_ANSWER,
    "module-state": without_module("nvidia"),
}
LOG_REFUSED = failed(1, "dmesg: read kernel buffer failed: Operation not permitted\n")


def sized(now: int, most: int) -> Board:
    """GPUs with a Resizable BAR of this size, in bytes."""
    board = BOARD
    for gpu in GPUS:
        board = board.but(gpu, express=replace(Registers(), rebar=(now, most)))
    return board


ROWS = [
    Row("no-driver", "nvidia.params", NA, "no NVIDIA driver is loaded", UNDRIVEN),
    Row("no-driver", "nvidia.persistence", NA, "no NVIDIA driver is loaded", UNDRIVEN),
    Row("no-driver", "nvidia.mig_vgpu", NA, "no NVIDIA driver is loaded", UNDRIVEN),
    Row("no-driver", "nvidia.fabric_state", NA, "no NVIDIA driver is loaded", UNDRIVEN),
    Row(
        "no-driver",
        "nvidia.imex",
        NA,
        "no NVIDIA driver is loaded",
        UNDRIVEN,
        BOARD.but(GPUS[0], ids=(0x10DE, 0x2941)).but(GPUS[1], ids=(0x10DE, 0x2941)),
    ),
    Row("no-driver", "pcie.bar1", NA, "no NVIDIA driver is loaded", UNDRIVEN),
    Row(
        "no-driver-and-a-name-is-needed",
        "gpu.class",
        NA,
        "no NVIDIA driver is loaded",
        UNDRIVEN,
        BOARD.but(GPUS[0], ids=(0x10DE, 0x26B9)),
    ),
    Row(
        "no-driver-and-the-card-tells",
        "pcie.bar1",
        PASS,
        "at the largest size",
        UNDRIVEN,
        sized(128 * GIB, 128 * GIB),
    ),
    Row(
        "no-driver-and-a-small-one",
        "pcie.bar1",
        FAIL,
        "131072 MiB of 262144",
        UNDRIVEN,
        sized(128 * GIB, 256 * GIB),
    ),
    Row(
        "whether-a-driver-is-loaded-was-refused",
        "nvidia.persistence",
        UNKNOWN,
        "permission denied",
        UNDRIVEN | {"nvidia-version": DENIED},
    ),
    Row(
        "the-driver-is-loaded-and-hangs",
        "nvidia.persistence",
        UNKNOWN,
        "no answer",
        {"nvidia-smi": TIMEOUT},
    ),
    Row(
        "the-log-is-for-root",
        "pcie.hostbridge",
        UNKNOWN,
        "run as root: dmesg: permission denied",
        {"dmesg": LOG_REFUSED, "uid": "1000\n"},
    ),
    Row(
        "the-log-is-refused-to-root-too",
        "pcie.hostbridge",
        UNKNOWN,
        "dmesg: permission denied",
        {"dmesg": LOG_REFUSED},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_undriven(row: Row) -> None:
    holds(row)
