"""Tests run alike whoever starts them: by nohup, under another umask, in another language."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import run
from dev.run import ROOT
from dev.tiers import Step, Tier
from toolkit.errors import ExitCode

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


@pytest.mark.parametrize(
    ("spare", "disk", "own", "in_memory"),
    [
        pytest.param(0, False, "", True, id="plenty"),
        pytest.param(1 << 60, False, "", False, id="little-is-free"),
        pytest.param(0, True, "", False, id="it-writes-gigabytes"),
        pytest.param(0, False, "/var/tmp", False, id="somebody-said-where"),
    ],
)
def test_tests_write_to_memory_where_there_is_plenty(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    spare: int,
    disk: bool,
    own: str,
    in_memory: bool,
) -> None:
    monkeypatch.setattr(run, "provide", lambda: None)
    monkeypatch.setattr(run, "MEMORY", tmp_path)
    monkeypatch.setattr(run, "_SPARE", spare)
    monkeypatch.delenv("TMPDIR", raising=False)
    if own:
        monkeypatch.setenv("TMPDIR", own)
    step = Step("tells", ("sh", "-c", 'echo "<$TMPDIR>"'))
    assert run.in_order((Tier("one", "", (step,), disk=disk),)) is ExitCode.OK
    assert capfd.readouterr().out == f"<{tmp_path if in_memory else own}>\n"
