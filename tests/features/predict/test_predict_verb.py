"""What ``predict`` prints, what a wish changes, and what GPUDirect is worth to a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, REDIRECTS
from tests.evidence.build import PROPRIETARY, node
from tests.evidence.frames import DENIED
from tests.invoked import gdr
from toolkit.compat.throughput import constants
from toolkit.errors import ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.predict.plan.quoted import quoted
from toolkit.features.predict.plan.totals import (
    Prediction,
    TrainingJob,
    gain,
    model_size,
    parse_parameters,
    predict,
    predict_inputs,
    read_node,
)
from toolkit.features.predict.plan.what_if import parse_wishes, with_wishes
from toolkit.features.predict.show import quoted_text, return_text, text, wish_text
from toolkit.report.table import WIDTH, Painter
from toolkit.throughput.inputs import Load

C = constants()
FENCED = BOARD.but(PORTS[0], acs=REDIRECTS).but(HCAS[0], now=("16.0 GT/s PCIe", 8))
CORE = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 183\n"
PLAIN = Painter(coloured=False)


def wished(evidence: Evidence, wishes: str) -> Prediction:
    told = read_node(Node(evidence), C)
    return predict_inputs(with_wishes(told, parse_wishes(wishes)), Load(), C)


def test_the_text_of_a_node_fits_the_terminal_and_names_each_limit_once() -> None:
    shown = text("gpu01\x1b[2J", predict(Node(node(board=FENCED))), PLAIN, whole=True)
    lines = shown.split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in shown
    assert f"limited by PCIe (HCA {HCAS[0]}: 16 GT/s x8); ring by ACS redirect" in shown
    assert lines[1].split() == ["GPU", "HCA", "path", "with", "GPUDirect,", "GB/s", "NCCL",
                                "ring", "without"]  # fmt: skip


def test_a_blocked_pair_says_what_keeps_it() -> None:
    found = predict(Node(node({"module-state": "", "nvidia-version": PROPRIETARY})))
    shown = text("gpu01", found, PLAIN, whole=False)
    assert "now without: peermem: nvidia-peermem is not loaded; dma-buf: the driver is" in shown
    assert "node, ring bound once GPUDirect works: 94.9 GB/s" in shown
    assert "node, without, as now:    44.4 GB/s" in shown


@pytest.mark.parametrize(
    ("wish", "limit"),
    [
        pytest.param("link=gen5x16", "wire (400G InfiniBand)", id="both-links"),
        pytest.param("hca-link=gen4x16,rate=100", "wire (100G InfiniBand)", id="two-wishes"),
        pytest.param("link=gen5x16,layer=roce,mtu=1500", "wire (400G RoCE, MTU 1024)", id="mtu"),
        pytest.param("hca-link=gen3x4", "PCIe (HCA as asked: 8 GT/s x4)", id="a-worse-link"),
    ],
)
def test_a_wish_changes_what_limits(wish: str, limit: str) -> None:
    assert wished(node(board=FENCED), wish).nearest[0].with_gdr.limit == limit


def test_what_a_repair_would_buy_is_told_by_pair_and_for_the_node() -> None:
    before, after = predict(Node(node(board=FENCED))), wished(node(board=FENCED), "acs=off")
    ring = [each.nearest[0].collective.value for each in (before, after)]
    assert ring[1] / ring[0] == pytest.approx(1 / C["acs-collective"].value)
    shown = wish_text(before, after, "acs=off").split("\n")
    assert shown[2].startswith("0000:18:00.0 mlx5_0")
    assert shown[2].endswith("+77%")
    assert shown[4].startswith("node")
    assert shown[5] == f"    then limited by PCIe (HCA {HCAS[0]}: 16 GT/s x8)"


def test_a_wish_that_nothing_needs_changes_nothing() -> None:
    assert wished(node(), "acs=off,iommu=pt,gdr=on") == predict(Node(node()))


@pytest.mark.parametrize(
    "wish", ["acs", "acs=maybe", "link=gen7x16", "mtu=10", "rate=0", "mps=100", "x=1", "tags=64"]
)
def test_a_wish_that_is_none_is_refused(wish: str) -> None:
    with pytest.raises(UsageError, match="--what-if"):
        parse_wishes(wish)


def test_the_return_of_a_cluster_follows_from_the_ring() -> None:
    total = predict(Node(node())).total
    assert total is not None
    found = gain((("gpu01", total),), TrainingJob(nodes=2, parameters=7e9, steps=1000), C)
    assert found is not None
    # A ring over the four GPUs of two nodes sends each of the 14 GB 2 * 3 / 4 times.
    assert found.with_gdr.value == pytest.approx(14 * 1.5 / total.with_gdr.value)
    assert found.saved.value == pytest.approx(
        (found.without_gdr.value - found.with_gdr.value) * 1000 / 3600
    )
    shown = return_text(found)
    assert max(map(len, shown.split("\n"))) <= WIDTH
    assert shown.count("taken for granted: ") == len(found.assumptions) == 4


def test_the_slowest_node_bounds_the_ring() -> None:
    fast, slow = (predict(Node(node(board=board))).total for board in (BOARD, FENCED))
    assert fast is not None
    assert slow is not None
    found = gain((("fast", fast), ("slow", slow)), TrainingJob(4, 1e9, 10), C)
    assert found is not None
    assert found.slowest == "slow"


def test_a_node_that_bounds_the_ring_without_gpudirect_alone_is_counted() -> None:
    """The one has little host memory, and links that GPUDirect does not feel."""
    fast = predict(Node(node())).total
    assert fast is not None
    poor = replace(fast, without_gdr=replace(fast.without_gdr, value=5.0, low=4.0))
    found = gain((("a", fast), ("b", poor)), TrainingJob(2, 7e9, 10), C)
    assert found is not None
    assert found.without_gdr.value == pytest.approx(14 * 1.5 / 5.0)
    assert "like a, and without GPUDirect like b" in found.assumptions[0]


def test_a_node_that_tells_of_no_ring_is_left_out_by_name() -> None:
    sound = predict(Node(node())).total
    client = predict(Node(node({"cpu": CORE}, board=BOARD.without(*HCAS[:2])))).total
    assert sound is not None
    assert client is not None
    assert client.with_gdr.value == 0
    found = gain((("a", sound), ("b", client), ("c", None)), TrainingJob(2, 7e9, 10), C)
    assert found is not None
    assert found.assumptions[-1].endswith("no pair that carries a ring is told: b, c")
    # One that may carry little is not none: it is told with its span.
    unsure = replace(sound, with_gdr=replace(sound.with_gdr, low=0.0))
    assert gain((("a", unsure),), TrainingJob(2, 7e9, 10), C) is not None


def test_where_reads_of_gpu_memory_fail_host_memory_still_carries() -> None:
    total = predict(Node(node({"cpu": CORE}, board=BOARD.without(*HCAS[:2])))).total
    assert total is not None
    assert total.without_gdr.value == pytest.approx(33.4, abs=0.1)


def test_what_enabling_and_losing_gpudirect_means_is_shown() -> None:
    dark = node({"module-state": "", "nvidia-version": PROPRIETARY})
    sound, lost = predict(Node(node())), wished(node(), "gdr=off")
    found, still = wished(dark, "gdr=on"), wished(dark, "acs=off")
    away = wish_text(sound, lost, "gdr=off").split("\n")
    assert (away[2].count("-31%"), away[3].count("-53%")) == (1, 1)
    back = wish_text(predict(Node(dark)), found, "gdr=on").split("\n")
    assert (back[2].count("+44%"), back[3].count("+114%")) == (1, 1)
    same = wish_text(predict(Node(dark)), still, "acs=off")
    assert same.count(" =") == 3
    said = " ".join(same.split())
    assert "still without GPUDirect: peermem: nvidia-peermem is not loaded" in said


def test_what_is_asked_is_no_assumption_any_more() -> None:
    dark = node({"iommu-groups": DENIED}, board=BOARD.but(PORTS[0], readable=64))
    before, after = predict(Node(dark)), wished(dark, "acs=off,iommu=pt")
    notes = {"ACS not read", "IOMMU domain of the HCA not read"}
    assert notes <= set(before.nearest[0].collective.assumptions)
    assert not notes & set(after.nearest[0].collective.assumptions)


def test_below_another_switch_nothing_is_known_of_its_bridges() -> None:
    far = node(board=BOARD.without(*HCAS[:2]))
    moved, cleared = wished(far, "distance=pix"), wished(far, "acs=off,distance=pix")
    ours, theirs = moved.nearest[0].collective, cleared.nearest[0].collective
    assert ours.low == pytest.approx(theirs.low * C["acs-collective"].low)


def test_a_node_without_a_pair_is_told_so_and_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "cpu.evidence").write_text(node(board=BOARD.without(*GPUS)).dump())
    words = ["predict", "--from", str(tmp_path), "--nodes", "2", "--model-size", "7B"]
    ended = gdr(*words, state=tmp_path / "state")
    assert ended.returncode == ExitCode.UNKNOWN, ended.stderr
    assert "cpu  no pair of GPU and HCA is told; read from: PCI tree" in ended.stdout
    assert "what GPUDirect is worth: not told" in ended.stdout


def test_a_host_out_of_reach_is_told_with_why(tmp_path: Path) -> None:
    done = gdr("predict", "--hosts", "127.0.0.1:1", state=tmp_path)
    assert done.returncode == ExitCode.UNREACHABLE
    assert "127.0.0.1:1 refuses connections" in done.stdout


@pytest.mark.parametrize(
    ("text_", "number"),
    [("70B", 7e10), (" 7b ", 7e9), ("7G", 7e9), ("7.5e9", 7.5e9), ("340m", 3.4e8), ("5k", 5e3),
     ("1T", 1e12), ("1000T", 1e15), ("12", 12.0)],
)  # fmt: skip
def test_parameters_are_read_as_people_write_them(text_: str, number: float) -> None:
    assert parse_parameters(text_) == pytest.approx(number)


@pytest.mark.parametrize("wrong", ["", "many", "0", "-7B", "7BB", "7 B", "1001T", "1e99", "9" * 16])
def test_parameters_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="--model-size"):
        parse_parameters(wrong)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--size", "0"), "--size '0' is no size of a message"),
        (("--size", "1025G"), "--size '1025G' is no size of a message"),
        (("--depth", "0"), "--depth 0 is no number of messages"),
        (("--nodes", "16"), "--nodes and --model-size together"),
        (("--model-size", "70B"), "--nodes and --model-size together"),
        (("--nodes", "1", "--model-size", "70B"), "two nodes and one step at least"),
        (("--nodes", "2", "--model-size", "70B", "--steps", "0"), "two nodes and one step"),
    ],
)
def test_what_is_no_load_and_no_job_is_refused_before_anything_is_read(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = gdr("predict", "--from", str(tmp_path / "none"), *words, state=tmp_path / "state")
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr


def test_the_document_has_the_node_as_wished_and_what_it_is_worth(tmp_path: Path) -> None:
    (tmp_path / "gpu01.evidence").write_text(node(board=FENCED).dump())
    job = ("--nodes", "2", "--model-size", "7b", "--steps", "1", "--what-if", "link=gen5x16")
    done = gdr("predict", "--from", str(tmp_path), *job, "--size", "1024G", "--json",
               state=tmp_path / "state")  # fmt: skip
    assert done.returncode == ExitCode.OK, done.stderr
    told = json.loads(done.stdout)
    ((host,), cluster) = told["hosts"], told["cluster"]
    assert host["wished"]["total"]["with_gdr"]["value"] > host["total"]["with_gdr"]["value"]
    assert (cluster["nodes"], cluster["parameters"], cluster["steps"]) == (2, 7e9, 1)


def test_the_figures_that_people_quote_stand_with_their_layer() -> None:
    layers = {each.figure: each.layer for each in quoted(C)}
    assert layers == {
        "63 GB/s": "PCIe Gen5 x16 before packets",
        "1.5 us": "verbs",
        "5 us": "MPI, mapped staging",
        "+12 us": "MPI, memcpy staging",
        "3x": "bandwidth without GPUDirect",
    }
    assert max(map(len, quoted_text(quoted(C)).split("\n"))) <= WIDTH


@pytest.mark.parametrize(
    ("number", "said"),
    [(7e10, "70B"), (7.5e9, "7.5B"), (1.8e12, "1.8T"), (340e6, "340M"), (9, "9"),
     (1e12, "1T"), (1e9, "1B"), (1e6, "1M"), (999_999, "999999")],
)  # fmt: skip
def test_parameters_are_told_as_models_are_called(number: float, said: str) -> None:
    assert model_size(number) == said
