"""What all tests share: a mark says what a test needs, and here it is asked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dev.run import MARK, ROOT
from dev.tools import MARKS, in_ci, missing, sentence
from tests import laws, truth
from tests.leaving import Leftovers, mark
from tests.selecting import may_hold
from tests.surroundings import settle
from toolkit.facts import recall

settle()

# How long an example takes tells of the machine's load, and nothing of ours.
for run, share in laws.SHARES.items():
    settings.register_profile(
        run, deadline=None, max_examples=share, suppress_health_check=[HealthCheck.too_slow]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Look for what a run leaves behind; one without exhaustive tests tries fewer examples.

    Workers are children of the run, and marked as such.
    """
    quick = "not exhaustive" in str(config.getoption("markexpr"))
    settings.load_profile("night" if laws.NIGHT else "quick" if quick else "gdr")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers(mark()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All that is collected stays to the end: to look through it for garbage is in vain."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files alone that hold no test with the marks asked for."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    wanted = str(config.getoption("markexpr"))
    return None if may_hold(collection_path.read_text(), wanted, MARKS) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files, which say LONG, first: one begun last is what all wait for."""
    items.sort(key=lambda item: getattr(getattr(item, "module", None), "LONG", False) is not True)


@pytest.fixture(scope="session", autouse=True)
def _marked(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Say in the temporary folder whose it is, for ``./invokew clean``."""
    base = tmp_path_factory.getbasetemp()
    whole = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    (whole / MARK).write_text(str(ROOT))


@pytest.fixture(autouse=True)
def _rules_as_written(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that changes a rule sees no answer of before, and leaves none."""
    changes = "monkeypatch" in request.fixturenames
    if changes:
        recall.forget()
    yield
    if changes:
        recall.forget()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tools are not here, with their packages named; fail it in CI."""
    lacks = missing(tool for mark in item.iter_markers() for tool in MARKS.get(mark.name, ()))
    if lacks and in_ci():
        pytest.fail(sentence(lacks), pytrace=False)
    if lacks:
        pytest.skip(sentence(lacks))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how our verdicts stand to what is known of real machines, or that nobody asked."""
    stats = terminalreporter.stats
    reports = [each for key in ("passed", "failed", "skipped") for each in stats.get(key, ())]
    for line in truth.told(reports):
        terminalreporter.write_line(line, bold=True, red=line.startswith("NOT"))
