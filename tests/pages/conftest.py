"""A real browser before real pages: Debian's Chromium, driven by Playwright.

fleet_file      a page of a few nodes, one of each kind
large_file      a page of a thousand
visit(file)     a tab that shows it; what it says on its console is kept, and a test that
                ends with an error there fails
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.pages.fleet import few, thousand
from tests.unit.fleets import kinds, written

Visit = Callable[..., Page]
PATIENT_MS = 120_000  # for what comes in a moment, where nobody else wants the machine
expect.set_options(timeout=PATIENT_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "apt install chromium"
    # Chromium's own sandbox is not for root, as whom containers run tests.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=flags, timeout=PATIENT_MS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Any: Playwright's own options of a browser context."""
    said: list[str] = []
    with ExitStack() as stack:

        def opened(file: Path, **options: Any) -> Page:
            context = browser.new_context(**options)
            stack.callback(context.close)
            context.set_default_timeout(PATIENT_MS)
            page = context.new_page()
            page.on("console", lambda each: said.append(f"{each.type}: {each.text}"))
            page.on("pageerror", lambda error: said.append(f"error: {error}"))
            page.on("dialog", lambda each: said.append(f"error: dialog {each.message}"))
            page.on("request", lambda each: said.append(f"error: asks for {each.url}")
                    if each.url != file.as_uri() else None)  # fmt: skip
            page.goto(file.as_uri())
            return page

        yield opened
    assert [each for each in said if each.startswith("error")] == []


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENT_MS)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def fleet_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "fleet.html"
    file.write_text(written(few()))
    return file


@pytest.fixture(scope="session")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with each part, and few of them: axe looks at every element."""
    file = tmp_path_factory.mktemp("pages") / "small.html"
    file.write_text(written(kinds("healthy", "acs", "noroot")))
    return file


@pytest.fixture(scope="session")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / "large.html"
    file.write_text(written(thousand()))
    return file
