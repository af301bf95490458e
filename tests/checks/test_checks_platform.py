"""The checks on ATS, virtual functions, and what Grace, Altra and data-direct boards need."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, BRIDGE, HCAS, IB, PORTS, Board, Fn
from tests.evidence.build import CPU, GUEST_CPU, OPEN, UP, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.evidence.platforms import (
    ALTRA,
    DATA_DIRECT,
    DMA,
    GRACE,
    GRACE_PORT,
    INLINE,
    INLINE_HOST,
    ISOLATED,
    L40S,
    NIC,
    NIC2,
    coherent,
)
from toolkit.facts.node.node import Node
from toolkit.facts.pci.topology import Distance
from toolkit.want import Role, Want

HOST = Want(role=Role.VM_HOST)
BARE = Want(role=Role.BARE_METAL)
LOOSE_RDMA: dict[str, Override] = {"infiniband": ""}  # the board's own HCAs, by their ids


def ats() -> list[Row]:
    check = "ats.nic"

    def on(claim: str, status: Row, found: str, board: Board, want: Want = BARE) -> Row:
        frames = {} if board.functions[:2] == BOARD.functions[:2] else LOOSE_RDMA
        return Row(claim, check, status.status, found, frames, board, want)

    good, bad, not_ours = (Row("", "", each, "") for each in (PASS, FAIL, NA))
    both = BOARD.but(HCAS[0], ats=False).but(HCAS[1], ats=False)
    return [
        on("none", good, "off on 2 HCAs near GPUs", BOARD),
        on("offered-and-not-enabled", good, "off on 2", both),
        on("enabled", bad, "enabled by 1 of 2", both.but(HCAS[0], ats=True)),
        on("enabled-far-from-gpus", good, "off on 2", BOARD.but(HCAS[2], ats=True)),
        on("host-without", bad, "2 of 2 HCAs near GPUs offer no ATS", BOARD, HOST),
        on("host-with", good, "offered by 2", both, HOST),
        on(
            "host-that-gave-it-away",
            bad,
            "1 of 2",
            both.but(HCAS[0], driver="vfio-pci", ats=None),
            Want(),
        ),
        Row(
            "what-guests-have-drives-nothing-here",
            check,
            FAIL,
            "1 of 2 HCAs near GPUs offer no ATS",
            {"infiniband": hca_lines("mlx5_2", HCAS[2], UP)},
            both.but(HCAS[0], driver="vfio-pci", ats=None).but(HCAS[1], driver="vfio-pci"),
        ),
        on("inline", good, "off on 2", INLINE),
        on("inline-offered", bad, "offered by 1 of 2", INLINE.but(NIC, ats=False)),
        on("inline-host", good, "offered by 2", INLINE_HOST, HOST),
        on("inline-host-without", bad, "1 of 2", INLINE_HOST.but(NIC2, ats=None), HOST),
        on("grace", good, "off on 2", GRACE),
        on("grace-offered", bad, "offered by 2", coherent(GRACE_PORT, L40S, ISOLATED, ats=False)),
        on("data-direct", not_ours, "says nothing of ATS", DATA_DIRECT),
        on("far-from-all-gpus", not_ours, "no HCA shares", BOARD.without(*HCAS[:2])),
        Row("guest", check, NA, "on a vm", {"cpu": GUEST_CPU}),
        Row("64-bytes", check, UNKNOWN, "only 64", board=BOARD.but(HCAS[0], readable=64)),
    ]


def _function(address: str, parent: str, driver: str = "mlx5_core") -> Fn:
    return Fn(address, parent, (0x15B3, 0x101E), IB, driver, "40", physfn=True)


def sriov() -> list[Row]:
    check = "rdma.sriov"
    served = BOARD.plus(_function("0000:19:00.1", PORTS[1], "vfio-pci"))
    inside = Board(
        (
            Fn("0000:01:00.0", "pci0000:00", (0x10DE, 0x2330), 0x030200, "nvidia"),
            Fn("0000:02:00.0", "pci0000:00", (0x15B3, 0x101E), IB, "mlx5_core", ats=True),
        )
    )
    guest: dict[str, Override] = {"cpu": GUEST_CPU, **LOOSE_RDMA}
    return [
        Row("none", check, NA, "no virtual functions"),
        Row(
            "on-bare-metal",
            check,
            PASS,
            "1 virtual functions, none of them in a guest",
            board=BOARD.plus(_function("0000:19:00.1", PORTS[1])),
        ),
        Row("given-away-and-redirected", check, FAIL, "DirectTrans is off on 1 of 1", {}, served),
        Row(
            "given-away-and-direct",
            check,
            PASS,
            "DirectTrans on 1 of 1 ports",
            board=served.but(PORTS[1], acs=0x5D),
        ),
        Row(
            "given-away-below-a-simple-switch",
            check,
            NA,
            "none of 1 ports above HCAs of guests has DirectTrans",
            board=served.but(PORTS[1], acs_able=0x1F),
        ),
        Row(
            "given-away-whole",
            check,
            FAIL,
            "DirectTrans is off on 1 of 1",
            board=BOARD.but(HCAS[0], driver="vfio-pci"),
        ),
        Row(
            "given-away-far-from-gpus",
            check,
            NA,
            "given to guests, none of them near",
            board=BOARD.plus(_function("0000:06:00.1", "0000:05:01.0", "vfio-pci")),
        ),
        Row("guest-with-ats", check, PASS, "ATS on 1 virtual", guest, inside),
        Row(
            "guest-without",
            check,
            FAIL,
            "1 of 1 virtual functions offer no ATS",
            guest,
            inside.but("0000:02:00.0", ats=None),
        ),
        # mlx5_core's own table of devices: MLX5_PCI_DEV_IS_VF.
        *(
            Row(
                f"guest-with-{device:x}",
                check,
                PASS,
                "ATS on 1 virtual",
                guest,
                inside.but("0000:02:00.0", ids=(0x15B3, device)),
            )
            for device in (0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0xA2D3)
        ),
        Row(
            "guest-with-a-whole-hca",
            check,
            NA,
            "no virtual function",
            guest,
            inside.but("0000:02:00.0", ids=(0x15B3, 0x1021)),
        ),
        Row(
            "guest-that-sees-256-bytes",
            check,
            UNKNOWN,
            "only 256 bytes",
            guest,
            inside.but("0000:02:00.0", readable=256),
        ),
    ]


NOTHING = "[    0.0] Linux version 6.8.0\n"


def drives(
    version: str, params: str = "EnableMSI: 1\n", *, asked: str = "", dmesg: Override = NOTHING
) -> dict[str, Override]:
    loaded = OPEN.replace("580.126.16", version)
    return {
        **LOOSE_RDMA,
        "nvidia-version": loaded,
        "nvidia-params": params,
        "modprobe-config": asked,
        "dmesg": dmesg,
    }


OVERRIDE, DENY = "GrdmaPciTopoCheckOverride: 1\n", "GrdmaPciTopoCheckOverride: 2\n"
REFUSED = (
    "[  90.1] NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE\n"
)
REFUSED_PLAIN = "[  90.1] NVRM: dma-buf attach failed: PCI topology not supported for dma-buf\n"
BRIDGED = Board(
    (
        Fn("0000:07:00.0", "pci0000:07", (0x1DEF, 0xE110), BRIDGE),
        Fn("0000:08:00.0", "0000:07:00.0", (0x1000, 0xC030), BRIDGE),
        *(
            replace(each, parent="0000:08:00.0")
            for each in ALTRA.functions
            if each.klass != BRIDGE and not each.address.endswith(".1")
        ),
    )
)


NEW = coherent(GRACE_PORT, (0x10DE, 0x3FFF), ISOLATED)  # of no row in gpus.toml


def addressed(mode: str) -> str:
    """What nvidia-smi -q says of the GPU of such a board."""
    gpu = f"GPU 00000000:02:00.0\n    Addressing Mode : {mode}\n"
    return f"Driver Version : 580.65.06\nAttached GPUs : 1\n{gpu}"


@pytest.mark.parametrize(
    ("mode", "distance"),
    [("ATS", Distance.P2C), ("HMM", Distance.UNKNOWN), ("N/A", Distance.UNKNOWN)],
)
def test_the_driver_tells_what_no_id_does_of_nvlink_c2c(mode: str, distance: Distance) -> None:
    here = Node(node({**LOOSE_RDMA, "nvidia-smi-q": addressed(mode)}, board=NEW))
    assert {each.distance for each in here.tree_pairs} == {distance}


def topo_gate() -> list[Row]:
    check = "nvidia.topo_gate"

    def by(claim: str, status: Row, found: str, frames: dict[str, Override], board: Board) -> Row:
        return Row(claim, check, status.status, found, frames, board)

    good, bad, not_ours, open_ = (Row("", "", each, "") for each in (PASS, FAIL, NA, UNKNOWN))
    plain_grace = coherent(GRACE_PORT, L40S, ISOLATED)
    return [
        by("x86", good, "refuses nothing on this chipset", {}, BOARD),
        by("x86-denied", bad, "2 denies every topology", {"nvidia-params": DENY}, BOARD),
        by("570-on-altra", good, "no refusal", drives("570.124.06"), ALTRA),
        by("550-knows-no-gate", not_ours, "driver 550.90.07: topology", drives("550.90.07"), ALTRA),
        by("no-driver", not_ours, "no driver", {**LOOSE_RDMA, "nvidia-version": ABSENT}, ALTRA),
        by("580-on-altra", bad, "Ampere Altra: 1 of 1 GPUs", drives("580.65.06"), ALTRA),
        by("580-on-plain-grace", bad, "Grace: 1 of 1 GPUs", drives("580.65.06"), plain_grace),
        by("580-on-altra-overruled", good, "no refusal", drives("580.65.06", OVERRIDE), ALTRA),
        by("580-on-altra-below-a-switch", good, "shares a bridge", drives("580.65.06"), BRIDGED),
        by("a-new-gpu-on-grace", open_, "whether NVLink-C2C joins", drives("580.65.06"), NEW),
        by(
            "a-new-gpu-that-shares-page-tables",
            good,
            "no refusal",
            drives("580.65.06") | {"nvidia-smi-q": addressed("ATS")},
            NEW,
        ),
        by("coherent-is-exempt", good, "no refusal", drives("580.65.06"), GRACE),
        by("coherent-ignores-deny", good, "no refusal", drives("580.65.06", DENY), GRACE),
        by(
            "coherent-refused",
            bad,
            "refused 1 times",
            drives("590.48.01", dmesg=REFUSED),
            DATA_DIRECT,
        ),
        by(
            "altra-refused-though-overruled",
            bad,
            "refused 2 times",
            drives("580.65.06", OVERRIDE, dmesg=REFUSED_PLAIN * 2),
            ALTRA,
        ),
        by("log-emptied", open_, "log is empty", drives("580.65.06", dmesg=""), GRACE),
        Row("guest", check, NA, "on a vm", {"cpu": GUEST_CPU}, ALTRA),
        Row("log-not-read", check, UNKNOWN, "denied", drives("580.65.06", dmesg=DENIED), ALTRA),
    ]


def special() -> list[Row]:
    idle = DATA_DIRECT.but(DMA, driver="")
    driver_mode = "CoherentGPUMemoryMode: driver\n"
    asked = "options nvidia NVreg_CoherentGPUMemoryMode=driver\n"
    arm: dict[str, Override] = {"arch": "aarch64\n", "cpu": CPU, **LOOSE_RDMA}
    smmu = {"iommu-units": "/sys/class/iommu/smmu3.0x0000000012000000 -> x\n"}
    override, mode = "nvidia.topo_override", "grace.coherent"
    return [
        Row("no-coherent-gpu", override, NA, "coherent with its processor"),
        Row("none", override, PASS, "no override", drives("595.45.04"), GRACE),
        Row("dead", override, FAIL, "no longer read", drives("595.45.04", OVERRIDE), GRACE),
        Row("read", override, PASS, "read by driver", drives("590.48.01", OVERRIDE), GRACE),
        Row("no-driver", override, NA, "no NVIDIA", {"nvidia-version": ABSENT}, GRACE),
        Row("hangs", override, UNKNOWN, "no answer", {"nvidia-params": TIMEOUT}, GRACE),
        Row("none", "datadirect.bound", NA, "no data-direct function"),
        Row("bound", "datadirect.bound", PASS, "mlx5 on 1", LOOSE_RDMA, DATA_DIRECT),
        Row("idle", "datadirect.bound", FAIL, "1 of 1", LOOSE_RDMA, idle),
        Row(
            "given-away",
            "datadirect.bound",
            NA,
            "given to guests",
            LOOSE_RDMA,
            idle.but(DMA, driver="vfio-pci"),
        ),
        Row("not-read", "datadirect.bound", UNKNOWN, "denied", {"pci-links": DENIED}),
        Row("no-coherent-gpu", mode, NA, "coherent with its processor"),
        Row("default", mode, PASS, "numa, the default", drives("590.48.01"), GRACE),
        Row("driver", mode, PASS, "driver", drives("590.48.01", driver_mode, asked=asked), GRACE),
        Row("not-reloaded", mode, FAIL, "numa now", drives("590.48.01", asked=asked), GRACE),
        Row("taken-out", mode, FAIL, "driver now", drives("590.48.01", driver_mode), GRACE),
        Row(
            "no-mode",
            mode,
            FAIL,
            "'NUMA' is no mode",
            drives("590.48.01", "CoherentGPUMemoryMode: NUMA\n"),
            GRACE,
        ),
        Row("not-read", mode, UNKNOWN, "denied", {"nvidia-params": DENIED}, GRACE),
        Row("x86", "iommu.smmu", NA, "no SMMU on x86_64"),
        Row("grace", "iommu.smmu", PASS, "1 units on", {**arm, **smmu}, GRACE),
        Row("grace-off", "iommu.smmu", FAIL, "off on a NUMA", {**arm, "iommu-units": ""}, GRACE),
        Row("altra-off", "iommu.smmu", PASS, "not needed", {**arm, "iommu-units": ""}, ALTRA),
        Row("not-read", "iommu.smmu", UNKNOWN, "denied", {**arm, "iommu-units": DENIED}, GRACE),
    ]


ROWS = [*ats(), *sriov(), *topo_gate(), *special()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_platform(row: Row) -> None:
    holds(row)
