"""Tests run alike whoever starts them: by nohup, under another umask, in another language."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dev.run import ROOT

TELL = """
import os, signal, subprocess
from tests.surroundings import settle
settle()
print(f"{os.umask(0):o}", *sorted(set(os.environ) - {"PATH", "HOME", "PWD", "OLDPWD"}))
print(os.environ["LANG"], flush=True)
# As a child has them, which a handler of Python's does not reach.
subprocess.run(["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"], check=True)
os.kill(os.getpid(), signal.SIGHUP)
print("lives")
"""
ODD = {
    "LANG": "de_DE.UTF-8",
    "LANGUAGE": "de",
    "LC_ALL": "POSIX",
    "LC_TIME": "de_DE",
    "TZ": "UTC-9",
    "COLUMNS": "20",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "FORCE_COLOR": "1",
}


@pytest.mark.parametrize("how", ["umask 077", "trap '' HUP INT TERM QUIT ALRM"])
def test_what_the_caller_has_reaches_no_test(how: str) -> None:
    done = subprocess.run(
        ("sh", "-c", f'{how}; trap "" HUP; exec "$@"', "sh", sys.executable, "-c", TELL),
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere", **ODD},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        *("22 LANG", "C.UTF-8"),
        *("SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"),
        "lives",
    ]
