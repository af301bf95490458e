"""The checks on health: what the kernel log says of failing hardware."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import BOARD, GPUS, HCAS, Fn
from tests.evidence.build import DRIVER, gpu_rows, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import SMI_Q
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.laws import tried
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Impact
from toolkit.evidence import Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.want import Want

BOOT = "[    1.0] Linux version 5.15.0-170-generic"
GPU = GPUS[0].removesuffix(".0")
LOST = "Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.  Reboot the system"
SWITCH = BOARD.plus(Fn("0000:b0:00.0", "pci0000:97", (0x10DE, 0x22A3), 0x068000, "nvidia-nvswitch"))
NO_GPU, NO_HCA = BOARD.without(*GPUS), BOARD.without(*HCAS)


def log(*lines: str) -> dict[str, Override]:
    return {"dmesg": "".join(f"{line}\n" for line in (BOOT, *lines))}


def rows(first: str) -> str:
    """What nvidia-smi lists, with these values of the first GPU."""
    return re.sub("^([^,]+), .*", rf"\1, {first}", gpu_rows(), count=1)


def xid(rest: str, address: str = GPU) -> str:
    return f"[ 9123.1] NVRM: Xid (PCI:{address}): {rest}"


NO_DRIVER: dict[str, Override] = {"nvidia-version": ABSENT}
ROTATED: dict[str, Override] = {"dmesg": "[ 777.5] mlx5_core 0000:19:00.0: Port module event\n"}

ROWS = [
    Row("whole", "gpu.lost", PASS, "all 2 answer, and none fell off the bus since boot"),
    Row("by-its-xid", "gpu.lost", FAIL, GPUS[0], log(xid("79, GPU has fallen off the bus."))),
    Row(
        "by-nvidia-smi",
        "gpu.lost",
        FAIL,
        "1 GPU does not answer: 0000:18:00.0",
        {"nvidia-smi": failed(15, f"{LOST}\n"), "nvidia-smi-q": failed(15, f"{LOST}\n")},
    ),
    *(
        Row(
            f"listed-with-{error}",
            "gpu.lost",
            FAIL,
            "1 GPU does not answer: 0000:18:00.0",
            {"nvidia-smi": rows(f"{error}, {DRIVER}, {error}, {error}")},
        )
        for error in ("[Unknown Error]", "[GPU is lost]", "ERR!", "Unknown Error")
    ),
    *(
        Row(
            f"one-value-is-{error}",
            "gpu.lost",
            UNKNOWN,
            "errors in place of values of 0000:18",
            {"nvidia-smi": rows(f"NVIDIA H100 80GB HBM3, {DRIVER}, {error}, Enabled")},
        )
        for error in ("[Unknown Error]", "ERR!")
    ),
    Row(
        "of-the-long-answer",
        "gpu.lost",
        UNKNOWN,
        "values of 0000:18:00.0: Product Name",
        {"nvidia-smi-q": re.sub("(Product Name +: ).*", r"\1Unknown Error", SMI_Q, count=1)},
    ),
    Row("it-hangs", "gpu.lost", UNKNOWN, "no answer in time", {"nvidia-smi": TIMEOUT}),
    Row("it-lists-none", "gpu.lost", UNKNOWN, "lists no GPU", {"nvidia-smi": ""}),
    Row("no-log", "gpu.lost", UNKNOWN, "permission denied", {"dmesg": DENIED}),
    Row("not-loaded", "gpu.lost", NA, "no NVIDIA driver", NO_DRIVER),
    Row("none-there", "gpu.lost", NA, "no NVIDIA GPU", board=NO_GPU),
    Row("all-of-them", "gpu.lost", FAIL, "", log(xid("79, GPU has fallen off the bus.")), NO_GPU),
    Row("none", "gpu.xid", PASS, "none since boot"),
    Row("of-memory", "gpu.xid", FAIL, f"{GPUS[0]}: Xid 95", log(xid("95, Uncontained"))),
    Row("of-its-firmware", "gpu.xid", FAIL, "Xid 119", log(xid("119, pid=1, name=x, Timeout"))),
    Row("of-a-job", "gpu.xid", PASS, "of jobs", log(xid("31, MMU Fault"), xid("13, x"))),
    Row("of-a-job-and-more", "gpu.xid", FAIL, "Xid 48", log(xid("31, x"), xid("48, DBE"))),
    Row("of-c2c", "gpu.xid", FAIL, "Xid 159", log(xid("159, CHI Non-Data"))),
    Row(
        "of-power-and-encryption",
        "gpu.xid",
        PASS,
        "165, 166, 168, 170",
        log(*(xid(f"{each}, x") for each in (165, 166, 168, 170))),
    ),
    Row("contained", "gpu.xid", PASS, "63, 94", log(xid("94, Contained"), xid("63, Row Remapper"))),
    Row("of-a-new-number", "gpu.xid", UNKNOWN, "Xid 999", log(xid("999, x"))),
    Row("cut", "gpu.xid", UNKNOWN, "a cut line", log("NVRM: Xid (PCI:0000:1")),
    Row("its-beginning-is-gone", "gpu.xid", PASS, "since 777.5 s after boot", ROTATED),
    Row("empty-log", "gpu.xid", UNKNOWN, "the kernel log is empty", {"dmesg": ""}),
    Row("log-refused", "gpu.xid", UNKNOWN, "permission denied", {"dmesg": DENIED}),
    Row("not-loaded", "gpu.xid", NA, "no NVIDIA driver", NO_DRIVER),
    Row("none-there", "gpu.xid", NA, "no NVIDIA GPU", board=NO_GPU),
    Row("no-switch", "nvlink.sxid", NA, "no NVSwitch"),
    Row("none", "nvlink.sxid", PASS, "none since boot", board=SWITCH),
    Row(
        "fatal",
        "nvlink.sxid",
        FAIL,
        "SXid 20034 on 0000:05:00.0",
        log("nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 48 LTSSM Fault Up"),
    ),
    Row(
        "non-fatal",
        "nvlink.sxid",
        PASS,
        "1 SXid, none of them fatal",
        log("nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 20009, Non-fatal, Link 28 RX Short Error"),
    ),
    Row(
        "of-a-new-form",
        "nvlink.sxid",
        UNKNOWN,
        "whether it is fatal",
        log("nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 20009, Link 28"),
    ),
    *(
        Row(f"cut-{at}", "nvlink.sxid", UNKNOWN, "of a cut line", log(f"[ 9.1] {cut}"))
        for at, cut in enumerate(
            ("nvidia-nvswitch3: SXid", "nvidia-nvswitch3: SXid (PCI:0000:c4", "SXid (PCI:0000:c4:0")
        )
    ),
    *(
        Row(f"cut-late-{at}", "nvlink.sxid", UNKNOWN, "whether it is", log(f"[ 9.1] {cut}"))
        for at, cut in enumerate(
            ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 200", "SXid (PCI:0000:c4:00.0): 20034, Fa")
        )
    ),
    Row(
        "without-its-beginning",
        "nvlink.sxid",
        FAIL,
        "SXid 20034 on 0000:c4:00.0",
        log("SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
    ),
    Row("log-refused", "nvlink.sxid", UNKNOWN, "permission", {"dmesg": DENIED}, SWITCH),
    *(
        Row(f"uvm-{at}", "gpu.xid", FAIL, "nvidia-uvm had a fatal error", log(line))
        for at, line in enumerate(
            (
                "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, "
                "requiring os reboot to recover.",
                "nvidia-uvm: uvm encountered global fatal error 0x60, requiring os reboot",
                "UVM: encountered a fatal error 0x3",
            )
        )
    ),
    Row("uvm-is-loaded", "gpu.xid", PASS, "none", log("nvidia-uvm: Loaded the UVM driver")),
    Row("nothing", "hca.health", PASS, "nothing since boot"),
    Row(
        "compromised",
        "hca.health",
        FAIL,
        f"1 HCA with failing firmware or hardware: {HCAS[0]}",
        log(f"mlx5_core {HCAS[0]}: poll_health:8:(pid 0): device's health compromised"),
    ),
    *(
        Row(f"of-other-makers-{at}", "hca.health", FAIL, "1 HCA with failing", log(line))
        for at, line in enumerate(
            (
                "bnxt_en 0000:41:00.0 ens1: Fatal firmware reset event, data1: 0x2, data2: 0x8000",
                "bnxt_en 0000:41:00.0 ens1: Firmware fatal reset event, data1: 0x2, data2: 0x8000",
                "bnxt_en 0000:41:00.0 ens1: Firmware not responding, status: 0x7fc80009",
                "ionic 0000:24:00.0: FW heartbeat stalled at 1342169688",
            )
        )
    ),
    Row(
        "of-an-update",
        "hca.health",
        PASS,
        "nothing",
        log("bnxt_en 0000:41:00.0 ens1: Non-fatal firmware reset event, data1: 0x1, data2: 0x0"),
    ),
    Row("log-refused", "hca.health", UNKNOWN, "permission", {"dmesg": DENIED}),
    Row(
        "cable-shut-off",
        "hca.health",
        FAIL,
        "one that the log does not name",
        log("mlx5_core: Port module event[error]: module 0, Cable error, High Temperature"),
    ),
    Row(
        "dump-without-syndrome",
        "hca.health",
        UNKNOWN,
        "the syndrome is not in the log",
        log(f"mlx5_core {HCAS[0]}: print_health_info:8:(pid 0): assert_var[0] 0x00000001"),
    ),
    Row(
        "refused-a-key",
        "hca.health",
        PASS,
        "nothing since boot",
        log(
            f"mlx5_core {HCAS[0]}: mlx5_cmd_check:8:(pid 9): CREATE_MKEY(0x200) op_mod(0x0) failed,"
            " status bad parameter(0x3), syndrome (0x35e6ec)"
        ),
    ),
    Row("of-no-mlx5", "hca.health", NA, "no HCA", {"infiniband": ""}, NO_HCA),
]
LOG_CHECKS = ("gpu.lost", "gpu.xid", "nvlink.sxid", "hca.health")
RANK = {FAIL: 0, UNKNOWN: 1, NA: 2, PASS: 2}


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_health(row: Row) -> None:
    holds(row)


def test_both_sentences_are_shown_of_a_lost_gpu() -> None:
    frames = {**log(xid("79, GPU has fallen off the bus.")), "nvidia-smi": failed(15, f"{LOST}\n")}
    details = " ".join(judged(Row("", "gpu.lost", FAIL, "", frames)).finding.details)
    assert LOST in details
    assert "Xid (PCI:" in details


def test_an_xid_is_counted_and_dated() -> None:
    many = log(*(f"[ {at}.5] NVRM: Xid (PCI:{GPU}): 119, x" for at in range(100, 103)))
    [detail] = judged(Row("", "gpu.xid", FAIL, "", many)).finding.details
    assert detail.startswith(
        "GSP, GSP does not answer, 100.5 s after boot, 3 times, last 102.5 s after boot: NVRM: Xid"
    )


@pytest.mark.parametrize("number", [48, 79, 95])
def test_the_hint_drains_before_it_resets(number: int) -> None:
    row = Row("", "gpu.xid", FAIL, "", log(xid(f"{number}, x")))
    assert judged(row).finding.hint.startswith("drain the node")


def test_an_excerpt_of_a_log_that_tells_of_nothing_proves_nothing() -> None:
    evidence = node().plus([Frame("dmesg", State.OK, f"{IMPORTED}x dmesg", f"{BOOT}\n")])
    for check in LOG_CHECKS:
        finding = BY_ID[check](Node(evidence), Want()).finding
        assert finding.status is not PASS, check


LINES = st.lists(
    st.sampled_from(
        [
            xid("13, Graphics Exception"),
            xid("79, GPU has fallen off the bus."),
            xid("95, Uncontained"),
            xid("777, of a later driver"),
            xid("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
            "NVRM: Xid (PCI:0000",
            "nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
            "nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32",
            f"mlx5_core {HCAS[0]}: device's health compromised - reached miss count",
            f"mlx5_core {HCAS[0]}: Fatal error 3 detected",
            "NVRM: fallen off the bus and is not responding to commands.",
        ]
    ),
    max_size=5,
)


@tried(60)
@given(LINES, LINES)
def test_a_further_line_of_trouble_never_makes_a_verdict_better(
    some: list[str], more: list[str]
) -> None:
    before, after = Node(node(log(*some))), Node(node(log(*some, *more)))
    for check in LOG_CHECKS:
        was, now = (BY_ID[check](each, Want()).status for each in (before, after))
        assert RANK[now] <= RANK[was], check


AER = st.lists(
    st.sampled_from(
        [f"{GPUS[0]}/aer_dev_fatal:TOTAL_ERR_FATAL 1", f"{HCAS[0]}/aer_dev_fatal:TOTAL_ERR_FATAL 9"]
    ),
    unique=True,
)


@tried(20)
@given(AER, AER)
def test_a_further_aer_line_never_makes_it_better(some: list[str], more: list[str]) -> None:
    def status(lines: list[str]) -> int:
        text = "".join(f"{line}\n" for line in ("uptime:360000", "functions:13", *lines))
        return RANK[BY_ID["pcie.fatal"](Node(node({"aer": text})), Want()).status]

    assert status(list(dict.fromkeys([*some, *more]))) <= status(some)


@pytest.mark.parametrize(
    "check", [*LOG_CHECKS, "gpu.ecc", "gpu.reset", "port.errors", "pcie.fatal"]
)
def test_failing_hardware_is_sick(check: str) -> None:
    assert BY_ID[check].impact is Impact.SICK
