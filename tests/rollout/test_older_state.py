"""What version 0.1.0 left, here and on nodes, is read, taken back and gone on with.

state_0_1_0.json is what its first landing wrote: ``provision --hosts demo-iommu``, with few of the
frames of evidence, a placeholder for where the node's tree lay, and the journal as SQL.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.invoked import gdr
from toolkit.demo import fleet
from toolkit.errors import ExitCode
from toolkit.verbs.access import demo_folder

OLD = json.loads(Path(__file__).with_name("state_0_1_0.json").read_text())
PLACED = [name for name in OLD["node"] if name.startswith("etc/")]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of state, and in it a demo node, as that version left them."""
    state = tmp_path_factory.mktemp("state")
    run = state / "gdr-toolkit" / "runs" / OLD["run"]
    run.mkdir(parents=True)
    (run / "hosts").write_text(OLD["hosts"])
    (run / "demo-iommu.evidence").write_text(OLD["evidence"])
    with closing(sqlite3.connect(run / "journal.sqlite")) as base:
        base.executescript("\n".join(OLD["journal"]))
    return state


def with_node(left: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it for a test that changes the node; gives the node's tree."""
    shutil.copytree(left, state)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    fleet.prepare(demo_folder(), ("demo-iommu",))
    tree = demo_folder() / "nodes" / "demo-iommu" / "tree"
    (tree / "grub.cfg").write_bytes((tree / "boot" / "grub" / "grub.cfg").read_bytes())
    for name, text in OLD["node"].items():
        file = tree / name.replace("@ROOT@", str(tree).lstrip("/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("@ROOT@", str(tree)))
    return tree


def test_its_run_is_listed_and_shown(left: Path) -> None:
    listed, shown = gdr("runs", state=left), gdr("runs.show", OLD["run"], state=left)
    assert f"{OLD['run']}  op@admin  1      1     0       ended" in listed.stdout
    assert "batch 1  done     1      demo-iommu" in shown.stdout, shown.stdout
    told = gdr("runs", "--verify", state=left)
    assert (told.returncode, "vouched for" in told.stdout) == (0, True), told


def test_its_evidence_is_judged(left: Path) -> None:
    saved = left / "gdr-toolkit" / "runs" / OLD["run"] / "demo-iommu.evidence"
    done = gdr("doctor", "--from", str(saved), "--profile", "peermem", state=left)
    assert "rdma.memlock" in done.stdout, done.stdout
    assert done.returncode == ExitCode.FAILED


def test_it_is_rolled_back(left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = with_node(left, tmp_path / "state", monkeypatch)
    done = gdr("rollback", "--hosts", "demo-iommu", "--yes", state=tmp_path / "state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [name for name in PLACED if (tree / name).exists()] == []
    assert (tree / "boot" / "grub" / "grub.cfg").read_bytes() == (tree / "grub.cfg").read_bytes()


def test_it_is_gone_on_with_and_taken_back_by_its_run(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of ours are known as such: nothing is placed twice, and the reboot is what is owed."""
    state = tmp_path / "state"
    tree = with_node(left, state, monkeypatch)
    words = ("--hosts", "demo-iommu", "--profile", "peermem", "--yes")
    done = gdr("provision", *words, "--reboot", state=state)
    assert "1 of 1 node is ready" in done.stdout, done.stdout + done.stderr
    undone = gdr("undo", OLD["run"], "--yes", state=state)
    assert [name for name in PLACED if (tree / name).exists()] == [], undone.stdout + undone.stderr
