"""Bundles are carried out by pods, node by node: who is drained, who is given back, who is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, HCAS
from tests.evidence.build import node
from tests.features.kubernetes.kube_cluster import KubeNode, KubeWorld
from toolkit.errors import ApplyError, ExitCode, LockedError, NoEvidence, TransportError
from toolkit.evidence import Evidence
from toolkit.features.kubernetes.io import MARK, KubeCluster
from toolkit.features.kubernetes.plan import NodeBundle, PodTerms, stream
from toolkit.features.kubernetes.run import (
    Brought,
    RolloutLimits,
    applying_manifests,
    refuse_let_go,
    roll_out_pods,
)
from toolkit.progress import Silent
from toolkit.rollout.budget import books_of
from toolkit.rollout.claims import claim
from toolkit.rollout.journal import About, Journal
from toolkit.rollout.plan.batches import terms_of
from toolkit.rollout.run import Rolled
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import NotBegun
from toolkit.verbs.plan import plan_node
from toolkit.verbs.rollout import Agreed
from toolkit.want import Want

STUB = Evidence.parse((Path(__file__).parents[2] / "evidence" / "stub.txt").read_text())
TERMS = PodTerms("registry.example/busybox@sha256:" + "0123456789abcdef" * 4)
NAMES = ("gpu1", "gpu2", "gpu3")
WANT, TODAY = Want.load("peermem"), date(2026, 11, 22)


def ended(name: str, status: int = 0, evidence: Evidence | None = None) -> str:
    """What a pod says once its bundle has gone through, and its node was read again."""
    engine = "= begin ok gdr-toolkit/1\n= 1.place ok place /etc/x\n= end ok 1\n"
    if status:
        engine = "= begin ok gdr-toolkit/1\n= 1.trigger failed:9 dkms build\n|no gcc\n= end ok 1\n"
    read = (evidence or node()).dump()
    before = f"gdr-toolkit: node {name}: "
    return f"{engine}{before}ended {status}\n{before}probe\n{read}"


@dataclass
class World(KubeWorld):
    """A cluster of three nodes with pods on them, each with a bundle to be carried out."""

    runs: Path = Path()

    def roll(self, *, limits: RolloutLimits | None = None, **terms: str) -> Rolled[Brought]:
        carried = [NodeBundle(name, "echo\n") for name in NAMES]
        cluster = KubeCluster(self.kubectl(), "gdr-toolkit", poll_s=0.01)
        cluster.put(stream(applying_manifests(TERMS, carried)))
        about = About("kubernetes", "tests", "2026-11-22T00:00:00Z")
        said = terms_of(
            NAMES, serial=terms.get("serial", ""), max_unavailable=terms.get("max_unavailable", "")
        )
        return roll_out_pods(
            cluster, carried, WANT, TODAY,
            folder=RunFolder(self.runs, "kubernetes", datetime.now(UTC)),
            agreed=Agreed(said, about, alone=True, reported=cluster.out),
            limits=limits or RolloutLimits(), progress=Silent(),
        )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    nodes = {name: KubeNode(name) for name in NAMES}
    return World(nodes, {name: ended(name) for name in NAMES}, runs=tmp_path / "runs")


def test_every_node_is_drained_first_and_given_back_once_it_is_as_wanted(world: World) -> None:
    rolled = world.roll()
    assert {h: e.get() for h, e in rolled.outcomes.items()} == {n: Brought("", True) for n in NAMES}
    assert world.wrong == []
    assert not [each for each in world.nodes.values() if each.cordoned or each.marks]
    assert not [job for job in world.jobs.values() if job["spec"]["suspend"]]


def test_no_more_nodes_are_out_than_may_be(world: World) -> None:
    world.roll(max_unavailable="1")
    assert world.most == 1


def test_nodes_that_others_have_cordoned_count_against_the_budget(world: World) -> None:
    world.nodes["gpu3"].cordoned = True
    rolled = world.roll(max_unavailable="1", limits=RolloutLimits(taken=True))
    assert rolled.outcomes["gpu3"].get() == Brought("", given_back=False)
    assert world.nodes["gpu3"].cordoned
    assert isinstance(rolled.outcomes["gpu1"].error, NotBegun)
    assert world.nodes["gpu1"].pods == ["web"]
    assert "gpu3 cordoned" in rolled.halt


def test_a_node_that_is_not_ready_counts_against_the_budget(world: World) -> None:
    world.nodes["other"] = KubeNode("other", ready=False)
    rolled = world.roll(max_unavailable="1")
    assert all(isinstance(each.error, NotBegun) for each in rolled.outcomes.values())
    assert "other not ready" in rolled.halt


def test_a_node_that_somebody_else_cordoned_is_left_alone(world: World) -> None:
    world.nodes["gpu1"].cordoned = True
    rolled = world.roll()
    assert isinstance(rolled.outcomes["gpu1"].error, LockedError)
    assert "was cordoned by somebody else; nothing was touched" in str(
        rolled.outcomes["gpu1"].error
    )
    assert world.nodes["gpu1"].pods == ["web"]
    assert world.nodes["gpu1"].cordoned


def test_who_cordons_between_our_look_and_our_request_is_not_overruled(world: World) -> None:
    world.meddled = "gpu1"
    rolled = world.roll()
    assert "by somebody else meanwhile" in str(rolled.outcomes["gpu1"].error)
    assert MARK not in world.nodes["gpu1"].marks
    assert world.nodes["gpu1"].pods == ["web"]


def test_a_node_whose_status_changes_meanwhile_is_looked_at_again(world: World) -> None:
    world.flutters = True
    assert all(each.ok for each in world.roll().outcomes.values())


def test_a_disruption_budget_is_obeyed_and_the_node_given_back(world: World) -> None:
    world.nodes["gpu2"].protected = True
    rolled = world.roll()
    assert isinstance(rolled.outcomes["gpu2"].error, ApplyError)
    assert "violate the pod's disruption budget" in str(rolled.outcomes["gpu2"].error)
    left = world.nodes["gpu2"]
    assert (left.cordoned, left.marks, left.pods) == (False, {}, ["web"])


def test_what_pods_keep_in_an_emptydir_is_lost_only_where_that_was_said(world: World) -> None:
    world.nodes["gpu2"].scratch = True
    assert "with local storage" in str(world.roll().outcomes["gpu2"].error)
    assert world.nodes["gpu2"].pods == ["web"]
    assert world.roll(limits=RolloutLimits(emptydir=True)).outcomes["gpu2"].ok


def test_a_cordon_that_is_no_longer_ours_is_not_taken_away(world: World) -> None:
    cluster = KubeCluster(world.kubectl(), "gdr-toolkit")
    assert cluster.cordon("gpu1", "ours")
    assert not cluster.uncordon("gpu1", "another")
    assert (world.nodes["gpu1"].cordoned, world.nodes["gpu1"].marks) == (True, {MARK: "ours"})
    world.nodes["gpu1"].cordoned = False
    assert not cluster.uncordon("gpu1", "ours"), "somebody gave it back already"
    assert world.nodes["gpu1"].marks == {MARK: "ours"}
    world.nodes["gpu1"].cordoned = True
    assert cluster.uncordon("gpu1", "ours")
    assert (world.nodes["gpu1"].cordoned, world.nodes["gpu1"].marks) == (False, {})


def test_a_bundle_that_stops_leaves_its_node_cordoned_in_our_name(world: World) -> None:
    world.said["gpu1"] = ended("gpu1", 5)
    rolled = world.roll(serial="1")
    assert "no gcc" in str(rolled.outcomes["gpu1"].error)
    assert world.nodes["gpu1"].cordoned
    assert MARK in world.nodes["gpu1"].marks
    assert rolled.halt == "the canary gpu1 failed"
    assert isinstance(rolled.outcomes["gpu2"].error, NotBegun)
    assert books_of(world.runs).nodes == {"gpu1"}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        pytest.param("first\n" + "x" * 301 + "\n", f": {'x' * 300}'", id="an-engine-never-began"),
        pytest.param(ended("gpu1").replace("= end ok 1\n", "", 1), "", id="cut-off"),
        pytest.param(ended("gpu2"), "", id="of-another-node"),
    ],
)  # fmt: skip
def test_what_did_not_go_through_is_told_in_its_last_words(
    world: World, log: str, said: str
) -> None:
    world.said["gpu1"] = log
    found = world.roll().outcomes["gpu1"].error
    assert isinstance(found, ApplyError)
    assert "the bundle did not go through, and the node stays cordoned" in str(found)
    assert f"{found}'".endswith(said)
    assert world.nodes["gpu1"].cordoned


def test_a_node_that_is_not_as_wanted_yet_stays_cordoned(world: World) -> None:
    world.said["gpu1"] = ended("gpu1", evidence=STUB)
    rolled = world.roll()
    assert rolled.outcomes["gpu1"].get() == Brought("more is to be done", given_back=False)
    assert world.nodes["gpu1"].cordoned


@pytest.mark.parametrize(
    ("after", "left", "code"),
    [
        pytest.param(node(board=BOARD.without(*GPUS)), "no GPU is on its bus any more",
                     ExitCode.FAILED, id="its-gpus-are-gone"),
        pytest.param(node({"infiniband": ""}, board=BOARD.without(*HCAS)), "not as wanted: ",
                     ExitCode.FAILED, id="what-no-file-mends-fails"),
        pytest.param(node({"nvidia-smi": "nonsense\n"}), "not known: ",
                     ExitCode.UNKNOWN, id="a-check-could-not-be-made"),
    ],
)  # fmt: skip
def test_a_node_is_given_back_only_where_every_check_is_content(
    world: World, after: Evidence, left: str, code: ExitCode
) -> None:
    assert plan_node("gpu1", after, WANT, TODAY, untried=True).plan.empty, "a plan would keep it"
    world.said["gpu1"] = ended("gpu1", evidence=after)
    brought = world.roll().outcomes["gpu1"].get()
    assert brought.left.startswith(left)
    assert (brought.exit_code, world.nodes["gpu1"].cordoned) == (code, True)


def test_a_node_that_was_not_read_to_the_end_stays_cordoned(world: World) -> None:
    cut = replace(node(), complete=False)
    world.said["gpu1"] = ended("gpu1", evidence=cut)
    rolled = world.roll()
    assert isinstance(rolled.outcomes["gpu1"].error, NoEvidence)
    assert world.nodes["gpu1"].cordoned


def test_what_pods_said_is_kept(world: World) -> None:
    world.roll()
    (folder,) = [each for each in world.runs.iterdir() if each.is_dir()]
    kept = {each.name for each in folder.iterdir()}
    assert {"gpu1.log", "gpu1.after.evidence", "journal.sqlite"} <= kept


def test_a_server_that_is_away_while_a_bundle_is_at_work_is_waited_for(world: World) -> None:
    world.away = 3
    assert all(each.ok for each in world.roll().outcomes.values())
    assert world.away == 0


def test_a_job_that_somebody_deleted_is_not_waited_for(world: World) -> None:
    cluster = KubeCluster(world.kubectl(), "gdr-toolkit", poll_s=0.01)
    world.jobs["gone"] = None
    with pytest.raises(TransportError, match="NotFound"):
        cluster.run_job("gone", 3600)


@contextmanager
def left_behind(world: World, *, lives: bool = False) -> Iterator[str]:
    """An earlier run of ours has cordoned gpu1; its controller is gone, unless it lives."""
    folder = RunFolder(world.runs, "kubernetes", datetime(2026, 11, 21, tzinfo=UTC)).path
    with claim(world.runs, folder.name, "tests", ["elsewhere"], alone=False) as held:
        Journal.create(folder, About("kubernetes", "tests", "2026-11-21T00:00:00Z")).close()
        world.nodes["gpu1"].cordoned, world.nodes["gpu1"].marks = True, {MARK: folder.name}
        if not lives:
            held.let_go()
        yield folder.name


def test_what_a_run_of_ours_that_is_over_left_cordoned_is_taken_up(world: World) -> None:
    with left_behind(world):
        rolled = world.roll(max_unavailable="1")
    assert rolled.outcomes["gpu1"].get() == Brought("", given_back=True)
    assert (world.nodes["gpu1"].cordoned, world.wrong, world.most) == (False, [], 1)


def test_what_a_run_that_lives_has_cordoned_is_its_own(world: World) -> None:
    with left_behind(world, lives=True) as run:
        rolled = world.roll()
    assert f"was cordoned by run {run}; nothing was touched" in str(rolled.outcomes["gpu1"].error)
    assert world.nodes["gpu1"].marks == {MARK: run}


@pytest.mark.parametrize("run", ["2026-11-20T00-00-00-kubernetes", "../runs", ".", "x/y"])
def test_a_run_that_this_controller_does_not_know_is_somebody_elses(world: World, run: str) -> None:
    world.nodes["gpu1"].cordoned, world.nodes["gpu1"].marks = True, {MARK: run}
    assert isinstance(world.roll().outcomes["gpu1"].error, LockedError)
    assert (world.nodes["gpu1"].marks, world.nodes["gpu1"].pods) == ({MARK: run}, ["web"])


def test_what_was_left_and_cannot_be_drained_is_not_given_back(world: World) -> None:
    world.nodes["gpu1"].protected = True
    with left_behind(world):
        rolled = world.roll()
    assert "not drained, and left cordoned" in str(rolled.outcomes["gpu1"].error)
    assert world.nodes["gpu1"].cordoned


def test_a_job_that_was_let_go_before_is_not_taken_for_one_of_now(world: World) -> None:
    cluster = KubeCluster(world.kubectl(), "gdr-toolkit")
    carried = [NodeBundle(name, "echo\n") for name in NAMES]
    cluster.put(stream(applying_manifests(TERMS, carried)))
    refuse_let_go(cluster, carried)
    world.jobs[carried[1].name]["spec"]["suspend"] = False
    with pytest.raises(LockedError, match="gpu2: the bundle was let go before") as caught:
        refuse_let_go(cluster, carried)
    assert f"delete job {carried[1].name};" in caught.value.hint
