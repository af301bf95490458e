"""The matrix of pairs in a real browser: 256 nodes opened, sorted, filtered, read out, printed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from tests.features.exercise.test_bisect import SimulatedFleet, hosts_of
from tests.features.exercise.test_report_exercise import FIGURE, WELL
from tests.pages.conftest import Visit
from toolkit.features.exercise.plan_bisect import PairLedger
from toolkit.features.exercise.plan_pairs import PairWay, RanPair, rounds
from toolkit.features.exercise.plan_past import Decline
from toolkit.features.exercise.show_matrix import matrix_html, matrix_page
from toolkit.features.exercise.show_pairs import PairsReport

pytestmark = pytest.mark.pages
SOON_S = 3.0  # until 65,536 cells can be used; of a processor, that others may want
EVIL = "</script><script>alert(1)</script>"


def written(count: int, rails: int, *, evil: bool = False) -> str:
    """A page of all pairs, of which those of one HCA fall short, and one has no result."""
    fleet = SimulatedFleet(count, rails)
    chance = random.Random(7)  # noqa: S311 no secret is made of it
    runs = []
    found = rounds(PairWay.ALL, fleet.hosts, fleet.ways, every=True)
    for at, ends in enumerate((ends for each in found for ends in each), start=1):
        slow = any(str(end) == "gpu0003 mlx5_0" for end in ends)
        ratio = 0.41 if slow else chance.uniform(0.88, 1.0)
        one = replace(WELL, value=FIGURE.value * ratio, ratio=ratio)
        runs.append(RanPair(at, 1, ends, () if at == 2 else (one,)))
    ledger = PairLedger(0.8)
    ledger.learn(run.run for run in runs)
    page = matrix_page(
        PairsReport("all", count, tuple(runs), ledger),
        [Decline(replace(WELL, value=44.0), 48.0, 5, "2026-11-20")],
        when="2026-11-28 12:00 UTC", simulated=True, threshold=0.8,
        notes=[f"gpu9: {EVIL}"] if evil else [],
    )  # fmt: skip
    return "".join(matrix_html(page, "gdr exercise"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("matrix") / "small.html"
    file.write_text(written(6, 2, evil=True))
    return file


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("matrix") / "large.html"
    file.write_text(written(256, 1))
    return file


def order(page: Page) -> list[str]:
    return page.locator(".rail:not(.away) tbody tr:not(.away) th").all_text_contents()


def test_256_nodes_open_soon_are_sorted_and_filtered(
    tab: Page, large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # of the page's own thread
    tab.goto(large.as_uri())
    expect(tab.locator("#said")).to_have_text("256 nodes")
    told = session.send("Performance.getMetrics")
    busy = {each["name"]: each["value"] for each in told["metrics"]}["TaskDuration"]
    with capsys.disabled():
        print(f"\n256 nodes: {large.stat().st_size / 1e6:.1f} MB, {busy:.2f} s (limit {SOON_S} s)")
    assert 0 < busy < SOON_S
    assert tab.locator("td.broken").count() == 2 * 255
    tab.locator("#order").select_option("mean")
    assert tab.locator(".rail tbody th").first.text_content() == "gpu0003"
    heads = tab.locator(".rail thead th")
    assert heads.first.text_content() == "gpu0003", "columns go as rows do"
    tab.locator("#words").fill("gpu0003")
    assert order(tab) == ["gpu0003"]
    expect(tab.locator("#said")).to_have_text("1 of 256 nodes")
    assert tab.locator(".rail tbody tr:not(.away) td.broken").count() == 255


def test_one_rail_at_a_time_with_the_figures_that_are_asked_for(visit: Visit, small: Path) -> None:
    page = visit(small)
    expect(page.locator(".rail:not(.away)")).to_have_count(1)
    page.locator("#rail").select_option("rail1")
    expect(page.locator(".rail:not(.away) h2")).to_have_text("mlx5_1")
    page.locator("#figures").select_option("predicted")
    expect(page.locator(".rail:not(.away) td.ready").first).to_have_text("48.0 GB/s")
    page.locator("#figures").select_option("share")
    page.locator("#order").select_option("worst")
    page.locator("#order").select_option("name")
    assert order(page) == hosts_of(6)


def test_it_is_gone_through_by_arrows_and_each_pair_is_read_out(visit: Visit, small: Path) -> None:
    page = visit(small)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "words"
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TD":
            break
    assert page.evaluate("document.activeElement.tagName") == "TD"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#said")).to_contain_text("gpu0002 with gpu0003: 19.7 GB/s of 48.0 GB/s")
    expect(page.locator("td[tabindex='0']:focus")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_shut_out(visit: Visit, small: Path, scheme: str) -> None:
    found = Axe().run(visit(small, color_scheme=scheme, reduced_motion="reduce"))
    assert found.violations_count == 0, found.generate_report()
    assert "color-contrast" in {rule["id"] for rule in found.response["passes"]}


def test_it_is_whole_without_script_and_on_paper(visit: Visit, small: Path) -> None:
    page = visit(small, java_script_enabled=False)
    expect(page.locator(".rail")).to_have_count(2)
    expect(page.locator("#tools")).to_be_hidden()
    expect(page.get_by_text("Worse than it used to be")).to_be_visible()
    expect(page.get_by_text("gpu9: </script>")).to_be_visible()
    printed = visit(small)
    printed.emulate_media(media="print")
    expect(printed.locator("#tools")).to_be_hidden()
    cut = printed.evaluate(
        """() => [...document.querySelectorAll('.rail:not(.away) .scroll')]
            .filter(each => each.scrollHeight > each.clientHeight).length"""
    )
    assert cut == 0, "nothing is cut off"
    assert printed.pdf()[:5] == b"%PDF-"
