"""Before data is moved, and where an end breaks off."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.features.exercise.exercising import SAID, captured, frame, look
from tests.unit.holdings import UVERBS, user
from toolkit.checks.check import Status
from toolkit.errors import ExitCode, Outcome, TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.rdma.exercise import Role, Test
from toolkit.features.exercise import run as flow
from toolkit.features.exercise.plan import ExerciseTerms
from toolkit.features.exercise.run import (
    AtWork,
    NodeReading,
    code_of,
    judged,
    plan,
    refuse_jobs,
    run,
)
from toolkit.hosts.host import Host
from toolkit.progress import Silent
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.access import Access, Fleet

TABLE = (SAID / "4.5.write_bw.txt").read_text().replace("rxe0", "mlx5_0")


def _users(text: str, uid: str = "0\n") -> Evidence:
    told = {"uid": uid, "accounts": "root:0\nalice:1000\n", "users": text}
    return look().plus(frame(name, words) for name, words in told.items())


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(_users(""), "", id="nobody"),
        pytest.param(
            _users(user(7, "python3", UVERBS)), "at work: python3, pid 7 of alice", id="job"
        ),
        pytest.param(_users(user(8, "opensm", UVERBS, uid=0)), "", id="a-daemon"),
        pytest.param(_users("", uid="1000\n"), "it cannot be told", id="not-root"),
        pytest.param(look(), "it cannot be told", id="not-read"),
    ],
)
def test_who_is_at_work_is_told_and_not_knowing_is_no_leave(seen: Evidence, words: str) -> None:
    busy = flow._busy(seen)
    assert busy.startswith(words) if words else not busy


def _looked(host: str, busy: str = "") -> Outcome[NodeReading]:
    return Outcome(host, NodeReading(captured("healthy"), look(), busy))


def test_a_job_stops_it() -> None:
    looked = [_looked("gpu1"), _looked("gpu2", "at work: python3, pid 7 of alice")]
    with pytest.raises(AtWork, match="gpu2: at work: python3"):
        refuse_jobs(looked)
    refuse_jobs(looked[:1])


@pytest.mark.parametrize("count", [0, 3])
def test_a_test_has_two_ends(count: int) -> None:
    hosts = tuple(Host(f"gpu{at}") for at in range(count))
    with pytest.raises(UsageError, match="between two hosts"):
        flow.read_nodes(Fleet(hosts, lambda _: Way("", []), Access()))


@dataclass
class Way:
    """A connection on which scripts are answered as told."""

    name: str
    heard: list[str]
    refuses: str = ""  # part of a script on which the connection breaks
    never: bool = False  # it listens to nobody
    text: str = field(default=TABLE)
    begins: int = 99  # a job is at work once so many tests were asked for

    def run(self, script: str, *, limit_s: float = 1, sink: Sink = quiet) -> Result:
        assert limit_s >= 60
        call = script.strip().split("\n")[-1]
        if call == "occupied":
            begun = sum("exercise serve" in each for each in self.heard) >= self.begins
            seen = _users(user(7, "python3", UVERBS) if begun else "")
            return Result(0, seen.dump(), "")
        self.heard.append(f"{self.name}: {call}")
        if self.refuses and self.refuses in call:
            raise TransportError(f"{self.name}: the connection was lost")
        frames = ["= listening ok 20123"] * ("serve" in call and not self.never)
        for line in frames:
            sink(line)
        body = "\n".join(f"|{line}" for line in self.text.split("\n")[:-1])
        told = [*frames, f"= run ok ib_write_bw\n{body}"]
        return Result(0, "\n".join(
            ["= begin ok gdr-toolkit/1", *told, f"= end ok {len(told)}", ""]
        ), "")  # fmt: skip

    def close(self) -> None:
        """Nothing is open."""


def _first() -> Test:
    return plan([_looked("gpu1"), _looked("gpu2")], ExerciseTerms(seconds=1)).tests[0]


def _run(
    tmp_path: Path, over_jobs: bool = False, **more: object
) -> tuple[flow.ExerciseRun, list[str]]:
    heard: list[str] = []

    def connect(host: Host) -> Way:
        way = Way(host.name, heard)
        for name, value in more.items():
            setattr(way, name, value)
        return way

    fleet = Fleet((Host("gpu1"), Host("gpu2")), connect, Access())
    looked = [_looked("gpu1"), _looked("gpu2")]
    folder = RunFolder(tmp_path, "exercise", datetime.now(UTC))
    return run(
        fleet, looked, plan(looked, ExerciseTerms(seconds=1)), folder, over_jobs=over_jobs
    ), heard


def test_the_end_that_connects_is_told_the_port_on_which_the_other_listens(tmp_path: Path) -> None:
    ran, heard = _run(tmp_path)
    assert len(heard) == 14
    for serve, drive in zip(heard[::2], heard[1::2], strict=True):
        assert serve.startswith("gpu2: gdr_exercise serve ")
        assert drive.startswith("gpu1: gdr_exercise drive ")
        assert " 20123 ib_" in drive
    assert len(judged(ran.evidence, 0.8, None)) == 7
    assert ran.troubles == []
    [folder] = tmp_path.iterdir()
    assert sorted(each.name for each in folder.iterdir()) == ["gpu1.evidence", "gpu2.evidence"]


def test_an_end_that_never_listens_keeps_nobody_waiting(tmp_path: Path) -> None:
    ran, heard = _run(tmp_path, never=True, text="cuInit(0) returned 999\n")
    assert not any("drive" in each for each in heard)
    results = judged(ran.evidence, 0.8, None)
    assert {each.status.value for each in results} == {"unknown"}
    assert "CUDA does not start" in results[0].found


def test_the_board_is_gone_however_it_ends(tmp_path: Path) -> None:
    ended: list[str] = []

    class Listening(Silent):
        def finish(self) -> None:
            ended.append("finish")

    def connect(_: Host) -> Way:
        raise KeyboardInterrupt

    fleet = Fleet((Host("gpu1"), Host("gpu2")), connect, Access(progress=Listening()))
    looked = [_looked("gpu1"), _looked("gpu2")]
    folder = RunFolder(tmp_path, "exercise", datetime.now(UTC))
    with pytest.raises(KeyboardInterrupt):
        run(fleet, looked, plan(looked, ExerciseTerms(seconds=1)), folder)
    assert ended == ["finish"]


def test_a_connection_that_breaks_is_told_and_the_next_test_is_run(tmp_path: Path) -> None:
    ran, heard = _run(tmp_path, refuses="gdr_exercise drive")
    assert len(heard) == 14
    assert len(ran.troubles) == 7
    assert "the connection was lost" in ran.troubles[0]
    assert {each.value for each in judged(ran.evidence, 0.8, None)} == {None}


def test_a_test_of_which_nothing_came_back_is_no_test_that_passed(tmp_path: Path) -> None:
    ran, _ = _run(tmp_path, refuses="gdr_exercise serve")
    results = judged(ran.evidence, 0.8, None)
    assert len(results) == 7
    assert {each.status.value for each in results} == {"unknown"}
    assert results[0].found == "gpu2: nothing came back of it"


def test_nodes_with_gpus_are_not_well_where_host_memory_alone_was_moved(tmp_path: Path) -> None:
    ran, _ = _run(tmp_path)
    results = judged(ran.evidence, 0.8, None)
    assert code_of(ran.evidence, results)[1] == ""
    good = [replace(each, status=Status.PASS) for each in results if not each.test.gpu]
    assert good
    code, why = code_of(ran.evidence, good)
    assert (code, why[:22]) == (ExitCode.UNKNOWN, "no test moved the memo")
    plain = captured("healthy").text("pci").replace("vendor:0x10de", "vendor:0x8086")
    none = {"cpu1": captured("healthy").plus([frame("pci", plain)])}
    assert code_of(none, good) == (ExitCode.OK, "")
    assert "was not read" in code_of({"cpu1": Evidence({}, True)}, good)[1]


def test_a_job_that_begins_amid_the_tests_ends_them(tmp_path: Path) -> None:
    ran, heard = _run(tmp_path, begins=3)
    assert len([each for each in heard if "exercise serve" in each]) == 3
    assert ran.stopped.startswith("gpu2: at work: python3, pid 7 of alice")
    assert len(judged(ran.evidence, 0.8, None)) == 3
    again, _ = _run(tmp_path, begins=3, over_jobs=True)
    assert again.stopped == ""


def test_a_job_that_began_while_the_operator_was_asked_leaves_all_unmoved(tmp_path: Path) -> None:
    with pytest.raises(AtWork, match="gpu2: at work: python3"):
        _run(tmp_path, begins=0)


def test_who_interrupts_waits_for_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connections are closed, which ends whoever waits on them."""
    closed: list[str] = []
    monkeypatch.setattr(Way, "close", lambda self: closed.append(self.name))

    def stop(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(queue.Queue, "get", stop)
    with pytest.raises(KeyboardInterrupt):
        flow.answers(  # the first moment at which it waits
            _first(),
            {Role.SERVE: Way("gpu2", [], never=True), Role.DRIVE: Way("gpu1", [])},
        )
    assert sorted(closed) == ["gpu1", "gpu2"]
