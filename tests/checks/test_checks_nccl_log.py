"""What a job's log says, joined with what its node says."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import node
from tests.evidence.frames import DENIED
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.consumers.nccl_log import by_device, meaning
from toolkit.compat.reader import shipped
from toolkit.facts.nccl.nccl_log import Direction, Edge

SEND = Direction.SEND

AT = "gpu01:1:2 [0] NCCL INFO "
BUS = "18000"  # of GPUS[0]
# By the names that their kernel drivers give.
NO_CLIENT = {"hfi1_0": "Omni-Path", "rxe0": "Soft-RoCE", "siw_eth0": "software iWARP"}
DEVICES = AT + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.1<0>\n"
HEAD = (
    "NCCL version 2.21.5+cuda12.4\n"
    + DEVICES
    + AT + "Using network IB\n"
    + AT + f"comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId {BUS} commId 0x2 - Init START\n"
)  # fmt: skip


def channels(*, send: bool = True, receive: bool = True, device: int = 0) -> str:
    """Two channels each way between rank 0 here and rank 8 elsewhere."""
    suffix = {True: "/GDRDMA", False: ""}
    lines = []
    for number in range(2):
        head = f"{AT}Channel 0{number}/0 : "
        lines.append(f"{head}8[0] -> 0[0] [receive] via NET/IB/{device}{suffix[receive]}")
        lines.append(f"{head}0[0] -> 8[0] [send] via NET/IB/{device}{suffix[send]}")
    return "".join(line + "\n" for line in lines)


OLD_GPUS = BOARD.but(GPUS[0], ids=(0x10DE, 0x1DB6)).but(GPUS[1], ids=(0x10DE, 0x1DB6))
NO_NVLINK = (
    "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tPHB\tPIX\t0-9\nGPU1\tPHB\t X \tSYS\t0-9\n"
)


def log(text: str, **more: str) -> dict[str, str]:
    return {"nccl-log": text, **more}


ROWS = [
    Row("all-direct", "nccl.log", PASS, "on all 4 network channels", log(HEAD + channels())),
    Row(
        "by-the-pcie-mapping",
        "nccl.log",
        PASS,
        "by the PCIe mapping",
        log(HEAD + channels().replace("GDRDMA", "GDRDMA(PCI)")),
    ),
    Row(
        "through-host-memory",
        "nccl.log",
        FAIL,
        "4 of 4 network channels go through host memory",
        log(HEAD + channels(send=False, receive=False)),
    ),
    Row(
        "a-new-gpu-must-send-directly-too",
        "nccl.log",
        FAIL,
        "2 of 4 network channels, all sends",
        log(HEAD + channels(send=False)),
    ),
    Row(
        "a-volta-without-nvlink-need-not",
        "nccl.log",
        PASS,
        "on every receive",
        log(HEAD + channels(send=False), **{"nvidia-topology": NO_NVLINK}),
        OLD_GPUS,
    ),
    Row(
        "a-volta-with-nvlink-must",
        "nccl.log",
        FAIL,
        "all sends",
        log(
            HEAD + channels(send=False), **{"nvidia-topology": NO_NVLINK.replace("PHB", "NV2")}
        ),
        OLD_GPUS,
    ),
    Row(
        "another-node's-channels-are-not-ours",
        "nccl.log",
        PASS,
        "on all 4",
        log(HEAD + channels() + channels(send=False, receive=False).replace("gpu01", "gpu02")),
    ),
    Row(
        "a-log-of-others-says-nothing-of-this-node",
        "nccl.log",
        NA,
        "it is of other, not of this node",
        log((HEAD + channels(send=False, receive=False)).replace("gpu01", "other")),
    ),
    Row(
        "too-far",
        "nccl.log",
        FAIL,
        "off for 1 of 1 pairs of GPU and HCA",
        log(HEAD + AT + "GPU Direct RDMA Disabled for GPU 18000 / HCA 0 (distance 6 > 4)\n"),
    ),
    Row(
        "an-hca-that-cannot",
        "nccl.log",
        FAIL,
        "off for rxe0",
        log(HEAD + AT + "NET/IB : GPU Direct RDMA Disabled for HCA 0 'rxe0'\n"),
    ),
    Row(
        "sockets",
        "nccl.log",
        FAIL,
        "NET/IB : No device found.; network Socket",
        log(AT + "NET/IB : No device found.\n" + AT + "Using network Socket\n"),
    ),
    Row(
        "one-node-only",
        "nccl.log",
        NA,
        "within the node",
        log(HEAD + AT + "Channel 00 : 0[0] -> 1[1] via P2P/IPC\n"),
    ),
    Row("no-log", "nccl.log", NA, "no NCCL log was given"),
    Row("no-channels", "nccl.log", UNKNOWN, "names no network channel", log(HEAD)),
    Row("torn", "nccl.log", UNKNOWN, "are torn", log(HEAD + "nd] via NET/IB/1/GDRDMA\n")),
    Row("not-a-log", "nccl.log", UNKNOWN, "it names no network channel", log("hello\n")),
    Row(
        "cuda-failed",
        "nccl.log",
        UNKNOWN,
        "it ended amid: transport/nvls.cc:223: Cuda failure 999",
        log(HEAD + "gpu01:4:5 [1] transport/nvls.cc:223 NCCL WARN Cuda failure 999 'unknown'\n"),
    ),
    Row(
        "no-verbs-library",
        "nccl.log",
        FAIL,
        "Failed to open libibverbs.so[.1]",
        log(HEAD.replace("Using network", "x") + AT + "Failed to open libibverbs.so[.1]\n"),
    ),
    Row(
        "no-verbs-library-and-none-needed",
        "nccl.log",
        UNKNOWN,
        "it names no network channel",
        log(HEAD + AT + "Failed to open libibverbs.so[.1]\n" + AT + "Using network gIB\n"),
    ),
    Row("both-say-direct", "nccl.agrees", PASS, "the same for 2 edges", log(HEAD + channels())),
    Row(
        "the-node-could-and-the-job-does-not",
        "nccl.agrees",
        FAIL,
        "differ on 2 of 2 edges",
        log(HEAD + channels(send=False, receive=False)),
    ),
    Row(
        "the-job-does-and-the-node-has-changed",
        "nccl.agrees",
        FAIL,
        "differ on 2 of 2",
        log(HEAD + channels(device=1)),  # SYS away from the GPU
    ),
    Row("no-version", "nccl.agrees", UNKNOWN, "version", log(DEVICES + channels())),
    Row(
        "devices-not-named",
        "nccl.agrees",
        UNKNOWN,
        "is of one of the node's",
        log(HEAD.replace(DEVICES, "") + channels()),
    ),
    Row(
        "another-node's-trouble-is-not-ours",
        "nccl.log",
        UNKNOWN,
        "names no network channel",
        log(HEAD + AT.replace("gpu01", "gpu02") + "NET/IB : No device found.\n"),
    ),
    Row(
        "the-name-in-a-log-has-no-domain",
        "nccl.log",
        PASS,
        "on all 4",
        log(HEAD + channels(), hostname="gpu01.example.org\n"),
    ),
    Row(
        "before-2.19-a-new-gpu-without-nvlink-need-not",
        "nccl.log",
        PASS,
        "as NCCL has it before 2.19",
        log(
            HEAD.replace("2.21.5", "2.18.3") + channels(send=False),
            **{"nvidia-topology": NO_NVLINK},
        ),
    ),
    Row(
        "a-log-of-others-is-not-compared",
        "nccl.agrees",
        NA,
        "not of this node",
        log((HEAD + channels()).replace("gpu01", "other")),
    ),
    Row(
        "two-jobs-in-one-file",
        "nccl.agrees",
        UNKNOWN,
        "several jobs in one file: NCCL 2.21.5, 2.27.3",
        log(HEAD + "NCCL version 2.27.3+cuda12.8\n" + channels()),
    ),
    Row(
        "a-log-without-its-first-line",
        "nccl.agrees",
        UNKNOWN,
        "the log does not tell NCCL's version",
        log(HEAD.split("\n", 1)[1] + channels()),
    ),
    Row(
        "the-job's-own-setting-is-known-to-both",
        "nccl.agrees",
        PASS,
        "the same for 2 edges",
        log(
            HEAD + AT + "NCCL_NET_GDR_LEVEL set by environment to LOC\n"
            + channels(send=False, receive=False)
        ),
    ),
    Row("no-log", "nccl.agrees", NA, "no NCCL log was given"),
    Row(
        "what-is-not-known-is-not-compared",
        "nccl.agrees",
        UNKNOWN,
        "is of one of",
        {"nccl-log": HEAD + channels(), "nvidia-version": DENIED, "module-state": DENIED},
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_verdicts(row: Row) -> None:
    holds(row)


def test_a_difference_names_the_edge_both_answers_and_the_jobs_own_settings() -> None:
    text = HEAD + AT + "NCCL_NET_GDR_LEVEL set by environment to PHB\n"
    row = Row("", "nccl.agrees", FAIL, "", log(text + channels(send=False, receive=False)))
    details = judged(row).finding.details
    assert details[0].startswith(f"{GPUS[0]} and mlx5_0, receive: the log says through host memory")
    assert "NCCL_NET_GDR_LEVEL=PHB in the job" in details


def test_devices_that_stand_alike_share_a_line_and_the_ill_come_first() -> None:
    good = [
        Edge(host, 0, 8, SEND, "IB", device, gdr=True) for host in ("a", "b") for device in (0, 1)
    ]
    ill = Edge("b", 0, 8, SEND, "IB", 1, gdr=False)
    assert by_device(good) == ("NET/IB/0,1 send: 1 of 1 channels direct each",)
    assert by_device([*good, ill]) == (
        "b NET/IB/1 send: 1 of 2 channels direct",
        "NET/IB/0,1 send: 1 of 1 channels direct each",
    )


@pytest.mark.parametrize("name", NO_CLIENT)
def test_an_hca_of_a_maker_without_peer_memory_is_named(name: str) -> None:
    text = (HEAD + channels(send=False, receive=False)).replace("mlx5_0", name)
    finding = judged(Row("", "nccl.log", FAIL, "", log(text))).finding
    assert f"{name}: {NO_CLIENT[name]} has no GPUDirect RDMA here" in finding.details
    assert "an HCA whose driver can register GPU memory" in finding.hint


def test_a_build_without_dmabuf_is_named() -> None:
    text = HEAD.replace("2.21.5+cuda12.4", "2.20.5+cuda11.0")
    row = Row("", "nccl.log", FAIL, "", log(text + channels(send=False, receive=False)))
    assert "built with CUDA 11.0: no dma-buf before 11.7" in judged(row).finding.details


@pytest.mark.parametrize(
    ("version", "distance", "limit", "said"),
    [
        ("2.5.6", 2, 2, "distance 2 (PHB), limit 2 (PHB)"),
        ("2.12.12", 7, 4, "distance 7 (SYS), limit 4 (PXB)"),
        ("2.26.2", 7, 5, "distance 7 (PHB), limit 5 (PXB)"),
        ("2.27.3", 7, 5, "distance 7 (P2C), limit 5 (PXB)"),
        ("2.27.5", 7, 5, "distance 7 (PXN), limit 5 (PXB)"),
        ("2.30.7", 8, 6, "distance 8 (PHB), limit 6 (P2C)"),
        ("2.12.12", 42, 4, "distance 42 (unknown), limit 4 (PXB)"),
        ("", 8, 5, "distance 8 (PHB or SYS by version), limit 5"),
        ("", 11, 5, "distance 11 (DIS by version), limit 5"),
        ("", 12, 5, "distance 12 (unknown by version), limit 5"),
        ("", 2, 99, "distance 2 (unknown by version), limit 99"),
    ],
)
def test_printed_distances_are_those_of_one_version(
    version: str, distance: int, limit: int, said: str
) -> None:
    assert meaning(distance, limit, version, shipped()) == said


def test_the_log_is_no_frame_of_the_probe() -> None:
    assert "nccl-log" not in node().frames
