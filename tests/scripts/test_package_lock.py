"""The lock of a tarball's scripts: one at a time, and never one that has ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.features.builds.test_builds_packages import DRIVER, KERNEL, built
from tests.scripts.engine import SHELLS
from tests.scripts.test_package_scripts import armed, call, unpacked

pytestmark = pytest.mark.shell


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with one kernel."""
    tree = tmp_path / "root"
    folder = tree / f"lib/modules/{KERNEL}"
    folder.mkdir(parents=True)
    for name in ("order", "builtin", "builtin.modinfo"):
        (folder / f"modules.{name}").touch()
    return tree


def test_a_lock_that_a_power_cut_left_holds_nobody_up_whoever_has_that_number_now(
    root: Path, tmp_path: Path
) -> None:
    tar, shell = unpacked(tmp_path, built(), DRIVER), SHELLS["dash"]
    path = armed(tmp_path / "bin", 8)
    assert call(shell, tar / "install.sh", "--root", root, path=path).returncode != 0
    lock = root / f"var/lib/gdr-toolkit/modules/{KERNEL}/lock"
    now = re.sub(r"^\d+", str(os.getpid()), str(lock.readlink()))  # which is alive, and another
    lock.unlink()
    lock.symlink_to(now)
    done = call(shell, tar / "install.sh", "--root", root)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_two_installations_at_once_are_one_too_many(shell: str, root: Path, tmp_path: Path) -> None:
    tar, folder = unpacked(tmp_path, built(), DRIVER), tmp_path / "bin"
    folder.mkdir()
    (folder / "sync").write_text(f"#!/bin/sh\necho $PPID >{tmp_path}/in\nread _ <{tmp_path}/out\n")
    (folder / "sync").chmod(0o755)
    for name in ("in", "out"):
        os.mkfifo(tmp_path / name)
    words = [*SHELLS[shell], str(tar / "install.sh"), "--root", str(root)]
    env = {"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"}
    with subprocess.Popen(words, env=env, start_new_session=True) as first:
        pid = (tmp_path / "in").read_text().strip()
        second = call(SHELLS[shell], tar / "install.sh", "--root", root)
        os.killpg(first.pid, signal.SIGKILL)  # and the sync, which waits
    assert second.returncode == 1
    assert f"process {pid} is at work here" in second.stderr
    third = call(SHELLS[shell], tar / "install.sh", "--root", root)
    assert third.returncode == 0, third.stderr
