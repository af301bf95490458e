"""Packages for machines without dpkg: rpm's, and the tarball for sites without a network."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builds.packing import MAKING, Modules, state
from tests.builds.sandbox import Sandbox
from toolkit.features.builds.plan.packages import Format
from toolkit.features.builds.run.packages import make_packages

pytestmark = pytest.mark.builds


@pytest.fixture
def box(small: Sandbox) -> Iterator[Sandbox]:
    with small.branch() as made:
        yield made


@pytest.mark.packagers
def test_an_rpm_brings_the_same_files_and_runs_depmod_alone(
    modules: Modules, box: Sandbox, tmp_path: Path
) -> None:
    """Installed by rpm into a tree that has no rpm of its own."""
    kernel = modules.kernel
    first, common = make_packages(modules.builts, Format.RPM, tmp_path, MAKING)
    asked = _rpm("-qp", "--requires", "--scripts", "--provides", first.path)
    assert "weak-modules" not in asked
    assert "gdr-modules-common" in asked
    assert "ksym(" not in asked
    assert "kmod(" not in asked
    for name in ("depmod.d", "modprobe.d", "modules-load.d"):  # where rpm is at home they are
        box.path(f"usr/lib/{name}").mkdir(exist_ok=True)
    before = state(box, kernel)
    root = ("--root", box.root, "--dbpath", "/var/lib/rpm-of-test", "--nodeps")
    _rpm("-i", *root, first.path, common.path)
    for built in modules.builts:
        for each in built.modules:
            name = each.name.replace("nvidia-current-open", "nvidia")
            placed = box.path(f"lib/modules/{kernel}/updates/gdr-toolkit/{name}")
            assert placed.read_bytes() == each.data  # signatures too: nothing was stripped
    told = box.run("modinfo", "-k", kernel, "-n", "nvidia").out
    assert told.strip().endswith("updates/gdr-toolkit/nvidia.ko")
    newer = make_packages(modules.unsigned, Format.RPM, tmp_path / "2", replace(MAKING, revision=2))
    _rpm("-U", *root, newer[0].path)
    placed = box.path(f"lib/modules/{kernel}/updates/gdr-toolkit/ib_core.ko")
    file = modules.unsigned[0].file("ib_core.ko")
    assert file is not None
    assert placed.read_bytes() == file.data
    _rpm("-e", *root, f"gdr-modules-{kernel}", "gdr-modules-common")
    shutil.rmtree(box.path("var/lib/rpm-of-test"))
    assert state(box, kernel) == before


@pytest.mark.packagers
def test_an_rpm_refuses_a_second_owner(modules: Modules, box: Sandbox, tmp_path: Path) -> None:
    first, *_ = make_packages(modules.builts, Format.RPM, tmp_path, MAKING)
    box.write(f"/lib/modules/{modules.kernel}/extra/nvidia.ko", "another's")
    with pytest.raises(AssertionError, match="holds a module that this package brings"):
        _rpm("-i", "--root", box.root, "--dbpath", "/var/lib/rpm", "--nodeps", first.path)


def test_a_tarball_is_installed_into_an_image_and_taken_back(
    modules: Modules, box: Sandbox, tmp_path: Path
) -> None:
    kernel = modules.kernel
    [tar] = make_packages(modules.builts, Format.TAR, tmp_path, MAKING)
    before = state(box, kernel)
    subprocess.run(["tar", "-xf", str(tar.path), "-C", str(tmp_path)], check=True)
    folder = tmp_path / tar.path.name.removesuffix(".tar.gz")
    _sh(folder / "install.sh", "--root", box.root)
    told = box.run("modprobe", "-S", kernel, "-n", "--show-depends", "nvidia-peermem").out
    assert "updates/gdr-toolkit/nvidia-peermem.ko" in told
    again = box.path(f"var/lib/gdr-toolkit/modules/{kernel}/uninstall.sh")
    box.run("sh", f"/{again.relative_to(box.root)}")  # by the image itself, once it is booted
    assert state(box, kernel) == before


def _sh(*words: str | Path) -> str:
    done = subprocess.run(
        ["sh", *map(str, words)],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rpm(*words: str | Path) -> str:
    done = subprocess.run(["rpm", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
