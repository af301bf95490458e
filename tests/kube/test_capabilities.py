"""Which capabilities a pod needs to get at its node: those that --confined gives, and why each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.containers import sleeping
from toolkit.features.kubernetes.io import pod_files
from toolkit.features.kubernetes.plan import CAPABILITIES

pytestmark = pytest.mark.kube
_ENTERING = {"SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"}


@pytest.fixture(scope="module")
def node() -> Iterator[int]:
    """A process with all of root's rights, in namespaces of its own, as process 1 of a node has."""
    words = ("unshare", "--mount", "--uts", "--ipc", "--net", "sleep", "600")
    with sleeping(words) as pid:
        yield pid


def ran(folder: Path, node: int, capabilities: set[str]) -> subprocess.CompletedProcess[str]:
    """pod.sh as a container's root runs it: its bounding set is what it was given."""
    for name, text in pod_files().items():
        (folder / name).write_text(text)
    (folder / "bundle.000").write_text("readlink /proc/self/ns/net /proc/self/ns/uts\n")
    total = subprocess.run(
        ("sha256sum", str(folder / "bundle.000")), capture_output=True, text=True, check=True
    ).stdout.split()[0]
    (folder / "probe.sh").write_text(":\n")
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in sorted(capabilities))])
    words = ("setpriv", "--bounding-set", kept, "--inh-caps", "-all", "sh", str(folder / "pod.sh"))
    return subprocess.run(
        (*words, "apply", total), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "GDR_NODE": "gpu007", "GDR_TARGET": str(node)},
        timeout=120, check=False,
    )  # fmt: skip


def test_what_confined_gives_is_enough_to_enter_the_node(tmp_path: Path, node: int) -> None:
    done = ran(tmp_path, node, set(CAPABILITIES))
    assert done.returncode == 0, done.stderr
    spaces = [os.readlink(f"/proc/{node}/ns/{kind}") for kind in ("net", "uts")]  # noqa: PTH115 the link's target is no path
    assert done.stdout.split("\n")[1:3] == spaces


@pytest.mark.parametrize("without", sorted(_ENTERING))
def test_each_that_entering_takes_is_needed(tmp_path: Path, node: int, without: str) -> None:
    done = ran(tmp_path, node, set(CAPABILITIES) - {without})
    assert done.returncode != 0
    assert "net:[" not in done.stdout


def test_entering_takes_no_other(tmp_path: Path, node: int) -> None:
    assert ran(tmp_path, node, _ENTERING).returncode == 0
