"""Options as an operator may give them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.errors import ExitCode

ROOT = Path(__file__).parents[2]


def gdr(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolkit.cli", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "option"),
    [
        pytest.param(("doctor", "--from", "x", "--kernel", ""), "--kernel", id="no-forecast"),
        pytest.param(("provision", "--hosts", "demo", "--limit", ""), "--limit", id="all-hosts"),
        pytest.param(("doctor", "--from", ""), "--from", id="trailing-underscore"),
        pytest.param(("capture", "--incident="), "--incident", id="by-equals-sign"),
    ],
)
def test_an_empty_option_is_refused_and_not_taken_for_none(
    words: tuple[str, ...], option: str
) -> None:
    ended = gdr(*words)
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")
    assert ended.stderr.split("\n")[0] == f"error: {option} is empty"


def test_an_option_that_was_not_given_is_not_empty() -> None:
    assert gdr("hosts", "--hosts", "demo-healthy").returncode == ExitCode.OK
