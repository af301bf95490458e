"""A node's prediction from its evidence: what limits, what blocks, what was not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, Board
from tests.evidence.build import DOWN, GUEST_CPU, PROPRIETARY, UP, groups, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override, failed
from toolkit.compat.throughput import constants
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.plan.totals import Prediction, predict
from toolkit.features.predict.show import as_json
from toolkit.throughput.inputs import LinkTold
from toolkit.throughput.pair import PairPrediction
from toolkit.throughput.reading import _End, _link


def of(evidence: Evidence) -> Prediction:
    return predict(Node(evidence))


def first(evidence: Evidence) -> PairPrediction:
    return of(evidence).nearest[0]


def test_a_healthy_pair_is_limited_by_its_wire() -> None:
    found = first(node())
    assert found.with_gdr.limit == "wire (400G InfiniBand)"
    assert found.with_gdr.said.startswith("48.1 GB/s (44-50), limited by wire")
    assert (found.distance, found.blocked, found.now) == (Distance.PIX, "", found.with_gdr)


def test_a_narrow_link_is_named_with_its_place() -> None:
    board = BOARD.but(HCAS[0], now=("16.0 GT/s PCIe", 8))
    found = first(node(board=board))
    assert found.with_gdr.limit == f"PCIe (HCA {HCAS[0]}: 16 GT/s x8)"
    assert found.with_gdr.value == pytest.approx(14.1, abs=0.1)


def test_acs_redirect_costs_the_collective_and_not_the_deep_queue() -> None:
    port = next(each.address for each in BOARD.functions if each.address == "0000:17:00.0")
    found = first(node(board=BOARD.but(port, acs=0x1D)))
    assert found.with_gdr.value == first(node()).with_gdr.value
    assert found.collective.limit.startswith("ACS redirect at 0000:17:00.0 (ReqRedir CmpltRedir)")
    assert found.collective.value < 0.6 * found.with_gdr.value


def test_a_node_without_either_path_does_what_host_memory_allows() -> None:
    found = first(node({"module-state": "", "nvidia-version": PROPRIETARY}))
    assert found.blocked.startswith("peermem: nvidia-peermem is not loaded; dma-buf: ")
    assert found.now == found.without_gdr


def test_the_total_counts_the_hcas_that_serve_gpus() -> None:
    total = of(node()).total
    assert total is not None
    assert total.hcas == ("mlx5_0", "mlx5_1")
    assert total.with_gdr.layer == "collective, ring bound"
    assert total.without_gdr.value < total.with_gdr.value


def test_a_port_that_is_down_is_told_and_left_out_of_the_ring() -> None:
    down = hca_lines("mlx5_0", HCAS[0], DOWN) + hca_lines("mlx5_1", HCAS[1], UP)
    found = of(node({"infiniband": down}))
    assert any("no port of mlx5_0 is up, so that it carries nothing now" in n for n in found.notes)
    assert found.total is not None
    assert found.total.hcas == ("mlx5_1",)


def test_a_redirect_that_was_read_counts_though_another_bridge_was_not() -> None:
    found = of(node(board=BOARD.but(PORTS[0], acs=0x1D).but(PORTS[1], readable=64)))
    assert found.nearest[0].collective.limit.startswith("ACS redirect at 0000:17:00.0")
    assert "ACS not read of every bridge" in found.notes


@pytest.mark.parametrize(
    ("frames", "board", "note"),
    [
        pytest.param(
            {"iommu-groups": groups("unknown")}, BOARD, "IOMMU domain of the HCA not read", id="dom"
        ),
        pytest.param(
            {}, BOARD.but(GPUS[0], readable=64), "packet size read of one end alone", id="payload"
        ),
    ],
)
def test_what_one_source_leaves_open_widens(
    frames: dict[str, Override], board: Board, note: str
) -> None:
    whole, part = first(node()), of(node(frames, board=board))
    assert any(note in each for each in part.notes)
    assert part.nearest[0].without_gdr.low < whole.without_gdr.low


def test_a_link_on_the_way_that_was_not_read_widens() -> None:
    """From the switch to the root port, where the other GPU's HCA is reached."""
    ends = (GPUS[0], HCAS[2])
    whole, part = (
        next(each for each in of(node(board=board)).pairs if (each.gpu, each.hca) == ends)
        for board in (BOARD, BOARD.but("0000:16:00.0", now=("Unknown", 0)))
    )
    assert part.with_gdr.low < whole.with_gdr.low
    assert f"not every link above {GPUS[0]} was read" in part.with_gdr.assumptions


@pytest.mark.parametrize(
    ("device", "told"),
    [
        pytest.param(0x2330, LinkTold(Link(32, 16), Link(32, 8), Link(32, 16), ""), id="its-kind"),
        pytest.param(0x20B2, LinkTold(Link(16, 16), Link(16, 8), Link(16, 16), ""), id="older"),
        pytest.param(0xFFFF, LinkTold(Link(16, 16), Link(8, 8), Link(32, 16), ""), id="nothing"),
    ],
)
def test_a_link_that_nobody_read_is_as_wide_as_what_is_known_of_the_gpu(
    device: int, told: LinkTold
) -> None:
    untold = BOARD.but(GPUS[0], ids=(0x10DE, device), now=("Unknown", 0), best=("Unknown", 0))
    function = Node(node(board=untold)).pci.functions[GPUS[0]]
    notes = list[str]()
    assert _link((), _End("gpu", function, None), constants(), notes) == told
    assert notes == ["link of gpu not read"]


def test_where_nothing_tells_whether_gpudirect_works_both_are_possible() -> None:
    found = first(node({"module-state": DENIED, "nvidia-version": DENIED}))
    assert (found.blocked, found.untold) == ("", True)
    assert found.now.low == found.without_gdr.low < found.with_gdr.low
    assert found.now.value == found.with_gdr.value


def read() -> list[str]:
    """The frames that a prediction rests on."""
    whole = Node(node())
    predict(whole)
    return sorted(set(whole.cited))


@pytest.mark.parametrize("lost", read())
def test_a_frame_that_is_missing_widens_and_never_raises(lost: str) -> None:
    whole, part = of(node()), of(node({lost: MISSING}))
    assert part.pairs or part.notes
    for ours, theirs in zip(whole.pairs, part.pairs, strict=False):
        if theirs.gpu == ours.gpu and theirs.hca == ours.hca:
            assert theirs.with_gdr.low <= ours.with_gdr.low + 1e-9
            assert theirs.with_gdr.high >= ours.with_gdr.high - 1e-9


@pytest.mark.parametrize("lost", read())
@pytest.mark.parametrize("state", [ABSENT, DENIED, failed(1, "no\n"), "", "\x00:zz\n"], ids=repr)
def test_a_frame_that_is_none_is_no_crash(lost: str, state: Override) -> None:
    found = of(node({lost: state}))
    assert found.pairs or found.source or found.notes


def test_evidence_that_tells_of_nothing_is_an_answer_with_its_reason() -> None:
    found = of(Evidence({}, complete=True))
    assert (found.pairs, found.total) == ((), None)
    assert found.notes
    told = as_json("gpu01", found)
    assert (told["pairs"], told["total"], told["notes"]) == ([], None, list(found.notes))


CAPTURES = sorted((Path(__file__).parents[2] / "evidence").glob("*.txt"))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_what_demo_nodes_said_is_predicted(capture: Path) -> None:
    found = of(Evidence.parse(capture.read_text()))
    assert found.source == "PCI tree"
    best = found.nearest[0].with_gdr
    assert best.limit.startswith("wire (400G InfiniBand)")
    assert best.low < best.value < best.high
    acs_not_read = any("ACS not read" in note for note in found.notes)
    assert acs_not_read == (capture.stem == "noroot")


def test_a_guest_is_told_that_its_tree_may_be_made_up() -> None:
    found = of(node({"cpu": GUEST_CPU}))
    assert any("guest" in note for note in found.notes)
    assert found.nearest[0].with_gdr.confidence == "M"


def test_hcas_that_are_known_by_their_names_alone_are_cards_of_their_own() -> None:
    """As nvidia-smi's matrix has them: no address tells which share one."""
    matrix = (
        "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n"
        "GPU0\t X \tSYS\tPIX\tSYS\t0-7\nGPU1\tSYS\t X \tSYS\tPIX\t8-15\n"
        "NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\n"
        "NIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
    )
    frame = Frame("nvidia-topology", State.OK, "nvidia-smi topo -m", matrix)
    found = of(Evidence({frame.key: frame}, complete=True))
    total, one = found.total, found.nearest[0].collective
    assert total is not None
    assert total.hcas == ("mlx5_0", "mlx5_1")
    assert "card" not in total.with_gdr.limit
    assert total.with_gdr.high == pytest.approx(2 * one.high)  # of both together
    # Nothing tells their rate: a range without a middle, and what would narrow it.
    assert (one.open, one.figure, total.with_gdr.open) == (True, "0.7-60 GB/s", True)
    assert any("--what-if rate=400 narrows it" in each for each in found.notes)
