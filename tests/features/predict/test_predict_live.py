"""Jobs are judged while they write: half a line, half a number and half an answer say nothing."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.checks.measured import Job, nccl_tests
from tests.facts.test_facts_nccl_ras import SOUND as RANKS
from tests.facts.test_facts_nccl_ras import answer, document, missing, rank
from tests.features.predict.test_predict_jobs import FENCED, SOUND, C
from tests.invoked import gdr
from tests.unit.fleets import CAPTURES
from toolkit.checks.check import Status
from toolkit.errors import ExitCode
from toolkit.facts.nccl.ras import RasLook, read_ras
from toolkit.features.predict.plan.jobs import judge_job, judge_ras
from toolkit.features.predict.read_jobs import JobsRead, read_jobs

NODES = {"a": SOUND, "b": SOUND, "gpu00": SOUND, "gpu01": FENCED}
_STEP = 97  # bytes by which each log grows: no length of a line


def record(bus: float, number: int) -> str:
    header = {"id": "0x7f", "rank": 0, "n_ranks": 16, "nnodes": 2}
    told = {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 1 << 30}
    coll = {**told, "coll_busbw_gbs": bus}
    lines = [
        json.dumps({"header": header, "metadata": {"hostname": host}, "coll_perf": coll}) + "\n"
        for host in "ab"
    ]
    return "".join(lines)


def metric(host: str, bus: float) -> str:
    return (
        f'nccl_bus_bandwidth_gbs{{node="{host}",comm_id="0x9",n_nodes="2",nranks="16",slurm_job_id='
        f'"4712",collective="AllReduce",message_size="1-2GB"}} {bus}\n'
    )


# By their files: what a job writes to its end.
LOGS = {
    "nccl-inspector-4711/a-pid7.log": "".join(record(92.0, number) for number in range(12)),
    "nccl_inspector_metrics_GPU-1.prom": metric("a", 90.25) + metric("b", 90.25),
    "slurm-4713.out": nccl_tests(Job(39.0, "all_reduce", 2, 8)),
}


def grow(folder: Path, size: int) -> bool:
    """The logs as they are after so many bytes; whether that is all."""
    for name, text in LOGS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text[:size])
    return size >= max(map(len, LOGS.values()))


def told(read: JobsRead) -> dict[str, tuple[Status, tuple[str, ...]]]:
    found = [judge_job(run, NODES, C) for run in read.runs]
    begun: dict[str, tuple[Status, tuple[str, ...]]] = dict.fromkeys(
        read.begun, (Status.UNKNOWN, ())
    )
    return begun | {each.run.job: (each.status, each.suspects) for each in found}


END = {
    "4711": (Status.PASS, ()),
    "4712": (Status.PASS, ()),
    "slurm-4713": (Status.FAIL, ("gpu01 (acs.redirect)",)),
}


def test_three_jobs_are_judged_while_exercise_measures(tmp_path: Path) -> None:
    """Each is unknown until it has said enough, then what it is at the end, and nothing between."""
    folder, seen = tmp_path / "logs", dict[str, list[Status]]()
    folder.mkdir()
    with ThreadPoolExecutor(1) as pool:
        measured = pool.submit(
            gdr, "exercise", "--hosts", "demo-healthy,demo-acs", "--seconds", "1", state=tmp_path
        )
        size, ended = 0, False
        while not (ended and measured.done()):
            size += _STEP * (not ended)
            ended = grow(folder, size)
            if size >= len("# nThread 1 nGpus 1") + _STEP:
                for job, (status, suspects) in told(read_jobs(folder)).items():
                    seen.setdefault(job, []).append(status)
                    wanted = END.get(job, (Status.UNKNOWN, ()))
                    assert (status, suspects) in {wanted, (Status.UNKNOWN, ())}, (job, size)
            time.sleep(0.02)  # the processor is for who measures
    assert measured.result().returncode == ExitCode.FAILED, "the fenced node is found meanwhile"
    assert told(read_jobs(folder)) == END
    for job, (status, _) in END.items():
        assert seen[job][0] is Status.UNKNOWN or job == "4712"
        assert status in seen[job]
        assert Status.UNKNOWN not in seen[job][seen[job].index(status) :]


@pytest.mark.parametrize("name", LOGS)
def test_wherever_a_log_is_cut_nothing_else_is_said_of_it(name: str, tmp_path: Path) -> None:
    for cut in range(max(len(LOGS[name]) - 400, 30), len(LOGS[name])):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LOGS[name][:cut])
        for job, found in told(read_jobs(tmp_path)).items():
            assert found in {END.get(job), (Status.UNKNOWN, ())}, LOGS[name][:cut][-60:]


STUCK = document(*RANKS, rank(15, 39))
NAMES = {"10.0.0.2": "gpu02"}


def judged(*texts: str) -> tuple[Status, str, tuple[str, ...]]:
    found = judge_ras("4711", read_ras("".join(texts)), NAMES)
    return found.status, found.why, found.suspects


@pytest.mark.parametrize(
    ("texts", "status", "words", "suspects"),
    [
        pytest.param((answer(),), Status.PASS, "all answer, none has an error", (), id="sound"),
        pytest.param((STUCK,), Status.UNKNOWN, "a second answer", ("gpu02 (rank 15)",), id="once"),
        pytest.param(
            (STUCK, STUCK), Status.FAIL, "not moved on over 2 answers", ("gpu02 (rank 15)",),
            id="stuck",
        ),
        pytest.param(
            (STUCK, document(*RANKS, rank(15, 38))), Status.PASS, "and move on", (), id="moves",
        ),
        pytest.param(
            (document(*RANKS, lost=(missing(15),)),), Status.FAIL, "no answer: 1 rank",
            ("gpu02 (rank 15)",), id="lost",
        ),
        pytest.param((answer()[:300],), Status.UNKNOWN, "ends midway", (), id="cut"),
        pytest.param((answer(), answer()[:300]), Status.PASS, "all answer", (), id="next-is-cut"),
    ],
)  # fmt: skip
def test_what_ras_says_of_a_job(
    texts: tuple[str, ...], status: Status, words: str, suspects: tuple[str, ...]
) -> None:
    found = judged(*texts)
    assert (found[0], found[2]) == (status, suspects)
    assert words in found[1]


def test_no_communicator_is_no_verdict() -> None:
    assert judge_ras("1", (RasLook(0, 0, ()),), {}).status is Status.NA


def test_the_verb_names_the_rank_that_is_lost(tmp_path: Path) -> None:
    saved, log = tmp_path / "evidence", tmp_path / "ras-4711.json"
    saved.mkdir()
    (saved / "gpu01.evidence").write_text((CAPTURES / "healthy.txt").read_text())
    log.write_text(document(*RANKS, lost=(missing(15),)))
    run = gdr("predict", "--from", str(saved), "--job", str(log), "--json", state=tmp_path)
    assert run.returncode == ExitCode.FAILED, run.stderr
    (state,) = json.loads(run.stdout)["states"]
    assert state == {
        "job": "ras-4711", "status": "fail", "why": "no answer: 1 rank",
        "suspects": ["10.0.0.2 (rank 15)"],
    }  # fmt: skip
