"""Pictures of nodes: nothing overlaps, every line ends at a box, and all of it is escaped."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.checks.test_checks_pci import loose, matrix
from tests.evidence.board import BOARD, FLAT, HCAS, PORTS, REDIRECTS, Board
from tests.evidence.build import node
from tests.evidence.platforms import INLINE
from tests.invoked import gdr
from tests.unit.fleets import capture
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.page.show.seen import heat
from toolkit.features.predict.plan.totals import predict
from toolkit.features.topology.show.page import Drawn, page, tree_svg, way_picture
from toolkit.features.topology.show.picture_tree import tree_picture
from toolkit.features.topology.show.view import view
from toolkit.report.picture import PAD, Box, Picture, fitted, measured, svg
from toolkit.throughput.inputs import NOT_TOLD

ROOT = Path(__file__).parents[3]
FENCED = node(board=BOARD.but(PORTS[0], acs=REDIRECTS).but(HCAS[0], now=("16.0 GT/s PCIe", 8)))
NODES = {
    "healthy": capture("healthy"),
    "acs": capture("acs"),
    "stub": capture("stub"),
    "fenced": FENCED,
    "flat": node(board=FLAT),
}
SVG = "{http://www.w3.org/2000/svg}"


def drawn(evidence: Evidence, host: str = "gpu01") -> Drawn:
    return Drawn(view(host, evidence), predict(Node(evidence)))


def tree(evidence: Evidence) -> Picture:
    told = drawn(evidence)
    return tree_picture(told.view, told.found, "tree")


def way(evidence: Evidence) -> Picture:
    told = drawn(evidence)
    found = way_picture(told.view, told.found, "way")
    assert found is not None
    return found


def said(picture: Picture) -> str:
    boxes = [text for box in picture.boxes for text, _ in box.lines]
    return "\n".join([*boxes, *(each.text for each in picture.words)])


def apart(one: Box, other: Box) -> bool:
    across = one.right <= other.x or other.right <= one.x
    return across or one.y + one.height <= other.y or other.y + other.height <= one.y


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("make", [tree, way], ids=["tree", "way"])
def test_nothing_overlaps_and_all_of_it_is_inside(
    make: Callable[[Evidence], Picture], kind: str
) -> None:
    picture = make(NODES[kind])
    assert all(apart(*pair) for pair in combinations(picture.boxes, 2))
    for box in picture.boxes:
        assert box.x >= 0
        assert box.right <= picture.width
        assert box.y >= 0
        assert box.y + box.height <= picture.height
    for line in picture.lines:
        assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in line.points)


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("make", [tree, way], ids=["tree", "way"])
def test_every_line_ends_at_boxes(make: Callable[[Evidence], Picture], kind: str) -> None:
    picture = make(NODES[kind])
    sides = [(box.x, box.right, box.y, box.y + box.height) for box in picture.boxes]
    for line in picture.lines:
        for x, y in (line.points[0], line.points[-1]):
            assert any(x in (left, right) and low <= y <= high for left, right, low, high in sides)


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("make", [tree, way], ids=["tree", "way"])
def test_every_look_has_a_rule_of_the_style(make: Callable[[Evidence], Picture], kind: str) -> None:
    picture = make(NODES[kind])
    style = (ROOT / "toolkit/report/pages/picture.css").read_text()
    looks = {look for box in picture.boxes for look in (box.look, *(each for _, each in box.lines))}
    looks |= {each.look for each in picture.lines} | {each.look for each in picture.words}
    used = {word for look in looks for word in look.split()}
    plain = {"link", "wire"}  # as all lines and boxes look
    assert used - plain <= set(re.findall(r"\.([a-z][\w-]*)", style))


@pytest.mark.parametrize("kind", NODES)
def test_words_fit_their_box(kind: str) -> None:
    for box in tree(NODES[kind]).boxes:
        assert all(measured(text) <= box.width - 2 * PAD for text, _ in box.lines)


def test_links_are_labelled_with_generation_width_and_bandwidth() -> None:
    text = said(tree(FENCED))
    assert "Gen5 x16" in text
    assert "63.0 GB/s" in text
    assert "Gen4 x8" in text
    worn = [each.text for each in tree(FENCED).words if "worn" in each.look]
    assert worn == ["Gen4 x8", "15.8 GB/s"]


def test_the_bridge_that_blocks_is_red_with_its_bits_and_the_registers_on_hover() -> None:
    red = [box for box in tree(FENCED).boxes if "blocks" in box.look]
    assert [PORTS[0] in box.lines[0][0] for box in red] == [True]
    assert red[0].lines[1] == ("ReqRedir CmpltRedir", "bad")
    assert "ACSCtl 0x00" in red[0].told
    assert red[0].stop, "the keyboard gets there"


def test_a_bridge_that_redirects_on_no_path_of_a_pair_is_not_red_and_says_so() -> None:
    others = [box for box in tree(FENCED).boxes if "on no path of a pair" in box.told]
    assert [box.look for box in others] == ["root-port"]
    assert others[0].stop


def test_a_node_without_redirect_has_nothing_red() -> None:
    picture = tree(NODES["healthy"])
    assert not [box for box in picture.boxes if "blocks" in box.look]
    assert not [line for line in picture.lines if "stopped" in line.look]


def moving(picture: Picture) -> set[float]:
    """The heights at which bytes move."""
    return {line.points[0][1] for line in picture.lines if "flow" in line.look}


def test_bytes_move_on_the_upper_way_where_gpudirect_works_and_on_the_lower_where_not() -> None:
    told = drawn(NODES["healthy"])
    pairs = tuple(replace(each, blocked="a stub in its place") for each in told.found.pairs)
    blocked = way_picture(told.view, replace(told.found, pairs=pairs), "way")
    assert blocked is not None
    well = way(NODES["healthy"])
    above, below = sorted({line.points[0][1] for line in well.lines})
    assert moving(well) == {above}
    assert moving(blocked) == {below}
    assert "not now: a stub in its place" in said(blocked)
    assert "host memory" in said(blocked)
    beside = said(tree_picture(told.view, replace(told.found, pairs=pairs), "tree"))
    assert "through host memory: a stub" in beside


def test_nothing_moves_where_it_was_not_read_whether_gpudirect_works() -> None:
    told = loose(nvidia_topology=matrix())
    picture = way(told)
    assert moving(picture) == set()
    assert "as this node is now" not in said(picture)
    assert NOT_TOLD in said(picture)
    assert NOT_TOLD in picture.told
    assert "if GPUDirect works, which was not read: " in said(tree(told))
    seen = drawn(told)
    unpredicted = way_picture(seen.view, replace(seen.found, pairs=()), "way")
    assert unpredicted is not None
    assert moving(unpredicted) == set()
    assert NOT_TOLD in "".join(page([seen], [], "made so"))
    assert any(NOT_TOLD in note for note in heat(seen.view, seen.found).notes)
    well = drawn(NODES["healthy"])
    assert not any(NOT_TOLD in note for note in heat(well.view, well.found).notes)


def test_a_path_that_no_source_tells_is_not_drawn_by_the_root_complex() -> None:
    told = drawn(NODES["healthy"])
    ways = tuple(replace(each, distance="?", redirects=None) for each in told.view.ways)
    picture = way_picture(replace(told.view, ways=ways), told.found, "way")
    assert picture is not None
    upper = [box.lines[0][0] for box in picture.boxes if box.y == picture.boxes[0].y]
    assert upper[2] == "a path not told"


def test_of_a_way_that_a_matrix_alone_tells_no_link_is_made_up() -> None:
    ways = view("a", loose(nvidia_topology=matrix())).ways
    assert ways
    told = {(way.limit, way.gigabytes, way.limited_at, way.redirects, way.why) for way in ways}
    assert told == {("", 0.0, "", None, "")}


def test_a_way_over_several_switches_and_a_numa_node_that_is_not_told_are_said_whole() -> None:
    inline = node(board=INLINE)
    assert "PCIe switches" in said(way(inline))
    assert "PCIe switches" not in said(way(NODES["healthy"]))
    board = Board(tuple(replace(each, numa=-1) for each in BOARD.functions))
    assert "NUMA not told" in said(tree(node(board=board)))


def test_bridges_of_which_acs_was_not_read_say_so_without_a_page_around_them() -> None:
    picture = tree(capture("noroot"))
    bridges = [box for box in picture.boxes if box.look in {"root-port", "switch", "port"}]
    assert bridges
    assert {box.lines[1][0] for box in bridges} == {"ACS not read"}
    assert "ACS not read" in picture.told
    assert "ACS not read" not in said(tree(NODES["healthy"]))
    assert "whether ACS sends it the long way was not read" in said(way(capture("noroot")))


def test_a_redirected_way_goes_by_the_root_complex_and_says_who_sends_it_there() -> None:
    picture = way(FENCED)
    upper = [box.lines[0][0] for box in picture.boxes if box.y == picture.boxes[0].y]
    assert upper[2:5] == ["PCIe switch", "root complex", "PCIe switch"]
    assert f"sent up by {PORTS[0]}: ReqRedir CmpltRedir" in said(picture)


def test_what_a_node_says_is_escaped() -> None:
    hostile = '</text><script>alert(1)</script>&"\x1b\udcff'
    text = tree_svg(drawn(NODES["acs"], hostile))
    root = Xml.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>" not in text
    assert "\x1b" not in text
    whole = "".join(page([drawn(NODES["acs"], hostile)], [hostile], hostile))
    assert "<script>alert" not in whole
    assert ".picture text {" in whole  # the style, without which no picture has colours


def test_no_element_carries_a_style_of_its_own() -> None:
    text = svg(tree(NODES["acs"])) + svg(way(NODES["acs"]))
    assert " style=" not in text
    assert "<style" not in text


def test_a_file_alone_needs_nothing_else() -> None:
    root = Xml.fromstring(tree_svg(drawn(NODES["acs"])))
    style = "".join(each.text or "" for each in root.iter(f"{SVG}style"))
    assert "--broken:" in style
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style
    assert root.find(f"{SVG}title") is not None
    assert root.find(f"{SVG}desc") is not None


def test_a_matrix_of_nvidia_smi_is_drawn_without_a_tree() -> None:
    told = loose(nvidia_topology=matrix())
    seen = view("gpu01", told)
    picture = tree_picture(seen, predict(Node(told)), "tree")
    assert seen.roots == ()
    assert "not read" in said(picture)
    assert len(picture.boxes) == len(seen.gpus) + len(seen.hcas) + 1


@given(st.text(max_size=60), st.floats(0, 300))
def test_a_text_is_cut_to_its_room(text: str, width: float) -> None:
    cut = fitted(text, width)
    assert measured(cut) <= width
    assert cut.isprintable()


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return gdr("topology", *words, state=tmp_path / "state")


def test_the_verb_draws_into_files_and_refuses_one_picture_of_two_nodes(tmp_path: Path) -> None:
    saved = tmp_path / "evidence"
    saved.mkdir()
    for kind in ("acs", "stub"):
        (saved / f"{kind}.evidence").write_text((ROOT / f"tests/evidence/{kind}.txt").read_text())
    html = tmp_path / "nodes.html"
    both = run(tmp_path, "--from", str(saved), "--html", str(html), "-q")
    assert both.returncode == ExitCode.OK, both.stderr
    assert html.stat().st_size < 1_000_000
    assert html.read_text().count("<h2") == 2
    one = run(tmp_path, "--from", str(saved), "--svg", str(tmp_path / "one.svg"), "-q")
    assert one.returncode == ExitCode.USAGE
    assert "--svg draws one node, and 2 could be drawn" in one.stderr
    bare = tmp_path / "bare.evidence"
    bare.write_text("= begin ok gdr-toolkit/1\n= hostname ok hostname\n|gpu01\n= end ok 1\n")
    svg_of_none = tmp_path / "none.svg"
    none = run(tmp_path, "--from", str(bare), "--svg", str(svg_of_none))
    assert none.returncode == ExitCode.UNKNOWN, none.stderr
    assert "--svg" not in none.stderr
    assert not svg_of_none.exists()
    nowhere = run(tmp_path, "--from", str(saved), "--html", str(tmp_path / "no" / "x.html"))
    assert nowhere.returncode == ExitCode.USAGE
    assert "no such folder" in nowhere.stderr
