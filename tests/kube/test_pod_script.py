"""What a pod of ours does: with an nsenter that only notes, and with the real one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from toolkit.evidence import Evidence
from toolkit.features.kubernetes.io import pod_files

pytestmark = pytest.mark.kube
_PATIENCE_S = 60  # for a condition, on a machine that is busy with others' work

FAKE = """#!/bin/sh
echo "$*" >>"$NOTES"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
READS = "printf '= begin ok gdr-toolkit/1\\n= kernel ok uname\\n|6.1\\n= end ok 1\\n'\n"


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = SHELLS[request.param]
    return found


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """The folder that a pod of ours has its scripts in; the probe is a short one."""
    folder = tmp_path / "gdr"
    folder.mkdir()
    (folder / "pod.sh").write_text(pod_files()["pod.sh"])
    (folder / "probe.sh").write_text(READS)
    fake = tmp_path / "bin" / "nsenter"
    fake.parent.mkdir()
    fake.write_text(FAKE)
    fake.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def node() -> Iterator[int]:
    """A process that is in other namespaces than ours, as process 1 is for a pod."""
    words = ("unshare", "--mount", "--uts", "sh", "-c", "hostname gdr-inside; exec sleep 600")
    with subprocess.Popen(words) as process:
        try:
            _until(lambda: _mount(process.pid) != _mount(os.getpid()))
            yield process.pid
        finally:
            process.kill()


def _mount(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115 the link's target is no path


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def running(
    shell: tuple[str, ...], pod: Path, *words: str, target: int, real: bool = False
) -> Iterator[subprocess.Popen[str]]:
    path = os.environ["PATH"] if real else f"{pod.parent / 'bin'}:{os.environ['PATH']}"
    env = {
        "PATH": f"{path}:/usr/sbin:/sbin",
        "NOTES": str(pod.parent / "notes"),
        "GDR_NODE": "gpu007",
        "GDR_TARGET": str(target),
        "GDR_READY": str(pod.parent / "ready"),
        "SECRET": "of the pod",
    }
    process = subprocess.Popen(
        [*shell, str(pod / "pod.sh"), *words], env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # what it began may outlive it, and hold its output
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(
    shell: tuple[str, ...], pod: Path, *words: str, target: int, real: bool = False
) -> tuple[int, str]:
    """To its end; a probe's pod is told to end once it has read."""
    with running(shell, pod, *words, target=target, real=real) as process:
        if words == ("probe",):
            _until(lambda: (pod.parent / "ready").exists() or process.poll() is not None)
            process.terminate()
        out, _ = process.communicate(timeout=_PATIENCE_S)
        return process.returncode, out


def bundle(pod: Path, *parts: str) -> str:
    """The parts as a ConfigMap has them; the sum of the whole."""
    for number, part in enumerate(parts):
        (pod / f"bundle.{number:03}").write_text(part)
    return sha256("".join(parts).encode()).hexdigest()


def test_a_probes_pod_says_whose_evidence_it_is_and_sits_still(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    with running(shell, pod, "probe", target=node) as process:
        _until((pod.parent / "ready").exists)
        assert process.poll() is None
        process.terminate()
        out, _ = process.communicate(timeout=_PATIENCE_S)
    assert out.split("\n")[0] == "gdr-toolkit: node gpu007: probe"
    assert Evidence.parse(out).text("kernel") == "6.1\n"
    assert process.returncode == 0
    told = (pod.parent / "notes").read_text().split()
    assert told[:8] == ["-t", str(node), "-m", "-u", "-i", "-n", "--", "/usr/bin/env"]


def test_a_pod_that_is_not_on_the_nodes_processes_reads_nothing(
    shell: tuple[str, ...], pod: Path
) -> None:
    status, out = run(shell, pod, "probe", target=os.getpid())
    assert status == 1
    assert "is in this very container: hostPID is missing" in out
    assert "= begin" not in out


def test_a_node_that_was_not_read_does_not_count_as_read(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    (pod / "probe.sh").write_text("exit 3\n")
    (pod.parent / "ready").write_text("")  # of the container before
    status, _ = run_until_exit(shell, pod, "probe", target=node)
    assert status == 3
    assert not (pod.parent / "ready").exists()


def run_until_exit(shell: tuple[str, ...], pod: Path, *words: str, target: int) -> tuple[int, str]:
    with running(shell, pod, *words, target=target) as process:
        out, _ = process.communicate(timeout=_PATIENCE_S)
        return process.returncode, out


def test_a_bundle_is_joined_carried_out_and_looked_at(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    total = bundle(pod, 'echo "first $SECRET"\n', "echo second; exit 5\n")
    status, out = run(shell, pod, "apply", total, target=node)
    assert out.split("\n")[:5] == [
        f"gdr-toolkit: node gpu007: apply {total}",
        "first ",  # nothing of the pod's own environment
        "second",
        "gdr-toolkit: node gpu007: ended 5",
        "gdr-toolkit: node gpu007: probe",
    ]
    assert status == 5


def test_a_bundle_that_lacks_a_part_touches_nothing(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    total = bundle(pod, "echo first\n", "echo second\n")
    (pod / "bundle.001").unlink()
    status, out = run(shell, pod, "apply", total, target=node)
    assert status == 74
    assert out == (
        "gdr-toolkit: node gpu007: the parts of the bundle do not make the whole that was "
        "rendered; nothing was touched\n"
    )


def test_a_bundle_hears_that_its_pod_is_to_end_and_finishes_its_step(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    begun = pod.parent / "begun"
    step = (
        f"trap 'stop=1' TERM\n: >{begun}\nuntil [ -n \"$stop\" ]; do sleep 0.1; done\necho done\n"
    )
    total = bundle(pod, "stop=''\n" + step)
    with running(shell, pod, "apply", total, target=node) as process:
        _until(begun.exists)
        process.terminate()
        out, _ = process.communicate(timeout=_PATIENCE_S)
    assert "\ndone\ngdr-toolkit: node gpu007: ended 0\n" in out
    assert process.returncode == 0


def test_the_real_nsenter_is_in_the_nodes_own_namespaces(
    shell: tuple[str, ...], pod: Path, node: int
) -> None:
    (pod / "probe.sh").write_text('readlink /proc/self/ns/mnt; hostname; echo "[$GDR_NODE]"\n')
    _, out = run(shell, pod, "probe", target=node, real=True)
    assert out.split("\n")[1:4] == [_mount(node), "gdr-inside", "[]"]
