"""What invokew starts ends as gdr does: before any verb has begun, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.checkout import ROOT
from toolkit.errors import ExitCode

WORDS = [sys.executable, "-P", str(ROOT / "dev"), "--search-root", str(ROOT)]


@pytest.mark.parametrize(
    ("words", "said", "meant"),
    [
        ("doctor --host a", "doctor has no option --host", "did you mean --hosts? X --help doctor"),
        ("doctor --zzz", "doctor has no option --zzz", "X --help doctor"),
        ("doctor --hosts", "--hosts needs a value", "X --help doctor"),
        ("docter --hosts a", "docter is no verb", "did you mean doctor? X --list"),
        ("docter --hosts demo", "docter is no verb", "did you mean doctor? X --list"),
        ("--help docter", "docter is no verb", "did you mean doctor? X --list"),
        ("no-such-verb", "no-such-verb is no verb", "X --list"),
        ("--wrong", "--wrong is no option", "X --list"),
    ],
)
def test_a_mistyped_line_says_what_was_meant_and_ends_with_64(
    words: str, said: str, meant: str
) -> None:
    done = subprocess.run([*WORDS, *words.split()], capture_output=True, text=True, check=False)
    hint = meant.replace("X", "./invokew")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.splitlines() == [f"error: {said}", f" next: {hint}"]


def test_help_that_nobody_reads_to_its_end_is_no_trouble() -> None:
    """Its reader has left before the first byte, as ``head -1`` before the last."""
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [*WORDS, "doctor", "--help"], stdout=theirs, stderr=-1, text=True, check=False
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
