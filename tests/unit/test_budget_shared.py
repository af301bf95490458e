"""Two controllers share one budget: real processes, of which one is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.budgeting import Run

ROOT = Path(__file__).parents[2]
NODES = tuple(f"gpu{number}" for number in range(8))

# One controller of its own: claims, takes what it can get, and tells; then waits to be killed.
CONTROLLER = """
import sys
from pathlib import Path
from toolkit.rollout.budget import Budget
from toolkit.rollout.claims import claim
from toolkit.rollout.journal import About, Event, Journal, stamp

runs, run, limit, phases, hosts = Path(sys.argv[1]), *sys.argv[2:5], sys.argv[5:]
held = claim(runs, run, "op@here", hosts, alone=True)
journal = Journal.create(runs / run, About("provision", "op@here", stamp()))
budget = Budget.open(runs, run, int(limit))
print("ready", flush=True)
sys.stdin.readline()
took = 0
for host in hosts:  # one at a time: as much chance to meet the other as there can be
    for granted in budget.ask([host]).granted:
        journal.add(*(Event(granted, phase) for phase in phases.split(",")))
        took += 1
print(took, flush=True)
sys.stdin.readline()
"""


def controller(runs: Path, run: str, phases: str, *hosts: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONTROLLER, str(runs), run, "3", phases, *hosts]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_two_controllers_that_begin_at_once_never_take_more_than_the_budget(tmp_path: Path) -> None:
    both = [controller(tmp_path, "a", "begun", *NODES[:4])]
    both.append(controller(tmp_path, "b", "begun", *NODES[4:]))
    assert [heard(each) for each in both] == ["ready", "ready"]
    for each in both:
        go(each)
    took = [int(heard(each)) for each in both]
    for each in both:
        each.kill()
        each.communicate()
    assert sum(took) == 3


@pytest.mark.parametrize(
    ("phases", "free"),
    [
        pytest.param("begun", 3, id="nothing-was-done-to-them"),
        pytest.param("begun,applying", 0, id="they-are-left-midway"),
    ],
)
def test_a_controller_that_is_killed_frees_what_it_did_not_leave_midway(
    tmp_path: Path, phases: str, free: int
) -> None:
    with controller(tmp_path, "a", phases, *NODES[:4]) as killed:
        assert heard(killed) == "ready"
        go(killed)
        assert heard(killed) == "3"
        run = Run(tmp_path, "b", 3)
        assert run.ask(*NODES[4:]).wait == "waits for the budget of 3: run a has 3 nodes in hand"
        killed.kill()
    answer = run.ask(*NODES[4:])
    assert len(answer.granted) == free
    if not free:
        assert "gpu[0-2] left midway by a (ended amid applying)" in answer.halt
    run.close()
