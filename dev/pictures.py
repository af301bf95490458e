"""The pictures of README and docs, made by the commands that they show.

    ./invokew pictures

Each is a page that a verb wrote about the demo fleet, as a browser shows it. They are not the same
bytes on every machine, since fonts differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from dev.run import ROOT
from toolkit.errors import ToolkitError, Unsupported

FOLDER = ROOT / "docs/pictures"
FLEETS = {"report": "demo,demo-acs", "topology": "demo-acs"}
MOST_KB = 300
_ENDS = frozenset({0, 2, 3})  # of a verb that judged: the demo fleet is ill on purpose


@dataclass(frozen=True, slots=True)
class Picture:
    """One file of the folder, and what stands on it."""

    name: str
    scheme: str  # "light" or "dark"
    part: str = ""  # CSS of what is scrolled to; "" for the top
    first: str = ""  # and of what is clicked before
    height: int = 800
    page: str = "report"  # the verb that makes it
    width: int = 1280


_FINDING = "#findings .finding:has(h4 .id:text-is('iommu.passthrough'))"
PICTURES = (
    Picture("fleet-light", "light"),
    Picture("fleet-dark", "dark"),
    Picture(
        "fleet-finding", "light", _FINDING, f"{_FINDING} .source:has-text('iommu-groups') summary"
    ),
    Picture("fleet-grid", "light", "#grids > .grid:has(.cut)", height=700),
    Picture("fleet-matrix", "light", "#matrix", height=520),
    Picture("topology-light", "light", height=760, page="topology", width=1600),
    Picture("topology-dark", "dark", height=760, page="topology", width=1600),
    Picture(
        "topology-way",
        "light",
        "section:first-of-type figure:nth-of-type(2)",
        height=370,
        page="topology",
        width=1600,
    ),
)


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium.

    :raises Unsupported: it is not installed.
    """
    program = shutil.which("chromium")
    if program is None:
        raise Unsupported("pictures need Chromium", hint="apt install chromium")
    # Chromium's own sandbox is not for root, as whom containers run it.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=flags)
        yield started
        started.close()


def write(folder: Path = FOLDER) -> tuple[Path, ...]:
    """Make all pictures.

    :raises ToolkitError: a page could not be made, or a picture is too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, browser() as chromium:
        pages = {verb: _page(Path(place), verb, hosts) for verb, hosts in FLEETS.items()}
        return tuple(_taken(chromium, pages[each.page], each, folder) for each in PICTURES)


def _page(place: Path, verb: str, hosts: str) -> Path:
    file = place / f"{verb}.html"
    words = (sys.executable, "-m", "toolkit.cli", verb, "--hosts", hosts, "--html", str(file))
    # A state of its own: a demo fleet that was healed before would be all in order.
    environ = os.environ | {"XDG_STATE_HOME": str(place / "state")}
    done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode not in _ENDS:
        raise ToolkitError(f"the page of {hosts} was not made: {done.stderr[-400:]}")
    return file


def _taken(chromium: Browser, file: Path, picture: Picture, folder: Path) -> Path:
    page = chromium.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        device_scale_factor=1,
    )
    page.goto(file.as_uri())
    if picture.first:
        page.locator(picture.first).first.click()
    if picture.part:
        page.locator(picture.part).first.evaluate("part => part.scrollIntoView()")
        page.wait_for_timeout(200)  # parts that come into view are laid out only then
        page.locator(picture.part).first.evaluate("part => part.scrollIntoView()")
    target = folder / f"{picture.name}.png"
    page.screenshot(path=target)
    page.close()
    if target.stat().st_size > MOST_KB * 1000:
        raise ToolkitError(f"{target.name} is larger than {MOST_KB} kB")
    return target
