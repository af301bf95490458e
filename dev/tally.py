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
    told = {
        "passed": len(stats.get("passed", [])),
        "failed": len(stats.get("failed", [])) + len(stats.get("error", [])),
        "skipped": sorted(reasons.items()),
    }
    Path(file).write_text(json.dumps(told))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What a skip said, without the word that pytest puts before it."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def read(file: Path) -> Tally:
    """What the plugin wrote; zeros where pytest ended before it could."""
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        return Tally()
    return Tally(told["passed"], told["failed"], tuple((why, n) for why, n in told["skipped"]))
