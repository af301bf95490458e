"""doctor --inside kubectl:NS/POD as an operator runs it: the real kubectl, and a root folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.kube.api_server import ApiServer, serving
from tests.kube.containers import FILES, laid_out
from toolkit.evidence import Evidence

pytestmark = pytest.mark.kube
ROOT = Path(__file__).parents[2]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Path]:
    """A cluster with one pod: its container "job" is a root folder, "none" has no shell."""
    roots = {
        "job": laid_out(tmp_path / "job", {}),
        "none": laid_out(tmp_path / "none", {}, shell=False),
    }
    world = ApiServer()
    world.put("namespaces", "", {"metadata": {"name": "train"}})
    containers = [{"name": name, "image": "x"} for name in roots]
    world.put("pods", "train", {
        "metadata": {"name": "worker-0"}, "status": {"phase": "Running"},
        "spec": {"nodeName": "localhost", "containers": containers},
    })  # fmt: skip

    def enter(namespace: str, pod: str, container: str, words: Sequence[str]) -> Sequence[str]:
        assert (namespace, pod) == ("train", "worker-0")
        return ("chroot", str(roots[container or "job"]), *words)

    world.enter = enter
    with serving(world, tmp_path / "kube.conf"):
        yield tmp_path


def run(folder: Path, *words: str) -> tuple[int, str]:
    own = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
           "KUBECONFIG": str(folder / "kube.conf")}  # fmt: skip
    here = ("--hosts", "localhost", "--transport", "local")
    done = subprocess.run(
        (sys.executable, "-m", "toolkit.cli", *words, *here),
        cwd=ROOT, env=os.environ | own, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("pod", ["train/worker-0", "train/worker-0/job"])
def test_a_pod_is_entered_by_kubectl(pods: Path, pod: str) -> None:
    words = ("capture", "--inside", f"kubectl:{pod}", "--out", str(pods / "out"))
    code, said = run(pods, *words)
    assert code == 0, said
    kept = Evidence.parse((pods / "out" / "localhost.evidence").read_text())
    assert kept.text("inside") == f"kind kubectl\nname {pod}\nway entered\nwhole yes\n"
    library = next(name for name in FILES if name.endswith("libnccl.so.2.27.3"))
    assert f"/{library}" in kept.text("inside/libraries").split("\n")
    assert kept.complete


def test_a_pod_that_is_not_there_is_told_with_those_that_are(pods: Path) -> None:
    code, said = run(pods, "doctor", "--inside", "kubectl:train/worker-9")
    assert code == 4, said
    assert 'kubectl:train/worker-9: Error from server (NotFound): pods "worker-9" not found' in said
    assert "there is in train: pod/worker-0" in said


def test_a_container_without_a_shell_is_told_where_to_look_instead(pods: Path) -> None:
    code, said = run(pods, "doctor", "--inside", "kubectl:train/worker-0/none")
    assert code == 4, said
    assert "it has no sh: look into its image instead, --inside image:FILE" in said
