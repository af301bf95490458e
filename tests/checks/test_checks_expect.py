"""The checks on what the site expects of a node: the table [expect]."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, HCAS, MIB, PORTS, Board, Fn, hca, od
from tests.evidence.build import INFINIBAND, PROPRIETARY, UP, gpu_rows, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import devinfo
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.check import Status
from toolkit.checks.expected import EXPECTED
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence
from toolkit.expect import ExpectKey, read_expect
from toolkit.facts.node.node import Node
from toolkit.want import Want


def expecting(**values: object) -> Want:
    return Want(expect=read_expect(values))


NO_PCI: dict[str, Override] = {"pci": TIMEOUT}
ONE_GPU = BOARD.without(GPUS[1])
NO_GPU = BOARD.without(*GPUS)
GEN4, NARROW = ("16.0 GT/s PCIe", 16), ("32.0 GT/s PCIe", 8)
SLOW = INFINIBAND.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)", 1)
ONE_DOWN = INFINIBAND.replace("state:4: ACTIVE", "state:1: DOWN", 1)
OLD = INFINIBAND.replace("28.43.2026", "28.39.1002", 1)
ROCE: dict[str, Override] = {
    "infiniband": hca_lines("mlx5_0", HCAS[0], UP)
    .replace("InfiniBand", "Ethernet")
    .replace("net:ib0", "net:ens1np0"),
    "ibv-devinfo": ABSENT,
}


def net(mtu: int) -> dict[str, Override]:
    return ROCE | {"net-devices": f"ens1np0/mtu:{mtu}\nens1np0/operstate:up\n"}


def switches(number: int) -> Board:
    ids = (0x10DE, 0x22A3)
    more = (Fn(f"0000:d{n}:00.0", "pci0000:d0", ids, 0x068000) for n in range(number))
    return BOARD.plus(*more)


def row(
    title: str,
    status: Status,
    found: str,
    frames: dict[str, Override] | None = None,
    board: Board = BOARD,
    **values: object,
) -> Row:
    """One key, which names the check."""
    (key,) = values
    return Row(title, f"expect.{key}", status, found, frames or {}, board, expecting(**values))


def silent(address: str, board: Board = BOARD) -> str:
    """The frame pci-config with a function that reads as ff."""
    blocks = board.frames()["pci-config"].split("@")
    dead = f"{address}\n{od(bytes([255] * 4096))}"
    return "@".join(dead if each.startswith(address) else each for each in blocks)


def smi_errors(error: str) -> str:
    """What nvidia-smi lists, with errors in place of the second GPU's values."""
    first, second = gpu_rows().splitlines()
    values = second.split(", ")
    return "\n".join((first, ", ".join((values[0], values[1], values[2], error, error)))) + "\n"


LOST = f"Unable to determine the device handle for GPU{GPUS[1]}: Unknown Error\n"
FELL: dict[str, Override] = {
    "dmesg": f"[ 9.1] NVRM: Xid (PCI:{GPUS[1][:-2]}): 79, GPU has fallen off the bus.\n"
}
# A virtual function with an RDMA device of its own.
VIRTUAL = BOARD.plus(replace(hca("0000:19:00.1", PORTS[1]), physfn=True))
WITH_VIRTUAL: dict[str, Override] = {
    "infiniband": INFINIBAND + hca_lines("mlx5_3", "0000:19:00.1", UP)
}

ROWS = [
    *(Row("not-expected", f"expect.{key}", NA, f"no {key} in [expect]") for key in ExpectKey),
    row("as-many", PASS, "2 GPUs", gpus=2),
    row("one-lost", FAIL, "1 GPU", board=ONE_GPU, gpus=2),
    row("all-lost", FAIL, "0 GPUs", board=NO_GPU, gpus=2),
    row("one-too-many", FAIL, "2 GPUs", gpus=1),
    row("none-expected-none-there", PASS, "0 GPUs", board=NO_GPU, gpus=0),
    row("none-expected", FAIL, "2 GPUs", gpus=0),
    row("bus-not-read", UNKNOWN, "pci", NO_PCI, gpus=2),
    row(
        "nvidia-smi-misses-one",
        FAIL,
        f"1 GPU (2 on the PCI bus; {GPUS[1]} does not answer)",
        {"nvidia-smi": gpu_rows().splitlines(keepends=True)[0]},
        gpus=2,
    ),
    row("silent-on-the-bus", FAIL, "1 GPU (2 on", {"pci-config": silent(GPUS[1])}, gpus=2),
    *(
        row(
            f"nvidia-smi-has-{error}",
            FAIL,
            "1 GPU (2 on",
            {"nvidia-smi": smi_errors(error)},
            gpus=2,
        )
        for error in ("[Unknown Error]", "[GPU is lost]", "[GPU requires reset]", "ERR!")
    ),
    row("nvidia-smi-names-the-lost", FAIL, "1 GPU (2 on", {"nvidia-smi": failed(15, LOST)}, gpus=2),
    row("fell-off-the-bus", FAIL, "1 GPU (2 on", {"nvidia-smi": TIMEOUT, **FELL}, gpus=2),
    row("fell-off-and-came-back", PASS, "2 GPUs", FELL, gpus=2),
    row(
        "which-is-not-told",
        UNKNOWN,
        "which one",
        {"nvidia-smi": failed(15, "GPU is lost\n")},
        gpus=2,
    ),
    row("silent-on-the-bus", FAIL, "2 HCAs (3 on", {"pci-config": silent(HCAS[0])}, hcas=3),
    row("silent-on-the-bus", FAIL, "2 ports", {"pci-config": silent(HCAS[0])}, ports_up=3),
    row(
        "silent-on-the-bus",
        FAIL,
        "3 NVSwitches (4 on",
        {"pci-config": silent("0000:d0:00.0", switches(4))},
        switches(4),
        nvswitches=4,
    ),
    row("nvidia-smi-says-nothing", PASS, "2 GPUs", {"nvidia-smi": TIMEOUT}, gpus=2),
    row("words-of-the-name", PASS, "NVIDIA H100 80GB HBM3 on 2", gpu_model="H100"),
    row("the-whole-name", PASS, "H100", gpu_model="NVIDIA H100 80GB HBM3"),
    row("the-id", PASS, "10de:2330", {"nvidia-smi": TIMEOUT}, gpu_model="10de:2330"),
    row("another-model", FAIL, "2 of 2 differ", gpu_model="H200"),
    row("another-id", FAIL, "2 of 2", gpu_model="10de:2335"),
    row("part-of-a-word", FAIL, "2 of 2", gpu_model="H10"),
    row("no-gpu-of-any-model", FAIL, "no GPU on the PCI bus", board=NO_GPU, gpu_model="H100"),
    row("name-not-told", UNKNOWN, "not told", {"nvidia-smi": TIMEOUT}, gpu_model="H100"),
    row("four", PASS, "4 NVSwitches", board=switches(4), nvswitches=4),
    row("one-lost", FAIL, "3 NVSwitches", board=switches(3), nvswitches=4),
    row("bus-not-read", UNKNOWN, "pci", NO_PCI, nvswitches=4),
    row("as-wide-and-fast", PASS, "32 GT/s x16", gpu_link="gen5 x16"),
    row("more-than-that", PASS, "32 GT/s x16", gpu_link="16 GT/s x8"),
    row("only-lanes", PASS, "32 GT/s x16", gpu_link="x16"),
    row(
        "idle-at-a-lower-speed",
        PASS,
        "32 GT/s x16",
        board=BOARD.but(GPUS[0], now=GEN4),
        gpu_link="gen5 x16",
    ),
    row(
        "narrow",
        FAIL,
        f"{GPUS[0]}: 32 GT/s x8",
        board=BOARD.but(GPUS[0], now=NARROW),
        gpu_link="gen5 x16",
    ),
    row("a-slot-of-gen4", FAIL, "2 of 2", gpu_link="gen6 x16"),
    row("no-gpu", FAIL, "no GPU", board=NO_GPU, gpu_link="x16"),
    row(
        "not-told",
        UNKNOWN,
        "not told",
        board=BOARD.but(GPUS[0], now=("Unknown", 0)),
        gpu_link="x16",
    ),
    row("as-large", PASS, "131072 MiB on 2", bar1="128 GiB"),
    row("small", FAIL, "256 MiB", board=BOARD.but(GPUS[0], bars=((1, 256 * MIB),)), bar1="128 GiB"),
    row("not-told", UNKNOWN, "not told", board=BOARD.but(GPUS[0], bars=()), bar1="128 GiB"),
    row("as-many", PASS, "3 HCAs", hcas=3),
    row("one-lost", FAIL, "3 HCAs", hcas=4),
    row("virtual-ones-do-not-count", PASS, "3 HCAs", WITH_VIRTUAL, VIRTUAL, hcas=3),
    row("none-there", FAIL, "0 HCAs", {"infiniband": ""}, BOARD.without(*HCAS), hcas=3),
    row("not-read", UNKNOWN, "infiniband", {"infiniband": TIMEOUT}, hcas=3),
    row("full", PASS, "32 GT/s x16", hca_link="gen5 x16"),
    row(
        "slower",
        FAIL,
        f"{HCAS[0]}: 16 GT/s",
        board=BOARD.but(HCAS[0], now=GEN4),
        hca_link="gen5 x16",
    ),
    row(
        "not-told", UNKNOWN, "not told", board=BOARD.but(HCAS[0], now=("Unknown", 0)), hca_link="x8"
    ),
    row("one-version", PASS, "28.43.2026 on 2", firmware="28.43.2026"),
    row("a-branch", PASS, "28.43.2026", firmware="28.43"),
    row("half-a-number", FAIL, "2 of 2", firmware="28.4"),
    row("an-old-one", FAIL, "mlx5_0: 28.39.1002", {"infiniband": OLD}, firmware="28.43.2026"),
    row("by-board", PASS, "28.43.2026", firmware={"MT_0000000838": "28.43"}),
    row(
        "an-old-one-of-the-board",
        FAIL,
        "28.39",
        {"infiniband": OLD},
        firmware={"MT_0000000838": "28.43"},
    ),
    row("no-such-board", FAIL, "no HCA of these", firmware={"MT_0000000001": "28.43"}),
    row(
        "not-told",
        UNKNOWN,
        "not told of mlx5_0",
        {"infiniband": INFINIBAND.replace("mlx5_0/fw_ver:28.43.2026\n", "")},
        firmware="28.43",
    ),
    row("as-many", PASS, "3 ports that are up", ports_up=3),
    row("virtual-ones-do-not-count", PASS, "3 ports", WITH_VIRTUAL, VIRTUAL, ports_up=3),
    row("one-down", FAIL, "2 ports", {"infiniband": ONE_DOWN}, ports_up=3),
    row("not-read", UNKNOWN, "infiniband", {"infiniband": DENIED}, ports_up=3),
    row("the-fabric", PASS, "InfiniBand", link_layer="InfiniBand"),
    row("the-other", FAIL, "mlx5_0 port 1: Ethernet", ROCE, link_layer="InfiniBand"),
    row("not-read", UNKNOWN, "infiniband", {"infiniband": DENIED}, link_layer="Ethernet"),
    row("as-fast", PASS, "400 Gb/s on 2", rate=400),
    row("faster", PASS, "400 Gb/s", rate=200),
    row("one-slower", FAIL, "mlx5_0 port 1: 200 Gb/s", {"infiniband": SLOW}, rate=400),
    row("all-slow", FAIL, "2 of 2 differ", rate=800),
    row("no-port-up", FAIL, "no port that is up", {"infiniband": ""}, rate=400),
    row(
        "not-told",
        UNKNOWN,
        "not told",
        {"infiniband": INFINIBAND.replace("400 Gb", "? Gb")},
        rate=400,
    ),
    row("full", PASS, "4096 bytes", mtu=4096),
    row(
        "smaller",
        FAIL,
        "2 of 2",
        {"ibv-devinfo": devinfo(("mlx5_0", "PORT_ACTIVE"), ("mlx5_1", "PORT_ACTIVE"), mtu=2048)},
        mtu=4096,
    ),
    row("told-by-nobody", UNKNOWN, "not told", {"ibv-devinfo": failed(1, "")}, mtu=4096),
    row("of-the-net-device", PASS, "net device 9000", net(9000), mtu=9000),
    row("a-net-device-of-1500", FAIL, "1024 bytes, net device 1500", net(1500), mtu=4096),
    row("another-net-device", FAIL, "net device 4200", net(4200), mtu=9000),
    row("fits", PASS, "4096 bytes", net(4200), mtu=4096),
    row("the-branch", PASS, "580.126.16", driver="580"),
    row("the-version", PASS, "580.126.16", {"nvidia-version": PROPRIETARY}, driver="580.126.16"),
    row("another", FAIL, "580.126.16", driver="570"),
    row("not-loaded", FAIL, "no NVIDIA driver", {"nvidia-version": ABSENT}, driver="580"),
    row("not-read", UNKNOWN, "nvidia-version", {"nvidia-version": TIMEOUT}, driver="580"),
    row("the-flavour", PASS, "doca-ofed", ofed="doca-ofed"),
    row("another", FAIL, "doca-ofed", ofed="inbox"),
    row("another-version", FAIL, "doca-ofed", ofed="doca-ofed 24.10"),
    row("not-read", UNKNOWN, "", {"ofed-info": TIMEOUT}, ofed="inbox"),
    row("the-release", PASS, "5.15.0-170-generic", kernel="5.15.0-170-generic"),
    row("its-beginning", PASS, "5.15.0-170-generic", kernel="5.15"),
    row("half-a-number", FAIL, "5.15.0-170-generic", kernel="5.15.0-17"),
    row("not-read", UNKNOWN, "kernel-release", {"kernel-release": TIMEOUT}, kernel="5.15"),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_checks_on_what_is_expected(row: Row) -> None:
    holds(row)


def test_each_key_has_its_check_in_the_order_of_the_table() -> None:
    assert [each.id for each in EXPECTED] == [f"expect.{key}" for key in ExpectKey]


def test_a_node_that_should_have_gpus_and_has_none_is_broken() -> None:
    """It was "no GPU", and exit 0."""
    evidence, today = node(board=NO_GPU), date(2026, 11, 22)
    seen = judge_node("gpu1", evidence, expecting(gpus=8, gpu_model="H100"), today)
    assert seen.state == "broken"
    assert int(seen.exit_code) == 2


EVERYTHING = expecting(
    gpus=2, gpu_model="H100", nvswitches=0, gpu_link="gen5 x16", bar1="128 GiB", hcas=3,
    hca_link="gen5 x16", firmware="28.43", ports_up=3, link_layer="InfiniBand", rate=400,
    mtu=4096, driver="580", ofed="doca-ofed", kernel="5.15",
)  # fmt: skip


def told(evidence: Evidence) -> dict[str, Status]:
    fresh = Node(evidence)
    return {each.id: each(fresh, EVERYTHING).status for each in EXPECTED}


def test_the_healthy_node_has_all_that_is_expected() -> None:
    assert set(told(node()).values()) == {PASS}


def test_evidence_that_was_cut_off_neither_loses_a_gpu_nor_has_one() -> None:
    """A cut never turns what passes into a failure, nor the other way round."""
    lost = node(board=ONE_GPU.without(HCAS[0]))
    whole, bad = node(), told(lost)
    for count in range(len(whole.frames)):
        for evidence, right in ((whole, dict.fromkeys(bad, PASS)), (lost, bad)):
            frames = dict(list(evidence.frames.items())[:count])
            cut = told(Evidence(frames, complete=False))
            wrong = {each: status for each, status in cut.items() if status is not right[each]}
            assert set(wrong.values()) <= {UNKNOWN}, (count, wrong)


@pytest.mark.parametrize("gone", [*GPUS, *HCAS])
def test_taking_a_device_away_never_makes_anything_better(gone: str) -> None:
    before, after = told(node()), told(node(board=BOARD.without(gone)))
    assert FAIL in after.values()
    assert all(after[each] is not PASS or before[each] is PASS for each in after)
