"""What changes hosts without a plan takes its shares of the one budget, and claims its hosts."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.budgeting import Run
from toolkit.errors import LockedError, Outcome, ToolkitError, TransportError, UsageError
from toolkit.facts.slurm import SlurmConfig
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import Site
from toolkit.features.slurm.run.service import Others
from toolkit.hosts.host import Host
from toolkit.rollout.budget import books_of
from toolkit.rollout.events import Witness
from toolkit.rollout.journal import About, stamp
from toolkit.rollout.plan.batches import Phase, terms_of
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import NotBegun
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.budget_run import Counting, on_each_counted
from toolkit.verbs.rollback import RolledBack
from toolkit.verbs.rollout import Agreed

NODES = tuple(f"gpu{number}" for number in range(4))


class Silent:
    """A transport that nothing is sent over."""

    name = "gpu"

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None:
        """Nothing is open."""


class Work:
    """Takes a moment on each host; knows how many were in hand at most."""

    def __init__(self, error: ToolkitError | None = None) -> None:
        self.error = error
        self.most, self._now, self._lock = 0, 0, threading.Lock()

    def __call__(self, host: Host, transport: Transport, witness: Witness) -> RolledBack:
        witness.about_to(Phase.APPLYING)
        if self.error is not None:
            raise self.error
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.05)
        with self._lock:
            self._now -= 1
        return RolledBack((), rebooted=False)


def counted(
    runs: Path, work: Work, *, limit: str = "", site: Site | None = None
) -> dict[str, Outcome[RolledBack]]:
    fleet = Fleet(
        tuple(Host(name, port=22) for name in NODES), lambda _: Silent(), Access(), slurm=site
    )
    terms = terms_of(NODES, max_unavailable=limit)
    agreed = Agreed(terms, About("rollback", "op@here", stamp()))
    how = Counting(RunFolder(runs, "rollback", datetime.now(UTC)), agreed)
    return on_each_counted(fleet, "rolling back", work, how).outcomes


def test_no_more_are_in_hand_than_it_was_told(tmp_path: Path) -> None:
    work = Work()
    found = counted(tmp_path, work, limit="1")
    assert all(each.ok for each in found.values())
    assert (len(found), work.most) == (4, 1)
    assert books_of(tmp_path).nodes == frozenset()


def test_nor_than_another_run_was_told(tmp_path: Path) -> None:
    other = Run(tmp_path, "a", 2)
    other.ask("gpu9")
    other.acts("gpu9", "applying")
    other.ended("gpu9", well=False, answered=False)
    work = Work()
    assert all(each.ok for each in counted(tmp_path, work).values())
    assert work.most == 1
    other.ask("gpu8")
    other.acts("gpu8", "applying")
    other.ended("gpu8", well=False, answered=False)
    halted = counted(tmp_path, Work())
    assert all(isinstance(each.error, NotBegun) for each in halted.values())
    assert "gpu[8-9] left midway by a" in str(halted["gpu0"].error)
    other.close()


@pytest.mark.parametrize(
    ("error", "left"),
    [(UsageError("no such run there"), frozenset()), (TransportError("gone"), frozenset(NODES))],
)
def test_a_node_that_has_nothing_to_take_back_is_not_left_midway(
    tmp_path: Path, error: ToolkitError, left: frozenset[str]
) -> None:
    counted(tmp_path, Work(error))
    assert books_of(tmp_path).nodes == left


def test_hosts_of_a_rollout_are_left_to_it(tmp_path: Path) -> None:
    other = Run(tmp_path, "gpu0", 4)  # it claims a host of its name
    with pytest.raises(LockedError, match="run gpu0 of op@here is at work on gpu0:22"):
        counted(tmp_path, Work())
    other.close()


@pytest.mark.parametrize("state", ["IDLE", "MIXED+DRAIN"])
def test_a_node_that_serves_slurm_s_jobs_is_left_alone(tmp_path: Path, state: str) -> None:
    class Nodes(Slurm):
        def nodes(self, names: str = "") -> str:
            told = {name: state if name == "gpu0" else "IDLE+DRAIN" for name in NODES}
            lines = [f"NodeName={name} State={said}" for name, said in told.items()]
            return "\n".join(line for line in lines if f"={names} " in line or not names)

    found = counted(tmp_path, Work(), site=Site(Nodes(), SlurmConfig(), {}))
    assert isinstance(found["gpu0"].error, Others)
    assert sorted(name for name, each in found.items() if each.ok) == [*NODES[1:]]
