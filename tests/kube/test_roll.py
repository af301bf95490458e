"""kubernetes --roll as an operator runs it: the real kubectl, before an API server of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.features.kubernetes.test_kubernetes_roll import STUB, ended
from tests.kube.api_server import ApiServer, serving
from toolkit.errors import ExitCode
from toolkit.features.kubernetes.io import MARK

pytestmark = pytest.mark.kube

ROOT = Path(__file__).parents[2]
IMAGE = "registry.example/busybox@sha256:" + "0123456789abcdef" * 4
NAMES = ("gpu1", "gpu2")
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Site:
    """Two nodes with a pod each, evidence of both, and where runs are kept."""

    world: ApiServer
    folder: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = (
            *(sys.executable, "-m", "toolkit.cli", "kubernetes", "--roll", "--yes"),
            *("--from", str(self.folder / "pods.log"), "--image", IMAGE),
            *("--kubeconfig", str(self.folder / "kube.conf"), *words),
        )
        own = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state")}
        return subprocess.Popen(
            argv, cwd=ROOT, env=os.environ | own, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def roll(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as process:
            said, _ = process.communicate(timeout=_LIMIT_S)
            return process.returncode, " ".join(said.split())

    def out(self, node: str) -> tuple[bool, str]:
        """Whether it is out of service, and in whose name."""
        found = self.world.node(node)
        marks = found["metadata"].get("annotations", {})
        return bool(found["spec"].get("unschedulable")), marks.get(MARK, "")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    world = ApiServer(logs={name: ended(name) for name in NAMES})
    for name in NAMES:
        world.add_node(name)
    log = "".join(f"gdr-toolkit: node {name}: probe\n{STUB.dump()}" for name in NAMES)
    (tmp_path / "pods.log").write_text(log)
    with serving(world, tmp_path / "kube.conf"):
        yield Site(world, tmp_path)


def test_nodes_are_drained_changed_and_given_back_by_the_real_kubectl(site: Site) -> None:
    code, said = site.roll("--serial", "1")
    assert code == ExitCode.OK, said
    assert site.world.wrong == []
    assert [site.out(name) for name in NAMES] == [(False, "")] * 2
    jobs = [each for (many, _, _), each in site.world.objects.items() if many == "jobs"]
    assert [job["spec"]["suspend"] for job in jobs] == [False, False]

    code, said = site.roll()
    assert code == ExitCode.STOPPED
    assert "the bundle was let go before; nothing was touched" in said
    assert [site.out(name) for name in NAMES] == [(False, "")] * 2


def test_a_disruption_budget_keeps_its_pods_and_is_named(site: Site) -> None:
    site.world.protected = {"web-gpu1"}
    code, said = site.roll("--drain-timeout", "2")
    assert code == ExitCode.STOPPED, said
    assert "gpu2: as wanted" in said
    assert "not drained, and given back" in said
    assert "would violate the pod's disruption budget" in said
    assert (site.world.pods_on("gpu1"), site.out("gpu1")) == (["web-gpu1"], (False, ""))


def test_what_a_killed_controller_left_cordoned_the_next_run_brings_to_its_end(site: Site) -> None:
    site.world.stuck = True
    end = time.monotonic() + _LIMIT_S
    with site.start("--serial", "1") as process:
        while not any(many == "pods" and "gdr" in ns for many, ns, _ in [*site.world.objects]):
            assert process.poll() is None, "it ended before a Job was let go"
            assert time.monotonic() < end, "no Job was let go"
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert [site.out(name)[0] for name in NAMES] == [True, False]

    code, said = site.roll()
    assert (code, "the bundle was let go before" in said) == (ExitCode.STOPPED, True), said
    site.world.stuck = False
    with site.world.lock:  # kubectl delete job, with its pod
        for key in [key for key in site.world.objects if key[1] == "gdr-toolkit"]:
            del site.world.objects[key]
    code, said = site.roll()
    assert code == ExitCode.OK, said
    assert (site.world.wrong, site.out("gpu1"), site.out("gpu2")) == ([], (False, ""), (False, ""))
