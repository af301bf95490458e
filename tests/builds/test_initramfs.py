"""Debian's own update-initramfs, and what the engine and the probe make of its images."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256

import pytest

from dev.lab.trees import base, releases
from tests.builds.sandbox import Done, Sandbox
from tests.scripts.engine import bundle_of, sent
from toolkit.evidence import Evidence
from toolkit.facts.boot.kernel import Initramfs
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script
from toolkit.node.deliver import rollback_script
from toolkit.plan.templates import TEMPLATES

pytestmark = pytest.mark.builds

HELD = ("mlx5_core", "ib_core", "nvme")
OFED = "updates/dkms"
# As a hook of somebody's might: OFED's module goes out, the kernel's own comes in.
HOOK = """#!/bin/sh
[ "$1" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
rm "$DESTDIR/usr/lib/modules/$version/updates/dkms/mlx5_core.ko"
copy_file module "/lib/modules/$version/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko"
"""


@pytest.fixture(scope="module")
def kernel() -> str:
    return releases()["6.1"]


@pytest.fixture(scope="module")
def installed(kernel: str) -> Iterator[Sandbox]:
    """OFED's modules came after the initramfs, and lie where depmod prefers them."""
    with Sandbox((base(),)) as box:
        box.write("etc/initramfs-tools/conf.d/list", "MODULES=list\n")
        box.write("etc/initramfs-tools/modules", "".join(f"{name}\n" for name in HELD))
        box.run("update-initramfs", "-c", "-k", kernel)
        folder = box.path(f"lib/modules/{kernel}")
        (folder / OFED).mkdir(parents=True)
        for name in ("mlx5_core", "ib_core"):
            (own,) = (folder / "kernel").rglob(f"{name}.ko")
            shutil.copyfile(own, folder / OFED / f"{name}.ko")
        box.run("depmod", "-a", kernel)
        box.run("touch", f"/boot/vmlinuz-{kernel}")  # of several, the probe takes the newest
        yield box


@pytest.fixture
def box(installed: Sandbox) -> Iterator[Sandbox]:
    with installed.branch() as made:
        yield made


def image(box: Sandbox, kernel: str) -> Initramfs:
    """What the probe reads; the kernel that runs here is another one."""
    done = box.run("sh", "-s", text=probe_script())
    found = Node(Evidence.parse(done.out)).initramfs_next
    assert found is not None
    assert found.kernel == kernel
    return found


def digest(box: Sandbox, kernel: str) -> str:
    return sha256(box.path(f"boot/initrd.img-{kernel}").read_bytes()).hexdigest()


def remade(box: Sandbox, kernel: str) -> Done:
    file = f"/boot/initrd.img-{kernel}"
    plain = f"update-initramfs -u -k {kernel}"
    steps = (
        f"keep REBUILD_INITRAMFS {file}",
        f"undo kept 'REBUILD_INITRAMFS {plain}'",
        f"trigger 'REBUILD_INITRAMFS initramfs {kernel} {file} {plain}'",
    )
    script = sent(bundle_of({}, *steps, expect=()))
    return box.run("sh", "-s", text=script, check=False)


def test_an_image_from_before_ofed_is_seen_made_again_and_given_back(
    box: Sandbox, kernel: str
) -> None:
    before, found = digest(box, kernel), image(box, kernel)
    assert found.inbox(("mlx5_core", "ib_core")) == ["mlx5_core", "ib_core"]
    assert found.newer == {"mlx5_core", "ib_core"}

    done = remade(box, kernel)
    assert done.status == 0, done.out
    assert "looked into, and as it should be" in done.out
    after = image(box, kernel)
    assert {after.modules[name] for name in ("mlx5_core", "ib_core")} == {
        f"{OFED}/mlx5_core",
        f"{OFED}/ib_core",
    }
    assert not after.newer

    undone = box.run("sh", "-s", text=rollback_script("last", 5))
    assert digest(box, kernel) == before, undone.out
    assert image(box, kernel) == found


def test_the_program_that_rebuilds_sees_to_it_too(box: Sandbox, kernel: str) -> None:
    """Its part for that, as it stands in the program."""
    folder = "/var/lib/gdr-toolkit/rebuild"
    part = (TEMPLATES / "dkms/early.sh").read_text()
    said = f'state={folder} hook="" dry=""\nsay() {{ echo "$*"; }}\n'
    script = f'{said}{part}\nmkdir -p "$state"\nearly {kernel}\n'
    made = box.run("sh", "-s", text=script)
    assert "made again: it is older than ib_core mlx5_core\n" in made.out
    assert image(box, kernel).modules["mlx5_core"] == f"{OFED}/mlx5_core"
    assert box.run("sh", "-s", text=script).out == ""


@pytest.mark.parametrize("why", ["a-hook", "a-driver-less"])
def test_an_image_that_should_not_be_booted_is_not_kept(
    box: Sandbox, kernel: str, why: str
) -> None:
    if why == "a-hook":
        box.write("etc/initramfs-tools/hooks/site", HOOK, 0o755)
    else:
        box.write("etc/initramfs-tools/modules", "mlx5_core\nib_core\n")
        box.path("sys/module/nvme").mkdir(parents=True)
    before = digest(box, kernel)
    done = remade(box, kernel)
    assert done.status == 5, done.out
    words = {
        "a-hook": "mlx5/core/mlx5_core, and modprobe would load updates/dkms/mlx5_core.ko",
        "a-driver-less": "it lacks kernel/drivers/nvme/host/nvme, which the one before had",
    }
    assert words[why] in done.out
    assert "the one before is back, byte for byte" in done.out
    assert digest(box, kernel) == before
