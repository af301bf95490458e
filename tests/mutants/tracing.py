"""A plugin of pytest, for the map alone: it tells coverage which test runs, and what came of each.

What a test starts is measured as well: ``sitecustomize.py`` beside the map's settings begins
coverage in every process of Python, and the environment says for which test. The verbs that a test
forks from a server (``tests.invoked``) see the environment of that server, so each is told apart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

from tests import invoked

TEST = "MUTANTS_TEST"  # in the environment: the test that runs
OUTCOMES = "MUTANTS_OUTCOMES"  # in the environment: the file where the outcomes go

_BEGUN = pytest.StashKey[float]()
_forked = invoked._child
_seconds: dict[str, float] = {}
_ill: set[str] = set()


@dataclass(frozen=True, slots=True)
class Forked:
    """What runs in a process that a test forks from the server, measured for that test."""

    test: str

    def __call__(
        self,
        words: tuple[str, ...],
        env: dict[str, str],
        cwd: Path,
        streams: tuple[Path | None, ...],
    ) -> None:
        servers = coverage.Coverage.current()
        if servers is not None:
            servers.stop()  # it holds what the server imported, which this process has not run
        os.environ[TEST] = self.test
        measured = coverage.Coverage(config_file=os.environ["COVERAGE_PROCESS_START"])
        measured.start()
        try:
            _forked(words, env, cwd, streams)
        finally:
            measured.stop()
            measured.save()


def _spent() -> float:
    """Seconds of processor, with those of ended children: how busy the machine is tells nothing."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    measured = coverage.Coverage.current()
    os.environ[TEST] = item.nodeid
    if measured is not None:
        measured.switch_context(item.nodeid)
    item.stash[_BEGUN] = _spent()
    invoked._child = Forked(item.nodeid)
    try:
        return (yield)
    finally:
        os.environ.pop(TEST, None)
        if measured is not None:
            measured.switch_context("")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.user_properties.append(("spent", round(_spent() - item.stash[_BEGUN], 3)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds.setdefault(report.nodeid, 0.0)
    _seconds[report.nodeid] += sum(float(str(v)) for k, v in report.user_properties if k == "spent")
    if report.outcome != "passed":
        _ill.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        passed = {test: spent for test, spent in _seconds.items() if test not in _ill}
        Path(os.environ[OUTCOMES]).write_text(json.dumps({"passed": passed, "ill": sorted(_ill)}))
