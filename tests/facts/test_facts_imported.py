"""What loose files tell of the machine they came from."""

from __future__ import annotations

from datetime import date

import pytest

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import GUEST_CPU, node
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.checks.role import role
from toolkit.evidence import Evidence
from toolkit.facts.kinds import named
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import NotUnderstood, evidence_of, frames_of
from toolkit.want import Role, Want


def loose(**texts: str) -> Evidence:
    """Keywords are kinds, with "_" for the dash."""
    return evidence_of(
        frame
        for kind, text in texts.items()
        for frame in frames_of(text, kind, named(kind.replace("_", "-")))
    )


@pytest.mark.parametrize(
    ("evidence", "here", "shown"),
    [
        pytest.param(node(), Role.BARE_METAL, "bare-metal", id="processor"),
        pytest.param(node({"cpu": GUEST_CPU}), Role.VM, "vm", id="processor-of-a-guest"),
        pytest.param(
            node(board=BOARD.but(GPUS[0], driver="vfio-pci")),
            Role.BARE_METAL,
            "bare-metal",
            id="one-gpu-is-that-gpus-failure",
        ),
        pytest.param(
            node(board=BOARD.but(GPUS[0], driver="vfio-pci").but(GPUS[1], driver="vfio-pci")),
            Role.VM_HOST,
            "vm-host",
            id="given-away",
        ),
        pytest.param(
            loose(dmesg="[ 1.0] x\n"), Role.BARE_METAL, "bare-metal, assumed", id="not-told"
        ),
        pytest.param(
            loose(dmesg="[    0.000000] Hypervisor detected: KVM\n"), Role.VM, "vm", id="kernel-log"
        ),
        pytest.param(
            loose(dmesg="[    0.1] Booting paravirtualized kernel on bare hardware\n"),
            Role.BARE_METAL,
            "bare-metal, assumed",
            id="paravirtualized-on-bare-hardware",
        ),
        pytest.param(
            loose(nvidia_smi_q="        Virtualization Mode               : Pass-Through\n"),
            Role.VM,
            "vm",
            id="gpu-passed-through",
        ),
        pytest.param(
            loose(nvidia_smi_q="        Virtualization Mode               : None\n"),
            Role.BARE_METAL,
            "bare-metal, assumed",
            id="gpu-not-passed-through",
        ),
    ],
)
def test_the_role_is_told_or_said_to_be_assumed(evidence: Evidence, here: Role, shown: str) -> None:
    assert role(Node(evidence), Want()) is here
    about = judge_node("gpu07", evidence, Want(), date(2026, 11, 21)).about
    assert dict(about)["role"] == shown


def test_the_operator_knows_better() -> None:
    want = Want(role=Role.VM_HOST)
    assert role(Node(loose(dmesg="[ 1.0] x\n")), want) is Role.VM_HOST
    about = judge_node("gpu07", loose(dmesg="[ 1.0] x\n"), want, date(2026, 11, 21)).about
    assert dict(about)["role"] == "vm-host"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("3b:00.0 3D controller: NVIDIA\n", False, id="bare-list"),
        pytest.param("3b:00.0 3D controller: NVIDIA\n\tKernel modules: nvidia\n", True, id="none"),
        pytest.param(
            "3b:00.0 3D controller: NVIDIA\n\tKernel driver in use: nvidia\n", True, id="driver"
        ),
    ],
)
def test_drivers_are_told_by_lspci_k_alone(text: str, told: bool) -> None:
    assert Node(loose(lspci=text)).drivers_told is told


NO_NIC = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-11\nGPU1\tPHB\t X \t0-11\n"
ONE_NIC = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-11\nNIC0\tPIX\t X \t\n"
SOCKET = (
    '<system version="1"><cpu numaid="0"><pci busid="0001:00:00.0" class="0x030200"/>'
    '<nic><net name="eth0" dev="0" port="0" guid="0x0" maxconn="65536" gdr="0"/></nic>'
    "</cpu></system>\n"
)
STATIC = SOCKET.replace(SOCKET[SOCKET.index("<nic>") : SOCKET.index("</cpu>")], "")
IBSTAT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
)


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        pytest.param(loose(topo=NO_NIC), Status.FAIL, id="matrix-without-nic"),
        pytest.param(loose(topo=ONE_NIC), Status.UNKNOWN, id="matrix-with-nic"),
        pytest.param(loose(nccl_topology=SOCKET), Status.FAIL, id="dump-with-a-socket-alone"),
        pytest.param(loose(nccl_topology=STATIC), Status.UNKNOWN, id="written-file-may-lack-it"),
        pytest.param(loose(topo=NO_NIC, ibstat=IBSTAT), Status.UNKNOWN, id="ibstat-knows-better"),
        pytest.param(loose(dmesg="[ 1.0] x\n"), Status.UNKNOWN, id="nothing-told"),
    ],
)
def test_a_listing_of_all_devices_without_hca_tells_that_there_is_none(
    evidence: Evidence, status: Status
) -> None:
    assert BY_ID["rdma.devices"](Node(evidence), Want()).status is status


ONE_HCA = "19:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
ONE_GPU = "3b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330]\n"
VF = "19:00.1 Infiniband controller: Mellanox Technologies mlx5Gen Virtual Function\n"
PORT = (
    "00:01.0 PCI bridge: Intel Corporation Device 352a (prog-if 00 [Normal decode])\n"
    "\tBus: primary=00, secondary=19, subordinate=19, sec-latency=0\n"
)
PAYLOAD = (
    "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
    "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0\n\t\t\tExtTag+\n"
    "\t\tDevCtl:\tCorrErr+\n\t\t\tRlxdOrd+ ExtTag+\n"
    "\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes\n"
    "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n"
)


@pytest.mark.parametrize(
    ("check", "evidence"),
    [
        pytest.param("pcie.hostbridge", loose(dmesg="[ 1.0] x\n"), id="lines-of-a-log"),
        pytest.param("gpu.vfio_bound", loose(lspci=ONE_HCA), id="no-drivers-printed"),
        pytest.param("rdma.sriov", loose(lspci=ONE_HCA + VF), id="virtual-functions"),
        pytest.param("nvidia.present", loose(lspci=ONE_GPU), id="no-driver-of-the-gpu"),
        pytest.param("pcie.mps", loose(lspci=ONE_HCA + PAYLOAD), id="one-end-of-a-path"),
        pytest.param(
            "pcie.mps", loose(lspci=PORT + PAYLOAD + ONE_HCA + PAYLOAD), id="no-gpu-in-the-excerpt"
        ),
    ],
)
def test_an_excerpt_in_which_nothing_is_wrong_proves_nothing(
    check: str, evidence: Evidence
) -> None:
    assert BY_ID[check](Node(evidence), Want()).status is Status.UNKNOWN


def test_a_topology_file_without_end_is_refused() -> None:
    bridge = '<pci busid="0000:01:00.0" class="0x060400">'
    deep = f'<system version="1"><cpu numaid="0">{bridge * 5000}{"</pci>" * 5000}</cpu></system>\n'
    for text in (deep, "\udc80\n"):
        verdict = BY_ID["pcie.distance"](Node(loose(nccl_topology=text)), Want())
        assert verdict.status is Status.UNKNOWN
        assert "cannot read" in verdict.finding.found


IBSTAT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tFirmware version: 28.43.2026\n\tPort 1:\n"
    "\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
)
PANIC = "ibpanic: [4711] main: stat of IB device 'mlx5_1' failed: No such file or directory\n"


def test_a_tool_that_says_it_broke_off_leaves_open_what_rests_on_it() -> None:
    whole = BY_ID["rdma.port"](Node(loose(ibstat=IBSTAT)), Want()).finding
    broken = BY_ID["rdma.port"](Node(loose(ibstat=IBSTAT + PANIC)), Want()).finding
    assert whole.status is Status.PASS
    assert broken.status is Status.UNKNOWN
    assert "broke off: ibpanic: [4711]" in broken.found


def test_a_loose_answer_of_nvidia_smi_that_names_a_lost_gpu_is_a_failure() -> None:
    said = "Unable to determine the device handle for GPU0000:91:00.0: Unknown Error\n"
    evidence = evidence_of(frames_of(said, "said.txt"))
    finding = BY_ID["gpu.lost"](Node(evidence), Want()).finding
    assert finding.found == "1 GPU does not answer: 0000:91:00.0"


@pytest.mark.parametrize(
    "line",
    [
        "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout",
        "Feb 23 16:24:18 gpu07 kernel: NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout",
        "NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, Timeout",
    ],
)
def test_a_kernel_log_is_known_by_whichever_time_stands_before_it(line: str) -> None:
    [frame] = frames_of(f"{line}\n", "said.txt")
    assert frame.key == "dmesg"
    assert BY_ID["gpu.xid"](Node(evidence_of([frame])), Want()).status is Status.FAIL


@pytest.mark.parametrize(
    ("text", "check", "next_"),
    [
        pytest.param("$ ofed_info -s\nbash: ofed_info: command not found\n", "ofed.flavor",
                     "not installed", id="bash"),
        pytest.param("$ ofed_info -s\nsh: 1: ofed_info: not found\n", "ofed.flavor",
                     "not installed", id="dash"),
        pytest.param("% nvidia-smi\nzsh: command not found: nvidia-smi\n", "gpu.ecc",
                     "not installed", id="zsh"),
        pytest.param("$ sudo lspci -vvv\nsudo: a password is required\n", "nvidia.present",
                     "as root", id="sudo"),
        pytest.param("$ dmesg\ndmesg: read kernel buffer failed: Operation not permitted\n",
                     "gpu.xid", "as root", id="dmesg-of-another-user"),
        pytest.param("$ ibstat | grep -E 'CA|State'\nCA 'mlx5_0'\n\t\tState: Active\n",
                     "rdma.port", "the whole answer", id="through-grep"),
        pytest.param("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA "
                     "driver.\n", "gpu.ecc", "", id="nvidia-smi-said-so"),
        pytest.param("$ ibv_devinfo\nFailed to get IB devices list: Function not implemented\n",
                     "rdma.port", "", id="ibv_devinfo-said-so"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_no_new_shape(text: str, check: str, next_: str) -> None:
    finding = BY_ID[check](Node(evidence_of(frames_of(text, "x"))), Want()).finding
    assert finding.status is Status.UNKNOWN
    assert "bug report" not in finding.hint
    assert next_ in f"{finding.found}; {finding.hint}"


def test_where_a_gpu_is_lost_the_rest_is_judged_as_without_nvidia_smi() -> None:
    lost = "Unable to determine the device handle for GPU0000:91:00.0: Unknown Error\n"
    node = Node(loose(nvidia_smi_q=lost, cmdline="BOOT_IMAGE=/vmlinuz ro iommu=pt\n"))
    assert BY_ID["iommu.passthrough"](node, Want()).status is Status.PASS


@pytest.mark.parametrize("first", ["gpu01", "gpu02"])
def test_of_several_nodes_that_kubectl_describes_none_hides_another(first: str) -> None:
    offered = {"gpu01": 7, "gpu02": 8}
    text = "".join(
        f"Name:               {name}\nRoles:              worker\nCapacity:\n"
        f"  nvidia.com/gpu:     8\nAllocatable:\n  nvidia.com/gpu:     {offered[name]}\n"
        for name in sorted(offered, key=lambda name: name != first)
    )
    finding = BY_ID["gpu.lost"](Node(loose(kubectl_node=text)), Want()).finding
    assert (finding.status, finding.details) == (Status.FAIL, ("node gpu01",))


def test_what_nvidia_smi_prints_of_peers_is_no_matrix_of_distances() -> None:
    with pytest.raises(NotUnderstood):
        frames_of("$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n", "x")


def test_a_gpu_that_does_not_tell_its_name_has_no_class() -> None:
    head = "name, pci.bus_id, driver_version, persistence_mode\n"
    text = f"{head}[Unknown Error], 00000000:43:00.0, 535.129.03, [Unknown Error]\n"
    assert BY_ID["gpu.class"](Node(loose(nvidia_smi_csv=text)), Want()).status is Status.UNKNOWN
