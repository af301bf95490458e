"""What invokew starts ends as gdr does: before any verb has begun, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.checkout import ROOT
from toolkit.errors import ExitCode

WORDS = [sys.executable, "-P", str(ROOT / "dev"), "--search-root", str(ROOT)]


@pytest.mark.parametrize("words", [["doctor", "--wrong"], ["no-such-verb"], ["--wrong"]])
def test_a_mistyped_line_is_a_sentence_a_hint_and_64(words: list[str]) -> None:
    done = subprocess.run([*WORDS, *words], capture_output=True, text=True, check=False)
    first, second = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert (first[:7], second) == ("error: ", " next: ./invokew --list, ./invokew --help VERB")


def test_help_that_nobody_reads_to_its_end_is_no_trouble() -> None:
    """Its reader has left before the first byte, as ``head -1`` before the last."""
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*WORDS, "doctor", "--help"], stdout=theirs, stderr=-1, text=True, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
