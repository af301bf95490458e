"""The checks on RDMA devices, their ports and their memory."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, HCAS, Fn, hca
from tests.evidence.build import DOWN, INIT, UP, hca_lines
from tests.evidence.frames import DENIED, Override
from tests.evidence.healthy_fabric import daemons
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name


def infiniband(*devices: str) -> dict[str, Override]:
    return {"infiniband": "".join(devices)}


NEAR = (hca_lines("mlx5_0", HCAS[0], UP), hca_lines("mlx5_1", HCAS[1], UP))

NONE: dict[str, Override] = {"daemons": daemons()}
RAY: dict[str, Override] = {"daemons": daemons((2300, "raylet", "65536"))}
STARTED: dict[str, Override] = {
    "boot-order": "Id=slurmd.service\nLoadState=loaded\nActiveState=inactive\n\n"
    "Id=kubelet.service\nLoadState=loaded\nActiveState=active\n"
}
ERDMA = BOARD.but(HCAS[0], ids=(0x1DED, 0x107F), driver="erdma")
REFUSED = "[ 9.1] infiniband erdma_0: ERROR: Out of mr size: 9, max 8\n"
ROWS = [
    Row("healthy", "rdma.devices", PASS, "3 devices"),
    Row(
        "none",
        "rdma.devices",
        FAIL,
        "no RDMA device; 3 HCAs on the PCI bus",
        infiniband(),
    ),
    Row("no-hca", "rdma.devices", FAIL, "no HCA", infiniband(), board=BOARD.without(*HCAS)),
    Row("one-idle", "rdma.devices", FAIL, "no RDMA device for 1 of 3", infiniband(*NEAR)),
    Row(
        "one-given-to-a-guest",
        "rdma.devices",
        PASS,
        "2 devices",
        infiniband(*NEAR),
        board=BOARD.but(HCAS[2], driver="vfio-pci"),
    ),
    Row(
        "virtual-functions-may-be-idle",
        "rdma.devices",
        PASS,
        "3 devices",
        board=BOARD.plus(
            Fn("0000:06:00.1", "0000:05:01.0", (0x15B3, 0x101E), 0x020700, "", physfn=True)
        ),
    ),
    Row("no-device-files", "rdma.devices", FAIL, "no /dev/infiniband", {"rdma-nodes": ""}),
    Row("not-read", "rdma.devices", UNKNOWN, "permission", {"infiniband": DENIED}),
    Row("healthy-with-a-spare-port", "rdma.port", PASS, "2 HCAs up"),
    Row(
        "one-down",
        "rdma.port",
        FAIL,
        "1 of 2 HCAs",
        infiniband(hca_lines("mlx5_0", HCAS[0], DOWN), NEAR[1]),
    ),
    Row(
        "dual-port-with-one-down",
        "rdma.port",
        PASS,
        "2 HCAs up",
        infiniband(hca_lines("mlx5_0", HCAS[0], UP, DOWN), NEAR[1]),
    ),
    Row(
        "down-and-far-from-all-gpus",
        "rdma.port",
        PASS,
        "2 HCAs up",
        infiniband(*NEAR, hca_lines("mlx5_2", HCAS[2], DOWN)),
    ),
    Row(
        "down-where-none-is-near",
        "rdma.port",
        FAIL,
        "1 of 1 HCAs",
        infiniband(hca_lines("mlx5_2", HCAS[2], DOWN)),
        board=BOARD.without(*HCAS[:2]),
    ),
    Row("no-port", "rdma.port", FAIL, "1 of 2", infiniband(hca_lines("mlx5_0", HCAS[0]), NEAR[1])),
    Row("none", "rdma.port", FAIL, "no RDMA device", infiniband()),
    Row("not-read", "rdma.port", UNKNOWN, "permission", {"infiniband": DENIED}),
    Row("another-form", "rdma.port", UNKNOWN, "cannot read", infiniband("mlx5_0/ports/x:1\n")),
    Row("healthy", "rdma.memlock", PASS, "unlimited for logins and services"),
    Row(
        "services-alone",
        "rdma.memlock",
        FAIL,
        "logins (soft): default; logins (hard): default",
        {"limits": ""},
    ),
    Row(
        "logins-alone",
        "rdma.memlock",
        FAIL,
        "services: default",
        {"service-limits": "system.conf:#DefaultLimitMEMLOCK=8M\n"},
    ),
    Row(
        "soft-and-hard-at-once",
        "rdma.memlock",
        PASS,
        "unlimited",
        {"limits": "limits.conf:* - memlock -1  # all\n"},
    ),
    Row(
        "hard-alone",
        "rdma.memlock",
        FAIL,
        "logins (soft): 65536",
        {"limits": "limits.conf:* soft memlock 65536\nlimits.d/a.conf:* hard memlock unlimited\n"},
    ),
    Row(
        "a-later-file-takes-it-back",
        "rdma.memlock",
        FAIL,
        "logins (hard): 64",
        {"limits": "limits.conf:* - memlock unlimited\nlimits.d/z.conf:* hard memlock 64\n"},
    ),
    Row(
        "for-one-user",
        "rdma.memlock",
        FAIL,
        "logins (soft): default",
        {"limits": "limits.conf:slurm - memlock unlimited\n"},
    ),
    Row(
        "services-soft-limit",
        "rdma.memlock",
        FAIL,
        "services: 8M",
        {"service-limits": "system.conf:DefaultLimitMEMLOCK=8M:infinity\n"},
    ),
    Row("not-read", "rdma.memlock", UNKNOWN, "permission", {"service-limits": DENIED}),
    *(
        Row(claim, "rdma.memlock", status, found, {"limits": "", "containers": told, **more})
        for claim, status, found, told, more in (
            ("pods-have-ipc-lock", NA, "they need CAP_IPC_LOCK", "kubelet:yes\n", NONE),
            ("ray-in-pods", NA, "they need CAP_IPC_LOCK", "kubelet:yes\n", RAY),
            ("slurm-beside-a-kubelet", FAIL, "logins (soft): default", "kubelet:yes\n", {}),
            ("slurmd-that-systemd-starts", FAIL, "logins", "kubelet:yes\n", {**NONE, **STARTED}),
            ("no-kubelet", FAIL, "logins (soft): default", "kubelet:no\n", NONE),
            ("older-evidence", FAIL, "logins (soft): default", "", NONE),
        )
    ),
    Row("refused", "rdma.registration", FAIL, "Out of mr size: 9, max 8", {"dmesg": REFUSED}),
    Row("none-refused", "rdma.registration", PASS, "none refused", board=ERDMA),
    Row("log-refused", "rdma.registration", UNKNOWN, "permission", {"dmesg": DENIED}, ERDMA),
    Row("of-silent-drivers", "rdma.registration", NA, "no HCA whose driver logs"),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_rdma(row: Row) -> None:
    holds(row)


def test_a_port_in_init_asks_for_a_subnet_manager() -> None:
    frames = infiniband(hca_lines("mlx5_0", HCAS[0], INIT), NEAR[1])
    finding = judged(Row("", "rdma.port", FAIL, "", frames)).finding
    assert "subnet manager" in finding.hint
    assert finding.details == ("mlx5_0: INIT/LinkUp",)


def test_an_idle_hca_is_named() -> None:
    board = BOARD.plus(hca("0000:07:00.0", "0000:05:01.0"))
    assert judged(Row("", "rdma.devices", FAIL, "", board=board)).finding.details == (
        "0000:07:00.0",
    )


def test_hcas_of_a_node_whose_rdma_stack_is_down_are_told_by_the_bus() -> None:
    holds(Row("", "pcie.distance", PASS, "2 PIX", infiniband()))


GAVE_UP = (
    "[   12.1] mlx5_core {0}: mlx5_function_enable:1157:(pid 512): Failed initializing command "
    "interface, aborting\n"
)


@pytest.mark.parametrize(
    ("log", "detail"),
    [
        (
            GAVE_UP + "[   12.2] mlx5_core: probe of {0} failed with error -22\n",
            ": mlx5_core gave up with error -22: Failed initializing command interface",
        ),
        (
            "[   12.2] mlx5_core {0}: probe with driver mlx5_core failed with error -110\n",
            ": mlx5_core gave up with error -110",
        ),
        ("[   12.2] mlx5_core {0}: firmware version: 28.43.2026\n", ""),
    ],
)
@pytest.mark.parametrize("present", [NEAR[1:], ()])
def test_a_card_that_its_driver_gave_up_is_not_sent_to_modprobe(
    log: str, detail: str, present: tuple[str, ...]
) -> None:
    frames = {**infiniband(*present), "dmesg": log.format(HCAS[0])}
    finding = judged(Row("", "rdma.devices", FAIL, "", frames)).finding
    assert finding.status is FAIL
    assert f"{HCAS[0]}{detail}" in finding.details
    assert ("not modprobe" in finding.hint) is bool(detail)


def test_a_card_whose_log_cannot_be_read_is_named_as_before() -> None:
    finding = judged(Row("", "rdma.devices", FAIL, "", {"infiniband": "", "dmesg": DENIED})).finding
    assert (finding.status, "modprobe -a mlx5_core" in finding.hint) == (FAIL, True)
    assert HCAS[0] in finding.details


@pytest.mark.parametrize("name", ["slurmd", "pbs_mom", "sge_execd", "lsf_sbatchd", "sbatchd"])
def test_limits_of_logins_count_beside_a_kubelet_where_a_scheduler_starts_jobs(name: str) -> None:
    told: dict[str, Override] = {"limits": "", "containers": "kubelet:yes\n"}
    told |= {"daemons": daemons((2300, name, "unlimited"))}
    holds(Row("", "rdma.memlock", FAIL, "logins (soft): default", told))
