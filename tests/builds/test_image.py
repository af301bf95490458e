"""An image with two kernels, neither of them the builder's, by the verb, with the real DKMS."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox, mounts_below
from tests.invoked import gdr
from toolkit.evidence import Evidence, State
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, parse
from toolkit.features.image.io.chroot import ChrootTransport
from toolkit.node.collect import collect
from toolkit.verbs.plan import plan_node
from toolkit.want import Want

pytestmark = pytest.mark.builds
LONG = True

# Nothing that an image needs to be built for is among them.
LEFT_OUT = ("var/cache", "var/lib/apt", "usr/lib/gcc/x86_64-linux-gnu/12/cc1plus")
JOURNAL = "var/lib/gdr-toolkit/journal"
QUEUED = "etc/modules-load.d/gdr-toolkit.conf"


@dataclass(frozen=True, slots=True)
class Ended:
    """One whole process of ``image``."""

    code: int
    told: dict[str, Any]  # Any: JSON
    err: str


@dataclass(frozen=True, slots=True)
class Golden:
    """An image in a folder, and where runs leave their records."""

    root: Path
    home: Path
    kernels: tuple[str, str]
    before: tuple[tuple[str, ...], str]  # of the builder, before anything was done

    def image(self, *words: str) -> Ended:
        called = ("image", "--root", str(self.root), *words, "--json")
        own = {**os.environ, "XDG_STATE_HOME": str(self.home)}
        done = gdr(*called, state=self.home, timeout_s=1200, around=own)
        assert done.stdout, done.stderr
        return Ended(done.returncode, json.loads(done.stdout), done.stderr)

    def files(self) -> dict[str, tuple[int, int]]:
        """Every file with its inode and time of change: a rename or a write shows."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            told = path.lstat()
            found[str(path.relative_to(self.root))] = (told.st_ino, told.st_mtime_ns)
        return found


def builder(folder: Path) -> tuple[tuple[str, ...], str]:
    """What is mounted below a folder of this machine, and which modules the machine has loaded."""
    modules = Path("/proc/modules")
    return mounts_below(folder), modules.read_text() if modules.exists() else ""


def complete(box: Sandbox, kernel: str) -> None:
    """What a kernel's package brings: an image, and here the HCA's driver built in."""
    config = (box.path(f"/usr/src/linux-headers-{kernel}") / ".config").read_text()
    box.write(f"/boot/vmlinuz-{kernel}", "an image\n")
    box.write(f"/boot/config-{kernel}", config.replace("MLX5_CORE=m", "MLX5_CORE=y"))


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("golden")
    with stack("bookworm") as box:
        kernels = (box.kernel("6.1."), box.kernel("6.12."))
        for kernel in kernels:
            complete(box, kernel)
        box.shell(
            "rm -rf /lib/modules/*-rt-* /lib/modules/*-cloud-* /usr/src/*-rt-* /usr/src/*-cloud-*"
        )
        box.shell(f"rm -rf /lib/modules/{kernels[1]}/kernel; depmod {kernels[1]}")
        box.shell("rm -rf /etc/machine-id /run/*; echo golden >/etc/hostname")
        box.shell("cd / && rm -rf " + " ".join(LEFT_OUT))
        words = ("cp", "-a", "--one-file-system", f"{box.root}/.", str(folder / "root"))
        subprocess.run(words, check=True, capture_output=True)
    return Golden(folder / "root", folder / "home", kernels, builder(folder))


def test_a_check_tells_what_would_be_done_and_touches_nothing(golden: Golden) -> None:
    before = golden.files()
    ended = golden.image("--check")
    assert ended.code == 7
    assert [each["name"] for each in ended.told["hosts"]] == [f"root:{k}" for k in golden.kernels]
    assert golden.files() == before


def test_the_present_of_the_builder_is_not_read_as_the_images(golden: Golden) -> None:
    evidence = collect(ChrootTransport("golden", str(golden.root), golden.kernels[0]))
    assert evidence.complete
    for key in ("boot-id", "hostname", "cmdline", "modules", "dmesg", "pci", "nvidia-smi", "cpu"):
        assert evidence.frame(key).state is State.ABSENT, key
    text = "".join(frame.text for frame in evidence.frames.values())
    assert os.uname().release not in text
    assert Path("/proc/sys/kernel/random/boot_id").read_text() not in text
    assert "/run/gdr" not in text
    assert Node(evidence).kernel == golden.kernels[0] != os.uname().release


@pytest.fixture(scope="module")
def made(golden: Golden) -> Ended:
    """The image, provisioned for both of its kernels."""
    return golden.image("--yes")


def test_it_is_as_wanted_for_each_of_its_kernels(golden: Golden, made: Ended) -> None:
    assert made.code == 0, made.err
    assert [each["state"] for each in made.told["hosts"]] == ["ready", "ready"]


def test_modules_are_for_the_images_kernels_and_for_no_other(golden: Golden, made: Ended) -> None:
    found = sorted(golden.root.glob("lib/modules/*/updates/dkms/nvidia-peermem.ko*"))
    assert [path.parents[2].name for path in found] == sorted(golden.kernels)
    for path in found:
        said = subprocess.run(
            ("modinfo", "-F", "vermagic", path), capture_output=True, text=True, check=True
        )
        assert said.stdout.split()[0] == path.parents[2].name
    assert not (golden.root / "lib/modules" / os.uname().release).exists()


def test_peermem_waits_for_the_first_boot_and_nothing_was_started(
    golden: Golden, made: Ended
) -> None:
    assert "nvidia-peermem" in (golden.root / QUEUED).read_text()
    steps = [step for each in made.told["hosts"] for step in each["steps"]]
    assert not [step for step in steps if "RELOAD" in step or "UNITS" in step or "reload" in step]
    assert builder(golden.root.parent) == golden.before


def test_nothing_of_the_builder_is_left_in_it(golden: Golden, made: Ended) -> None:
    assert not (golden.root / "etc/machine-id").exists()
    assert (golden.root / "etc/hostname").read_text() == "golden\n"
    assert not list((golden.root / "etc/ssh").glob("ssh_host_*"))
    for name in ("proc", "sys", "dev", "run", "tmp"):
        assert not any((golden.root / name).iterdir()), name


def test_what_was_done_stands_in_its_own_journal(golden: Golden, made: Ended) -> None:
    rows = [line.split() for line in (golden.root / JOURNAL).read_text().splitlines()]
    assert [row[1] for row in rows] == ["done"] * len(golden.kernels)


def test_a_second_run_changes_nothing(golden: Golden, made: Ended) -> None:
    before = golden.files()
    ended = golden.image("--yes")
    assert ended.code == 0, ended.err
    assert [each["plan"] for each in ended.told["hosts"]] == [None, None]
    assert golden.files() == before


def test_its_passport_tells_of_both_kernels(golden: Golden, made: Ended) -> None:
    told = parse((golden.root / PLACE.lstrip("/")).read_text())
    assert [each.release for each in told.kernels] == list(golden.kernels)
    for kernel in told.kernels:
        module = kernel.named("nvidia_peermem")
        assert module is not None
        assert module.vermagic.split()[0] == kernel.release
    assert (told.default, told.arguments) == ("", None)


def test_a_kernel_that_is_not_in_it_is_refused(golden: Golden) -> None:
    done = gdr("image", "--root", str(golden.root), "--kernels", "5.0", state=golden.home)
    assert done.returncode == 64
    assert "kernel 5.0 is not in it" in done.stderr
    assert golden.kernels[0] in done.stderr


def test_what_was_done_to_it_can_be_taken_back(golden: Golden, made: Ended) -> None:
    ended = golden.image("--undo", "all", "--yes")
    assert ended.code == 0, ended.err
    assert not list(golden.root.glob("lib/modules/*/updates/dkms/nvidia-peermem.ko*"))
    assert not (golden.root / QUEUED).exists()
    assert not (golden.root / PLACE.lstrip("/")).exists()
    assert builder(golden.root.parent) == golden.before


ENTRY = """\
title Rocky Linux (5.14.0-427.13.1.el9_4.x86_64) 9.4
version 5.14.0-427.13.1.el9_4.x86_64
linux /vmlinuz-5.14.0-427.13.1.el9_4.x86_64
initrd /initramfs-5.14.0-427.13.1.el9_4.x86_64.img
options root=UUID=1 ro crashkernel=auto
"""
EL9 = "5.14.0-427.13.1.el9_4.x86_64"


@pytest.fixture(scope="module")
def rocky() -> Iterator[Evidence]:
    """A tree as the RHEL family lays it out, read for its kernel."""
    with stack("bookworm") as box:
        kernel = box.kernel("6.1.")
        box.shell("rm -rf /boot/* /lib/modules/*-rt-* /lib/modules/*-cloud-* /lib/modules/6.12*")
        box.shell(
            f"cd /lib/modules; mv {kernel} {EL9}; mv {EL9}/updates/dkms {EL9}/extra; depmod {EL9}"
        )
        box.write("/etc/os-release", 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n')
        box.write(f"/boot/vmlinuz-{EL9}", "an image\n")
        box.write(f"/boot/loader/entries/0-{EL9}.conf", ENTRY)
        box.write("/boot/grub2/grub.cfg", 'set default="${saved_entry}"\n')
        for name in ("grubby", "lsinitrd", "dracut", "uname-of-the-builder"):
            box.write(f"/usr/sbin/{name}", f"#!/bin/sh\necho /boot/vmlinuz-{EL9}\n", 0o755)
        yield collect(ChrootTransport("rocky", str(box.root), EL9))


def test_an_image_of_the_rhel_family_is_read_and_planned_for_its_own_kernel(
    rocky: Evidence,
) -> None:
    node = Node(rocky)
    assert (node.kernel, node.distro.id, node.next_boot.kernel) == (EL9, "rocky", EL9)
    assert node.driver is not None
    plan = plan_node("rocky", rocky, Want(), date(2026, 1, 1)).plan
    assert plan.family == "rhel"
    calls = [act.call for act in plan.acts]
    assert "UPDATE_BOOTLOADER grubby --update-kernel=ALL --args=iommu=pt" in calls
    assert all(os.uname().release not in call for call in calls)
    assert [each.path for each in plan.changes if "kernel-arguments" in each.path]
