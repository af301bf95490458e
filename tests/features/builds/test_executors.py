"""Builds run side by side; one that dies takes no other with it, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import ExitCode, TransportError, UsageError
from toolkit.features.builds.io.dask import DaskCluster
from toolkit.features.builds.io.executor import WorkerLost
from toolkit.features.builds.io.executors import Processes, open_crew

ROOT = Path(__file__).parents[3]


def square(number: int) -> int:
    return number * number


def die_once(mark: str) -> int:
    """Kills its process the first time, and says by a file that it did."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die(_: str) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def fail(text: str) -> int:
    raise ValueError(text)


def test_a_run_that_was_ended_begins_no_further_process() -> None:
    crew = Processes(1, print)
    crew.stop()
    with pytest.raises(WorkerLost, match="the run was ended"):
        crew.submit(square, 3).result()
    crew.shutdown()


@pytest.mark.parametrize(("spec", "encrypted"), [("tls://x:1", True), ("dask://x:1", False)])
def test_dask_is_spoken_to_by_tls_where_that_was_said(
    spec: str, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, int, bool]] = []
    theirs: Any = object()

    def opened(address: str, jobs: int, *, encrypted: bool) -> object:
        heard.append((address, jobs, encrypted))
        return contextlib.nullcontext(theirs)

    monkeypatch.setattr("toolkit.features.builds.io.dask.open_dask", opened)
    with open_crew(spec, 7, say=print) as crew:
        assert crew is theirs
    assert heard == [("x:1", 7, encrypted)]


def test_processes_are_others_than_ours() -> None:
    with open_crew("local", 2, say=print) as crew:
        futures = [crew.executor.submit(square, number) for number in range(5)]
        pids = {crew.executor.submit(os.getpid).result() for _ in range(2)}
        assert [each.result() for each in futures] == [0, 1, 4, 9, 16]
    assert os.getpid() not in pids


def test_threads_are_ours() -> None:
    with open_crew("threads", 2, say=print) as crew:
        assert crew.executor.submit(os.getpid).result() == os.getpid()


def test_a_job_whose_process_died_is_run_once_more(tmp_path: Path) -> None:
    said: list[str] = []
    with open_crew("local", 2, say=said.append) as crew:
        hit = crew.executor.submit(die_once, str(tmp_path / "mark"))
        others = [crew.executor.submit(square, number) for number in range(4)]
        assert hit.result() != os.getpid()
        assert [each.result() for each in others] == [0, 1, 4, 9]
    assert said == ["the process of a build was killed; it is built once more"]


def test_a_job_that_dies_twice_is_given_up_and_the_others_go_on() -> None:
    said: list[str] = []
    with open_crew("local", 2, say=said.append) as crew:
        hit = crew.executor.submit(die, "")
        others = [crew.executor.submit(square, number) for number in range(4)]
        with pytest.raises(WorkerLost, match="was killed, twice") as why:
            hit.result()
        assert why.value.exit_code is ExitCode.FAILED
        assert "--jobs 1" in why.value.hint
        assert [each.result() for each in others] == [0, 1, 4, 9]
    assert len(said) == 1


def test_an_exception_of_a_job_comes_home() -> None:
    with open_crew("local", 1, say=print) as crew:
        with pytest.raises(ValueError, match="no good"):
            crew.executor.submit(fail, "no good").result()
        assert crew.executor.submit(square, 3).result() == 9


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param("slurm", "no executor 'slurm'", id="unknown"),
        pytest.param("dask", "no executor 'dask'", id="no-address"),
        pytest.param("", "no executor ''", id="empty"),
    ],
)
def test_an_unknown_executor_is_refused(spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=said), open_crew(spec, 1, say=print):
        pytest.fail("there is no such executor")


def test_as_many_at_once_as_there_are_processors_unless_said() -> None:
    with open_crew("local", 0, say=print) as crew:
        assert crew.at_once == len(os.sched_getaffinity(0))
    with open_crew("threads", 3, say=print) as crew:
        assert crew.at_once == 3


def test_dask_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(UsageError, match="needs the package distributed") as why,
        open_crew("dask://localhost:8786", 1, say=print),
    ):
        pytest.fail("there is nothing to run on")
    assert why.value.hint == "pip install distributed"


@pytest.mark.parametrize(
    "address", ["localhost:1", "localhost", "localhost:no", "", "no such host:8786"]
)
def test_a_scheduler_that_does_not_answer_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("toolkit.features.builds.io.dask._PATIENCE_S", 1)
    with (
        pytest.raises(TransportError, match="no Dask scheduler answers") as why,
        open_crew(f"dask://{address}", 1, say=print),
    ):
        pytest.fail("there is nothing to run on")
    assert why.value.exit_code is ExitCode.UNREACHABLE


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(b"", id="accepts-and-says-nothing"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="ssh"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(bytes(64), id="noughts"),
    ],
)
def test_who_answers_and_is_no_scheduler_is_one_sentence(
    word: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("toolkit.features.builds.io.dask._PATIENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        other = threading.Thread(target=_say, args=(listening, word))
        other.start()
        with (
            pytest.raises(TransportError, match="no Dask scheduler answers"),
            open_crew(f"dask://127.0.0.1:{listening.getsockname()[1]}", 1, say=print),
        ):
            pytest.fail("there is nothing to run on")
        other.join()


def _say(listening: socket.socket, word: bytes) -> None:
    connection, _ = listening.accept()
    with connection, contextlib.suppress(ConnectionError):
        connection.sendall(word)
        while connection.recv(4096):
            """Until they hang up."""


class _Gone:
    """A client of Dask whose scheduler has died: before a job was handed over, or after."""

    def __init__(self, *, before: bool) -> None:
        self._before = before

    def submit(self, *_: object, **__: object) -> _Gone:
        if self._before:
            raise RuntimeError("the client is closed")
        return self

    def add_done_callback(self, ended: Callable[[_Gone], None]) -> None:
        ended(self)

    def result(self) -> int:
        raise CancelledError("scheduler-connection-lost")


@pytest.mark.parametrize("before", [True, False])
def test_a_scheduler_that_dies_is_out_of_reach_and_no_bug(before: bool) -> None:
    future = DaskCluster(_Gone(before=before), ZeroDivisionError).submit(square, 3)
    with pytest.raises(TransportError, match="connection to the Dask scheduler was lost"):
        future.result()


# Builds as run_job does: a child in a session of its own, killed on the way out.
PARENT = """
    import os, signal, subprocess, sys
    from pathlib import Path
    from toolkit.features.builds.io.executors import open_crew

    def job(folder: str) -> int:
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
            try:
                Path(folder, f"{child.pid}.child").touch()
                Path(folder, f"{os.getpid()}.worker").touch()
                return child.wait()
            finally:
                os.killpg(child.pid, signal.SIGKILL)

    if __name__ == "__main__":
        with open_crew("local", 2, say=print) as crew:
            try:
                futures = [crew.executor.submit(job, sys.argv[1]) for _ in range(2)]
                [each.result() for each in futures]
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                raise SystemExit(130)
"""


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
        pytest.param(signal.SIGTERM, -signal.SIGTERM, id="terminated"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="killed"),
    ],
)
def test_nothing_is_left_of_a_run_that_was_ended(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT))
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as parent:
        _until(lambda: len(list(tmp_path.glob("*.worker"))) == 2)
        pids = [int(each.stem) for each in tmp_path.iterdir() if each.stem.isdigit()]
        assert all(_runs(pid) for pid in pids)
        parent.send_signal(number)
        assert parent.wait(120) == status
    _until(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie, which only its parent can bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # gone before the look, or amid it
        return False


def _until(there: object, limit_s: float = 120) -> None:
    assert callable(there)
    end = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def test_a_process_that_is_not_needed_ends_with_the_block() -> None:
    with open_crew("local", 2, say=print) as crew:
        futures = [crew.executor.submit(os.getpid) for _ in range(4)]
        wait(futures)
        pids = {each.result() for each in futures}
    _until(lambda: not any(_runs(pid) for pid in pids))
