"""Modules that were built elsewhere, brought to nodes over real sshd, and taken back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from toolkit.built.delivery_cache import to_entry
from toolkit.built.io.store import Store
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.demo.create import run
from toolkit.demo.nodes import UBUNTU_KERNEL, Recipe
from toolkit.demo.software import DRIVER, nvidia_package
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd

NAME = "demo-stub"
PLACE = f"lib/modules/{UBUNTU_KERNEL}/updates/gdr-toolkit/nvidia-peermem.ko"


def precompiled(nodes: Nodes) -> None:
    """The driver is no longer DKMS's but the kernel package's own, stub and all."""
    tree = nodes.tree(NAME)
    modules = tree / "lib/modules" / UBUNTU_KERNEL
    (modules / "kernel/nvidia").mkdir()
    for file in (modules / "updates/dkms").glob("nvidia*.ko"):
        file.rename(modules / "kernel/nvidia" / file.name)
    shutil.rmtree(tree / "var/lib/dkms/nvidia")
    for folder in (tree / "usr/src").glob("nvidia-*"):
        shutil.rmtree(folder)
    run(tree.parent, "depmod", UBUNTU_KERNEL)
    run(tree.parent, "boot")


def built() -> Built:
    """As the cache has it: compiled against the driver and the OFED of these nodes."""
    peermem = next(e for e in nvidia_package("nvidia").modules if e.name == "nvidia-peermem")
    data = peermem.file(UBUNTU_KERNEL, Recipe("any").vermagic, ("nvidia", "ib_uverbs"))
    inputs = Inputs(
        Part.PEERMEM, "nvidia-peermem", DRIVER, UBUNTU_KERNEL, "x86_64", *["0" * 64] * 6
    )
    return Built(inputs, (BuiltFile("nvidia-peermem.ko", data),))


@pytest.fixture
def node(tmp_path: Path, keys: Keys) -> Iterator[Nodes]:
    with served(tmp_path, (NAME,), keys) as made:
        precompiled(made)
        (tmp_path / "site.toml").write_text('modules = "built"\n')
        yield made


def words(node: Nodes) -> tuple[str, ...]:
    return ("--site", str(node.folder / "site.toml"), "--cache", str(node.folder / "cache"))


def test_without_a_build_the_node_is_left_as_it_is_and_told_which_to_make(node: Nodes) -> None:
    first = node.digest()
    ended = node.run("provision", "--check", *words(node))
    assert ended.returncode == ExitCode.UNKNOWN, ended.stdout + ended.stderr
    command = f"build --kernel {UBUNTU_KERNEL} --driver {DRIVER} --part peermem --on {NAME}"
    assert command in " ".join(ended.stdout.split())
    assert node.digest() == first


def test_a_built_module_is_brought_loaded_and_taken_back(node: Nodes) -> None:
    Store(node.folder / "cache").keep(to_entry(built()))
    first = node.digest()

    checked = node.run("provision", "--check", "--diff", *words(node))
    assert checked.returncode == ExitCode.PENDING, checked.stdout + checked.stderr
    assert f"sha256 {built().files[0].sha256}" in checked.stdout
    assert node.digest() == first

    changed = node.run("provision", "--yes", "--reboot", *words(node))
    assert changed.returncode == ExitCode.OK, changed.stdout + changed.stderr
    there = node.tree(NAME) / PLACE
    assert there.read_bytes() == built().files[0].data
    assert (node.tree(NAME) / "sys/module/nvidia_peermem").is_dir()
    healed = node.digest()

    again = node.run("provision", "--check", *words(node))
    assert again.returncode == ExitCode.OK, again.stdout + again.stderr
    forgotten = node.run("provision", "--yes", "--reboot")
    assert forgotten.returncode == ExitCode.OK, forgotten.stdout + forgotten.stderr
    assert node.digest() == healed, "what was delivered was taken away"

    undone = node.run("rollback", "--yes", "--reboot", "--run", "all")
    assert undone.returncode == ExitCode.OK, undone.stdout + undone.stderr
    assert node.digest() == first
