"""What a run of tests says at its end of the captures of real machines, here or not. Pure.

The captures lie beside the checkout and are no part of it. Every skip for want of them begins
with ``WANTING``, so that whoever counts what was not run finds these; what was run is counted
by the properties that tests/corpus/test_judged.py records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

WANTING = "shared captures: "


def unrun(files: Iterable[Path], of: str) -> str:
    """The reason of a skip that stands for all tests of these files.

    :param of: what they are tried on: "88 captures".
    """
    tests = sum(len(re.findall(r"^def test_", file.read_text(), re.MULTILINE)) for file in files)
    return f"{WANTING}{tests} tests not run, of {of}: ../shared is not beside the checkout"


def told(reports: Sequence[pytest.TestReport]) -> list[str]:
    """The lines for the end of a run; none where no test was about captures."""
    said = [(str(name), str(value)) for each in reports for name, value in each.user_properties]
    captures = [value.split("\t") for name, value in said if name == "capture"]
    lines = [_counts(Counter(right for right, *_ in captures))] if captures else []
    lines += [f"corpus: WRONG {file}: {why}" for right, file, why in captures if right == "wrong"]
    lacking = [_reason(each) for each in reports if each.skipped]
    return lines + [
        f"NOT TRIED ON REAL MACHINES: {reason}" for reason in lacking if reason.startswith(WANTING)
    ]


def _counts(of: Counter[str]) -> str:
    ways = ", ".join(f"{of[way]} {way}" for way in ("right", "wrong", "silent"))
    return f"corpus: {of.total()} captures with a ground truth: {ways}"


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    return where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else ""
