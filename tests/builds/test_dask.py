"""Builds on a Dask cluster: a real scheduler, two real workers, one of which is killed midway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.bmc.tls import Authority, Certificate
from tests.builds import stubs
from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox

pytestmark = pytest.mark.builds

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Cluster:
    address: str  # HOST:PORT of the scheduler
    workers: tuple[subprocess.Popen[bytes], ...]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """A tree with a driver and OFED for one kernel: nvidia-peermem and gdrdrv are to be built."""
    with stack("bookworm") as made:
        stubs.gdrdrv(made, "2.4.4")
        yield made


@contextmanager
def _cluster(
    folder: Path, *, workers: int, path: str = str(ROOT), tls: tuple[str, ...] = ()
) -> Iterator[Cluster]:
    file = folder / "scheduler.json"
    words = ["--scheduler-file", str(file), "--no-dashboard", *tls]
    started = [_start(folder, "scheduler", path, *words, "--host", "127.0.0.1", "--port", "0")]
    try:
        _until(lambda: file.exists() and "address" in file.read_text(), started[0])
        for number in range(workers):
            name = ("--name", f"w{number}", "--nthreads", "1", "--no-nanny")
            started.append(_start(folder, "worker", path, *words, *name))
        address = json.loads(file.read_text())["address"].partition("://")[2]
        for number, worker in enumerate(started[1:]):
            log = folder / f"worker-w{number}.log"
            _until(partial(_registered, log), worker)
        yield Cluster(address, tuple(started[1:]))
    finally:
        for each in started:
            each.kill()
            each.wait()


def _registered(log: Path) -> bool:
    return "Registered to" in log.read_text()


def _start(folder: Path, kind: str, path: str, *words: str) -> subprocess.Popen[bytes]:
    """One process of the cluster, with the toolkit of this checkout unless told otherwise."""
    name = next((each for each in words if each[:1] == "w"), "")
    log = (folder / f"{kind}-{name}.log").open("wb")
    env = {**os.environ, "PYTHONPATH": path, "DASK_TEMPORARY_DIRECTORY": str(folder)}
    module = f"distributed.cli.dask_{kind}"
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=env, cwd=folder, stdout=log, stderr=log
        )


def _until(
    there: Callable[[], bool], process: subprocess.Popen[bytes], limit_s: float = 60
) -> None:
    end = time.monotonic() + limit_s
    while not there():
        assert process.poll() is None, "it ended before it came to that"
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


def _build(
    folder: Path, box: Sandbox, address: str, *, scheme: str = "dask", **environment: str
) -> subprocess.Popen[str]:
    what = ["--kernel", box.kernel("6.1."), "--part", "peermem,gdrdrv"]
    place = ["--root", str(box.root), "--executor", f"{scheme}://{address}"]
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit.cli", "build", *what, *place, "--json"],
        cwd=ROOT,
        env={
            **os.environ,
            "XDG_STATE_HOME": str(folder),
            "XDG_CACHE_HOME": str(folder),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _descendants(pid: int) -> list[str]:
    """Names of the processes that a process has started, and those that they have."""
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        # A process may end between any two looks: its file is gone then, or a read says ESRCH.
        with suppress(OSError):
            for child in task.read_text().split():
                with suppress(OSError):
                    found.append(Path(f"/proc/{child}/comm").read_text().strip())
                found += _descendants(int(child))
    return found


def test_a_worker_that_is_killed_midway_costs_time_and_nothing_else(
    tmp_path: Path, box: Sandbox
) -> None:
    with _cluster(tmp_path, workers=2) as cluster:
        run = _build(tmp_path, box, cluster.address)
        end = time.monotonic() + 120
        while not (at_it := [w for w in cluster.workers if "make" in _descendants(w.pid)]):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < end, "nobody ever compiled"
            time.sleep(0.05)
        victim = at_it[0]
        (other,) = (each for each in cluster.workers if each is not victim)
        victim.send_signal(signal.SIGKILL)
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        assert other.poll() is None
    told = json.loads(out)
    assert {each["part"]: each["state"] for each in told["builds"]} == {
        "ofed": "given",
        "driver": "given",
        "peermem": "built",
        "gdrdrv": "built",
    }
    modules = [each["accepted"] for each in told["builds"] if each["state"] == "built"]
    assert modules == [["nvidia-peermem.ko"], ["gdrdrv.ko"]]


def test_a_cluster_without_workers_is_named_at_once(tmp_path: Path, box: Sandbox) -> None:
    with _cluster(tmp_path, workers=0) as cluster:
        run = _build(tmp_path, box, cluster.address)
        _, err = run.communicate(timeout=120)
    assert run.returncode == 4
    assert err.startswith(f"error: the Dask scheduler at {cluster.address} has no workers")


def test_a_worker_with_another_toolkit_is_named_at_once(tmp_path: Path, box: Sandbox) -> None:
    """Jobs are sent by name: it would carry out something else."""
    other = tmp_path / "other"
    (other / "toolkit").mkdir(parents=True)
    (other / "toolkit/__init__.py").write_text('__version__ = "0.0.1"\n')
    (other / "toolkit/features/builds/io").mkdir(parents=True)
    inner = ("features", "features/builds", "features/builds/io")
    for name in (*(f"{each}/__init__" for each in inner), "features/builds/io/dask"):
        (other / f"toolkit/{name}.py").write_text("def version_here():\n    return '0.0.1'\n")
    with _cluster(tmp_path, workers=1, path=str(other)) as cluster:
        run = _build(tmp_path, box, cluster.address)
        _, err = run.communicate(timeout=120)
    assert run.returncode == 4
    assert "has gdr-toolkit 0.0.1; here it is" in err


def _settings(authority: Authority) -> dict[str, str]:
    """Dask's own, as a site gives them to whoever may use its cluster."""
    mine, place = str(authority.shown[Certificate.GOOD].pem), "DASK_DISTRIBUTED__COMM__TLS__"
    files = {"CA_FILE": str(authority.ca), "CLIENT__CERT": mine, "CLIENT__KEY": mine}
    return {f"{place}{name}": file for name, file in files.items()}


def test_by_tls_with_the_site_s_certificates_and_no_others(tmp_path: Path, box: Sandbox) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    for each in (ours, others):
        each.mkdir()
    site, strange = Authority.make(ours), Authority.make(others)
    shown = str(site.shown[Certificate.GOOD].pem)
    words = ("--tls-ca-file", str(site.ca), "--tls-cert", shown, "--tls-key", shown)
    with _cluster(tmp_path, workers=1, tls=(*words, "--protocol", "tls")) as cluster:
        good = _build(tmp_path, box, cluster.address, scheme="tls", **_settings(site))
        _, err = good.communicate(timeout=300)
        assert good.returncode == 0, err
        for run in (
            _build(tmp_path, box, cluster.address, scheme="tls", **_settings(strange)),
            _build(tmp_path, box, cluster.address),  # in the clear
        ):
            _, err = run.communicate(timeout=120)
            assert run.returncode == 4, err
            assert err.startswith(f"error: no Dask scheduler answers at {cluster.address}")
        without = _build(tmp_path, box, cluster.address, scheme="tls")
        _, err = without.communicate(timeout=120)
    assert without.returncode == 64
    assert "needs the certificates of the cluster" in err
