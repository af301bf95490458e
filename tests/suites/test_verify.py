"""The verb ``verify``: the suite with our exit codes, and every case by name if asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from dev.run import ROOT
from toolkit.checks.all import ALL


def verify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The verb as an operator runs it, in a folder of theirs."""
    env = os.environ | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "toolkit.cli", "verify", *words)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_verbose_names_every_case_with_its_ending(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "demo-nogpu", "--verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ALL:
        assert f"test_node[toolkit://demo-nogpu-{check.id}] " in done.stdout
    assert "test_the_boot_id[toolkit://demo-nogpu] PASSED" in done.stdout
    assert re.search(r"SKIPPED \[\d+\] .*: no NVIDIA GPU on the PCI bus\n", done.stdout)


def test_without_it_only_what_failed_is_named(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "demo-stub")
    assert done.returncode == 2
    assert "FAILED" in done.stdout
    assert "test_node[toolkit://demo-stub-peermem.stub]" in done.stdout
    assert "PASSED" not in done.stdout


def test_a_node_without_the_passport_that_is_demanded_is_not_ready_in_junit_either(
    tmp_path: Path,
) -> None:
    done = verify(tmp_path, "--hosts", "demo-nogpu", "--passport", "--junit", "first.xml")
    assert done.returncode == 2, done.stdout + done.stderr
    cases = ElementTree.parse(tmp_path / "first.xml").iter("testcase")
    [failed] = [each for each in cases if each.find("failure") is not None]
    assert failed.get("name") == "test_node[toolkit://demo-nogpu-image.passport]"
    assert "no passport" in (failed.findtext("failure") or "")
