"""What the kernel logs of failing GPUs, NVSwitches and HCAs, in the forms in which it does."""

from __future__ import annotations

from itertools import pairwise

import pytest

from toolkit.compat.gpus import XidAction, xid_row, xid_rows
from toolkit.facts.gpu.kernel_trouble import fallen, sxids, unstarted, uvm_troubles, when, xids
from toolkit.facts.rdma.hca_health import hca_troubles, refused_commands

FELL = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "address", "number", "sick"),
    [
        pytest.param(
            f"[ 912.1] NVRM: Xid (PCI:0000:1b:00): {FELL}", "0000:1b:00.0", 79, True, id="dmesg"
        ),
        pytest.param(
            "<4>[ 912.1] NVRM: Xid (PCI:0000:CA:00): 13, pid=7, name=python, Graphics Exception",
            "0000:ca:00.0", 13, False, id="of-a-job",
        ),
        pytest.param("NVRM: Xid (0000:03:00): 14, Channel 1", "0000:03:00.0", 14, None, id="old"),
        pytest.param(
            "NVRM: Xid (PCI:0000:00:05 GPU-I:05): 94, pid=7194, Contained: CE User Channel",
            "0000:00:05.0", 94, False, id="of-a-mig-instance",
        ),
        pytest.param(
            "Feb 23 16:24:18 gpu07 kernel: NVRM: Xid (PCI:0008:01:00): 119, pid=2, Timeout",
            "0008:01:00.0", 119, True, id="journal",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0008:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x0)",
            "0008:01:00.0", 149, False, id="its-word-says-nonfatal",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0008:01:00): 145, RLW_REMAP Fatal XC1 i0 Link 02 (0x0)",
            "0008:01:00.0", 145, True, id="its-word-says-fatal",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0008:01:00): 145, a new form", "0008:01:00.0", 145, None,
            id="its-word-is-missing",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
            "(GPU Reset Required)", "0000:1b:00.0", 154, True, id="wants-a-reset",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
            "Required) to 0x0 (None)", "0000:1b:00.0", 154, False, id="wants-none-any-more",
        ),
        pytest.param("NVRM: Xid (PCI:0000:1b:00): 999, x", "0000:1b:00.0", 999, None, id="new"),
        pytest.param("NVRM: Xid (PCI:0000:1b", "", 0, None, id="cut"),
        pytest.param(
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 01 caused by previous Xid 48",
            "0000:dc:00.0", 48, True, id="whose-cause-the-log-has-lost",
        ),
    ],
)  # fmt: skip
def test_an_xid(line: str, address: str, number: int, sick: bool | None) -> None:
    [told] = xids([line])
    assert (told.address, told.number, told.sick) == (address, number, sick)


@pytest.mark.parametrize(
    "line", ["NVRM: loading NVIDIA UNIX Open Kernel Module", "an Xid 79 in a sentence", ""]
)
def test_what_is_no_xid(line: str) -> None:
    assert xids([line]) == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[ 9123.111] NVRM: x", "9123.111 s after boot"),
        ("<6>[    5.2] x", "5.2 s after boot"),
        ("[Sun Feb 23 16:24:18 2025] NVRM: x", "Sun Feb 23 16:24:18 2025"),
        ("kern  :warn  : 2025-01-17T15:36:17,330762+00:00 x", "2025-01-17T15:36:17"),
        ("2026-11-23T09:00:01.5+0100 gpu07 kernel: x", "2026-11-23T09:00:01"),
        ("Feb 23 16:24:18 gpu07 kernel: x", "Feb 23 16:24:18"),
        ("NVRM: x", ""),
    ],
)
def test_when_it_was_logged(line: str, told: str) -> None:
    assert when(line) == told


def test_an_echo_of_an_xid_that_stands_there_is_of_a_job() -> None:
    echo = "NVRM: Xid (PCI:0000:dc:00): 45, pid=18, Ch 01 caused by previous Xid 149"
    cause = "NVRM: Xid (PCI:0000:dc:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x0)"
    assert [(each.number, each.sick) for each in xids([cause, echo])] == [(149, False), (45, False)]


LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
UNSTARTED = "NVRM: GPU 0000:1B:00.0: RmInitAdapter failed! (0x62:0x40:2192)"
NONE = "NVRM: None of the NVIDIA devices were initialized."


@pytest.mark.parametrize(
    ("lines", "addresses"),
    [
        ([LOADED, UNSTARTED, UNSTARTED], ["0000:1b:00.0", "0000:1b:00.0"]),
        ([NONE], [""]),
        ([NONE, LOADED], []),
        ([LOADED, UNSTARTED, LOADED], []),
        (["NVRM: The NVIDIA probe routine failed for 1 device(s).", LOADED], []),
    ],
)
def test_a_gpu_that_the_driver_could_not_start(lines: list[str], addresses: list[str]) -> None:
    assert [each.address for each in unstarted(lines)] == addresses


ASSERTION = "NVRM: nvAssertOkFailedNoLog: Assertion failed: {} returned from status @ kernel_ce.c:1"


def test_what_the_driver_asserts_of_a_gpu_that_works_no_more() -> None:
    lost = ASSERTION.format("GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F)")
    ill = ASSERTION.format("Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)")
    noise = ASSERTION.format("Requested object not found [NV_ERR_OBJECT_NOT_FOUND] (0x00000057)")
    assert [len(read([noise, lost, ill])) for read in (fallen, uvm_troubles)] == [1, 1]
    assert not fallen([noise, ill])
    assert not uvm_troubles([noise, lost])


def test_an_sxid_says_itself_whether_it_is_fatal_and_its_further_lines_are_no_others() -> None:
    head = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0):"
    told = sxids(
        [
            f"[1.0] {head} 20034, Fatal, Link 63 LTSSM Fault Up",
            f"[1.0] {head} 20034, Severity 1 Engine instance 60 Sub-engine instance 00",
            f"[1.0] {head} 20034, Data {{0x10000000, 0x10000000}}",
            f"[2.0] {head} 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
            f"[3.0] {head} 12345, of a new form",
        ]
    )
    assert [(each.number, each.sick) for each in told] == [
        (20034, True),
        (12028, False),
        (12345, None),
    ]
    assert {each.address for each in told} == {"0000:05:00.0"}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([f"[9.1] NVRM: Xid (PCI:0000:18:00): {FELL}"], id="with-its-xid"),
        pytest.param(["[9.1] NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."], id="alone"),
        pytest.param(
            [
                "[9.1] NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2901)",
                "[9.1] NVRM: installed in this system has",
                "[9.1] NVRM: fallen off the bus and is not responding to commands.",
            ],
            id="over-three-lines",
        ),
    ],
)
def test_a_gpu_that_fell_off_the_bus(lines: list[str]) -> None:
    assert [each.address for each in fallen(lines)] == ["0000:18:00.0"]


@pytest.mark.parametrize(
    ("said", "sick"),
    [
        ("poll_health:852:(pid 0): device's health compromised - reached miss count", True),
        ("device's health compromised - reached miss count", True),
        ("poll_health:800:(pid 0): Fatal error 1 detected", True),
        ("poll_health:800:(pid 0): Fatal error 3 detected", False),
        ("print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error", True),
        ("print_health_info:458:(pid 0): synd 0x0: unrecognized error", False),
        ("print_health_info:458:(pid 0): synd 0x10: High temperature", False),
        ("Health issue observed, firmware internal error, severity(3) ERROR:", True),
        ("Health issue observed, High temperature, severity(6) INFO:", False),
        ("wait_func:964:(pid 1): X(0x104) timeout. Will cause a leak of a command resource",
         True),
        ("cb_timeout_handler:9:(pid 1): cmd[0]: Y(0x200) Async, timeout. Will cause a leak "
         "of a command resource", True),
        ("cb_timeout_handler:9:(pid 1): cmd[0]: X(0x200) Async, recovered after timeout", False),
        ("mlx5_load:1:(pid 1): Firmware over 120000 MS in pre-initializing state, aborting", True),
        ("mlx5_pci_err_detected pci_status: 1. Enter, pci channel state = 2", True),
        ("mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot (27W).", False),
        ("504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)", False),
    ],
)  # fmt: skip
def test_what_mlx5_core_says(said: str, sick: bool) -> None:
    told = hca_troubles([f"[ 17.9] mlx5_core 0000:41:00.0: {said}"])
    assert [each.address for each in told] == (["0000:41:00.0"] if sick else [])


HOT = "Port module event[error]: module 0, Cable error, High Temperature"
BNXT, IRDMA = "bnxt_en 0000:41:00.0 ens1f0np0", "ice 0000:41:00.0 rocep65s0"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([f"[9.1] mlx5_core 0000:41:00.0: {HOT}"], ["0000:41:00.0"]),
        ([f"[Sun Dec  1 14:54:40 2024] mlx5_port_module_event:1131:(pid 0): {HOT}"], [""]),
        ([f"mlx5_core: {HOT}"], [""]),
        (["mlx5_core 0000:41:00.0: port_module:252:(pid 0): Port module event[error]: module 1, "
          "Cable error, Bad or shorted cable/module"], ["0000:41:00.0"]),
        (["mlx5_core 0000:41:00.0: Port module event: module 1, Cable unplugged"], []),
        ([f"mlx5_core 0000:41:00.0: {HOT}",
          "mlx5_core 0000:41:00.0: Port module event: module 0, Cable plugged"], []),
        ([f"mlx5_core 0000:41:00.0: {HOT}",
          "mlx5_core 0000:41:00.0: Port module event: module 1, Cable plugged"], ["0000:41:00.0"]),
        ([f"[9.1] {BNXT}: Firmware not responding, status: 0x4808"], ["0000:41:00.0"]),
        ([f"[9.1] {BNXT}: Firmware fatal reset event received"], ["0000:41:00.0"]),
        ([f"[9.1] {BNXT}: Firmware non-fatal reset event received, max wait time 9 msec"], []),
        ([f"[9.1] {BNXT}: Firmware fatal reset event, data1: 0x1, data2: 0x0"], ["0000:41:00.0"]),
        ([f"[9.1] {BNXT}: Resp cmpl intr abandoning msg: 0x17 due to firmware status: 0x84000"],
         ["0000:41:00.0"]),
        ([f"[9.1] {IRDMA}: ICE OICR event notification: oicr = 0x10000003"], []),
        ([f"[9.1] {IRDMA}: critical PE Error, GLPE_CRITERR=0x00011424"], ["0000:41:00.0"]),
        ([f"[9.1] {IRDMA}: Q1 Resource Check"], []),
        (["[9.1] ice 0000:41:00.0: Rebuild failed, unload and reload driver"], ["0000:41:00.0"]),
        (["[9.1] infiniband rdmap0s6: Admin queue is closed"], ["rdmap0s6"]),
        (["[9.1] ena 0000:00:05.0 eth0: Admin queue is closed"], []),
        (["[9.1] efa 0000:00:1e.0: The device didn't send any completion for admin cmd REG_MR(7) "
          "status 0 (ctx 0x0, sq producer: 1, sq consumer: 1, cq consumer: 0)"], ["0000:00:1e.0"]),
        (["[9.1] ionic 0000:24:00.0: FW heartbeat stalled at -1342169688"], ["0000:24:00.0"]),
        (["[9.1] ionic 0000:24:00.0: FW heartbeat stalled at 7",
          "[9.5] ionic 0000:24:00.0: FW heartbeat restored at 9"], []),
        (["[9.1] ionic 0000:24:00.0: FW Down: Stopping LIFs",
          "[9.5] ionic 0000:25:00.0: FW Up: LIFs restarted"], ["0000:24:00.0"]),
        (["[9.1] ionic 0000:24:00.0: FW Down: Stopping LIFs",
          "[9.5] ionic 0000:24:00.0: FW Up: LIFs restarted"], []),
        (["[9.1] ionic 0000:24:00.0: FW Up: LIFs restart failed - err -5"], ["0000:24:00.0"]),
        (["Feb 23 16:24:18 gpu7 kernel: infiniband mlx5_0: reg_create:1: failed"], []),
    ],
)  # fmt: skip
def test_what_the_drivers_of_hcas_say(lines: list[str], named: list[str]) -> None:
    assert [(each.address, each.sick) for each in hca_troubles(lines)] == [
        (name, True) for name in named
    ]


KEY = "(0x200) op_mod(0x0) failed, status "


# mlx5/core/cmd.c: mlx5_cmd_check of Linux to 5.17, mlx5_cmd_out_err since, OFED's small letters;
# infiniband/hw/mlx5/mr.c, create_mkey_callback and reg_mr_callback.
@pytest.mark.parametrize(
    ("said", "refused"),
    [
        (f"mlx5_core 0000:41:00.0: mlx5_cmd_check:7:(pid 9): CREATE_MKEY{KEY}bad parameter(0x3), "
         "syndrome (0x35e6ec)", ("0000:41:00.0", "CREATE_MKEY: bad parameter")),
        (f"mlx5_core 0000:41:00.0: mlx5_cmd_out_err:8:(pid 9): CREATE_MKEY{KEY}limits exceeded"
         "(0x8), syndrome (0x20c9b5), err(-12)", ("0000:41:00.0", "CREATE_MKEY: limits exceeded")),
        (f"mlx5_cmd_check:810:(pid 923941): create_mkey{KEY}no resources(0xf), syndrome (0x1)",
         ("", "CREATE_MKEY: no resources")),
        ("infiniband mlx5_0: create_mkey_callback:131:(pid 0): async reg mr failed. status -12",
         ("mlx5_0", "async reg mr failed. status -12")),
        ("mlx5_core 0000:41:00.0: mlx5_cmd_check:7:(pid 9): ACCESS_REG(0x805) op_mod(0x1) failed, "
         "status bad parameter(0x3), syndrome (0x15c356)", None),
        ("mlx5_core 0000:41:00.0: mlx5_cmd_out_err:8:(pid 9): SET_FLOW_TABLE_ENTRY(0x936) op_mod("
         "0x0) failed, status bad parameter(0x3), syndrome (0xcdb051), err(-22)", None),
    ],
)  # fmt: skip
def test_what_firmware_refused_to_make(said: str, refused: tuple[str, str] | None) -> None:
    line = f"[ 17.123456] {said}"
    assert [(each.address, each.text) for each in refused_commands([line])] == (
        [refused] if refused else []
    )
    assert hca_troubles([line]) == ()


def test_an_internal_error_of_firmware_is_failing_health() -> None:
    said = f"mlx5_cmd_check:7:(pid 9): CREATE_QP{KEY}internal error(0x1), syndrome (0x1)"
    (told,) = hca_troubles([f"mlx5_core 0000:41:00.0: {said}"])
    assert told.sick


DUMP = [
    "print_health_info:424:(pid 0): assert_var[0] 0x00000001",
    "print_health_info:426:(pid 0): assert_exit_ptr 0x2090b0b4",
]


@pytest.mark.parametrize(
    ("after", "sick"),
    [
        ([], [None]),
        (["print_health_info:440:(pid 0): synd 0x1: firmware internal error"], [True]),
        (["print_health_info:440:(pid 0): synd 0x10: High temperature"], []),
        (["print_health_info:440:(pid 0): ext_synd 0x8d1a"], [None]),
    ],
)
def test_a_dump_of_health_is_judged_by_its_syndrome(
    after: list[str], sick: list[bool | None]
) -> None:
    lines = [f"[ 9.1] mlx5_core 0000:41:00.0: {said}" for said in (*DUMP, *after)]
    assert [each.sick for each in hca_troubles(lines)] == sick


def test_the_rows_of_xids_do_not_overlap_and_are_in_order() -> None:
    rows = xid_rows()
    assert all(each.first <= each.last for each in rows)
    assert all(each.last < after.first for each, after in pairwise(rows))
    assert {each.confidence for each in rows} <= {"H", "M", "L"}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 94])
def test_what_ends_a_job_alone_asks_for_no_reset(number: int) -> None:
    row = xid_row(number)
    assert row is not None
    assert row.act in {XidAction.NONE, XidAction.RESTART}
