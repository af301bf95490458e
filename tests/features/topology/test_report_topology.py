"""The drawn topology: readable at 100 columns, and what stands in the way is marked."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.checks.test_checks_pci import DRAWN, GUEST, loose, matrix
from tests.evidence.board import (
    BOARD,
    BRIDGE,
    FLAT,
    GPU_CLASS,
    GPUS,
    HCAS,
    IB,
    PORTS,
    REDIRECTS,
    Board,
    Fn,
    hca,
)
from tests.evidence.build import UP, hca_lines, node
from tests.evidence.frames import Override
from tests.facts.test_facts_express import LSPCI_OF_A_PORT
from toolkit.errors import NoEvidence
from toolkit.evidence import Evidence, Frame, State
from toolkit.features.topology.cli import as_json, text
from toolkit.features.topology.show.view import view
from toolkit.report.document import dumps
from toolkit.report.table import WIDTH, Painter

FENCED = BOARD.but(PORTS[0], acs=REDIRECTS).but(HCAS[0], now=("16.0 GT/s PCIe", 8))


def drawn(evidence: Evidence) -> str:
    return text(view("gpu01", evidence), Painter(coloured=False))


def of(board: Board = BOARD) -> str:
    return drawn(node(board=board))


def test_the_tree_of_a_node() -> None:
    assert of(FENCED).split("\n")[:17] == [
        "gpu01  2 GPUs, 3 HCAs, read from: PCI tree",
        "",
        "root complex pci0000:05, NUMA node 0",
        "└─ 0000:05:01.0 root port 8086:352a  32 GT/s x16  ACS: ReqRedir CmpltRedir",
        "   └─ 0000:06:00.0 HCA mlx5_2 storage  32 GT/s x16",
        "",
        "root complex pci0000:15, NUMA node 0",
        "└─ 0000:15:01.0 root port 8086:352a  32 GT/s x16",
        "   └─ 0000:16:00.0 switch 1000:c030  32 GT/s x16",
        "      ├─ 0000:17:00.0 port 1000:c030  32 GT/s x16  ACS: ReqRedir CmpltRedir",
        "      │  └─ 0000:18:00.0 GPU NVIDIA H100 80GB HBM3  32 GT/s x16",
        "      └─ 0000:17:01.0 port 1000:c030  32 GT/s x16",
        "         └─ 0000:19:00.0 HCA mlx5_0 compute  16 GT/s x8 of 32 GT/s x16",
        "",
        "root complex pci0000:97, NUMA node 1",
        "└─ 0000:97:01.0 root port 8086:352a  32 GT/s x16",
        "   └─ 0000:98:00.0 switch 1000:c030  32 GT/s x16",
    ]


def test_the_pairs_of_a_node() -> None:
    assert of(FENCED).split("\n")[-8:] == [
        "GPU           HCA     distance  limiting link                            ACS redirect",
        "0000:18:00.0  mlx5_0  PIX       16 GT/s x8 = 15.8 GB/s at 0000:19:00.0   yes",
        "    blocked by 0000:17:00.0: ReqRedir CmpltRedir",
        "0000:9a:00.0  mlx5_1  PIX       32 GT/s x16 = 63.0 GB/s at 0000:9a:00.0  no",
        "",
        "              mlx5_0  mlx5_1  mlx5_2",
        "0000:18:00.0  PIX     SYS     NODE",
        "0000:9a:00.0  SYS     PIX     SYS",
    ]


def test_no_line_is_wider_than_a_terminal() -> None:
    assert max(map(len, of(FENCED).split("\n"))) <= WIDTH


def test_registers_that_were_not_read_are_not_taken_for_clear() -> None:
    board = BOARD
    for each in BOARD.functions:
        board = board.but(each.address, readable=64)
    seen = drawn(node({"uid": "1000\n"}, board=board))
    assert "port 1000:c030  32 GT/s x16  ACS not read" in seen
    assert "0000:18:00.0  not read" in seen
    assert "note: not read as root: ACS is not known" in seen


def test_a_matrix_alone_has_no_tree() -> None:
    seen = drawn(loose(nvidia_topology=matrix()))
    assert seen.startswith("gpu01  2 GPUs, 3 HCAs, read from: nvidia-smi topo -m\n\nGPU ")
    assert "GPU0  PIX     SYS     NODE" in seen


def test_a_drawing_of_lspci_has_a_tree_without_links() -> None:
    seen = drawn(loose(lspci_tree=DRAWN))
    assert "└─ 0000:20:01.0 root port 0000:0000  ACS not read" in seen
    assert "NODE or SYS" in seen


def test_evidence_without_topology_is_refused() -> None:
    with pytest.raises(NoEvidence):
        view("gpu01", loose(cmdline="ro\n"))


def test_lspci_that_contradicts_the_bytes_is_noted() -> None:
    block = LSPCI_OF_A_PORT.format(payload=512, redirect="-")
    frames = {**node().frames, "lspci": Frame("lspci", State.OK, "lspci", block)}
    seen = drawn(Evidence(frames, complete=True))
    assert f"note: {PORTS[0]}: payload is 512 in lspci, 256 in the bytes" in seen
    frames["lspci"] = Frame(
        "lspci", State.OK, "lspci", block.replace("512 bytes, MaxR", "256 bytes, MaxR")
    )
    assert "in the bytes" not in drawn(Evidence(frames, complete=True))


def test_a_hostile_name_does_not_reach_the_terminal() -> None:
    hostile = {"nvidia-smi": f"0000{GPUS[0]}, \x1b[2JH100, 1.2, 1 MiB, Enabled\n"}
    assert "\x1b" not in drawn(node(hostile))


def test_a_guest_is_drawn_too() -> None:
    assert "HCA mlx5_0" in drawn(node(GUEST))


def test_json_mirrors_it() -> None:
    made = as_json(view("gpu01", node(board=FENCED)))
    told = cast("dict[str, Any]", json.loads(dumps(made)))
    assert (told["name"], told["source"]) == ("gpu01", "PCI tree")
    assert told["pairs"][0] == {
        "gpu": GPUS[0],
        "hca": "mlx5_0",
        "distance": "PIX",
        "limit": "16 GT/s x8",
        "gigabytes": 15.8,
        "limited_at": HCAS[0],
        "redirects": ["0000:17:00.0: ReqRedir CmpltRedir"],
        "nearest": True,
        "why": "",
    }
    port = told["roots"][1]["below"][0]["below"][0]["below"][0]
    assert (port["address"], port["acs"]) == (PORTS[0], "ReqRedir CmpltRedir")
    assert port["below"][0]["kind"] == "GPU"


def rooted(count: int) -> tuple[Board, dict[str, Override]]:
    """As many GPUs and HCAs on root ports of their own, with long names."""
    board, devices = Board(()), ""
    for number in range(count):
        numa = number * 2 // count
        for bus, ids in ((0x10, (0x10DE, 0x2330)), (0x80, (0x15B3, 0x1021))):
            top, below = f"0000:{bus + 2 * number:02x}", f"0000:{bus + 2 * number + 1:02x}:00.0"
            klass = GPU_CLASS if bus == 0x10 else IB
            board = board.plus(
                Fn(f"{top}:01.0", f"pci{top}", (0x1022, 0x14AB), BRIDGE, numa=numa),
                Fn(below, f"{top}:01.0", ids, klass, numa=numa),
            )
        devices += hca_lines(f"rocep{number}s0f0np{number}", below, UP)
    return board, {"infiniband": devices}


def test_hcas_that_are_equally_far_share_a_row() -> None:
    board, frames = rooted(8)
    seen = drawn(node(frames, board=board))
    assert "0000:11:00.0  rocep0s0f0np0 and 3 more  NODE " in seen
    assert sum(" more  NODE " in line for line in seen.split("\n")) == 8
    assert max(map(len, seen.split("\n"))) <= WIDTH


def test_hcas_behind_the_switch_have_a_row_each() -> None:
    board = BOARD.plus(hca("0000:19:00.1", PORTS[1]))
    frames = node().text("infiniband") + hca_lines("mlx5_3", "0000:19:00.1", UP)
    seen = drawn(node({"infiniband": frames}, board=board)).split("\n")
    assert sum(line.startswith(f"{GPUS[0]}  mlx5_") and "PIX " in line for line in seen) == 2


def test_a_long_product_name_is_cut_to_the_terminal() -> None:
    names = node().text("nvidia-smi").replace("H100 80GB HBM3", "RTX PRO 6000 " + "Blackwell " * 5)
    lines = drawn(node({"nvidia-smi": names})).split("\n")
    assert any(
        "GPU NVIDIA RTX PRO 6000 Blackwell" in line and "…  32 GT/s" in line for line in lines
    )
    assert max(map(len, lines)) <= WIDTH


def test_hcas_are_counted_on_a_node_without_gpu() -> None:
    seen = of(BOARD.without(*GPUS))
    assert seen.startswith("gpu01  0 GPUs, 3 HCAs, read from: PCI tree")
    assert "HCA mlx5_0" in seen


def test_the_tree_of_a_guest_is_not_taken_for_the_machine() -> None:
    seen = drawn(node(GUEST, board=FLAT))
    assert "root complex pci0000:00, several NUMA nodes" in seen
    assert "note: a guest's PCI tree is not the machine's" in seen
