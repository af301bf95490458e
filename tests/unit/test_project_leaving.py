"""A run of tests that leaves processes is red, names and ends them; also one that is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dev.run import ROOT

CONFTEST = """
from tests import leaving
from tests.conftest import pytest_configure
leaving._PATIENCE_S = {}
"""
ENDS = "import subprocess\ndef test_it(): subprocess.run(['sh', '-c', 'sleep 1 &'], env={})\n"
# In a session of its own, without any variable, its parent gone.
ESCAPES = """
import subprocess
def test_that_leaves_it():
    subprocess.run(["sh", "-c", "setsid sleep 600 & echo $! >pid"], env={}, check=True)
def test_after(): pass
"""
FORKED = """
import multiprocessing, pathlib, time
def test_that_leaves_it():
    child = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(600,))
    child.start()
    pathlib.Path("pid").write_text(str(child.pid))
"""
DAEMON = """
import subprocess, time, pytest
@pytest.fixture(scope="session")
def daemon():
    child = subprocess.Popen(["sh", "-c", "echo $$ >pid; exec sleep 600"], start_new_session=True)
    yield
    child.kill()
    child.wait()
def test_it(daemon): time.sleep(600)
"""


def _begin(folder: Path, text: str, *words: str, patience_s: float = 3.0) -> subprocess.Popen[str]:
    (folder / "conftest.py").write_text(CONFTEST.format(patience_s))
    (folder / "test_it.py").write_text(text)
    return subprocess.Popen(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ends(folder: Path) -> bool:
    """Whether it does, that was killed: a busy machine lets it live for a moment more."""
    end = time.monotonic() + 60
    while _lives(folder) and time.monotonic() < end:
        time.sleep(0.05)
    return not _lives(folder)


def _lives(folder: Path) -> bool:
    """Whether the process is more than a number that nobody has asked about."""
    try:
        stat = Path("/proc", (folder / "pid").read_text().strip(), "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] != "Z"


ALONE = pytest.param((), id="alone", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("words", [ALONE, pytest.param(("-n", "2"), id="workers")])
def test_what_escapes_is_named_with_its_test_and_ended(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = _begin(tmp_path, ESCAPES, *words)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, said
    assert "2 passed" in said
    [line] = [line for line in said.splitlines() if "sleep 600" in line]
    assert "test_it.py::test_that_leaves_it" in line
    assert _ends(tmp_path)


def test_a_forked_verb_that_goes_on_is_named_too(tmp_path: Path) -> None:
    run = _begin(tmp_path, FORKED)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, said
    assert f"{(tmp_path / 'pid').read_text()}: " in said
    assert _ends(tmp_path)


def test_what_ends_by_itself_soon_is_no_fault(tmp_path: Path) -> None:
    run = _begin(tmp_path, ENDS, patience_s=60)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == pytest.ExitCode.OK, said


@pytest.mark.parametrize("words", [ALONE, pytest.param(("-n", "1"), id="workers")])
def test_a_run_that_is_told_to_end_takes_its_daemons_along(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = _begin(tmp_path, DAEMON, *words)
    while not _lives(tmp_path) and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert _ends(tmp_path)
