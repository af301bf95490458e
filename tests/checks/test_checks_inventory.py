"""The checks on what a machine is made of: GPUs, NVSwitches and HCAs that should be there."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.evidence.board import (
    BOARD,
    ETHERNET,
    GPU_CLASS,
    GPUS,
    HCAS,
    PORTS,
    Board,
    Fn,
    od,
    space,
    switch,
)
from tests.evidence.build import DOWN, GUEST_CPU, UP, gpu_rows, groups, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.healthy_fabric import MANAGER, PERSISTENCED, SLURMD, daemons
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.laws import tried
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Impact, Status
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.pci.lspci import parse_lspci
from toolkit.want import Want

BUSES = (0x10, 0x20, 0x30, 0x40, 0x90, 0xA0, 0xB0, 0xC0)
EIGHT = Board(tuple(fn for i, bus in enumerate(BUSES) for fn in switch(bus, bus, i // 4, i)))
GPU = tuple(each.address for each in EIGHT.functions if each.ids[0] == 0x10DE)
HCA = tuple(each.address for each in EIGHT.functions if each.ids[0] == 0x15B3)
SWITCHES = tuple(
    Fn(f"0000:d{i}:00.0", f"pci0000:d{i}", (0x10DE, 0x22A3), 0x068000, "nvidia-nvswitch")
    for i in range(4)
)
HGX = EIGHT.plus(*SWITCHES)
AWS = "sys_vendor:Amazon EC2\nproduct_name:p5.{}\n"
AZURE = "sys_vendor:Microsoft Corporation\nproduct_name:Virtual Machine\n"


def devices(board: Board, **ports: tuple[str, str]) -> str:
    """The RDMA devices of the HCAs that a board has; each with its port up, or as told."""
    there = [each.address for each in board.functions if each.ids[0] == 0x15B3]
    names = {a: f"mlx5_{HCA.index(a) if a in HCA else 8 + at}" for at, a in enumerate(there)}
    return "".join(hca_lines(name, a, ports.get(name, UP)) for a, name in names.items())


def listed(board: Board) -> str:
    """What nvidia-smi lists of a board."""
    line = gpu_rows().split("\n")[0]
    return "".join(
        f"0000{each.address.upper()}, {line.partition(', ')[2]}\n"
        for each in board.functions
        if each.klass == GPU_CLASS
    )


def frames(board: Board, **others: Override) -> dict[str, Override]:
    """What else the node of such a board says: healthy but for what the board is."""
    many = sum(each.ids[0] == 0x15B3 for each in board.functions)
    return {
        "daemons": daemons(PERSISTENCED, SLURMD, MANAGER),
        "rdma-nodes": "".join(
            f"/dev/infiniband/{name}\n"
            for name in ("rdma_cm", *(f"uverbs{n}" for n in range(many)))
        ),
        "ibv-devinfo": ABSENT,
        "dcgm": ABSENT,
        "infiniband": devices(board),
        "nvidia-smi": listed(board),
        "iommu-groups": groups("identity", *(str(n) for n in range(10, 28))),
        **{key.replace("_", "-"): value for key, value in others.items()},
    }


def of(device: int, *addresses: str) -> Board:
    """The board with GPUs of another device id, and of these alone."""
    kept = EIGHT.without(*(each for each in GPU if addresses and each not in addresses))
    for each in addresses or GPU:
        kept = kept.but(each, ids=(0x10DE, device))
    return kept


def row(claim: str, check: str, status: Status, found: str, board: Board, **more: Override) -> Row:
    return Row(claim, check, status, found, frames(board, **more), board)


def silent(board: Board, *addresses: str) -> str:
    """The frame pci-config, with functions that have fallen off the bus."""
    text = board.frames()["pci-config"]
    blocks = ["@" + block for block in text.split("@")[1:]]
    dead = od(bytes([255]) * 4096)
    return "".join(
        f"{block[:13]}\n{dead}" if block[1:13] in addresses else block for block in blocks
    )


ROCE = of(0x2901)
for address in HCA:
    ROCE = ROCE.but(address, klass=ETHERNET)


def inserted(board: Board, port: str) -> str:
    """The frame pci-config, with a port whose slot says that a card is in."""
    data = bytearray(space(next(each for each in board.functions if each.address == port)))
    data[0x43] |= 0x01  # Slot Implemented
    data[0x5A] |= 0x40  # Presence Detect State
    blocks = ["@" + block for block in board.frames()["pci-config"].split("@")[1:]]
    return "".join(f"@{port}\n{od(bytes(data))}" if b[1:13] == port else b for b in blocks)


CARDS_OF_8 = of(0x26B9)
ONE_IN = CARDS_OF_8.without(*GPU[1:])
ONE_OUT = CARDS_OF_8.without(GPU[7])
SLOT = next(each.parent for each in EIGHT.functions if each.address == GPU[7])
SILENT: dict[str, Override] = {"pci_config": inserted(ONE_IN, SLOT)}
SEVEN = HGX.without(GPU[7])
GONE, NO_THIRD = HGX.without(HCA[7]), HGX.without(HCA[2])
COUNT, SWITCH, CARDS = "gpu.count", "nvidia.nvswitches", "hca.count"
GUEST: dict[str, Override] = {"cpu": GUEST_CPU}

ROWS = [
    row("hgx", COUNT, PASS, "8 GPUs, as HGX H100 with 4 NVSwitches has", HGX),
    row("one-of-eight-is-gone", COUNT, FAIL, "7 of 8 GPUs", SEVEN),
    row("nvswitches-and-no-gpu", COUNT, FAIL, "0 of 8 GPUs", HGX.without(*GPU)),
    row("a-guest-that-has-all-nvswitches", COUNT, FAIL, "7 of 8", SEVEN, cpu=GUEST_CPU),
    row("nobody-builds-seven-b200", COUNT, FAIL, "7 of 8", of(0x2901, *GPU[:7])),
    row("a-tray-of-three", COUNT, FAIL, "3 of 4 GPUs", of(0x2941, *GPU[:3])),
    row(
        "two-boards-of-a100",
        COUNT,
        FAIL,
        "8 of 16",
        of(0x20B2).plus(
            *(replace(each, ids=(0x10DE, 0x1AF1)) for each in SWITCHES),
            *(Fn(f"0000:e{i}:00.0", f"pci0000:e{i}", (0x10DE, 0x1AF1), 0x068000) for i in range(8)),
        ),
    ),
    *(
        row(
            f"named-and-sold-with-another-id-{count}",
            COUNT,
            status,
            f"{count}",
            of(0x290F, *GPU[:count]),
            dmi="sys_vendor:NVIDIA\nproduct_name:DGXB200\n",
        )
        for status, count in ((PASS, 8), (FAIL, 7))
    ),
    row("cards-are-as-many-as-were-bought", COUNT, PASS, "7 GPUs, all", of(0x26B9, *GPU[:7])),
    row("an-empty-slot", COUNT, PASS, "7 GPUs, all", ONE_OUT),
    row(
        "a-card-in-a-slot-that-does-not-answer",
        COUNT,
        FAIL,
        "1 card without an answer",
        ONE_OUT,
        pci_config=inserted(ONE_OUT, SLOT),
    ),
    row("a-card-beside-a-single-gpu", COUNT, FAIL, "1 card without", ONE_IN, **SILENT),
    row("slots-not-read", COUNT, PASS, "7 GPUs", ONE_OUT, pci_config=DENIED),
    row(
        "one-without-an-answer",
        COUNT,
        FAIL,
        "1 GPU on the bus without an answer",
        HGX,
        pci_config=silent(HGX, GPU[3]),
    ),
    row(
        "none-answers", COUNT, FAIL, "8 GPUs on the bus without", HGX, pci_config=silent(HGX, *GPU)
    ),
    row(
        "the-driver-lists-fewer",
        COUNT,
        FAIL,
        "1 of 8 GPUs on the bus are not",
        HGX,
        nvidia_smi=listed(SEVEN),
    ),
    row(
        "one-given-to-a-guest-is-there",
        COUNT,
        PASS,
        "8 GPUs",
        HGX.but(GPU[7], driver="vfio-pci"),
        nvidia_smi=listed(SEVEN),
    ),
    row("p5", COUNT, PASS, "8 GPUs, as AWS p5.48xlarge", EIGHT, dmi=AWS.format("48xlarge")),
    row(
        "p5-of-seven",
        COUNT,
        FAIL,
        "7 of 8",
        HGX.without(GPU[7], *(s.address for s in SWITCHES)),
        dmi=AWS.format("48xlarge"),
        **GUEST,
    ),
    row("p5-of-one", COUNT, PASS, "1 GPU", of(0x2330, GPU[0]), dmi=AWS.format("4xlarge"), **GUEST),
    row(
        "a-size-of-no-row",
        COUNT,
        PASS,
        "3 GPUs, all",
        of(0x26B9, *GPU[:3]),
        dmi=AWS.format("new"),
        **GUEST,
    ),
    row("azure-of-six", COUNT, FAIL, "6 of 8", of(0x2330, *GPU[:6]), dmi=AZURE, **GUEST),
    row("azure-with-cards", COUNT, PASS, "2 GPUs, all", of(0x2321, *GPU[:2]), dmi=AZURE, **GUEST),
    row("dmi-not-read", COUNT, UNKNOWN, "permission", HGX, dmi=DENIED),
    row("dmi-not-read", CARDS, UNKNOWN, "permission", HGX, dmi=DENIED),
    row("no-dmi", COUNT, PASS, "8 GPUs, as HGX", HGX, dmi=ABSENT),
    row("no-gpu", COUNT, NA, "no NVIDIA GPU", EIGHT.without(*GPU)),
    row(
        "nothing-to-compare-with",
        COUNT,
        NA,
        "is not known",
        of(0x26B9, *GPU[:3]),
        nvidia_version=ABSENT,
    ),
    row("nvidia-smi-hangs", COUNT, UNKNOWN, "no answer in time", HGX, nvidia_smi=TIMEOUT),
    row("not-read", COUNT, UNKNOWN, "permission", HGX, pci=DENIED),
    row("hgx", SWITCH, PASS, "4 NVSwitches", HGX),
    row("one-is-gone", SWITCH, FAIL, "3 of 4", HGX.without(SWITCHES[0].address)),
    row(
        "a-guest-that-was-given-some",
        SWITCH,
        NA,
        "a guest has those",
        HGX.without(SWITCHES[0].address),
        **GUEST,
    ),
    row("none", SWITCH, NA, "no NVSwitch", EIGHT),
    row("not-read", SWITCH, UNKNOWN, "permission", HGX, pci_links=DENIED),
    row("hgx", CARDS, PASS, "8 GPUs have an HCA", HGX),
    row("one-is-gone", CARDS, FAIL, "1 HCA lost", GONE),
    row(
        "one-is-gone-and-its-port-is-hidden",
        CARDS,
        FAIL,
        "1 HCA lost",
        GONE.without(next(e.parent for e in HGX.functions if e.address == HCA[7])),
    ),
    row("one-without-an-answer", CARDS, FAIL, "1 HCA lost", HGX, pci_config=silent(HGX, HCA[2])),
    row(
        "one-given-to-a-guest-is-there",
        CARDS,
        NA,
        "not known",
        HGX.but(HCA[7], driver="vfio-pci"),
        infiniband=devices(GONE),
    ),
    row("half-the-gpus-were-built-without", CARDS, NA, "not known", HGX.without(*HCA[4:])),
    row(
        "azure-of-seven", CARDS, FAIL, "7 of 8 HCAs", GONE.without(GPU[7]), dmi=AZURE, cpu=GUEST_CPU
    ),
    row(
        "a-dgx-on-ethernet-alone",
        CARDS,
        PASS,
        "8 HCAs",
        ROCE,
        dmi="sys_vendor:NVIDIA\nproduct_name:DGXB200\n",
    ),
    row(
        "azure-has-a-network-of-its-own-too",
        CARDS,
        FAIL,
        "7 of 8 HCAs",
        HGX.but(HCA[7], klass=ETHERNET),
        dmi=AZURE,
        cpu=GUEST_CPU,
    ),
    row("two-of-three", CARDS, NA, "not known", of(0x26B9, *GPU[:3]).without(*HCA[2:])),
    row("two", CARDS, FAIL, "2 HCAs lost", GONE, pci_config=silent(GONE, HCA[2])),
    row(
        "p5-without-efa",
        CARDS,
        NA,
        "no HCA for its GPUs",
        HGX.without(*HCA),
        dmi=AWS.format("48xlarge"),
    ),
    row("p5", CARDS, PASS, "8 HCAs", HGX, dmi=AWS.format("48xlarge")),
    row("not-read", CARDS, UNKNOWN, "permission", HGX, pci=DENIED),
    Row("two-gpus-of-which-one-has-none", CARDS, NA, "not known", board=BOARD.without(HCAS[1])),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_inventory(row: Row) -> None:
    holds(row)


def test_a_lost_hca_is_named_as_lost_and_nobody_is_told_to_move_one() -> None:
    finding = judged(row("", "pcie.distance", FAIL, "", GONE)).finding
    assert finding.status is FAIL
    assert "lost" in finding.hint
    assert "hca.count" in finding.hint
    assert judged(row("", CARDS, FAIL, "", GONE)).finding.details[:2] == (
        f"{GPU[7]}: no HCA behind its switch, as 7 others have; nothing answers below "
        f"{next(e.parent for e in HGX.functions if e.address == HCA[7])}",
        f"{GPU[0]}: has {HCA[0]}",
    )


def test_an_empty_slot_among_gpus_is_told() -> None:
    told = f"{SLOT}: nothing below it; ports like it have a GPU each"
    assert judged(row("", COUNT, PASS, "", ONE_OUT)).finding.details == (told,)
    other = next(each.parent for each in EIGHT.functions if each.address == GPU[6])
    nvme = Fn("0000:b3:00.0", other, (0x144D, 0xA80A), 0x010802, "nvme")
    assert (
        judged(row("", COUNT, PASS, "", ONE_OUT.without(GPU[6]).plus(nvme))).finding.details == ()
    )


def test_nor_where_it_is_on_the_bus_and_answers_nothing() -> None:
    gone: Override = silent(HGX, HCA[2])
    lost = row("", "pcie.distance", FAIL, "", HGX, pci_config=gone, infiniband=devices(NO_THIRD))
    assert "lost" in judged(lost).finding.hint


def test_a_gpu_without_an_answer_counts_as_none() -> None:
    here = Node(node({"pci-config": silent(BOARD, GPUS[0])}))
    assert [each.address for each in here.pci.gpus] == [GPUS[1]]
    assert "pci-config" in here.cited
    assert PORTS[0] in here.pci.functions


def test_lspci_says_the_same_as_rev_ff() -> None:
    text = "18:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)\n"
    assert parse_lspci(text).gpus == ()
    assert parse_lspci(text.replace("(rev ff)", "(rev a1)")).gpus != ()


# --- a law: what is taken away never makes it better ---

WORST_FIRST = (*map(str, Impact), "unknown", "ready")
DAY = date(2026, 11, 23)


def state(board: Board, **others: Override) -> int:
    """How good the verdict is."""
    evidence: Evidence = node(frames(board, **others), board=board)
    return WORST_FIRST.index(judge_node("n", evidence, Want(), DAY).state)


AILING = (
    ("healthy", HGX),
    ("a-narrow-gpu", HGX.but(GPU[0], now=("32.0 GT/s PCIe", 8))),
    ("a-slow-gpu", HGX.but(GPU[0], now=("2.5 GT/s PCIe", 16))),
    ("a-narrow-hca", HGX.but(HCA[0], now=("32.0 GT/s PCIe", 8))),
    ("a-gpu-for-guests", HGX.but(GPU[0], driver="vfio-pci")),
)


@tried(40)
@given(
    st.sampled_from([board for _, board in AILING]),
    st.sets(st.sampled_from((*GPU, *HCA)), min_size=1, max_size=3),
    st.sampled_from([UP, DOWN]),
)
def test_what_is_taken_away_makes_no_verdict_better(
    board: Board, taken: set[str], port: tuple[str, str]
) -> None:
    before = state(board, infiniband=devices(board, mlx5_0=port))
    rest = board.without(*sorted(taken))
    assert state(rest, infiniband=devices(rest, mlx5_0=port)) <= before


@pytest.mark.parametrize("lost", [GPU[0], GPU[7], HCA[0], HCA[7]])
def test_one_less_of_a_ready_machine_is_sick(lost: str) -> None:
    assert state(HGX) == WORST_FIRST.index("ready")
    assert state(HGX.without(lost)) == WORST_FIRST.index("sick")


def test_a_port_that_is_taken_away_is_missed() -> None:
    text = "".join(
        line + "\n" for line in devices(HGX).split("\n")[:-1] if "mlx5_3/ports" not in line
    )
    assert state(HGX, infiniband=text) <= state(HGX)
    found = BY_ID["rdma.port"](Node(node(frames(HGX, infiniband=text), board=HGX)), Want())
    assert found.status is FAIL
