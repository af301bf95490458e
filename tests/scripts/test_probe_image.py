"""The probe on an image: what only a running machine has is absent, though it lies there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.demo.create import environment, make_nodes
from toolkit.evidence import Evidence, State
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

KERNEL = "9.9.9-of-the-image"
SHELLS = [("dash",), ("busybox", "sh"), ("bash",)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated node, whose tree is full of what a running machine shows."""
    folder = tmp_path_factory.mktemp("image")
    make_nodes(folder, ("demo-healthy",))
    return next(folder.rglob("tree")).parent


def read(place: Path, shell: tuple[str, ...], **given: str) -> Evidence:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:], "-s"),
        input=probe_script(),
        env={**environment(place), **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Evidence.parse(done.stdout)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_nothing_below_proc_sys_and_dev_is_read(place: Path, shell: tuple[str, ...]) -> None:
    found = read(place, shell, GDR_KERNEL=KERNEL)
    of_a_run = {
        key: frame.state
        for key, frame in found.frames.items()
        if frame.source.startswith(("/proc/", "/sys/", "/dev/")) and "," not in frame.source
    }
    assert len(of_a_run) > 20
    assert set(of_a_run.values()) == {State.ABSENT}
    assert found.complete


def test_the_same_tree_without_the_word_is_a_running_machine(place: Path) -> None:
    found = read(place, ("dash",))
    for key in ("boot-id", "cmdline", "module-state", "pci", "kernel-release"):
        assert found.frame(key).state is State.OK, key
    assert Node(found).live


def test_the_kernel_is_the_one_that_was_asked_for(place: Path) -> None:
    found = Node(read(place, ("dash",), GDR_KERNEL=KERNEL))
    assert (found.kernel, found.default_kernel, found.live) == (KERNEL, KERNEL, False)
