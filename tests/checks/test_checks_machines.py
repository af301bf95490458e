"""Machines as they are built and sold: what is healthy there, and looks like a fault."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import (
    BOARD,
    FLAT,
    GPU_CLASS,
    GPUS,
    HCAS,
    PORTS,
    REDIRECTS,
    Board,
    Fn,
    Registers,
    hca,
)
from tests.evidence.build import (
    CPU,
    DOWN,
    GUEST_CPU,
    INFINIBAND,
    INIT,
    KERNEL,
    UP,
    groups,
    hca_lines,
    kernel_block,
    node,
    without_module,
)
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_fabric import DEVINFO
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.check import GIVEN
from toolkit.facts.nccl.containers import NETNS
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.hca_roles import HcaUse
from toolkit.want import Role, Want

# What a virtual function answers for the registers that belong to its physical one.
RESERVED = Registers(
    payload=128, read_request=128, relaxed_ordering=False, tags_8bit=False, tags_10bit=False
)
VF = "0000:19:00.2"
VIRTUAL = BOARD.plus(
    replace(
        hca(VF, PORTS[1], group="40"),
        ids=(0x15B3, 0x101E),
        physfn=True,
        express=RESERVED,
        now=("Unknown", 0),
        best=("Unknown", 0),
    )
)
EPYC: dict[str, Override] = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
DEVICES = INFINIBAND + hca_lines("mlx5_3", VF, DOWN)
WITH_VF: dict[str, Override] = {
    "infiniband": DEVICES,
    "iommu-groups": groups("identity", "10", "11", "20", "21", "30", "40"),
}
QEMU = "sys_vendor:QEMU\nproduct_name:Standard PC (Q35 + ICH9, 2009)\n"
OWN = Want(role=Role.BARE_METAL)

# Two cards with two functions each; the storage card is bonded.
SECOND = ("0000:19:00.1", "0000:9b:00.1")
DUAL = BOARD.plus(hca(SECOND[0], PORTS[1], group="20"), hca(SECOND[1], PORTS[3], group="21"))
BONDED = BOARD.plus(hca("0000:06:00.1", "0000:05:01.0", group="30"))

# A card for Ethernet alone, whose driver makes no RDMA device: ConnectX-3 without mlx4_ib.
FAR = "0000:07:00.0"
NIC = replace(hca(FAR, "pci0000:05"), ids=(0x15B3, 0x1003), klass=0x020000, driver="mlx4_core")
BESIDES = BOARD.plus(NIC)
NEAR = BOARD.plus(replace(NIC, address="0000:1a:00.0", parent=PORTS[1]))

# A host that gives both GPUs and their HCAs to guests, and uses no driver of NVIDIA's.
HOST = BOARD
for given in (*GPUS, *HCAS[:2]):
    HOST = HOST.but(given, driver="vfio-pci")
GUESTS: dict[str, Override] = {
    "infiniband": hca_lines("mlx5_2", HCAS[2], UP),
    "nvidia-version": ABSENT,
    "nvidia-smi": ABSENT,
    "peermem-modinfo": "",
    "peermem-files": "",
    "modules-load": "",
    "kernels": kernel_block(KERNEL, peermem=False, nvidia=False),
    "module-state": without_module("nvidia_peermem"),
}
# A host that uses its GPUs itself, and lends a virtual function to a guest.
LENT = BOARD.plus(
    replace(
        hca("0000:06:00.2", "0000:05:01.0"), physfn=True, driver="vfio-pci", ids=(0x15B3, 0x101E)
    )
)
FENCED_LENT = LENT.but(PORTS[0], acs=REDIRECTS)
LENT_NEAR = VIRTUAL.but(VF, driver="vfio-pci")
OF_GUESTS = [
    "kernel.pending_reboot",
    "nvidia.version",
    "nvidia.flavor",
    "path.selected",
    "peermem.file",
    "peermem.loadable",
    "peermem.loaded",
    "peermem.autoload",
    "pcie.distance",
]

# A guest of Azure: devices without bridges, and one virtual function for the network.
AZURE = Board(
    tuple(
        replace(each, ids=(0x15B3, 0x101E)) if each.address in HCAS else each
        for each in FLAT.functions
    )
)
MADE_UP = {
    "cpu": GUEST_CPU,
    "dmi": "sys_vendor:Microsoft Corporation\nproduct_name:Virtual Machine\n",
}


def ports(*second: tuple[str, str], first: str = INFINIBAND) -> dict[str, Override]:
    """The two cards near GPUs, with these states of their second ports."""
    told = zip(("mlx5_3", "mlx5_4"), SECOND, second, strict=True)
    return {"infiniband": first + "".join(hca_lines(n, a, state) for n, a, state in told)}


# Devices that another network namespace may have.
LENT_DEVICE: dict[str, Override] = {
    "infiniband": hca_lines("mlx5_1", HCAS[1], UP) + hca_lines("mlx5_2", HCAS[2], UP, DOWN)
}
NO_DEVICE: dict[str, Override] = {"infiniband": ""}
WITHOUT_IB = NO_DEVICE | {"modules": "mlx5_core 2 0 - Live 0x0\n"}
# A card below a GPU's switch that nobody has cabled; beside each of two GPUs, and beside one.
ODD = BOARD.plus(hca("0000:1a:00.0", PORTS[1], group="40"))
ODD_TOO = ODD.plus(hca("0000:9c:00.0", PORTS[3], group="41"))
OTHER, OTHER_TOO = (
    hca_lines("mlx5_3", "0000:1a:00.0", DOWN),
    hca_lines("mlx5_4", "0000:9c:00.0", DOWN),
)
IDLE, IDLE_TOO = (each.replace("MT_0000000838", "MT_0") for each in (OTHER, OTHER_TOO))
ONE_DOWN = INFINIBAND.replace("4: ACTIVE", "1: DOWN", 1).replace("5: LinkUp", "2: Polling", 1)
# A vGPU host: each GPU has virtual functions of its own class.
VGPU = BOARD.plus(
    Fn("0000:18:00.4", PORTS[0], (0x10DE, 0x2330), GPU_CLASS, "nvidia", "41", physfn=True)
)


ROWS = [
    Row("virtual-functions-have-no-size", "pcie.mps", PASS, "256 bytes", WITH_VF, VIRTUAL),
    Row("virtual-functions-ask-as-their-owner", "pcie.mrrs", PASS, "4096", WITH_VF, VIRTUAL),
    Row(
        "virtual-functions-order-as-their-owner",
        "pcie.relaxed_ordering",
        PASS,
        "on for 2 HCAs",
        WITH_VF | EPYC,
        VIRTUAL,
    ),
    Row("virtual-functions-tag-as-their-owner", "pcie.tags", PASS, "8-bit", WITH_VF, VIRTUAL),
    Row("an-idle-virtual-function-is-down", "rdma.port", PASS, "2 HCAs up", WITH_VF, VIRTUAL),
    Row(
        "its-owner-is-judged",
        "rdma.port",
        FAIL,
        "1 of 2 HCAs",
        WITH_VF | {"infiniband": DEVICES.replace("4: ACTIVE", "2: INIT", 1)},
        VIRTUAL,
    ),
    Row("vgpu-host", "pcie.bar1", PASS, "memory of 2 GPUs", board=VGPU),
    Row("vgpu-host", "nvidia.present", PASS, "2 GPUs", board=VGPU),
    Row(
        "bonded",
        "rdma.devices",
        PASS,
        "3 devices",
        {
            "infiniband": INFINIBAND.replace("mlx5_2", "mlx5_bond_0"),
            "ibv-devinfo": DEVINFO.replace("mlx5_2", "mlx5_bond_0"),
        },
        BONDED,
    ),
    Row("a-function-beside-one-that-is-no-bond", "rdma.devices", FAIL, "for 1 of 4", {}, BONDED),
    Row("for-ethernet-alone", "rdma.devices", PASS, "3 devices", {}, BESIDES),
    Row("as-near-as-the-others", "rdma.devices", FAIL, "for 1 of 4 HCAs", {}, NEAR),
    Row(
        "infiniband-far-away",
        "rdma.devices",
        FAIL,
        "for 1 of 4 HCAs",
        {},
        BESIDES.but(FAR, klass=0x020700),
    ),
    Row("nobody-drives-it", "rdma.devices", FAIL, "for 1 of 4", {}, BESIDES.but(FAR, driver="")),
    Row("no-cable-in-any-second-port", "rdma.port", PASS, "2 HCAs up", ports(DOWN, DOWN), DUAL),
    Row("one-second-port-is-missed", "rdma.port", FAIL, "1 of 4", ports(UP, DOWN), DUAL),
    *(
        Row(f"{claim}-beside-the-gpus", "rdma.port", status, found, {"infiniband": told}, board)
        for claim, status, found, told, board in (
            ("a-card-of-another-kind", PASS, "2 HCAs up", INFINIBAND + IDLE, ODD),
            ("one-of-the-same-kind", FAIL, "1 of 3", INFINIBAND + OTHER, ODD),
            ("as-many-of-another-kind", FAIL, "2 of 4", INFINIBAND + IDLE + IDLE_TOO, ODD_TOO),
            ("while-a-rail-is-down", FAIL, "1 of 3", ONE_DOWN + IDLE, ODD),
        )
    ),
    Row("a-second-port-with-a-link", "rdma.port", FAIL, "1 of 4", ports(DOWN, INIT), DUAL),
    Row("second-ports-in-use", "rdma.port", PASS, "4 HCAs up", ports(UP, UP), DUAL),
    Row(
        "both-ports-of-a-card",
        "rdma.port",
        FAIL,
        "2 of 4 HCAs",
        ports(DOWN, DOWN, first=INFINIBAND.replace("4: ACTIVE", "1: DOWN", 1)),
        DUAL,
    ),
    *(Row("host-of-guests", each, NA, GIVEN, GUESTS, HOST) for each in OF_GUESTS),
    *(
        Row(claim, each, status, found, {**GUESTS, "infiniband": ""}, board)
        for each in ("rdma.devices", "rdma.port")
        for claim, status, found, board in (
            ("every-hca-is-given", NA, "given to guests", HOST.but(HCAS[2], driver="vfio-pci")),
            ("one-hca-is-left", FAIL, "no RDMA device", HOST),
        )
    ),
    *(
        Row(
            f"{claim}-{mode}",
            each,
            status,
            "",
            {"containers": f"{NETNS}:{mode}\n", **frames},
            board,
            DMABUF if each == "dmabuf.nic" else Want(),
        )
        for claim, mode, frames, board, row in (
            ("a-pod-has-one", "N", LENT_DEVICE, BOARD, (PASS, PASS, PASS, PASS)),
            ("a-pod-has-all", "N", NO_DEVICE, BOARD, (NA, UNKNOWN, PASS, PASS)),
            (
                "one-is-not-driven",
                "N",
                LENT_DEVICE,
                BOARD.but(HCAS[0], driver=""),
                (FAIL, PASS, FAIL, PASS),
            ),
            ("one-is-missed", "Y", LENT_DEVICE, BOARD, (FAIL, PASS, FAIL, PASS)),
            ("all-are-missed", "Y", NO_DEVICE, BOARD, (FAIL, FAIL, PASS, FAIL)),
            ("mlx5_ib-is-not-loaded", "N", WITHOUT_IB, BOARD, (FAIL, FAIL, PASS, FAIL)),
        )
        for each, status in zip(
            ("rdma.devices", "rdma.port", "pcie.distance", "dmabuf.nic"), row, strict=True
        )
    ),
    Row("a-host-that-should-use-them", "peermem.loaded", FAIL, "not loaded", GUESTS, HOST, OWN),
    Row("one-gpu-is-left", "peermem.loaded", FAIL, "not", GUESTS, HOST.but(GPUS[0], driver="")),
    Row("what-drives-them-was-cut", "nvidia.present", UNKNOWN, "perm", {"pci-links": DENIED}, HOST),
    Row("a-storage-function-in-a-guest", "host.virt", PASS, "bare-metal", {}, LENT),
    Row("what-the-host-uses-is-judged", "acs.redirect", FAIL, "1 of 4", {}, FENCED_LENT),
    Row("a-function-beside-a-gpu-in-a-guest", "host.virt", PASS, "vm-host", {}, LENT_NEAR),
    Row("azure", "rdma.sriov", NA, "microsoft makes up", MADE_UP, AZURE),
    Row("kvm", "rdma.sriov", FAIL, "offer no ATS", {"cpu": GUEST_CPU, "dmi": QEMU}, AZURE),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_machines(row: Row) -> None:
    holds(row)


def test_a_second_port_that_is_not_in_use_is_named() -> None:
    row = Row("", "rdma.port", PASS, "", ports(DOWN, DOWN), DUAL)
    assert judged(row).finding.details == (
        "mlx5_3: DOWN/Polling, a second port that is not in use",
        "mlx5_4: DOWN/Polling, a second port that is not in use",
    )


def test_a_card_that_carries_the_node_by_a_bond_is_for_management() -> None:
    bond = INFINIBAND + "mlx5_2/upper:bond0\nmlx5_2/upper:bond0.100\n"
    seen = Node(node({"infiniband": bond, "default-routes": "bond0.100\n"}))
    assert seen.hca_roles[HCAS[2]].use is HcaUse.MANAGEMENT
    assert Node(node({"infiniband": bond})).hca_roles[HCAS[2]].use is HcaUse.STORAGE
