"""Counts the tests of one run of pytest: a plugin, for the last lines of ``./invokew test``."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from dev.tiers import Tally

FILE = "GDR_TALLY"  # names the file to write; without it nothing is written
_LONG = 200  # characters of why a test failed


_ASKED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the name out of the environment: what the tests start counts for nobody."""
    config.stash[_ASKED] = os.environ.pop(FILE, "")


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Write the counts, where somebody asked for them."""
    file = config.stash[_ASKED]
    if not file:
        return
    stats = terminalreporter.stats
    reasons = Counter(_reason(each) for each in stats.get("skipped", []))
    fell = [*stats.get("failed", []), *stats.get("error", [])]
    told = {
        "passed": len(stats.get("passed", [])),
        "failed": len(fell),
        "skipped": sorted(reasons.items()),
        "fell": [f"{each.nodeid}: {_crash(each)}" for each in fell],
    }
    Path(file).write_text(json.dumps(told))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What a skip said, without the word that pytest puts before it."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def _crash(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line of why it failed; a module that cannot be imported has the last."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr or "").strip().split("\n")
    return lines[0 if crash else -1].removeprefix("E   ")[:_LONG]


def read(file: Path) -> Tally:
    """What the plugin wrote; zeros where pytest ended before it could."""
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        return Tally()
    skipped = tuple((why, n) for why, n in told["skipped"])
    return Tally(told["passed"], told["failed"], skipped, tuple(told["fell"]))
