"""Distances from every source: the PCI tree, nvidia-smi's matrix, NCCL's XML; and uses of HCAs."""

from __future__ import annotations

import pytest

from tests.checks.test_checks_pci import grace
from tests.evidence.board import BOARD, BRIDGE, GPUS, HCAS, Board, Fn
from toolkit.errors import Unparsable
from toolkit.facts.gpu.topo_matrix import parse_matrix
from toolkit.facts.nccl.nccl_xml import parse_nccl_xml
from toolkit.facts.pci.functions import PciTree, parse_pci
from toolkit.facts.pci.pairs import matrix_pairs, same_class
from toolkit.facts.pci.topology import Distance, Pair, all_pairs, coherent, pair
from toolkit.facts.rdma.hca_roles import HcaUse, hca_roles

PIX, PXB, P2C, PHB, NODE, SYS = (
    Distance.PIX, Distance.PXB, Distance.P2C, Distance.PHB, Distance.NODE, Distance.SYS
)  # fmt: skip


def tree(board: Board = BOARD) -> PciTree:
    return parse_pci(*board.frames().values())


def between(board: Board, gpu: str = GPUS[0], hca: str = HCAS[0]) -> Pair:
    whole = tree(board)
    return pair(whole, whole.functions[gpu], whole.functions[hca])


# --- the PCI tree ---


def test_the_narrowest_link_of_a_path_limits_it() -> None:
    limit = between(BOARD.but(HCAS[0], now=("16.0 GT/s PCIe", 8))).limit
    assert limit is not None
    assert (limit.lower.address, str(limit.now)) == (HCAS[0], "16 GT/s x8")


def test_an_idle_gpu_limits_nothing() -> None:
    limit = between(BOARD.but(GPUS[0], now=("2.5 GT/s PCIe", 16))).limit
    assert limit is not None
    assert str(limit.now) == "32 GT/s x16"


def test_a_path_beyond_the_switch_has_the_links_up_to_both_root_ports() -> None:
    far = between(BOARD.but("0000:16:00.0", now=("32.0 GT/s PCIe", 4)), hca=HCAS[2])
    assert [hop.lower.address for hop in far.hops] == [GPUS[0], "0000:16:00.0", HCAS[2]]
    assert far.limit is not None
    assert far.limit.lower.address == "0000:16:00.0"


def test_a_path_through_two_switches_has_the_link_between_them() -> None:
    second = (
        Fn("0000:20:00.0", "0000:17:01.0", (0x1000, 0xC030), BRIDGE, upstream=True),
        Fn("0000:21:00.0", "0000:20:00.0", (0x1000, 0xC030), BRIDGE),
    )
    found = between(BOARD.plus(*second).but(HCAS[0], parent="0000:21:00.0"))
    assert found.distance is PXB
    assert [(hop.lower.address, hop.upper.address) for hop in found.hops] == [
        (GPUS[0], "0000:17:00.0"), (HCAS[0], "0000:21:00.0"), ("0000:20:00.0", "0000:17:01.0")
    ]  # fmt: skip


def test_distance_is_the_same_both_ways() -> None:
    whole = tree()
    for gpu in GPUS:
        for hca in HCAS:
            one, other = whole.functions[gpu], whole.functions[hca]
            assert pair(whole, one, other).distance is pair(whole, other, one).distance


@pytest.mark.parametrize(
    ("board", "joined", "distance"),
    [
        pytest.param(grace(), True, P2C, id="superchip"),
        pytest.param(grace(numa=1), True, SYS, id="the-other-superchip"),
        pytest.param(grace(0x2331), None, Distance.UNKNOWN, id="a-card-below-grace"),
        pytest.param(grace(port=0x1234), False, NODE, id="that-gpu-below-another-port"),
    ],
)
def test_nvlink_c2c(board: Board, joined: bool | None, distance: Distance) -> None:
    whole = tree(board)
    (found,) = all_pairs(whole, whole.adapters)
    assert coherent(whole, found.gpu) is joined
    assert found.distance is distance


def test_without_numa_nodes_two_root_complexes_are_apart_and_no_more() -> None:
    found = between(BOARD.but(HCAS[2], numa=-1), hca=HCAS[2])
    assert (found.distance, found.distance.shown) == (Distance.APART, "NODE or SYS")


def test_where_nothing_tells_the_place_the_distance_is_unknown() -> None:
    frames = BOARD.frames() | {"pci-links": ""}
    whole = parse_pci(*frames.values())
    found = pair(whole, whole.functions[GPUS[0]], whole.functions[HCAS[0]])
    assert found.distance is Distance.UNKNOWN


# --- nvidia-smi topo -m ---

LEGEND = """\

Legend:

  X    = Self
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: rocep145s0
  NIC1: mlx5_ib1
"""
TABS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPIX\t48-95\t1-2\t\t18\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\n"
    "NIC1\tSYS\tPIX\tSYS\t X \t\t\t\n"
) + LEGEND
BLANKS = """\
        GPU0    GPU1    mlx5_0  CPU Affinity
GPU0     X      SOC     PHB     0-19,40-59
GPU1    SOC      X      PXB     20-39
mlx5_0  PHB     PXB      X
"""


def test_a_matrix_of_today() -> None:
    found = parse_matrix(TABS)
    assert found is not None
    assert (found.gpus, found.nics) == (("GPU0", "GPU1"), ("rocep145s0", "mlx5_ib1"))
    assert found.distance("GPU0", "rocep145s0") is PIX
    assert found.distance("mlx5_ib1", "GPU0") is SYS
    assert found.distance("GPU0", "GPU1") is Distance.UNKNOWN  # NVLink hides it
    assert (found.numa, found.gpu_numa) == ({"GPU0": "0", "GPU1": "1-2"}, {"GPU1": "18"})


def test_a_matrix_of_an_old_driver() -> None:
    found = parse_matrix(BLANKS)
    assert found is not None
    assert found.distance("GPU0", "mlx5_0") is PHB
    assert found.distance("GPU0", "GPU1") is SYS


@pytest.mark.parametrize("text", ["", "\n \n"], ids=["empty", "blank"])
def test_no_matrix(text: str) -> None:
    assert parse_matrix(text) is None


def test_a_gpu_without_nic_columns() -> None:
    found = parse_matrix("\tGPU0\tCPU Affinity\nGPU0\t X \t0-19\n")
    assert found is not None
    assert (found.gpus, found.nics) == (("GPU0",), ())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("No devices were found\n", id="no-header"),
        pytest.param("\tGPU0\tGPU1\n", id="header-alone"),
        pytest.param("\tGPU0\tGPU1\nGPU0\t X \n", id="short-row"),
        pytest.param("\tGPU0\tGPU1\nGPU0\t X \tOK\n", id="of-topo-p2p"),
        pytest.param("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU0\t X \tSYS\n", id="a-row-twice"),
        pytest.param("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tPIX\t X \n", id="two-halves"),
    ],
)
def test_another_matrix_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="nvidia-smi topo -m"):
        parse_matrix(text)


# --- NCCL's XML ---


def pci(address: str, inside: str = "", **more: str) -> str:
    words = "".join(f' {key.rstrip("_")}="{value}"' for key, value in more.items())
    return f'<pci busid="{address}"{words}>{inside}</pci>'


def net(name: str, port: int = 1, maxconn: int = 131072) -> str:
    return f'<nic><net name="{name}" port="{port}" maxconn="{maxconn}" gdr="1"/></nic>'


def system(*cpus: str) -> str:
    inside = "".join(f'<cpu numaid="{number}">{each}</cpu>' for number, each in enumerate(cpus))
    return f'\n<system version="1">{inside}</system>\n'


GPU0, GPU1 = '<gpu dev="0" gdr="1"/>', '<gpu dev="1" gdr="0"><c2c bw="1"/></gpu>'


def test_a_dump() -> None:
    near = pci("08:00.0", pci("0f:00.0", GPU0) + pci("0c:00.0", net("mlx5_0")), class_="0x060400")
    found = parse_nccl_xml(system(near + pci("10:00.0", net("mlx5_1")), pci("90:00.0", GPU1)))
    assert [(each.name, each.gdr) for each in found.gpus] == [("GPU0", True), ("GPU1", False)]
    assert [each.name for each in found.hcas] == ["mlx5_0", "mlx5_1"]
    assert [found.distance(found.gpus[0], hca) for hca in found.hcas] == [PIX, PHB]
    assert [found.distance(found.gpus[1], hca) for hca in found.hcas] == [SYS, SYS]


def test_a_gpu_on_nvlink_c2c() -> None:
    found = parse_nccl_xml(system(pci("01:00.0", GPU1) + pci("02:00.0", net("mlx5_0"))))
    assert found.distance(found.gpus[0], found.hcas[0]) is P2C


def test_a_file_of_classes_alone() -> None:
    inner = pci("03:00.0", pci("07:00.0", class_="0x030200"), class_="0x060400")
    other = pci("0a:00.0", pci("0c:00.0", class_="0x020700"), class_="0x060400")
    found = parse_nccl_xml(system(pci("01:00.0", inner + other, class_="0x060400")))
    assert found.distance(found.gpus[0], found.hcas[0]) is PXB


@pytest.mark.parametrize("device", ["0xc010", "0xc030"])
def test_one_broadcom_chip_is_one_switch(device: str) -> None:
    chip = {"class_": "0x060400", "vendor": "0x1000", "device": device}
    inner = pci("0d:00.0", pci("0f:00.0", GPU0), **chip)
    other = pci("0a:00.0", pci("0c:00.0", net("mlx5_0")), **chip)
    found = parse_nccl_xml(system(pci("08:00.0", inner + other, **chip)))
    assert found.distance(found.gpus[0], found.hcas[0]) is PIX


def test_a_dump_of_a_live_node_tells_its_processor() -> None:
    text = '<system><cpu numaid="0" vendor="GenuineIntel" familyid="6" modelid="143"/></system>'
    assert parse_nccl_xml(text).processor == ("GenuineIntel", 6, 143)


def test_an_ordinary_interface_and_another_makers_gpu_do_not_count() -> None:
    socket = net("eth0", port=0, maxconn=65536)
    found = parse_nccl_xml(system(pci("05:00.0", class_="0x030200", vendor="0x1002") + socket))
    assert (found.gpus, found.hcas) == ((), ())


@pytest.mark.parametrize(
    "text",
    ["", "no XML", "<graphs/>", system("<pci><gpu/></pci>"), system()[:-5]],
    ids=["empty", "text", "another-document", "no-address", "cut"],
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="NCCL topology"):
        parse_nccl_xml(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (PIX, PXB, True), (PHB, NODE, True), (P2C, NODE, True), (PIX, PHB, False),
        (NODE, SYS, False), (Distance.APART, SYS, True), (Distance.APART, PHB, False),
        (Distance.UNKNOWN, PIX, True),
    ],
)  # fmt: skip
def test_which_classes_of_two_sources_agree(one: Distance, other: Distance, same: bool) -> None:
    assert same_class(one, other) is same
    assert same_class(other, one) is same


# --- what an HCA is for ---


def uses(board: Board, **interfaces: str) -> dict[str, HcaUse]:
    """Of the board, where eth0 carries the default route; mlx5_0 in ``a``, mlx5_2 in ``c``."""
    whole = tree(board)
    named: dict[str, tuple[str, ...]] = {
        HCAS["abc".index(key)]: (value,) for key, value in interfaces.items()
    }
    pairs = all_pairs(whole, whole.adapters)
    return {e.address: e.use for e in hca_roles(pairs, named, {"eth0": "the default route"})}


def test_an_hca_nearest_to_a_gpu_serves_it() -> None:
    assert uses(BOARD) == {
        HCAS[0]: HcaUse.COMPUTE, HCAS[1]: HcaUse.COMPUTE, HCAS[2]: HcaUse.STORAGE
    }  # fmt: skip


def test_the_default_route_makes_a_far_one_management() -> None:
    assert uses(BOARD, c="eth0")[HCAS[2]] is HcaUse.MANAGEMENT


def test_the_default_route_leaves_a_near_one_to_the_jobs() -> None:
    assert uses(BOARD, a="eth0")[HCAS[0]] is HcaUse.COMPUTE


def test_the_only_hca_serves_the_jobs_whatever_it_carries() -> None:
    assert uses(BOARD.without(*HCAS[:2]), c="eth0") == {HCAS[2]: HcaUse.COMPUTE}


NV18 = """\
\tGPU0\tGPU1\tNIC0\tNIC1{titles}
GPU0\tX\tNV18\tNODE\tSYS{values}
GPU1\tNV18\tX\tSYS\tNODE{values}
"""


@pytest.mark.parametrize(
    ("text", "near"),
    [
        pytest.param(NV18.format(titles="", values=""), Distance.UNKNOWN, id="perhaps-grace"),
        pytest.param(
            NV18.format(titles="\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", values="\t0\t0\tN/A"),
            Distance.NODE,
            id="memory-of-its-own-is-not-told-of-it",
        ),
        pytest.param(
            NV18.format(titles="", values="").replace("NV18", "NV4"), Distance.NODE, id="bridged"
        ),
        pytest.param(
            NV18.format(titles="", values="").replace("NV18", "SYS"), Distance.NODE, id="no-nvlink"
        ),
    ],
)
def test_a_way_through_the_cpu_stays_open_where_it_may_be_nvlink_c2c(
    text: str, near: Distance
) -> None:
    matrix = parse_matrix(text)
    assert matrix is not None
    pairs = {(each.gpu, each.hca): each.distance for each in matrix_pairs(matrix).pairs}
    assert pairs[("GPU0", "NIC0")] is near
    assert pairs[("GPU0", "NIC1")] is Distance.SYS
