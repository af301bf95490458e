"""Who reads what a verb prints has no say in what it does, nor in the code it ends with."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verbs import ROOT

GDR = f"{shlex.quote(sys.executable)} -m toolkit.cli"
PROVISION = "provision --hosts demo-iommu,demo-stub --yes --reboot"


def shell(words: str, state: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of bash: ``gdr`` in it is ours."""
    script = f'set -o pipefail; gdr() {{ {GDR} "$@"; }}; {words}'
    ours = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(state), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        encoding="utf-8",
        env=ours | env,
        cwd=state,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where evidence of a node lies on which a check fails."""
    state = tmp_path_factory.mktemp("seen")
    took = shell("gdr capture --hosts demo-acs,demo-stub --out evidence", state)
    assert took.returncode == 0, took.stderr
    return state


def test_a_change_is_made_whole_though_its_reader_has_gone(tmp_path: Path) -> None:
    ended = shell(f"gdr {PROVISION} | true", tmp_path, PYTHONUNBUFFERED="1")
    shown = shell("gdr runs --json", tmp_path)
    (run,) = json.loads(shown.stdout)["runs"]
    assert [each["phase"] for each in run["hosts"]] == ["done"] * 2, ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("reader", ["| head -c 1", ">&-", "2>&1 | head -c 1", "2>&- | head -c 1"])
def test_a_look_ends_with_its_verdict_whoever_reads_it(seen: Path, reader: str) -> None:
    ended = shell(f"gdr doctor --from evidence --verbose {reader}", seen)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("more", ["", "--json", "--verbose"])
def test_a_full_disk_is_told_and_changes_no_verdict(seen: Path, more: str) -> None:
    ended = shell(f"gdr doctor --from evidence {more} > /dev/full", seen)
    assert ended.returncode == 2
    told = "note: standard output was not written whole: No space left on device"
    assert told in ended.stderr.split("\n")
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("verb", ["topology --from evidence", "checks", "--help doctor"])
def test_what_ends_well_does_so_on_a_full_disk(seen: Path, verb: str) -> None:
    ended = shell(f"gdr {verb} > /dev/full && gdr {verb} | head -c 1", seen)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_output_is_no_place_for_a_file_of_ours(seen: Path) -> None:
    """What is opened first would have the number of the closed one, and be printed into."""
    ended = shell("gdr doctor --from evidence --json --junit j.xml >&-; cat j.xml", seen)
    assert ended.stdout.startswith("<?xml")
