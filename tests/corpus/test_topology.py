"""Distances on real machines: NCCL's files and nvidia-smi's matrices tell the same.

Two captures are of one class of machine where as many GPUs share switches with as many
HCAs. NCCL has no NODE and counts the ports of one card singly: compared is what decides,
whether a path stays below the root complex, within one CPU, or crosses to another.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corpus.known import CORPUS
from toolkit.facts.gpu.topo_matrix import Matrix, parse_matrix
from toolkit.facts.nccl.nccl_xml import NcclTopology, parse_nccl_xml
from toolkit.facts.pci.lspci import parse_lspci
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.pci.topology import Distance, all_pairs

Grid = list[list[Distance]]  # GPUs by cards
NEAR, CPU = frozenset({Distance.PIX, Distance.PXB}), frozenset({Distance.PHB, Distance.NODE})


def matrix(name: str) -> Matrix:
    found = parse_matrix((CORPUS / "topo" / f"{name}.txt").read_text())
    assert found is not None
    return found


def nccl(name: str) -> NcclTopology:
    return parse_nccl_xml((CORPUS / "ncclxml" / f"{name}.txt").read_text())


def matrix_grid(name: str) -> Grid:
    found = matrix(name)
    return [[found.distance(gpu, nic) for nic in found.nics] for gpu in found.gpus]


def nccl_grid(name: str) -> Grid:
    """One column a card: a card with two ports has two nets at one address."""
    found = nccl(name)
    cards = {hca.address: hca for hca in found.hcas}
    return [[found.distance(gpu, card) for card in cards.values()] for gpu in found.gpus]


def shape(grid: Grid) -> list[Counter[str]]:
    """For each GPU how many cards are near, behind the same CPU, or behind another."""

    def kind(distance: Distance) -> str:
        return "near" if distance in NEAR else "cpu" if distance in CPU else distance.name

    return sorted((Counter(map(kind, row)) for row in grid), key=lambda each: sorted(each.items()))


MATRICES = (
    "dgx1_v100_mlx5names_nolegendnic",
    "esc8000a-e12_4xRTX6000Ada_4nic_node",
    "gke_a4_b200_8nic",
    "sglang30401_8xH100_8nic_pix",
)
FILES = ("aws_p4d_static", "azure_ndv4_static", "hpe_dgxa100_variant", "oci_h100_dump_gdr1")
GRIDS = dict.fromkeys(MATRICES, matrix_grid) | dict.fromkeys(FILES, nccl_grid)


@pytest.mark.parametrize(
    ("xml", "table"),
    [
        pytest.param("oci_h100_dump_gdr1", "sglang30401_8xH100_8nic_pix", id="8-h100-8-hcas"),
        pytest.param("aws_p4d_static", "dgx1_v100_mlx5names_nolegendnic", id="8-gpus-4-hcas"),
    ],
)
def test_one_class_of_machine_has_the_same_distances_in_both(xml: str, table: str) -> None:
    ours, theirs = nccl_grid(xml), matrix_grid(table)
    assert shape(ours) == shape(theirs)
    near = [[one in NEAR for one in row] for row in ours]
    assert near == [[one in NEAR for one in row] for row in theirs]


def test_no_further_two_of_these_are_of_one_class() -> None:
    shapes = {name: shape(grid(name)) for name, grid in GRIDS.items()}
    alike = {(xml, table) for xml in FILES for table in MATRICES if shapes[xml] == shapes[table]}
    assert alike == {
        ("oci_h100_dump_gdr1", "sglang30401_8xH100_8nic_pix"),
        ("aws_p4d_static", "dgx1_v100_mlx5names_nolegendnic"),
    }


@pytest.mark.parametrize("name", ["single_h100_vm_no_nic_ansi", "xuesong_two_1080ti_phb"])
def test_a_machine_without_nic_has_no_pair(name: str) -> None:
    assert matrix(name).nics == ()


def test_a_dump_with_an_ordinary_interface_alone_has_no_pair() -> None:
    found = nccl("azure_ncv4_dump_nogdrnic")
    assert (len(found.gpus), found.hcas) == (4, ())


def test_what_nccl_found_of_gdr_is_in_its_dump() -> None:
    found = nccl("oci_h100_dump_gdr1")
    assert {each.gdr for each in (*found.gpus, *found.hcas)} == {True}
    assert nccl("hpe_dgxa100_variant").gpus[0].gdr is None


def test_the_drawn_tree_agrees_with_the_matrix_of_the_same_machine() -> None:
    """esc8000: every GPU and NIC on a root port of its own; -t does not tell the sockets."""
    tree = parse_lspci_tree((CORPUS / "lspci" / "esc8000_tree_tv.txt").read_text())
    pairs = all_pairs(tree, tree.adapters)
    table = matrix("esc8000a-e12_4xRTX6000Ada_4nic_node")
    assert len(pairs) == len(table.gpus) * len(table.nics)
    assert {each.distance for each in pairs} == {Distance.APART}
    assert {d for row in matrix_grid("esc8000a-e12_4xRTX6000Ada_4nic_node") for d in row} == {
        Distance.NODE,
        Distance.SYS,
    }


@pytest.mark.parametrize(
    ("name", "payload", "asked", "speed"),
    [
        pytest.param("esc8000_cx7_nic_block", 512, 512, 32.0, id="cx7-amd"),
        pytest.param("xe9680_cx7_nic_block", 256, 4096, 32.0, id="cx7-intel"),
        pytest.param("xe9680_h100_gpu_block", 256, 4096, 32.0, id="h100"),
        pytest.param("esc8000_rtx6000ada_gpu_idle_2.5GT", 256, 512, 2.5, id="idle-gpu"),
    ],
)
def test_registers_as_lspci_worded_them(name: str, payload: int, asked: int, speed: float) -> None:
    tree = parse_lspci((CORPUS / "lspci" / f"{name}.txt").read_text())
    (function,) = tree.functions.values()
    express = function.express()
    assert express is not None
    assert (express.payload, express.read_request) == (payload, asked)
    assert (function.now.speed, function.now.width) == (speed, 16)
    assert not tree.whole
    assert function.parents == ()
