"""Packages of real modules, made by the real tools, installed by real dpkg, rpm and sh."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builds.guest import boot
from tests.builds.packing import MAKING, Modules, put, state
from tests.builds.sandbox import Sandbox
from toolkit.features.builds.io.package_tools import pack_deb
from toolkit.features.builds.plan.packages import Format, PackedFile
from toolkit.features.builds.run.packages import make_packages

pytestmark = pytest.mark.builds

CONTROL = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: X <x@y.example>\nDescription: x\n"
# In the shape of what Debian's packages for user space bring.
_DEBIANS = """\
install nvidia modprobe -i nvidia-current-open $CMDLINE_OPTS
install nvidia-peermem modprobe nvidia && modprobe -i nvidia-current-open-peermem $CMDLINE_OPTS
"""


@pytest.fixture(scope="module")
def debs(modules: Modules, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The package of the kernel, and that of no kernel."""
    out = tmp_path_factory.mktemp("debs")
    first, common = make_packages(modules.builts, Format.DEB, out, MAKING)
    return first.path, common.path


@pytest.fixture
def box(small: Sandbox) -> Iterator[Sandbox]:
    with small.branch() as made:
        yield made


@contextmanager
def _elsewhere(zone: str) -> Iterator[None]:
    """Another umask, clock and language."""
    mask, before = os.umask(0o077), dict(os.environ)
    os.environ |= {"TZ": zone, "LC_ALL": "C", "HOME": "/nonexistent"}
    time.tzset()
    time.sleep(1.1)  # times of files are in whole seconds
    try:
        yield
    finally:
        os.umask(mask)
        os.environ.clear()
        os.environ.update(before)
        time.tzset()


FORMATS = [Format.DEB, pytest.param(Format.RPM, marks=pytest.mark.packagers), Format.TAR]


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_modules_give_the_same_bytes(
    modules: Modules, tmp_path: Path, form: Format
) -> None:
    make_packages(modules.builts, form, tmp_path / "first", MAKING)
    with _elsewhere("Asia/Tokyo"):
        make_packages(tuple(reversed(modules.builts)), form, tmp_path / "second", MAKING)
    first = {each.name: each.read_bytes() for each in (tmp_path / "first").iterdir()}
    assert first == {each.name: each.read_bytes() for each in (tmp_path / "second").iterdir()}
    make_packages(modules.unsigned, form, tmp_path / "other", MAKING)
    other = {each.name for each in (tmp_path / "other").iterdir()}
    assert len(other & set(first)) == len(first) - 1  # the digest in the name tells them apart


def test_an_ordinary_user_packs_the_same_bytes(tmp_path: Path) -> None:
    files = [
        PackedFile("DEBIAN/control", CONTROL.encode(), 0o644),
        PackedFile("lib/modules/6.1.0/updates/gdr-toolkit/x.ko", b"module", 0o644),
    ]
    ours = pack_deb(files, tmp_path / "ours.deb", 1767225600).read_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, 65534, 65534)
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os.environ["TMPDIR"] = name  # dpkg-deb's; ours may be root's alone
                pack_deb(files, folder / "theirs.deb", 1767225600)
                status = 0
            finally:  # else it would go on as a second pytest
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert (folder / "theirs.deb").stat().st_uid == 65534
        assert (folder / "theirs.deb").read_bytes() == ours


@pytest.mark.packagers
def test_lintian_has_no_error_to_tell(debs: tuple[Path, Path]) -> None:
    said = subprocess.run(
        ["lintian", "--no-cfg", "--allow-root", "--fail-on", "error", *map(str, debs)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout
    assert "E: " not in said.stdout


def test_a_guest_loads_what_the_deb_brought_and_forgets_it_when_it_goes(
    modules: Modules, debs: tuple[Path, Path], box: Sandbox
) -> None:
    """By dpkg and modprobe in a booted kernel: order of loading, order of unloading, no trace."""
    names = put(box, *debs)
    box.write("/root/debian.conf", _DEBIANS)
    own = "gdr-modules-$K gdr-modules-common"
    script = f"""
    set -eu
    K={modules.kernel}
    state() {{
        find / -xdev \\( -path /root -o -path /var/lib/dpkg -o -path /var/log \\) -prune -o -print |
            LC_ALL=C sort
        sha256sum /lib/modules/$K/modules.*
        ls /var/lib/dpkg/info
    }}
    loaded() {{ awk '{{ print $1, $4 }}' /proc/modules | grep -E '^(nvidia|ib_|mlx_)' || :; }}
    state >/root/before
    dpkg -i {" ".join(names)} >/root/said 2>&1 || {{ cat /root/said; exit 1; }}
    echo == plain; modprobe nvidia-peermem; loaded
    echo "version $(cat /sys/module/nvidia_peermem/version)"
    ! rmmod nvidia 2>&1
    echo == unloaded; modprobe -r nvidia-peermem; loaded
    cp /root/debian.conf /etc/modprobe.d/; echo == debian; modprobe nvidia-peermem; loaded
    modprobe -r nvidia-peermem; rm /etc/modprobe.d/debian.conf; loaded
    dpkg -r {own} >/root/said 2>&1; dpkg --purge {own} >/root/said 2>&1
    state >/root/after
    echo == changed; diff /root/before /root/after || :
    ! modprobe nvidia-peermem 2>&1
    """
    said = boot(box.root, modules.kernel, script, limit_s=300)
    assert said.status == 0, said.out
    parts = said.out.split("== ")[1:]
    order = {
        "nvidia_peermem -",
        "nvidia nvidia_peermem,",
        "ib_uverbs nvidia_peermem,",
        "ib_core ib_uverbs,",
        "mlx_compat ib_core,",
    }
    assert parts[0].startswith("plain\n")
    assert order < set(parts[0].split("\n"))
    assert "version 535.261.03" in parts[0]
    assert "Module nvidia is in use by: nvidia_peermem" in parts[0]
    assert parts[1] == "unloaded\n"
    assert parts[2].startswith("debian\n")
    assert set(parts[2].split("\n")[1:-1]) == order
    gone = f"Module nvidia-peermem not found in directory /lib/modules/{modules.kernel}"
    assert parts[3] == f"changed\nmodprobe: FATAL: {gone}\n"


def test_a_newer_version_replaces_the_older_one_and_nothing_of_either_stays(
    modules: Modules, debs: tuple[Path, Path], box: Sandbox, tmp_path: Path
) -> None:
    kernel = modules.kernel
    newer = make_packages(modules.unsigned, Format.DEB, tmp_path, replace(MAKING, revision=2))
    before = state(box, kernel)
    peermem = f"lib/modules/{kernel}/updates/gdr-toolkit/nvidia-peermem.ko"
    for packages, built in ((debs, modules.builts), ((newer[0].path,), modules.unsigned)):
        box.run("dpkg", "-i", *put(box, *packages))
        file = built[1].file("nvidia-current-open-peermem.ko")
        assert file is not None
        assert box.path(peermem).read_bytes() == file.data
        told = box.run("modprobe", "-S", kernel, "-n", "--show-depends", "nvidia-peermem").out
        paths = [row.split()[1].rpartition("/")[2] for row in told.splitlines()]
        assert paths[-1] == "nvidia-peermem.ko"
        assert set(paths[:-1]) == {"mlx_compat.ko", "ib_core.ko", "ib_uverbs.ko", "nvidia.ko"}
    assert "downgrading" in box.run("dpkg", "-i", *put(box, debs[0])).out
    box.run("dpkg", "--purge", f"gdr-modules-{kernel}", "gdr-modules-common")
    assert state(box, kernel) == before


@pytest.mark.parametrize("rival", ["updates/dkms/nvidia-peermem.ko.xz", "extra/ib_core.ko"])
def test_a_second_owner_of_a_module_is_refused_by_name(
    modules: Modules, debs: tuple[Path, Path], box: Sandbox, rival: str
) -> None:
    path = f"/lib/modules/{modules.kernel}/{rival}"
    box.write(path, "another's")
    before = state(box, modules.kernel)
    done = box.run("dpkg", "-i", *put(box, debs[0]), check=False)
    assert done.status != 0
    assert f"{path} holds a module that this package brings" in done.out
    assert "dkms remove" in done.out
    assert state(box, modules.kernel) == before


def test_a_file_that_provision_placed_is_not_taken_over(
    modules: Modules, debs: tuple[Path, Path], box: Sandbox
) -> None:
    path = f"/lib/modules/{modules.kernel}/updates/gdr-toolkit/ib_core.ko"
    box.write(path, "placed by provision")
    done = box.run("dpkg", "-i", *put(box, debs[0]), check=False)
    assert done.status != 0
    assert f"{path} was placed by other means" in done.out
    assert box.read(path) == "placed by provision"


def test_a_machine_without_that_kernel_refuses_the_package(
    modules: Modules, debs: tuple[Path, Path], box: Sandbox
) -> None:
    shutil.rmtree(box.path(f"lib/modules/{modules.kernel}"))
    done = box.run("dpkg", "-i", *put(box, debs[0]), check=False)
    assert done.status != 0
    assert f"kernel {modules.kernel} is not installed here" in done.out
    assert not box.path(f"lib/modules/{modules.kernel}").exists()


def test_without_the_kernel_package_dpkg_leaves_it_unconfigured(
    modules: Modules, tmp_path: Path, debs: tuple[Path, Path], box: Sandbox
) -> None:
    """The dependency is there, and is that of the kernel's own image package."""
    said = subprocess.run(
        ["dpkg-deb", "-f", str(debs[0]), "Depends", "Provides"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"linux-image-{modules.kernel} |" in said
    assert "Provides: nvidia-open-kernel-535.261.03" in said
    status = box.read("var/lib/dpkg/status")
    gone = status.replace(f"Package: linux-image-{modules.kernel}\n", "Package: linux-image-none\n")
    assert gone != status
    box.write("var/lib/dpkg/status", gone)
    done = box.run("dpkg", "-i", *put(box, *debs), check=False)
    assert done.status != 0
    assert f"depends on linux-image-{modules.kernel}" in done.out
