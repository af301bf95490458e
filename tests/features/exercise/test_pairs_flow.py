"""Pairs over connections: who takes part, how many at once, what is kept, and Ctrl-C."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.features.exercise.exercising import TOOLS, captured, end_frames, frame, look, table
from tests.unit.holdings import UVERBS, user
from toolkit.errors import Outcome, TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Kind, Role, Test
from toolkit.facts.slurm import SlurmConfig, SlurmNode
from toolkit.features.exercise import cli_pairs as cli
from toolkit.features.exercise import plan
from toolkit.features.exercise import run_pairs as flow
from toolkit.features.exercise.plan import ExerciseTerms
from toolkit.features.exercise.plan_bisect import Bisect, FixedRounds, PairLedger
from toolkit.features.exercise.plan_pairs import PairSet, PairWay, rounds
from toolkit.features.exercise.plan_rails import ExerciseNode
from toolkit.features.exercise.run import NodeReading
from toolkit.features.exercise.run_pairs import PairsRan, PairTerms, run_pairs, taking_part
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.run.nodes import Site
from toolkit.hosts.host import Host
from toolkit.rollout.journal import About, Journal
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.run import Brakes
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.budget_run import Counting
from toolkit.verbs.rollout import Agreed
from toolkit.verbs.slurm_service import not_idle

NAMES = ("gpu1", "gpu2", "gpu3", "gpu4", "gpu5")
ABOUT = About("exercise", "root", "2026-11-28T00:00:00+00:00", "", "{}", "")


def _looked(host: str, busy: str = "") -> Outcome[NodeReading]:
    seen = look(address=f"10.0.0.{host[-1]}/24")
    return Outcome(host, NodeReading(captured("healthy"), seen, busy))


@dataclass
class Set:
    """A fleet without nodes: what its tests come to is composed."""

    folder: Path
    slow: tuple[str, ...] = ()
    works: tuple[str, ...] = ()  # hosts on which a job has begun meanwhile
    lost: tuple[str, ...] = ()
    held: dict[str, str] = field(default_factory=dict)  # by a scheduler
    at_once: int = 0
    most: int = 0
    hangs: Callable[[], None] = lambda: None
    closed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, host: Host) -> Transport:
        return Way(host.name, self)

    def answers(self, test: Test, ways: dict[Role, Transport]) -> dict[Role, Evidence]:
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        time.sleep(0.002)
        self.hangs()
        share = 0.4 if any(end.host in self.slow for _, end in test.ends) else 1.0
        text = table(test, 46000 * share, cuda=test.drive.gpu[5:10].upper())
        with self.lock:
            self.at_once -= 1
        found = {}
        for role, _ in test.ends:
            frames = {each.key.rpartition(".")[2]: each for each in end_frames(test, role, text)}
            frames.pop("asked")
            found[role] = Evidence({key: replace(each, key=key) for key, each in frames.items()})
        return found

    def run(
        self,
        names: tuple[str, ...] = NAMES,
        way: PairWay = PairWay.BISECT,
        *,
        busy: str = "",
        most: str = "",
    ) -> tuple[PairsRan, PairSet]:
        looked = [_looked(name, "at work: train" if name == busy else "") for name in names]
        views, left = taking_part(looked, self.held, over_jobs=False)
        pairs = PairSet(views, ExerciseTerms(seconds=1))
        hosts, ledger = list(views), PairLedger(0.8)
        way_of = (
            Bisect(hosts, pairs.ways, ledger)
            if way is PairWay.BISECT
            else FixedRounds(rounds(way, hosts, pairs.ways), ledger)
        )
        agreed = Agreed(terms_of(hosts, max_unavailable=most), ABOUT, Brakes())
        fleet = Fleet(tuple(map(Host, names)), self.connect, Access())
        run = RunFolder(self.folder / "runs", "exercise", datetime.now(UTC))
        ran = run_pairs(
            fleet, looked, pairs, way_of, terms=PairTerms(0.8), how=Counting(run, agreed)
        )
        ran.left.update(left)
        return ran, pairs


@dataclass
class Way:
    name: str
    over: Set

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        del limit_s, sink
        assert script.strip().endswith("occupied")
        if self.name in self.over.lost:
            raise TransportError(f"{self.name}: no route")
        text = user(7, "python3", UVERBS) if self.name in self.over.works else ""
        told = {"uid": "0\n", "accounts": "root:0\n", "users": text}
        seen = look().plus(frame(name, words) for name, words in told.items())
        return Result(0, seen.dump(), "")

    def close(self) -> None:
        self.over.closed.append(self.name)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Set:
    made = Set(tmp_path)
    monkeypatch.setattr(flow, "answers", made.answers)
    for name in ("_HOST_TESTS", "_GPU_TESTS"):
        monkeypatch.setattr(plan, name, (("ib_write_bw", Kind.DEEP),))
    return made


def _ledger(ran: PairsRan) -> PairLedger:
    ledger = PairLedger(0.8)
    ledger.learn(run.run for run in ran.runs)
    return ledger


def test_a_slow_node_is_named_over_real_evidence_and_all_of_it_is_kept(nodes: Set) -> None:
    nodes.slow = ("gpu3",)
    ran, pairs = nodes.run()
    [part] = _ledger(ran).named()
    assert (part.kind.value, part.name) == ("node", "gpu3")
    [folder] = [each for each in (nodes.folder / "runs").iterdir() if each.is_dir()]
    again = PairSet(pairs.views, ExerciseTerms()).again(ran.results)
    assert [(each.number, each.ends) for each in again] == [
        (each.number, each.ends) for each in sorted(ran.runs, key=lambda run: run.number)
    ]
    kept = Evidence.parse((folder / "gpu3.evidence").read_text())
    asked = [key for key in kept.frames if key.endswith(".asked")]
    own = [e for e in ran.results if "gpu3" in {end.host for _, end in e.test.ends}]
    assert len(asked) == len(own)
    with Journal.open(folder) as journal:
        told = {(each.host, each.phase) for each in journal.story().events}
    assert {("gpu3", "begun"), ("gpu3", "done")} <= told


def test_a_node_with_a_job_or_held_by_a_scheduler_is_never_part_of_a_pair(nodes: Set) -> None:
    nodes.held = {"gpu4": "Slurm has jobs on it"}
    ran, _ = nodes.run(busy="gpu2")
    assert ran.left == {"gpu2": "at work: train", "gpu4": "Slurm has jobs on it"}
    assert ran.runs
    assert not any(run.run.hosts & {"gpu2", "gpu4"} for run in ran.runs)


def test_a_job_that_begins_meanwhile_ends_its_nodes_part_alone(nodes: Set) -> None:
    nodes.works = ("gpu4",)
    ran, _ = nodes.run()
    assert ran.left["gpu4"].startswith("at work: python3")
    assert not any("gpu4" in run.run.hosts and run.results for run in ran.runs)
    assert _ledger(ran).named() == []
    assert {end.host for end in _ledger(ran).good} == {*NAMES} - {"gpu4"}


def test_a_node_that_is_lost_blames_no_partner(nodes: Set) -> None:
    nodes.lost = ("gpu1",)
    ran, _ = nodes.run()
    assert "no route" in ran.left["gpu1"]
    assert _ledger(ran).short == {}


@pytest.mark.parametrize(("most", "pairs"), [("2", 1), ("5", 2)])
def test_no_more_nodes_are_at_work_than_may_be_unavailable(
    nodes: Set, most: str, pairs: int
) -> None:
    nodes.run(way=PairWay.ALL, most=most)
    assert nodes.most <= pairs


def test_one_node_is_no_pair(nodes: Set) -> None:
    with pytest.raises(UsageError, match="a pair takes two nodes"):
        nodes.run(most="1")


def test_ctrl_c_ends_what_runs_closes_every_way_and_keeps_what_was_measured(nodes: Set) -> None:
    """In the first test of the second rail, which ends only once its connections are closed."""
    begun: list[int] = []

    def hangs() -> None:
        begun.append(len(nodes.closed))
        if len(begun) == 4:
            _thread.interrupt_main()  # as a terminal would
            deadline = time.monotonic() + 60
            while len(nodes.closed) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)

    nodes.hangs = hangs
    ran, _ = nodes.run(NAMES[:2], PairWay.RAIL)
    assert ran.interrupted
    assert begun == [0, 0, 0, 2], "nothing begins after it"
    assert [each.test.number for each in ran.results] == [101, 102, 103, 201]
    [folder] = [each for each in (nodes.folder / "runs").iterdir() if each.is_dir()]
    assert "exercise.201.drive.run" in (folder / "gpu1.evidence").read_text()


def test_nodes_without_the_tools_are_told_so_and_nothing_is_asked() -> None:
    """The tests of any pair stand for all: the first node may be the one that lacks them."""

    def views(*lacking: str) -> dict[str, ExerciseNode]:
        return {
            name: ExerciseNode(
                name, Node(captured("healthy")), look("" if name in lacking else TOOLS)
            )
            for name in NAMES[:4]
        }

    for lacking, any_runs in ((NAMES[:4], False), (NAMES[:1], True)):
        pairs = PairSet(views(*lacking), ExerciseTerms())
        found = cli._exercise(pairs, cli._ahead(PairWay.RING, pairs))
        assert bool(found.tests) is any_runs
        assert any("perftest is not installed on gpu1" in each for each in found.left_out)


def _slurm(**states: str) -> Site:
    nodes = {name: SlurmNode(name, states=frozenset(told.split())) for name, told in states.items()}
    site = Site(cast("Slurm", None), cast("SlurmConfig", None), nodes)
    site._seen, site._at = nodes, float("inf")
    return site


def test_of_slurms_nodes_those_that_are_idle_take_part() -> None:
    site = _slurm(gpu1="IDLE", gpu2="ALLOCATED", gpu3="IDLE DRAIN", gpu4="DOWN")
    fleet = Fleet(tuple(map(Host, NAMES)), lambda _: Way("", cast("Set", None)), Access())
    assert not_idle(fleet) == {}
    told = not_idle(replace(fleet, slurm=site))
    assert told["gpu2"] == "Slurm has jobs on it"
    assert told["gpu3"].startswith("Slurm has it drained")
    assert told["gpu4"].startswith("Slurm has it DOWN")
    assert "gpu5" in told, "Slurm does not know it"
    assert "gpu1" not in told
    assert not_idle(replace(fleet, slurm=replace(site, carries=True))) == {}
