"""The checks on distance, host bridges, NUMA and who drives a device."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, FLAT, GPUS, HCAS, Board, Fn
from tests.evidence.build import GUEST_CPU, OPEN, gpu_rows, hca_lines
from tests.evidence.frames import ABSENT, DENIED, MISSING, TIMEOUT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Verdict
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

GUEST: dict[str, Override] = {"cpu": GUEST_CPU}
UP = ("4: ACTIVE", "5: LinkUp")
FAR = BOARD.but(HCAS[0], parent="0000:05:01.0")


def grace(gpu: int = 0x2342, port: int = 0x22B8, numa: int = 0) -> Board:
    """A superchip: the GPU below a root port of its own domain, the HCA below another."""
    return Board(
        (
            Fn("0000:00:00.0", "pci0000:00", (0x10DE, 0x22B2), 0x060400, numa=numa),
            Fn("0000:01:00.0", "0000:00:00.0", (0x15B3, 0x1021), 0x020700, "mlx5_core", numa=numa),
            Fn("0009:00:00.0", "pci0009:00", (0x10DE, port), 0x060400),
            Fn("0009:01:00.0", "0009:00:00.0", (0x10DE, gpu), 0x030200, "nvidia"),
        )
    )


ON_GRACE: dict[str, Override] = {
    "infiniband": hca_lines("mlx5_0", "0000:01:00.0", UP),
    "cpu": "processor\t: 0\nCPU part\t: 0xd4f\n",
}
SILENT = BOARD.but(HCAS[0], parent="0000:05:01.0", numa=-1).but(GPUS[0], numa=-1)


def matrix(cell: str = "PIX") -> str:
    """What nvidia-smi says of the board, but for the first GPU and its HCA."""
    columns = "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    return (
        f"{columns}GPU0\t X \tNV18\t{cell}\tSYS\tNODE\t0-55\t0\t\tN/A\n"
        "GPU1\tNV18\t X \tSYS\tPIX\tSYS\t56-111\t1\t\tN/A\n"
        "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n"
        "  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_2\n"
    )


def distance() -> list[Row]:
    check = "pcie.distance"
    shared_root = BOARD.plus(Fn("0000:15:02.0", "pci0000:15", (0x8086, 0x352A), 0x060400)).but(
        HCAS[0], parent="0000:15:02.0"
    )
    return [
        Row("healthy", check, PASS, "2 PIX"),
        Row(
            "one-far",
            check,
            FAIL,
            "1 of 2 GPUs has no HCA behind its switch (1 PIX, 1 NODE)",
            board=FAR,
        ),
        Row("root-complex", check, FAIL, "1 PHB", board=shared_root),
        Row("another-socket", check, FAIL, "1 SYS", board=BOARD.without(HCAS[0], HCAS[2])),
        Row("guest", check, NA, "not the machine's", GUEST, FLAT),
        Row("guest-with-a-true-tree", check, PASS, "2 PIX", GUEST),
        Row("no-hca", check, NA, "no HCA", {"infiniband": ""}, BOARD.without(*HCAS)),
        Row("no-rdma-device-but-hcas", check, PASS, "2 PIX", {"infiniband": ""}),
        Row("not-read", check, UNKNOWN, "permission", {"infiniband": DENIED}),
        Row("links-not-read", check, UNKNOWN, "permission", {"pci-links": DENIED}),
        Row("where-they-hang-not-told", check, UNKNOWN, "does not tell 2 of 2", {"pci-links": ""}),
        Row("numa-hidden-on-two-sockets", check, FAIL, "1 NODE or SYS", {}, SILENT),
        Row("numa-hidden-on-one-socket", check, FAIL, "1 NODE", {"numa-nodes": "0\n"}, SILENT),
        Row("superchip", check, PASS, "1 P2C", ON_GRACE, grace()),
        Row("superchips-of-two-sockets", check, FAIL, "1 SYS", ON_GRACE, grace(numa=1)),
        Row("a-card-below-grace", check, UNKNOWN, "whether NVLink-C2C", ON_GRACE, grace(0x2331)),
        Row(
            "superchip-of-unknown-socket",
            check,
            UNKNOWN,
            "whether NVLink-C2C",
            ON_GRACE,
            grace(numa=-1),
        ),
        Row(
            "a-card-below-another-port", check, FAIL, "1 NODE", ON_GRACE, grace(0x2331, port=0x1234)
        ),
        Row("matrix-of-no-use", check, PASS, "2 PIX", {"nvidia-topology": TIMEOUT}),
    ]


REFUSAL = (
    "[   55.1] nvme 0000:05:00.0: cannot be used for peer-to-peer DMA as the client and "
    "provider (0000:18:00.0) do not share an upstream bridge or whitelisted host bridge\n"
)
GIVEN = BOARD.but(GPUS[0], driver="vfio-pci")
ALL_GIVEN = GIVEN.but(GPUS[1], driver="vfio-pci")


def others() -> list[Row]:
    bridge, numa, vfio = "pcie.hostbridge", "rdma.numa", "gpu.vfio_bound"
    own = Want(role=Role.BARE_METAL)
    return [
        Row("silent", bridge, PASS, "no refusal"),
        Row("refused", bridge, FAIL, "refused for 1 providers: 0000:18:00.0", {"dmesg": REFUSAL}),
        Row("overwritten", bridge, PASS, "beginning is overwritten", {"dmesg": "[9.1] later\n"}),
        Row("emptied", bridge, UNKNOWN, "the kernel log is empty", {"dmesg": ""}),
        Row("log-denied", bridge, UNKNOWN, "permission", {"dmesg": DENIED}),
        Row("all-told", numa, PASS, "5 GPUs and HCAs on 2 nodes"),
        Row("hidden", numa, FAIL, "2 of 5", board=SILENT),
        Row("hidden-and-no-matter", numa, NA, "one NUMA node", {"numa-nodes": "0\n"}, SILENT),
        Row("kernel-without-numa", numa, NA, "one NUMA node", {"numa-nodes": ABSENT}, SILENT),
        Row("nodes-with-a-gap", numa, FAIL, "2 of 5", {"numa-nodes": "0,8\n"}, SILENT),
        Row("guest", numa, NA, "not judged on a vm", GUEST, SILENT),
        Row("nodes-not-read", numa, UNKNOWN, "permission", {"numa-nodes": DENIED}),
        Row("another-form", numa, UNKNOWN, "cannot read", {"numa-nodes": "all\n"}),
        Row("none", vfio, PASS, "none of 5"),
        Row("against-the-want", vfio, FAIL, "1 of 5", {}, GIVEN, own),
        Row("one-gpu-among-others", vfio, FAIL, "1 of 5", {}, GIVEN),
        Row("host-of-guests", vfio, NA, "for guests: 0000:18:00.0", {}, ALL_GIVEN),
        Row("a-host-that-is-named-one", vfio, NA, "for guests", {}, GIVEN, Want(role=Role.VM_HOST)),
        Row("not-read", vfio, UNKNOWN, "permission", {"pci-links": DENIED}),
    ]


ROWS = [*distance(), *others()]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_pci(row: Row) -> None:
    holds(row)


def test_each_gpu_is_told_with_the_narrowest_link_of_its_path() -> None:
    board = BOARD.but(HCAS[0], now=("16.0 GT/s PCIe", 16))
    assert judged(Row("", "pcie.distance", PASS, "", board=board)).finding.details == (
        "0000:18:00.0: PIX to 0000:19:00.0, 16 GT/s x16 = 31.5 GB/s at most",
        "0000:9a:00.0: PIX to 0000:9b:00.0, 32 GT/s x16 = 63.0 GB/s at most",
    )


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        pytest.param("PIX", (), id="the-same"),
        pytest.param("PXB", (), id="counted-otherwise"),
        pytest.param("SYS", ("GPU0 to mlx5_0: PIX by the PCI tree, SYS by nvidia-smi",), id="far"),
    ],
)
def test_nvidia_smi_is_a_second_opinion(cell: str, told: tuple[str, ...]) -> None:
    frames = {"nvidia-topology": matrix(cell), "nvidia-smi": gpu_rows(), "nvidia-version": OPEN}
    verdict = judged(Row("", "pcie.distance", PASS, "", frames))
    assert verdict.status is PASS
    assert verdict.finding.details[2:] == told


def test_an_hca_that_manages_the_node_serves_no_gpu() -> None:
    """Both HCAs of the socket are NODE; the one with the default route is left to the node."""
    board = FAR.without(HCAS[1])
    lines = hca_lines("mlx5_0", HCAS[0], UP) + hca_lines("mlx5_2", HCAS[2], UP)
    frames = {"infiniband": lines + "mlx5_2/net:ens5\n", "default-routes": "ens5\n"}
    verdict = judged(Row("", "pcie.distance", FAIL, "", frames, board))
    assert verdict.finding.details[0].startswith("0000:18:00.0: NODE to 0000:19:00.0")
    assert (
        judged(
            Row("", "pcie.distance", UNKNOWN, "", frames | {"default-routes": DENIED}, board)
        ).status
        is UNKNOWN
    )


def loose(**frames: str) -> Evidence:
    """Evidence put together from what other tools printed."""
    named = {key.replace("_", "-"): text for key, text in frames.items()}
    return Evidence({k: Frame(k, State.OK, k, text) for k, text in named.items()}, complete=True)


def verdict(check: str, **frames: str) -> Verdict:
    return BY_ID[check](Node(loose(**frames)), Want())


DRAWN = (
    "-+-[0000:20]---01.0-[21]--+-00.0  NVIDIA Corporation Device 2330\n"
    " |                        \\-00.1  NVIDIA Corporation GH100 High Definition Audio\n"
    " \\-[0000:00]-+-00.0  Intel Corporation Device 09a2\n"
    "             \\-01.0-[01]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n"
)
DUMPED = (
    '<system version="1"><cpu numaid="0"><pci busid="0000:08:00.0" class="0x060400">'
    '<pci busid="0000:0f:00.0" class="0x030200"/><pci busid="0000:0c:00.0" class="0x020700"/>'
    "</pci></cpu></system>\n"
)


def test_a_matrix_alone_is_judged() -> None:
    assert "2 PIX" in verdict("pcie.distance", nvidia_topology=matrix()).finding.found
    far = verdict("pcie.distance", nvidia_topology=matrix("NODE"))
    assert (far.status, far.cited) == (FAIL, ("nvidia-topology",))


def test_a_matrix_without_hca_is_no_failure() -> None:
    text = "        GPU0    CPU Affinity\nGPU0     X      0-19\n"
    assert verdict("pcie.distance", nvidia_topology=text).status is NA


def test_nccl_s_file_alone_is_judged() -> None:
    assert "1 PIX" in verdict("pcie.distance", nccl_topology=DUMPED).finding.found


def test_a_drawn_tree_alone_is_judged() -> None:
    found = verdict("pcie.distance", lspci_tree=DRAWN)
    assert (found.status, "1 NODE or SYS" in found.finding.found) == (FAIL, True)


def test_the_source_that_tells_distances_is_taken() -> None:
    """A block of lspci without bridges says nothing of the way; the matrix does."""
    block = "19:00.0 3D controller: NVIDIA Corporation Device 2330\n\tLatency: 0\n"
    hca = "1a:00.0 Infiniband controller: Mellanox Technologies MT2910\n\tLatency: 0\n"
    assert verdict("pcie.distance", lspci=block).status is UNKNOWN
    assert verdict("pcie.distance", lspci=block + hca).status is UNKNOWN
    both = verdict("pcie.distance", lspci=block + hca, nvidia_topology=matrix())
    assert both.status is PASS


def test_without_any_source_it_stays_open() -> None:
    assert verdict("pcie.distance", cmdline="ro\n").status is UNKNOWN
    assert judged(Row("", "pcie.distance", UNKNOWN, "", {"pci": MISSING})).status is UNKNOWN


def test_lspci_without_drivers_does_not_tell_who_has_a_device() -> None:
    assert verdict("gpu.vfio_bound", lspci="18:00.0 0302: 10de:2330\n").status is UNKNOWN
    block = "18:00.0 0302: 10de:2330\n\tKernel driver in use: nvidia\n"
    assert verdict("gpu.vfio_bound", lspci=block).status is PASS


def test_a_nearer_hca_may_be_the_one_whose_place_is_not_told() -> None:
    links = FAR.frames()["pci-links"].split("\n")
    told = "".join(f"{line}\n" for line in links if line and not line.startswith(HCAS[1]))
    holds(Row("", "pcie.distance", UNKNOWN, "does not tell 2 of 2", {"pci-links": told}, FAR))
