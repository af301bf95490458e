"""The shipped suite in a container and in a folder, by testinfra's own backends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.run import ROOT
from tests.kube.containers import Podman, laid_out, podman_in

pytestmark = [pytest.mark.kube, pytest.mark.podman]


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with tempfile.TemporaryDirectory(prefix="gdr-pod-", dir="/tmp") as folder:
        yield podman_in(Path(folder))


def root_of(folder: Path) -> Path:
    root = laid_out(folder / "root", {})
    for name in ("base64", "gzip", "cut", "printf", "ls", "wc"):
        (root / "bin" / name).symlink_to("busybox")
    return root


def suite(folder: Path, host: str, path: str = os.environ["PATH"]) -> str:
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "--pyargs",
                "toolkit.suites",
                "-p",
                "no:cacheprovider",
            ),
            *("--hosts", host, "-rA", "--color=no"),
        ],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_a_container_is_a_host_of_the_suite(podman: Podman, tmp_path: Path) -> None:
    with podman.running(root_of(tmp_path), "train", ()):
        told = suite(tmp_path, "podman://train", podman.path)
    assert "PASSED" in told
    assert "::test_the_boot_id[podman://train]" in told
    assert "Traceback" not in told
    assert " error" not in told.splitlines()[-1]


def test_a_folder_without_proc_is_judged_by_what_it_has(tmp_path: Path) -> None:
    told = suite(tmp_path, f"chroot://{root_of(tmp_path)}")
    assert "not read: " in told
    assert "NoEvidence" not in told
    assert " error" not in told.splitlines()[-1]


def test_one_that_has_no_tools_for_it_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    told = suite(tmp_path, f"chroot://{laid_out(tmp_path / 'root', {})}")
    assert "it needs sh, base64 and gzip" in told
    assert "Traceback" not in told
