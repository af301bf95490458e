"""Texts as people paste them: how it is told, what follows from what, what is not asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.test_pastes import API, BUILD, BUILT_BEFORE, DAY, INSTALL, VOLTA, judged
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged, causes, judge_node, wanted
from toolkit.report.causes import cause_lines
from toolkit.report.table import Painter
from toolkit.verbs.saved import read_saved
from toolkit.want import PeerPath, Want


def test_what_is_refused_by_modprobe_d_is_not_laid_to_the_module(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(INSTALL)
    ((_, evidence),) = read_saved(tmp_path / "x")
    found = judge_node("x", evidence, Want(), DAY)
    assert "/bin/false" in found.having(Status.FAIL)[0].finding.found


def test_words_of_others_are_no_reason_for_a_failed_build(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(BUILD)
    ((_, evidence),) = read_saved(tmp_path / "x")
    (failed,) = judge_node("x", evidence, Want(), DAY).having(Status.FAIL)
    assert failed.check.id == "dkms.last_failure"
    assert "report" not in failed.finding.found
    assert "dpkg" not in failed.finding.found


def test_a_driver_that_was_not_built_is_why_nvidia_smi_has_no_answer(tmp_path: Path) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    (tmp_path / "x").write_text(
        f"$ nvidia-smi\n{said}$ dkms status\n{BUILT_BEFORE}$ uname -r\n5.15.0-91-generic\n"
    )
    ((_, evidence),) = read_saved(tmp_path / "x")
    roots = {each.root.check.id: each for each in causes(judge_node("x", evidence, Want(), DAY))}
    assert "nvidia.nvml" in {each.check.id for each in roots["dkms.state"].follows}


def told(text: str, folder: Path, want: Want) -> Judged:
    (folder / "x").write_text(text)
    ((_, evidence),) = read_saved(folder / "x")
    return judge_node("x", evidence, want, DAY)


def test_no_open_driver_is_advised_for_a_gpu_that_has_none(tmp_path: Path) -> None:
    judged = told(VOLTA, tmp_path, Want(path=PeerPath.DMABUF))
    follows = {e.root.check.id: {v.check.id for v in e.follows} for e in causes(judged)}
    assert {"nvidia.flavor", "dmabuf.gpu"} <= follows["gpu.class"]


def test_nvidias_tools_are_not_asked_for_where_the_gpus_are_anothers(tmp_path: Path) -> None:
    mi300 = (
        "$ lspci -nn\n05:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. "
        "[AMD/ATI] Aqua Vanjaram [Instinct MI300X] [1002:74a1]\n"
    )
    commands = [each.command for each in wanted(told(mi300, tmp_path, Want(path=None)))]
    assert commands
    assert not any("nvidia-smi" in each for each in commands)


def test_what_fails_stands_before_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(API)
    ((_, evidence),) = read_saved(tmp_path / "x")
    words = [
        line.split()[0]
        for line in cause_lines([judge_node("x", evidence, Want(), DAY)], Painter(False))
        if line[:1].strip()
    ]
    assert words[0] == "broken"
    assert "unknown" in words[1:]


@pytest.mark.parametrize(("bits", "count"), [("ReqRedir+", 1), ("ReqRedir-", 0)])
def test_of_acs_that_grep_has_left_alone_it_is_told_whether_any_redirects(
    bits: str, count: int, tmp_path: Path
) -> None:
    lines = f"\tACSCtl:\tSrcValid+ {bits} UpstreamFwd-\n\tACSCtl:\tSrcValid- ReqRedir-\n"
    found = told(f"$ lspci -vvv | grep ACSCtl\n{lines}", tmp_path, Want())
    (redirect,) = (each for each in found.verdicts if each.check.id == "acs.redirect")
    assert redirect.status is Status.UNKNOWN
    assert f"of 2 ACSCtl lines {count} redirect" in redirect.finding.found


# libibverbs warns of each provider that is missing, of adapters that the machine has not too.
WARNED = (
    "libibverbs: Warning: couldn't load driver 'libvmw_pvrdma-rdmav34.so': "
    "libvmw_pvrdma-rdmav34.so: cannot open shared object file: No such file or directory\n"
)
LISTED = (
    "    device                 node GUID\n    ------              ----------------\n"
    "    mlx5_0              e89e490300356eaa\n"
)
DEVINFO = (
    "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n"
    "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\t\tInfiniBand\n"
)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        (f"$ ibv_devinfo\n{WARNED}{DEVINFO}", ""),
        (f"{WARNED}{DEVINFO}", ""),
        (f"{WARNED}{LISTED}", ""),
        (f"$ ibv_devices\n{WARNED}{LISTED}", ""),
        (f"$ ibv_devinfo\n{WARNED}\n$ ibv_devices\n{LISTED}", ""),
        (f"{WARNED}No IB devices found\n", "rdma.devices rdma.port"),
        (
            "libibverbs: Warning: no userspace device-specific driver found for "
            "/sys/class/infiniband_verbs/uverbs0\nNo IB devices found\n",
            "rdma.devices rdma.port",
        ),
    ],
)
def test_a_provider_that_is_missing_beside_devices_is_no_trouble(
    text: str, fails: str, tmp_path: Path
) -> None:
    assert judged(text, tmp_path)[0] == fails


IB = "1b:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"


@pytest.mark.parametrize(
    ("hcas", "told"),
    [(1, "1 RDMA device, 1 HCA on"), (2, "whether each HCA has one is not told")],
)
def test_a_list_without_addresses_beside_lspci_misses_no_hca_by_name(
    hcas: int, told: str, tmp_path: Path
) -> None:
    bus = "".join(IB.replace("1b", place) for place in ("1b", "3b")[:hcas])
    up = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0\n"
    text = f"$ lspci -nn\n{bus}$ rdma link\n{up}"
    assert "rdma.devices" not in judged(text, tmp_path)[0]
    assert told in said(text, tmp_path, "rdma.devices")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), "no RDMA device is listed"),
        (("rxe0", "siw0"), "no HCA: only software devices rxe0, siw0"),
    ],
)
def test_a_list_without_an_hca_tells_what_it_has(
    names: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    head = LISTED.partition("    mlx5_0")[0]
    rows = "".join(f"    {each}                e89e490300356eaa\n" for each in names)
    assert said(f"$ ibv_devices\n{head}{rows}", tmp_path, "rdma.devices") == told


def said(text: str, folder: Path, check: str) -> str:
    (folder / "t.txt").write_text(text)
    ((_, evidence),) = read_saved(folder / "t.txt")
    verdicts = judge_node("t", evidence, Want(path=None), DAY).verdicts
    (found,) = (each.finding.found for each in verdicts if each.check.id == check)
    return found


def test_what_mlxfwmanager_asks_about_is_no_setting(tmp_path: Path) -> None:
    update = "Device #1:\n----------\n\n  Device Type:      ConnectX6\n  PSID:  MT_0000000223\n"
    (tmp_path / "t.txt").write_text(f"$ rdma link\n{DOWN_LINK}$ mlxfwmanager\n{update}")
    ((_, evidence),) = read_saved(tmp_path / "t.txt")
    assert list(evidence.frames) == ["rdma-link", "mlxfwmanager"]


DOWN_LINK = "link mlx5_0/1 state DOWN physical_state DISABLED netdev eth0\n"
LINK = "\t\tLnkSta:\tSpeed {}GT/s{}, Width x{}{}\n"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(
            LINK.format(8, " (downgraded)", 16, "") + LINK.format(16, " (ok)", 16, " (ok)"),
            "of 2 LnkSta lines 1 below what the port can",
            id="links",
        ),
        pytest.param(
            "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n" + LINK.format(16, "", 8, ""),
            "of 1 LnkSta line 1 below what the port can",
            id="a-link-as-old-lspci-prints-it",
        ),
        pytest.param(
            "\tRegion 0: Memory at 91000000 (32-bit, non-prefetchable) [size=16M]\n"
            "\tRegion 1: Memory at <unassigned> (64-bit, prefetchable) [disabled]\n",
            "regions of 16M, no address;",
            id="regions",
        ),
    ],
)
def test_what_grep_has_left_alone_of_lspci_is_told_and_nobodys(
    lines: str, words: str, tmp_path: Path
) -> None:
    for before in ("$ lspci -vvv | grep -e Lnk -e Region\n", ""):
        found = told(before + lines, tmp_path, Want())
        said = {each.finding.found for each in found.having(Status.UNKNOWN)}
        assert any(words in each for each in said)
        assert not found.having(Status.PASS)
