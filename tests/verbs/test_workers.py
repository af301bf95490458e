"""Judging in processes beside this one gives what judging here gives, whatever becomes of them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.board import Board
from tests.evidence.boards import boards
from tests.evidence.build import node
from tests.evidence.frames import Override
from tests.evidence.machines.held import TODAY
from tests.evidence.test_recall import LOST, WANTS, cut
from tests.invoked import FORKS
from tests.laws import NIGHT
from tests.verbs.working import telling, unable
from toolkit.checks.all import ALL
from toolkit.errors import Outcome, ToolkitError, Unparsable, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.recall import forget
from toolkit.facts.text.foreign import Foreign
from toolkit.ssh.shards import WorkerEnded
from toolkit.verbs import each, workers
from toolkit.verbs.doctor import examine_files, examine_saved, judging
from toolkit.verbs.each import spread_saved
from toolkit.verbs.saved import name_saved, read_all, read_saved
from toolkit.verbs.workers import Workers, spread
from toolkit.want import Want

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _server() -> None:
    """The one from which the verbs of tests are forked, with all that it has imported."""
    begun = FORKS.Process(target=os.getpid)
    begun.start()
    begun.join()


@pytest.fixture(scope="module")
def judges() -> Iterator[Workers]:
    with Workers(partial(judging, TODAY), 2) as found:
        yield found


@dataclass(frozen=True, slots=True)
class ByName:
    """Nodes of one fleet that are to be different things."""

    wants: Sequence[Want]

    def of(self, host: str) -> Want:
        return self.wants[int(host[1:]) % len(self.wants)]


def test_a_process_is_forked_with_the_judgement_imported() -> None:
    """Each that began without it would take half a second of processor to import it."""
    program = """
from functools import partial
from toolkit.evidence import Evidence
from toolkit.verbs.workers import Workers
from toolkit.want import Want
asked = "lambda *_: 'toolkit.checks.judged' in __import__('sys').modules"
with Workers(partial(eval, asked), 1) as workers:
    print(workers.ask(workers.taken(), [("n1", Want(), Evidence())])[0].get())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ended.stdout == "True\n"


@settings(max_examples=1000 if NIGHT else 8)
@given(
    st.lists(
        st.tuples(boards(), LOST, st.sampled_from((1.0, 1.0, 0.3, 0.7))), min_size=1, max_size=4
    ),
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(WANTS), min_size=1, max_size=2),
)
def test_a_fleet_is_judged_as_by_one_process(
    judges: Workers,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[Board, dict[str, Override], float]],
    chance: Any,
    wants: list[Want],
) -> None:
    """Nodes that are whole, cut, and mixed of two, in any order and more than one chunk of them."""
    folder = tmp_path_factory.mktemp("fleet")
    kinds = [cut(node(lost, board=board), at) for board, lost, at in drawn]
    for at in range(20):
        one, other = chance.choice(kinds), chance.choice(kinds)
        keys = chance.sample(sorted(other.frames), k=min(2, len(other.frames)))
        mixed = one.plus(other.frames[key] for key in keys)
        if mixed.frames:
            (folder / f"n{at}.evidence").write_text(mixed.dump(), errors="surrogateescape")
    told = list(spread(read_all([folder], [], name_saved), ByName(wants), judges, 2))
    forget()
    assert told == examine_saved(read_all([folder], [], read_saved), ByName(wants), TODAY)


def saved(folder: Path, *names: str) -> Path:
    """A folder of nodes, each with its own name as that of its host."""
    for name in names:
        evidence = node({"hostname": f"{name}\n"})
        (folder / f"{name}.evidence").write_text(evidence.dump())
    return folder


def told_by(make: Callable[[], Any], folder: Path, count: int = 2) -> list[Outcome[str]]:
    with Workers(make, count) as found:
        return list(spread(read_all([folder], [], name_saved), Want(), found, count))


def test_nodes_of_a_process_that_was_killed_are_named_and_the_others_are_judged(
    tmp_path: Path,
) -> None:
    names = [*(f"a{at:02d}" for at in range(16)), *(f"c{at:02d}" for at in range(15)), "deadly"]
    names += [f"e{at:02d}" for at in range(20)]
    told = told_by(telling, saved(tmp_path, *names))
    assert [each.host for each in told] == names
    lost = [outcome for outcome in told if outcome.error]
    assert [outcome.host for outcome in lost] == names[16:32]  # those it had with that one
    for outcome in lost:
        assert isinstance(outcome.error, WorkerEnded)
        assert str(outcome.error).startswith(f"{outcome.host}: not judged: process ")
        assert str(outcome.error).endswith(" was killed by SIGKILL while it had this node")
    assert all(found.value == f"{found.host} is {found.host}" for found in told if not found.error)


def test_what_no_process_can_be_started_for_is_judged_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="ended with 1 before it could begin"):
        Workers(unable, 2)
    monkeypatch.setattr(each, "MANY", 2)
    monkeypatch.setattr(each, "EACH", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    folder = saved(tmp_path, "a", "b", "c")
    assert spread_saved([folder], [], Want(), unable) is None
    monkeypatch.setattr(workers._FORKS, "Process", _no_memory)
    assert [e.host for e in examine_files([folder], [], Want(), TODAY)] == ["a", "b", "c"]


def _no_memory(*_: object, **__: object) -> object:
    raise OSError("Cannot allocate memory")


@pytest.mark.parametrize(("nodes", "cpus"), [(3, 8), (3, 1)])
def test_few_nodes_or_one_processor_start_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, cpus: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cpus)})
    monkeypatch.setattr(each, "MANY", nodes + (cpus > 1))
    monkeypatch.setattr(each, "EACH", 1)
    folder = saved(tmp_path, *map(str, range(nodes)))
    assert spread_saved([folder], [], Want(), unable) is None


@pytest.mark.parametrize(
    ("nodes", "cpus", "begun"), [(5, 8, []), (6, 8, [2]), (8, 8, [2]), (9, 8, [3]), (9, 2, [2])]
)
def test_each_process_has_enough_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, cpus: int, begun: list[int]
) -> None:
    asked: list[int] = []

    def unable_to(_: object, count: int) -> None:
        asked.append(count)
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cpus)})
    monkeypatch.setattr(each, "MANY", 2)
    monkeypatch.setattr(each, "EACH", 3)
    monkeypatch.setattr(workers, "Workers", unable_to)
    folder = saved(tmp_path, *map(str, range(nodes)))
    assert spread_saved([folder], [], Want(), unable) is None
    assert asked == begun


def test_a_file_that_is_damaged_ends_the_run_as_it_does_here(tmp_path: Path) -> None:
    saved(tmp_path, *(f"n{at:02d}" for at in range(40)))
    for name in ("n20", "n33"):
        (tmp_path / f"{name}.evidence").write_text("= begin ok gdr-toolkit/1\n")
    (tmp_path / "n39.evidence").unlink()
    (tmp_path / "n39.evidence").mkdir()  # which is told before any node is judged
    with pytest.raises(UsageError, match=r"n20\.evidence: is no evidence"):
        told_by(telling, tmp_path)


def test_what_is_not_one_nodes_evidence_is_read_as_ever(tmp_path: Path) -> None:
    """Logs of pods with other names than their file's, and files that nobody understands."""
    saved(tmp_path, "n1")
    text = node().dump()
    (tmp_path / "pods.evidence").write_text(
        "".join(f"gdr-toolkit: node g{at}: probe\n{text}" for at in (1, 2))
    )
    both = text.replace("= end", "gdr-toolkit: node g3: probe\n= end")
    (tmp_path / "tail.evidence").write_text(both)
    named: list[Foreign] = []
    as_ever: list[Foreign] = []
    told = [
        (name, each if isinstance(each, Evidence) else Evidence.parse(each.read_text()))
        for name, each in read_all([tmp_path], named, name_saved)
    ]
    assert told == list(read_all([tmp_path], as_ever, read_saved))
    assert named == as_ever


def test_ctrl_c_ends_all_processes_with_130_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "n.evidence").write_text(node().dump())
    for at in range(3000):
        os.link(tmp_path / "n.evidence", tmp_path / f"n{at:04d}.evidence")
    words = (sys.executable, "-m", "toolkit.cli", "doctor", "--from", str(tmp_path))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with subprocess.Popen(
        words, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        while len(members(run.pid)) < 1 + 3 * (len(os.sched_getaffinity(0)) > 1):
            assert run.poll() is None
            time.sleep(0.01)
        beside = [pid for pid in members(run.pid) if pid != run.pid]
        heeding = [pid for pid in beside if not unheard(pid, signal.SIGINT)]
        os.killpg(run.pid, signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert heeding == []  # a worker that has not come to its own code yet heeds it neither
    assert run.returncode == 130
    assert said.startswith("exit 130: interrupted; ")
    assert said.count("\n") == 1
    ends = time.monotonic() + 60
    while members(run.pid):
        assert time.monotonic() < ends, "a process was left"
        time.sleep(0.05)


def unheard(pid: int, number: signal.Signals) -> bool:
    """Whether a process blocks or ignores a signal; one that ended does."""
    try:
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    masks = dict(row.split(":\t", 1) for row in rows)
    return bool((int(masks["SigBlk"], 16) | int(masks["SigIgn"], 16)) >> (number - 1) & 1)


def members(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_a_check_is_itself_in_another_process() -> None:
    assert all(pickle.loads(pickle.dumps(each)) is each for each in ALL)  # noqa: S301 our own


@pytest.mark.parametrize(
    "error",
    [
        ToolkitError("so it is", hint="do that"),
        Unparsable("dmesg", "a line", 3),
        Unwritten("/out", OSError(28, "No space left on device")),
    ],
)
def test_an_error_is_the_same_in_another_process(error: ToolkitError) -> None:
    same = pickle.loads(pickle.dumps(error))  # noqa: S301 our own
    assert (type(same), str(same), same.hint) == (type(error), str(error), error.hint)
