"""The verb that tells who holds what of the budget, and what an operator gives back."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import gdr
from tests.unit.budgeting import Run
from toolkit.errors import ExitCode
from toolkit.report.table import Painter
from toolkit.rollout.budget import books_of, set_aside
from toolkit.rollout.plan.budget import Books
from toolkit.verbs.cli.budget import budget_lines

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run that left one node midway, and three set aside."""
    runs = tmp_path / "gdr-toolkit/runs"
    dead = Run(runs, "2026-11-21T22-00-00-provision", 8)
    dead.ask("gpu007")
    dead.acts("gpu007", "applying", "rebooting")
    dead.ended("gpu007", well=False, answered=False)
    dead.close()
    set_aside(runs, "kubernetes/gdr-apply", 3, "a DaemonSet")
    return runs


def verb(runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return gdr("budget", *words, state=runs.parents[1])


def test_who_holds_what_and_why(runs: Path) -> None:
    run = Run(runs, "2026-11-22T09-12-40-bios", 8)
    run.ask("gpu001")
    lines = budget_lines(books_of(runs), Painter(False))
    run.close()
    shown = [re.sub(r" \d{4}-\d\d-\d\d \d\d:\d\d", " |", line) for line in lines[:4]]
    assert [" ".join(line.split()) for line in shown] == [
        "node held by since why",
        "gpu007 left midway 2026-11-21T22-00-00-provision | ended amid rebooting",
        "kubernetes/gdr-apply set aside (3) - | a DaemonSet",
        "gpu001 in hand 2026-11-22T09-12-40-bios |",
    ]
    assert lines[-1] == "5 nodes are unavailable by our runs, and no more than 8 may be"
    assert max(map(len, lines)) <= 110


def test_nothing_held_is_said_in_one_line() -> None:
    assert budget_lines(Books(), Painter(False)) == ["0 nodes are unavailable by our runs"]


def test_what_is_released_is_told_and_the_document_keeps_its_schema(runs: Path) -> None:
    ended = verb(runs, "--release", "kubernetes/gdr-apply", "--json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    assert ended.stderr == "released: kubernetes/gdr-apply\n"
    told = json.loads(ended.stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/budget.schema.json").read_text()))
    assert [share["node"] for share in told["shares"]] == ["gpu007"]


def test_what_is_not_held_cannot_be_released(runs: Path) -> None:
    ended = verb(runs, "--release", "gpu[008]")
    assert ended.returncode == ExitCode.USAGE
    assert "error: gpu008: nothing of the budget is held there" in ended.stderr


def test_a_share_is_set_aside_for_who_counts_by_itself(runs: Path) -> None:
    ended = verb(runs, "--set-aside", "ansible/site=13", "--reason", "weekly", "--json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    assert ended.stderr == "set aside: 13 for ansible/site\n"
    shares = {each["node"]: each for each in json.loads(ended.stdout)["shares"]}
    assert (shares["ansible/site"]["count"], shares["ansible/site"]["why"]) == (13, "weekly")


@pytest.mark.parametrize("said", ["ansible=13", "gpu001", "a/b=0", "a/b=-1", "a/b=x", "/=1"])
def test_what_is_no_share_is_refused(runs: Path, said: str) -> None:
    ended = verb(runs, "--set-aside", said)
    assert ended.returncode == ExitCode.USAGE
    assert "WHO/WHAT=COUNT, for example ansible/site=13" in ended.stderr
