"""The pictures of nodes in a real browser: read, pointed at, gone through by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.features.topology.test_report_picture import FENCED, NODES, drawn
from tests.pages.conftest import Visit
from toolkit.features.topology.show.page import page as written
from toolkit.features.topology.show.page import tree_svg

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("topology") / "nodes.html"
    nodes = [drawn(FENCED, "gpu01"), drawn(NODES["healthy"], "gpu02")]
    made.write_text("".join(written(nodes, ["gpu03: refused"], "./invokew topology")))
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(visit: Visit, file: Path, scheme: str) -> None:
    page = visit(file, color_scheme=scheme, reduced_motion="reduce")
    page.locator("details summary").first.click()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert "color-contrast" in {rule["id"] for rule in found.response["passes"]}


def test_it_is_whole_without_script(visit: Visit, file: Path) -> None:
    page = visit(file, java_script_enabled=False)
    expect(page.locator("figure svg")).to_have_count(4)
    expect(page.get_by_text("gpu03: refused")).to_be_visible()


def test_the_keyboard_reaches_the_bridge_that_blocks_and_its_register_is_read_out(
    visit: Visit, file: Path
) -> None:
    page = visit(file)
    heard = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        heard.add(page.evaluate("document.activeElement.getAttribute('aria-label') || ''"))
    red = page.locator("g.blocks").first
    label = red.get_attribute("aria-label") or ""
    assert "ACSCtl 0x00" in label
    assert label in heard
    assert red.locator("title").text_content() == label, "the same on hover"


def test_words_are_no_wider_than_their_boxes(visit: Visit, file: Path) -> None:
    page = visit(file)
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll('svg g')].filter(g => {
            const room = g.querySelector('rect').width.baseVal.value - 12;
            return [...g.querySelectorAll('text')].some(t => t.getComputedTextLength() > room);
        }).map(g => g.textContent)"""
    )
    assert too_wide == []


def test_nothing_moves_for_who_asked_that_nothing_should(visit: Visit, file: Path) -> None:
    moving = "getComputedStyle(document.querySelector('.flow')).animationName"
    assert visit(file, reduced_motion="reduce").evaluate(moving) == "none"
    assert visit(file, reduced_motion="no-preference").evaluate(moving) == "bytes"


def test_a_picture_alone_has_its_colours(visit: Visit, tmp_path: Path) -> None:
    alone = tmp_path / "node.svg"
    alone.write_text(tree_svg(drawn(FENCED)))
    seen = {}
    for scheme in ("light", "dark"):
        page = visit(alone, color_scheme=scheme)
        seen[scheme] = page.evaluate(
            "getComputedStyle(document.querySelector('.blocks rect')).stroke"
        )
    assert seen == {"light": "rgb(168, 35, 27)", "dark": "rgb(255, 145, 136)"}
