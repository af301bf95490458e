"""PCI functions, their place in the tree, and how far apart two of them are."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, BRIDGE, FLAT, GIB, GPUS, HCAS, MIB, Board, Fn
from toolkit.errors import Unparsable
from toolkit.facts.pci.functions import Bar, PciTree, parse_pci
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance, best_pairs, pair, path_pairs


def tree(board: Board = BOARD) -> PciTree:
    return parse_pci(*board.frames().values())


def distance(board: Board, gpu: str = GPUS[0], hca: str = HCAS[0]) -> Distance:
    functions = tree(board).functions
    return pair(tree(board), functions[gpu], functions[hca]).distance


def test_a_gpu_with_everything_that_sysfs_tells() -> None:
    gpu = tree().functions[GPUS[1]]
    assert (gpu.vendor, gpu.device, gpu.klass, gpu.numa) == (0x10DE, 0x2330, 0x030200, 1)
    assert gpu.parents == ("pci0000:97", "0000:97:01.0", "0000:98:00.0", "0000:99:00.0")
    assert (gpu.driver, gpu.group, gpu.virtual) == ("nvidia", "11", False)
    assert gpu.now == gpu.best == Link(32.0, 16)
    assert gpu.bars == (Bar(0, 16 * MIB), Bar(2, 128 * GIB), Bar(4, 32 * MIB))
    assert gpu.config is not None


@pytest.mark.parametrize(
    ("address", "changes", "is_gpu"),
    [
        pytest.param(GPUS[0], {}, True, id="3d-controller"),
        pytest.param(GPUS[0], {"klass": 0x030000}, True, id="vga-controller"),
        pytest.param(GPUS[0], {"klass": 0x040300}, False, id="its-audio-function"),
        pytest.param(GPUS[0], {"klass": 0x068000}, False, id="nvswitch"),
        pytest.param(GPUS[0], {"ids": (0x1002, 0x731F)}, False, id="another-makers"),
    ],
)
def test_which_functions_are_gpus(address: str, changes: dict[str, Any], is_gpu: bool) -> None:
    function = tree(BOARD.but(address, **changes)).functions[address]
    assert function.is_gpu is is_gpu


@pytest.mark.parametrize(
    ("now", "link"),
    [
        pytest.param(("32.0 GT/s PCIe", 16), Link(32.0, 16), id="today"),
        pytest.param(("8 GT/s", 8), Link(8.0, 8), id="older-kernels"),
        pytest.param(("2.5 GT/s PCIe", 16), Link(2.5, 16), id="idle"),
        pytest.param(("Unknown", 0), Link(0.0, 0), id="guest"),
        pytest.param(("Unknown speed", 63), Link(0.0, 0), id="dead"),
        pytest.param(("Unknown", 255), Link(0.0, 0), id="dead-newer"),
    ],
)
def test_a_link(now: tuple[str, int], link: Link) -> None:
    assert tree(BOARD.but(GPUS[0], now=now)).functions[GPUS[0]].now == link


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        pytest.param("pci", "0000:18:00.0/vendor:none\n", id="vendor-is-no-number"),
        pytest.param("pci", "0000:18:00.0/vendor:0x10de\n", id="without-class"),
        pytest.param("pci", "vendor\n", id="no-name"),
        pytest.param("pci-links", "0000:18:00.0\n", id="link-without-arrow"),
        pytest.param("pci-resources", "0000:18:00.0/resource:0x0 0x0\n", id="two-words"),
        pytest.param("pci-resources", "0000:18:00.0/resource:0x0 0x0 zz\n", id="no-number"),
        pytest.param("pci-resources", "0x0 0x0 0x0\n", id="no-name-before-it"),
        pytest.param("pci-config", "@0000:18:00.0\n000010 00\n", id="config-does-not-add-up"),
    ],
)
def test_another_form_is_refused(frame: str, line: str) -> None:
    frames = BOARD.frames() | {frame: line}
    with pytest.raises(Unparsable):
        parse_pci(*frames.values())


SECOND_LEVEL = (
    # A second switch below the first: the HCA is one level deeper than the GPU.
    Fn("0000:20:00.0", "0000:17:01.0", (0x1000, 0xC030), BRIDGE),
    Fn("0000:21:00.0", "0000:20:00.0", (0x1000, 0xC030), BRIDGE),
)


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        pytest.param(BOARD, Distance.PIX, id="one-switch"),
        pytest.param(
            BOARD.plus(*SECOND_LEVEL).but(HCAS[0], parent="0000:21:00.0"),
            Distance.PXB,
            id="two-switches",
        ),
        pytest.param(
            BOARD.plus(Fn("0000:15:02.0", "pci0000:15", (0x8086, 0x352A), BRIDGE)).but(
                HCAS[0], parent="0000:15:02.0"
            ),
            Distance.PHB,
            id="two-root-ports-of-one-complex",
        ),
        pytest.param(
            BOARD.but(HCAS[0], parent="0000:05:01.0"), Distance.NODE, id="one-socket-two-complexes"
        ),
        pytest.param(
            BOARD.but(HCAS[0], parent="0000:05:01.0", numa=1), Distance.SYS, id="two-sockets"
        ),
        pytest.param(FLAT, Distance.PHB, id="a-guest-sees-one-flat-bus"),
        pytest.param(BOARD.but(HCAS[0], parent="0000:17:00.0"), Distance.PIX, id="below-one-port"),
    ],
)
def test_distances_are_those_of_nvidia_smi(board: Board, expected: Distance) -> None:
    assert distance(board) is expected


def test_each_gpu_gets_its_nearest_hca() -> None:
    whole = tree()
    hcas = tuple(whole.functions[address] for address in HCAS)
    assert [(each.gpu.address, each.hca.address) for each in best_pairs(whole, hcas)] == [
        (GPUS[0], HCAS[0]),
        (GPUS[1], HCAS[1]),
    ]


def test_without_hca_there_is_no_pair() -> None:
    assert best_pairs(tree(), ()) == ()
    assert path_pairs(tree(), ()) == ()


def test_only_pairs_behind_a_common_switch_have_a_path_of_bridges() -> None:
    whole = tree()
    pairs = path_pairs(whole, tuple(whole.functions[address] for address in HCAS))
    assert [[bridge.address for bridge in each.bridges] for each in pairs] == [
        ["0000:17:00.0", "0000:17:01.0"],
        ["0000:99:00.0", "0000:99:01.0"],
    ]


def test_a_virtual_function_is_told_by_its_physical_one() -> None:
    vf = Fn("0000:19:00.1", "0000:17:01.0", (0x15B3, 0x101E), 0x020700, "mlx5_core", physfn=True)
    assert tree(BOARD.plus(vf)).functions["0000:19:00.1"].virtual


def test_domains_of_more_than_four_digits() -> None:
    vmd = Fn("10000:e1:00.0", "pci10000:e0", (0x144D, 0xA80A), 0x010802, "nvme")
    assert tree(BOARD.plus(vmd)).functions["10000:e1:00.0"].parents == ("pci10000:e0",)


def test_what_follows_the_six_bars_is_none() -> None:
    """The seventh line is the expansion ROM's; then come windows and BARs of functions."""
    function = Fn("0000:18:00.0", "pci0000:17", (0x10DE, 0x2330), 0x030200, "nvidia")
    bars = dict.fromkeys(range(8), 16 * MIB)
    found = tree(Board((replace(function, bars=tuple(bars.items())),))).functions["0000:18:00.0"]
    assert found.bars == tuple(Bar(index, 16 * MIB) for index in range(6))
