"""What jobs do meanwhile, against what the paths of their nodes carry."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.checks.measured import Job, nccl_tests
from tests.evidence.board import BOARD, PORTS
from tests.evidence.build import PROPRIETARY, node
from tests.invoked import gdr
from tests.unit.fleets import CAPTURES
from toolkit.checks.check import Status
from toolkit.compat.throughput import constants
from toolkit.errors import ExitCode, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.nccl.inspector import CommunicatorRun
from toolkit.facts.node.node import Node
from toolkit.features.predict.plan.jobs import JobNode, JobVerdict, job_node, judge_job
from toolkit.features.predict.plan.totals import predict_inputs, read_node
from toolkit.features.predict.read_jobs import read_jobs
from toolkit.features.predict.show import job_said
from toolkit.throughput.inputs import Load

C = constants()
# Two HCAs of 400 Gb/s on each node: 95 GB/s.
RUN = CommunicatorRun(
    "0x7f", "DP 0", "AllReduce", 1 << 30, 39.0, 4, 2, ("gpu01", "gpu02.site"), 12, "4711"
)


def job_of(evidence: Evidence | None = None) -> JobNode:
    told = read_node(Node(evidence or node()), C)
    return job_node(told, predict_inputs(told, Load(), C), C)


FENCED = job_of(node(board=BOARD.but(PORTS[0], acs=0x1D)))
SOUND = job_of()


def judged(run: CommunicatorRun = RUN, second: JobNode = SOUND) -> JobVerdict:
    return judge_job(run, {"gpu01": SOUND, "gpu02": second}, C)


def test_a_job_that_falls_short_names_the_node_whose_bridge_redirects() -> None:
    found = judged(second=FENCED)
    assert (found.status, found.suspects) == (Status.FAIL, ("gpu02.site (acs.redirect)",))
    shown = job_said(found)
    assert shown.startswith("job 4711: DP 0 (0x7f): AllReduce of 1024 MiB, 4 ranks on 2 nodes")
    assert "has 0.41 of what its paths carry, 94.9 GB/s" in shown
    assert shown.endswith("suspect gpu02.site (acs.redirect)")


def test_what_nothing_is_predicted_of_is_told_with_its_bandwidth() -> None:
    within, other = replace(RUN, nodes=1), replace(RUN, test="AllToAll")
    assert job_said(judged(within)).endswith(", 4 ranks: 39.0 GB/s; within one node")
    assert job_said(judged(other)).endswith(
        ", 4 ranks on 2 nodes: 39.0 GB/s; no ring: not predicted"
    )


@pytest.mark.parametrize(
    "test", ["all_reduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]
)
def test_each_collective_that_rings_carry_is_judged(test: str) -> None:
    assert judged(replace(RUN, test=test, bus=90.0)).status is Status.PASS


def test_where_gpudirect_cannot_work_that_is_the_suspect() -> None:
    dark = job_of(node({"module-state": "", "nvidia-version": PROPRIETARY}))
    (suspect,) = judged(second=dark).suspects
    assert suspect.startswith("gpu02.site (without GPUDirect: peermem")


@pytest.mark.parametrize(
    ("run", "status", "why"),
    [
        pytest.param(replace(RUN, bus=90.0), Status.PASS, "as it should", id="as-it-should"),
        pytest.param(replace(RUN, bus=150.0), Status.PASS, "as it", id="reduced-in-switches"),
        pytest.param(replace(RUN, bus=78.0), Status.UNKNOWN, "less than expected", id="in-between"),
        pytest.param(replace(RUN, nodes=1), Status.NA, "within one node", id="one-node"),
        pytest.param(
            replace(RUN, size=64 << 20, bus=90.0), Status.PASS, "as it", id="large-enough"
        ),
        pytest.param(replace(RUN, size=1 << 20), Status.UNKNOWN, "too small to tell", id="small"),
        pytest.param(replace(RUN, test="AllToAll"), Status.UNKNOWN, "no ring", id="all-to-all"),
        pytest.param(replace(RUN, hosts=("x",)), Status.UNKNOWN, "no evidence of", id="strangers"),
        # One rank a node has one HCA of the two: 47; four nodes get less of their wires: 81.
        pytest.param(replace(RUN, ranks=2, bus=42.0), Status.PASS, "as it", id="one-rank-a-node"),
        pytest.param(
            replace(RUN, ranks=8, nodes=4, bus=72.0), Status.PASS, "no evidence of x", id="4-nodes"
        ),
    ],
)
def test_what_is_said_of_a_run(run: CommunicatorRun, status: Status, why: str) -> None:
    hosts = (*run.hosts, "x") if run.nodes == 4 else run.hosts
    found = judged(replace(run, hosts=hosts))
    assert (found.status, found.suspects) == (status, ())
    assert why in found.why


def test_a_job_is_not_short_while_one_of_its_nodes_is_not_known() -> None:
    """That one may have fewer HCAs, and be what bounds the ring."""
    found = judge_job(RUN, {"gpu01": SOUND}, C)
    assert found.status is Status.UNKNOWN
    assert "no evidence of gpu02" in found.why


def test_the_slower_node_bounds_the_ring_and_is_named_where_no_evidence_is_against_it() -> None:
    told = read_node(Node(node()), C)
    wire = replace(told.pairs[0].wire, gbits=told.pairs[0].wire.gbits * 0.5)
    slow = replace(told, pairs=tuple(replace(each, wire=wire) for each in told.pairs))
    half = job_node(slow, predict_inputs(slow, Load(), C), C)
    found = judged(replace(RUN, bus=20.0), half)
    assert found.carried is not None
    assert found.carried.value == pytest.approx(47.5, abs=0.1)
    assert found.suspects == ("gpu02.site (wire (200G InfiniBand), on 2 HCAs)",)


def inspector(folder: Path, bus: float, *hosts: str) -> Path:
    """As the plugin writes it: a file of each process."""
    folder.mkdir(exist_ok=True)
    for rank, host in enumerate(hosts):
        record = {
            "header": {"id": "0x7f", "rank": rank, "n_ranks": 8 * len(hosts), "nnodes": len(hosts)},
            "metadata": {"inspector_output_format_version": "v4.1", "hostname": host, "pid": 7},
            "coll_perf": {
                "coll": "AllReduce", "coll_sn": 3, "coll_msg_size_bytes": 1 << 30,
                "coll_busbw_gbs": bus,
            },
        }  # fmt: skip
        (folder / f"{host}-pid7.log").write_text(json.dumps(record) + "\n" + '{"header": {"id"')
    return folder


def test_the_folder_of_a_job_that_still_runs(tmp_path: Path) -> None:
    folder = inspector(tmp_path / "nccl-inspector-4711", 99.0, "gpu01", "gpu02")
    (folder / "notes.txt").write_text("hello")
    (folder / "z.prom").write_text(
        'nccl_bus_bandwidth_gbs{node="gpu03",comm_name="TP",n_nodes="2",nranks="4",slurm_job_id='
        '"4712",collective="AllReduce",message_size="1-2GB"} 88\n'
    )
    run, other = read_jobs(folder).runs
    assert (run.job, run.hosts, run.bus, run.ranks) == ("4711", ("gpu01", "gpu02"), 99.0, 16)
    assert (other.job, other.hosts, other.bus) == ("4712", ("gpu03",), 88.0)


def test_several_jobs_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """One as it should be, one slowed by a bridge, one without GPUDirect: each judged by itself."""
    for job, bus, hosts in [(1, 92.0, "ab"), (2, 39.0, "ac"), (3, 20.0, "ad")]:
        inspector(tmp_path / f"nccl-inspector-{job}", bus, *hosts)
    dark = job_of(node({"module-state": "", "nvidia-version": PROPRIETARY}))
    nodes = {"a": SOUND, "b": SOUND, "c": FENCED, "d": dark}
    found = [judge_job(run, nodes, C) for run in read_jobs(tmp_path).runs]
    assert [(each.run.job, each.status, [s[:15] for s in each.suspects]) for each in found] == [
        ("1", Status.PASS, []),
        ("2", Status.FAIL, ["c (acs.redirect"]),
        ("3", Status.FAIL, ["d (without GPUD"]),
    ]


def test_the_log_of_a_test_is_a_job_of_one_communicator(tmp_path: Path) -> None:
    file = tmp_path / "slurm-4711.out"
    draw = Random(7)  # noqa: S311 # drawn again the same
    file.write_text(nccl_tests(Job(39.0, "all_reduce", 2, 2), draw))
    (run,) = read_jobs(file).runs
    assert (run.job, run.test, run.nodes, run.ranks) == ("slurm-4711", "all_reduce", 2, 4)
    assert run.bus == pytest.approx(39.0, rel=0.05)


def test_what_is_no_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for source, words in [
        (tmp_path, "no collective of"),
        (tmp_path / "none", "no folder and no file"),
    ]:
        with pytest.raises(UsageError, match=words):
            read_jobs(source)


def test_the_verb_ends_with_2_where_a_job_falls_short(tmp_path: Path) -> None:
    saved = tmp_path / "evidence"
    saved.mkdir()
    for name, kind in (("gpu01", "healthy"), ("gpu02", "acs")):
        (saved / f"{name}.evidence").write_text((CAPTURES / f"{kind}.txt").read_text())
    folder = inspector(tmp_path / "nccl-inspector-4711", 39.0, "gpu01", "gpu02")
    run = gdr("predict", "--from", str(saved), "--job", str(folder), state=tmp_path)
    assert run.returncode == ExitCode.FAILED, run.stderr
    said = " ".join(run.stdout.split())
    assert "job 4711: 0x7f: AllReduce of 1024 MiB, 16 ranks on 2 nodes: 39.0 GB/s" in said
    assert "suspect gpu02 (acs.redirect)" in said
    assert max(map(len, run.stdout.split("\n"))) <= 100
    wrong = gdr("predict", "--from", str(saved), "--job", "/none", state=tmp_path)
    assert wrong.returncode == ExitCode.USAGE
