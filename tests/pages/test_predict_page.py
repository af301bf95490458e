"""The page of a prediction in a real browser: read, printed, gone through by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.evidence.build import PROPRIETARY, node
from tests.features.predict.test_predict_page import C, forecast, written
from tests.pages.conftest import Visit
from toolkit.features.predict.plan.totals import TrainingJob, gain

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("predict") / "nodes.html"
    dark = node({"module-state": "", "nvidia-version": PROPRIETARY})
    nodes = [forecast("gpu01"), forecast("gpu02", dark)]
    worth = gain(tuple((each.name, each.found.total) for each in nodes), TrainingJob(4, 7e9, 10), C)
    made.write_text(written(*nodes, worth=worth, failures=("gpu03: refused",)))
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(visit: Visit, file: Path, scheme: str) -> None:
    page = visit(file, color_scheme=scheme)
    page.locator("details summary").first.click()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_it_is_whole_without_script_and_prints_both_ways(visit: Visit, file: Path) -> None:
    page = visit(file, java_script_enabled=False)
    page.emulate_media(media="print")
    expect(page.locator("figure svg")).to_have_count(2)
    expect(
        page.locator("svg text", has_text="by two copies through host memory").first
    ).to_be_visible()
    expect(page.get_by_text("gpu03: refused")).to_be_visible()


def test_bars_are_as_long_as_their_times_and_words_stay_in_the_picture(
    visit: Visit, file: Path
) -> None:
    page = visit(file, viewport={"width": 1300, "height": 900})
    seen = page.evaluate(
        """() => [...document.querySelectorAll('svg.picture')].map(svg => ({
            room: svg.viewBox.baseVal.width,
            right: Math.max(...[...svg.querySelectorAll('text')].map(
                t => { const box = t.getBBox(); return box.x + box.width; })),
            bars: [...svg.querySelectorAll('g rect')].map(r => r.width.baseVal.value),
            times: [...svg.querySelectorAll('g title')].map(
                t => parseFloat(t.textContent.split(': ')[1])),
        }))"""
    )
    for each in seen:
        assert each["right"] <= each["room"]
        scale = {
            round(bar / time, 1) for bar, time in zip(each["bars"], each["times"], strict=True)
        }
        assert len(scale) == 1
