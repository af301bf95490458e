"""Loose files become frames: by their shape, by the commands in them, by what is said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

from toolkit.errors import Unparsable, UsageError
from toolkit.evidence import Evidence, State
from toolkit.facts.kinds import BY_NAME, KINDS, commanded, named, parted, recognise
from toolkit.facts.nccl.nccl_log import _unwrapped
from toolkit.facts.rdma.registration import parse_limits
from toolkit.facts.text.pasted_logs import evidence_of, frames_of, said
from toolkit.facts.text.tool_reports import parse_fi_info, parse_rdma_topo

EVIDENCE = Path(__file__).parents[2] / "docs/evidence.md"
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-31\t0\n"
KMSG = "[   31.832683] nvidia_peermem: disagrees about version of symbol x\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param(MATRIX, "topo", id="matrix"),
        pytest.param("\t\x1b[4mGPU0\tCPU Affinity\x1b[0m\nGPU0\t X \t0-19\n", "topo", id="ansi"),
        pytest.param("        GPU0    mlx5_0  CPU Affinity\nGPU0   X  PIX\n", "topo", id="old"),
        pytest.param("3b:00.0 3D controller: NVIDIA Device 2330\n", "lspci", id="lspci"),
        pytest.param("0000:3b:00.0 3D controller [0302]: NVIDIA\n", "lspci", id="lspci-domain"),
        pytest.param("-+-[0000:00]-+-00.0  Intel\n", "lspci-tree", id="lspci-tree"),
        pytest.param("-[0000:00]-+-00.0  Intel\n", "lspci-tree", id="lspci-tree-of-one-bus"),
        pytest.param("nvidia/580.1, 5.15.0-1, x86_64: installed\n", "dkms", id="dkms-3"),
        pytest.param("nvidia, 580.1, 5.15.0-1, x86_64: installed\n", "dkms", id="dkms-2"),
        pytest.param("nvidia/580.1: added\n", "dkms", id="dkms-added"),
        pytest.param("Building module:\nError! Bad return status\n", "make-log", id="build"),
        pytest.param("nvidia/580.1: broken\nError! nvidia/580.1: x\n", "dkms", id="dkms-broken"),
        pytest.param("Error! Your kernel headers for kernel 6 x\n", "make-log", id="no-headers"),
        pytest.param("dkms autoinstall on 6/x86_64 failed for a(10)\n", "make-log", id="auto"),
        pytest.param("\n=====NVSMI LOG=====\n", "nvidia-smi-q", id="nvidia-smi-q"),
        pytest.param("name, pci.bus_id, memory.total [MiB]\n", "nvidia-smi-csv", id="csv"),
        pytest.param(KMSG, "dmesg", id="dmesg"),
        pytest.param("<6>" + KMSG, "dmesg", id="dmesg-with-priority"),
        pytest.param("6,3973,227996636,-;nvidia-peermem x\n", "dmesg", id="kmsg"),
        pytest.param("kern  :err   : 2025-02-10T16:28:06,5+00:00 x\n", "dmesg", id="dmesg-decoded"),
        pytest.param(KMSG + "[   32.000000] x: error: y\n", "dmesg", id="dmesg-with-errors"),
        pytest.param("a:1:2 [0] NCCL INFO Bootstrap : Using ib0\n", "nccl-log", id="nccl-log"),
        pytest.param("NCCL INFO Channel 00/0 : 2[0] -> 1[1]\n", "nccl-log", id="nccl-log-bare"),
        pytest.param("\n<system version=\"1\">\n", "nccl-topology", id="nccl-topology"),
        pytest.param("BOOT_IMAGE=/boot/vmlinuz-6.8 ro iommu=pt\n", "cmdline", id="cmdline"),
        pytest.param("ro root=/dev/sda1 iommu=pt\n", "cmdline", id="cmdline-without-image"),
        pytest.param('GRUB_CMDLINE_LINUX=""\n', "grub-default", id="grub-default"),
        pytest.param('NAME="SLES"\nID="sles"\n', "os-release", id="os-release"),
        pytest.param("Module   Size  Used by\nnvidia 12345 0\n", "lsmod", id="lsmod"),
        pytest.param("nvidia_uvm  4665344  2\nnvidia 5420 1 a,b\n", "lsmod", id="lsmod-grepped"),
        pytest.param("modprobe: ERROR: could not insert\n", "modprobe", id="modprobe"),
        pytest.param("filename:       /lib/modules/x/nvidia.ko.zst\n", "modinfo", id="modinfo"),
        pytest.param("SecureBoot enabled\n", "mokutil", id="mokutil"),
        pytest.param("MLNX_OFED_LINUX-5.4-3.0.3.0:\n", "ofed-info", id="ofed-info"),
        pytest.param("CA 'mlx5_0'\n\tCA type: MT4129\n", "ibstat", id="ibstat"),
        pytest.param("hca_id:\tmlx5_0\n", "ibv-devinfo", id="ibv-devinfo"),
        pytest.param("mlx5_0 port 1 ==> ib0 (Up)\n", "ibdev2netdev", id="ibdev2netdev"),
        pytest.param(" GDS release version: 1.14.0.30\n", "gdscheck", id="gdscheck"),
        pytest.param("Total: 3, Passed: 3, Failed: 0, Waived: 0\n", "gdrcopy-sanity", id="gdr"),
        pytest.param("write BW: 18577.5MB/s\n", "gdrcopy-sanity", id="gdr-copybw"),
        pytest.param("#      Transport: rc_mlx5\n", "ucx-info", id="ucx-info"),
        pytest.param("MST modules:\n------------\n", "mst-status", id="mst"),
        pytest.param("# dmidecode 3.2\n", "dmidecode", id="dmidecode"),
        pytest.param("| NVIDIA-SMI 535.1  Driver Version: 5 |\n", "nvidia-smi-table", id="smi"),
        pytest.param("<nvidia_smi_log>\n", "nvidia-smi-q", id="nvidia-smi-xml"),
        pytest.param("GPU 0: A (UUID: 1)\n\t Link 0: 25 GB/s\n", "nvlink-status", id="nvlink"),
        pytest.param("| Diagnostic    | Result   |\n", "dcgmi-diag", id="dcgmi-diag"),
        pytest.param("OK\tACS for grace_rp 0009:00:00.0 x\n", "rdma-topo", id="rdma-topo"),
        pytest.param("provider: efa\n    fabric: x\n", "fi-info", id="fi-info"),
        pytest.param("fi_getinfo: -61 (No data available)\n", "fi-info", id="fi-info-of-none"),
        pytest.param("IoType: READ XferType: GPUD Threads: 1\n", "gdsio", id="gdsio"),
        pytest.param(
            "[Dec 18 2024 19:09:50] [INFO] [tid 1584] x\n", "fabricmanager-log", id="manager"
        ),
        pytest.param(
            "failed to load nvidia-peermem module\n", "peermem-container", id="peermem-container"
        ),
        pytest.param("IOMMU Group 30 0d:00.0 VGA [0300]: x\n", "iommu-groups", id="iommu-groups"),
        pytest.param(" RDMA_Write BW Test\n", "perftest", id="perftest"),
        pytest.param("# nThread 1 nGpus 8\n# NCCL version 2.26\n", "nccl-tests", id="nccl-tests"),
        pytest.param("| bandwidth (MB/s)  |  message rate (msg/s) |\n", "ucx-perftest", id="ucx"),
        pytest.param('{"@odata.id": "/redfish/v1/Systems/1/Bios"}\n', "bios", id="bios"),
        pytest.param('<?xml version="1.0"?>\n<BiosCfg>\n', "bios", id="bios-of-sum"),
        pytest.param(
            '{"@odata.type": "#AttributeRegistry.v1_3_2.A"}\n', "bios-registry", id="registry"
        ),
        pytest.param('"test": "RDMA_Write_BW_Test",\n', "perftest", id="perftest-json"),
        pytest.param(" #bytes    #sl      #iterations    BW\n", "perftest", id="perftest-lanes"),
        pytest.param('{"average_bus_bandwidth": 1}\n', "nccl-tests", id="nccl-tests-json"),
        pytest.param(" 8  2  float  sum  -1  9.0  0.1\n", "nccl-tests", id="nccl-tests-row"),
        pytest.param("Linux h 6.8.0-45-generic #45-Ubuntu SMP x\n", "uname", id="uname"),
        pytest.param("Linux version 6.8.0-45 (a@b) (gcc\n", "uname", id="proc-version"),
        pytest.param("NVRM version: NVIDIA UNIX x 570.1\n", "nvidia-version", id="driver"),
        pytest.param("Infiniband device 'a' port 1 status:\n", "ibstatus", id="ibstatus"),
        pytest.param("link mlx5_0/1 state ACTIVE physical\n", "rdma-link", id="rdma-link"),
        pytest.param("0/1: mlx5_0/1: subnet_prefix fe80 lid 1\n", "rdma-link", id="rdma-old"),
        pytest.param("DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n", "show-gids", id="show-gids"),
        pytest.param("● a.service - A\n  Loaded: loaded (x)\n", "systemctl-status", id="unit"),
        pytest.param("nvidia 5420 1 - Live 0x0 (OE)\n", "lsmod", id="proc-modules"),
        pytest.param("No devices were found\n", "nvidia-smi-q", id="smi-none"),
        pytest.param("NVIDIA-SMI has failed because it\n", "nvidia-smi-q", id="smi-failed"),
        pytest.param("Name: a\nRoles: b\nCapacity:\n", "kubectl-node", id="describe-node"),
        pytest.param("Name: a\nNamespace: b\nNode: c\n", "kubectl-pod", id="describe-pod"),
        pytest.param("apiVersion: v1\nkind: Pod\n", "kubectl-pod", id="pod-as-yaml"),
        pytest.param('[\n {\n "HostConfig": {\n', "container-inspect", id="inspect"),
        pytest.param("a.service loaded failed failed A\n", "systemctl-status", id="list-units"),
        pytest.param("Fatal error:  No devices\n", "ibstatus", id="ibstatus-of-none"),
        pytest.param('[{"ifindex":0,"ifname":"a","port":1}]\n', "rdma-link", id="rdma-json"),
        pytest.param("    device    node GUID\n  ----\n", "ibv-devices", id="ibv_devices"),
        pytest.param("0: mlx5_0: node_type ca fw 28.39\n", "rdma-dev", id="rdma-dev"),
        pytest.param("0: mlx5_0: pd 3 cq 5 qp 1 cm_id 0\n", "rdma-dev", id="rdma-resource"),
        pytest.param("Operational Info\n----\nState : Active\n", "mlxlink", id="mlxlink"),
        pytest.param("\nDevice #1:\n----------\n", "mlxconfig", id="mlxconfig"),
        pytest.param('{\n\t"Device #1" : {}\n}\n', "mlxconfig", id="mlxconfig-j"),
        pytest.param('{"result": {"Operational Info": {}}}\n', "mlxlink", id="mlxlink-json"),
        pytest.param("max locked memory  (kbytes, -l) 64\n", "limits", id="ulimit"),
        pytest.param(
            "[1710151844.440518] [g:4904 :0]   ib_md.c:309  UCX  ERROR x\n", "ucx-log", id="ucx"
        ),
        pytest.param('WARNING: modpost: "x" [/a.ko] undefined!\n', "make-log", id="modpost"),
        pytest.param("x.cc:7 ibv_reg_mr failed: Bad address\n", "verbs-log", id="verbs"),
        pytest.param("/a/nvshmem/host/init.cu:995: x\n", "verbs-log", id="nvshmem"),
        pytest.param("a.c:3: error: 'ibv_reg_mr' undeclared\n", "make-log", id="compiler"),
        pytest.param("Couldn't allocate MR\n", "perftest", id="perftest-broke-off"),
        pytest.param("0[a] -> 1[b] [send] via NET/IB/0\n", "nccl-log", id="nccl-channel"),
        pytest.param("Priority trust state: dscp\n", "mlnx-qos", id="mlnx_qos"),
        pytest.param("driver: mlx5_core\nversion: 24.10\n", "ethtool", id="ethtool-i"),
        pytest.param("NIC statistics:\n     rx: 0\n", "ethtool", id="ethtool-S"),
        pytest.param("\tIdentifier   : 0x18 (QSFP-DD)\n", "ethtool", id="ethtool-m"),
        pytest.param("0000:03:00.0 001d\n", "setpci", id="setpci-in-a-loop"),
        pytest.param("EnableStreamMemOPs: 1\n", "nvidia-params", id="params"),
        pytest.param("/etc/modprobe.d/a.conf:blacklist nvidia\n", "modprobe-d", id="modprobe-d"),
        pytest.param("ffffffffc0a3b1c0 T x\t[ib_core]\n", "kallsyms", id="kallsyms"),
        pytest.param("Unloading HCA driver:    [  OK  ]\n", "openibd", id="openibd"),
        pytest.param("netns shared copy-on-fork on\n", "rdma-system", id="rdma-system"),
        pytest.param("rdma_cm  umad0  uverbs0\n", "infiniband-nodes", id="ls-dev-infiniband"),
        pytest.param(
            "Querying Mellanox devices firmware ...\n", "mlxfwmanager", id="mlxfwmanager"
        ),
        pytest.param("NAME  READY  STATUS  RESTARTS  AGE\n", "kubectl-pods", id="get-pods"),
        pytest.param("mofed-x-ds-7  0/1  Init:0/1  0  3d\n", "kubectl-pods", id="get-pods-row"),
        pytest.param('2026/11/28 09:01:02 exposing "0" devices\n', "device-plugin-log", id="dp"),
        pytest.param("    BAR1 Memory Usage\n", "nvidia-smi-q", id="bar1-alone"),
        pytest.param("    Remapped Rows\n        Pending : No\n", "nvidia-smi-q", id="rows-alone"),
        pytest.param("    Fabric\n        State : N/A\n", "nvidia-smi-q", id="fabric-alone"),
        pytest.param("GPU 00000000:3B:00.0\n", "nvidia-smi-q", id="a-gpu-without-its-head"),
        pytest.param("[09-Nov-26_08:00:01] Function: x\n", "driver-container", id="mofed"),
        pytest.param("Done, now waiting for signal\n", "driver-container", id="nvidia-driver-ctr"),
        pytest.param(
            " 09-11-2026 08:00:01:7 [pid=4 tid=4] ERROR  a:1 b\n", "cufile-log", id="cufile"
        ),
        pytest.param("RuntimeError: CUDA error 802: x\n", "cuda-said", id="cuda-802"),
        pytest.param("a: system not yet initialized\n", "cuda-said", id="cuda-not-ready"),
        pytest.param("&&&& PASSED basic_x\n", "gdrcopy-sanity", id="one-test-of-gdrcopy"),
        pytest.param("x device: rdmap1s0,uverbs0,/sys/a\n", "device-plugin-log", id="efa-plugin"),
        pytest.param("  Warning  FailedMount  4s  kubelet  x\n", "kubectl-pod", id="an-event"),
        pytest.param("Unit a.service could not be found.\n", "systemctl-status", id="no-unit"),
        pytest.param("2025-02-10T16:28:06,502716+00:00 a: b\n", "dmesg", id="dmesg-iso"),
        pytest.param("2025-02-10T16:28:06+0000 h kernel: a\n", "dmesg", id="journal-iso"),
        pytest.param("Feb 10 16:28:06.502716 h kernel: a\n", "dmesg", id="journal-precise"),
        pytest.param("Mon 2025-02-10 16:28:06 UTC h kernel: a\n", "dmesg", id="journal-full"),
        pytest.param("1739204886.502716 h kernel: a\n", "dmesg", id="journal-unix"),
        pytest.param("kernel: NVRM: x\n", "dmesg", id="what-a-human-left-of-a-line"),
        pytest.param("[    5.261710][    T1] iommu: x\n", "dmesg", id="dmesg-with-caller"),
        pytest.param("[    5.261710 <    0.000010>] iommu: x\n", "dmesg", id="dmesg-delta"),
        pytest.param("[Feb10 16:28] a: b\n[  +0.000003] c\n", "dmesg", id="dmesg-human"),
    ],
)  # fmt: skip
def test_a_capture_is_told_by_its_shape(text: str, kind: str) -> None:
    (frame,) = frames_of(text, "file")
    assert frame.key == BY_NAME[kind].frame
    assert frame.text == text, "word for word"


def test_every_kind_is_recognised_by_a_row_above() -> None:
    (mark,) = test_a_capture_is_told_by_its_shape.pytestmark  # type: ignore[attr-defined] # pytest's own attribute
    assert {row.values[1] for row in mark.args[1]} == {kind.name for kind in KINDS}


def test_a_kind_bears_the_name_of_its_frame_but_for_those_that_nodes_tell_themselves() -> None:
    assert {kind.name: kind.frame for kind in KINDS if kind.name != kind.frame} == {
        "topo": "nvidia-topology",
        "iommu-groups": "iommu-groups-list",
        "limits": "limits-said",
        "perftest": "perftest-run",
        "bios": "bmc-bios",
        "bios-registry": "bmc-bios-registry",
        "mlnx-qos": "mlnx-qos-said",
        "modprobe": "modprobe-said",
        "setpci": "setpci-said",
        "modprobe-d": "modprobe-d-said",
        "kallsyms": "kallsyms-said",
        "openibd": "openibd-said",
        "infiniband-nodes": "rdma-nodes-said",
        "modinfo": "modinfo-said",
        "dkms": "dkms-status",
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\n" * 20_000, id="blank-lines"),
        pytest.param("\t" * 20_000, id="tabs"),
        pytest.param("x.service\n" + 40 * "        a\n", id="an-indented-block-behind-a-unit"),
        pytest.param("{\n" * 10_000, id="braces"),
        pytest.param("ibv_reg_mr " * 10_000, id="calls-that-never-fail"),
    ],
)
def test_no_shape_tries_a_text_in_ever_more_ways(text: str) -> None:
    """Each took minutes, or for ever, by a pattern that matched blanks in several ways."""
    began = process_time()
    assert recognise(text) is None
    assert [kind for kind, _ in parted(text + "x")] == [None]
    assert process_time() - began < 10


@pytest.mark.parametrize(
    ("read", "text"),
    [
        pytest.param(said, "# a" + " " * 20_000 + "x", id="a-heading"),
        pytest.param(said, "# a" + "=" * 20_000 + "x", id="a-heading-that-is-ruled"),
        pytest.param(parse_limits, "Lock memory (" * 4_000, id="a-limit-with-no-end"),
        pytest.param(_unwrapped, "NCCL INFO x" + "[c: 1]" * 99 + " y]", id="notes-of-a-document"),
        pytest.param(parse_fi_info, "provider: a" + " " * 40_000 + "b", id="a-provider"),
        pytest.param(parse_rdma_topo, "OK a" + " " * 40_000 + "b", id="rdma-topo"),
    ],
)
def test_no_reader_tries_a_line_in_ever_more_ways(read: Callable[[str], object], text: str) -> None:
    began = process_time()
    with suppress(Unparsable):
        read(text)
    assert (
        process_time() - began < 2
    )  # quadratic to exponential, they took seconds, an hour, for ever


def test_every_kind_is_told_in_the_guide() -> None:
    rows = [line for line in EVIDENCE.read_text().split("\n") if line.startswith("| ")]
    told = {name.strip() for row in rows for name in row.split("|")[1].split(",")}
    assert {kind.name for kind in KINDS} <= told


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        pytest.param("sudo nvidia-smi topo -mp", "topo", id="sudo"),
        pytest.param("sudo -n dmesg -T | grep -i nvidia", "dmesg", id="pipe"),
        pytest.param("lspci -tv", "lspci-tree", id="tree"),
        pytest.param("lspci -s 3b:00.0 -vvv", "lspci", id="not-a-tree"),
        pytest.param("nvidia-smi -q -d MEMORY", "nvidia-smi-q", id="query"),
        pytest.param("LC_ALL=C dkms status", "dkms", id="environment"),
        pytest.param("journalctl -b -k", "dmesg", id="journal-of-the-kernel"),
        pytest.param("sudo grep -r nv /etc/modprobe.d/", "modprobe-d", id="grep-of-a-folder"),
        pytest.param("grep nv_mem /proc/kallsyms", "kallsyms", id="grep-of-proc"),
        pytest.param("/etc/init.d/openibd restart", "openibd", id="init-script"),
        pytest.param("kubectl -n gpu-operator get pods -o wide", "kubectl-pods", id="pods"),
        pytest.param("kubectl get pod a -o yaml", "kubectl-pod", id="one-pod"),
        pytest.param("/usr/local/cuda/gds/tools/gdscheck.py -p", "gdscheck", id="path"),
    ],
)
def test_a_command_says_what_it_printed(command: str, kind: str) -> None:
    assert commanded(command) is BY_NAME[kind]


@pytest.mark.parametrize("command", ["journalctl -u slurmd", "ls /usr/src", "nvidia-smi -L", "3.2"])
def test_a_command_that_is_not_known_says_nothing(command: str) -> None:
    assert commanded(command) is None


def test_a_capture_is_parted_at_its_prompts_and_prompts_are_dropped() -> None:
    text = (
        "$  cat /proc/cmdline | grep iommu\nro iommu=pt\n"
        "[root@gpu07 ~]# dmesg | grep -i passthrough\n"
        "[    5.261710] iommu: Default domain type: Passthrough\n"
        "me@gpu07:~/work$ \n"
    )
    frames = {frame.key: frame for frame in frames_of(text, "two.txt")}
    assert frames["cmdline"].text == "ro iommu=pt\n"
    assert frames["dmesg"].text == "[    5.261710] iommu: Default domain type: Passthrough\n"
    assert frames["dmesg"].source == "dmesg | grep -i passthrough, imported from two.txt"


def test_the_answer_of_a_command_that_is_not_known_is_left_out() -> None:
    (frame,) = frames_of("$ ls /usr/src\nofa_kernel\n$ ofed_info -s\nOFED-internal-25.10:\n", "f")
    assert (frame.key, frame.text) == ("ofed-info", "OFED-internal-25.10:\n")


def test_of_a_command_given_twice_the_last_answer_counts() -> None:
    text = "$ dkms status\nnvidia/1: added\n$ dkms status\nnvidia/1, 6.8, x86_64: installed\n"
    (frame,) = frames_of(text, "f")
    assert frame.text == "nvidia/1, 6.8, x86_64: installed\n"


def test_different_commands_of_one_kind_are_joined() -> None:
    (frame,) = frames_of(f"$ dmesg | grep a\n{KMSG}$ dmesg | grep b\n{KMSG}", "f")
    assert frame.text == KMSG * 2


def test_a_first_line_that_is_a_command_counts_as_a_prompt() -> None:
    (frame,) = frames_of("ofed_info -s\nMLNX_OFED_LINUX-5.4-3.0.3.0\n", "f")
    assert frame.text == "MLNX_OFED_LINUX-5.4-3.0.3.0\n"


def test_a_command_by_itself_counts_as_a_prompt_on_any_line_and_prose_does_not() -> None:
    text = "ibstat shows nothing of it, and\n\nlsmod | grep peer\nnvidia_peermem 16384 0\n"
    (frame,) = frames_of(f"Hello\n{text}", "f")
    assert (frame.key, frame.text) == ("lsmod", "nvidia_peermem 16384 0\n")
    assert frame.source.startswith("lsmod | grep peer,"), "and that it was searched is known"


LSMOD = "nvidia_peermem 16384 0\nib_core 442368 2 nvidia_peermem,mlx5_ib\n"
STATUS = (
    "Infiniband device 'mlx5_0' port 1 status:\n\tdefault gid:\t fe80::1\n\tbase lid:\t 0x78\n"
    "\tsm lid:\t\t 0x2\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n"
    "\trate:\t\t 400 Gb/sec (4X NDR)\n\tlink_layer:\t InfiniBand\n"
)


def test_a_command_behind_a_greater_than_is_typed_and_its_answer_no_mails_end() -> None:
    text = f"> ofed_info -s\nMLNX_OFED_LINUX-24.10-1.1.4.0:\n> lsmod | grep peer\n{LSMOD}"
    frames = {each.key: each.text for each in frames_of(text, "x")}
    assert frames == {"ofed-info": "MLNX_OFED_LINUX-24.10-1.1.4.0:\n", "lsmod": LSMOD}


@pytest.mark.parametrize("title", ["# logs", "## What it printed:", "### DeepEP (2 nodes)"])
def test_a_title_between_two_texts_is_of_neither(title: str) -> None:
    text = f"{STATUS}\n{title}\nTests by hand.\n/a/nvshmem/ibrc.cpp:418: non-zero status: 7 x\n"
    frames = {each.key: each.text for each in frames_of(text, "x")}
    assert frames["ibstatus"].strip() == STATUS.strip()


@pytest.mark.parametrize("line", ["# Out of bounds values : 0 OK", "# nccl-tests version 2.17"])
def test_a_line_that_a_tool_begins_with_a_hash_is_no_title(line: str) -> None:
    text = f"MLNX_OFED_LINUX-24.10-1.1.4.0:\n\n{line}\n# Avg bus bandwidth    : 33.3 \n"
    assert line in {each.key: each.text for each in frames_of(text, "x")}["nccl-tests"]


def test_signers_behind_mokutil_are_modinfos() -> None:
    text = "$ mokutil --sb-state\nSecureBoot enabled\nnvidia.ko:   Canonical Ltd.\n"
    frames = {frame.key: frame.text for frame in frames_of(text, "f")}
    assert frames == {
        "mokutil": "SecureBoot enabled\n",
        "modinfo-said": "nvidia.ko:   Canonical Ltd.\n",
    }


def test_what_is_said_goes_before_the_shape_and_prompts_before_both() -> None:
    (frame,) = frames_of("strange\n", "f", named("dmesg"))
    assert (frame.key, frame.text, frame.state) == ("dmesg", "strange\n", State.OK)
    (frame,) = frames_of(f"$ nvidia-smi topo -m\n{MATRIX}", "f", named("dmesg"))
    assert frame.key == "nvidia-topology"


def test_nothing_is_an_answer_where_it_is_said_of_what() -> None:
    (frame,) = frames_of("", "f", named("dkms"))
    assert (frame.key, frame.text) == ("dkms-status", "")


def test_line_ends_of_other_systems_are_no_part_of_the_text() -> None:
    (frame,) = frames_of("\ufeff" + MATRIX.replace("\n", "\r\n"), "f")
    assert frame.text == MATRIX


@pytest.mark.parametrize("text", ["", "hello\n", "$ ls\nfile\n"])
def test_what_is_not_recognised_is_refused_with_the_way_to_say_what_it_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"f: not recognised as evidence") as refused:
        frames_of(text, "f")
    assert "KIND=FILE" in refused.value.hint


def test_a_kind_may_be_named_as_its_frame() -> None:
    assert named("nvidia-topology") is named("topo")
    with pytest.raises(UsageError, match="'matrix' is no kind of evidence") as refused:
        named("matrix")
    assert "nccl-log" in refused.value.hint


def test_one_source_cannot_be_given_twice() -> None:
    with pytest.raises(UsageError, match="dmesg: given twice, imported from a and imported from b"):
        evidence_of([*frames_of(KMSG, "a"), *frames_of(KMSG, "b")])


def test_imported_evidence_survives_being_saved() -> None:
    evidence = evidence_of(
        frames_of("[    1.000000] odd\x0cfeed \u2028 \udcff\n", "f", named("dmesg"))
    )
    assert evidence.complete
    assert Evidence.parse(evidence.dump()) == evidence
