"""What GRUB's environment lies on is told without loading the device mapper for the question."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.evidence import Evidence, State
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

ROOT = "24 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
BOOT = "70 24 259:1 / /boot rw,relatime shared:31 - ext4 /dev/nvme0n1p1 rw\n"
# With GRUB's folder on the ESP, and a folder whose name begins alike.
ESP = "71 70 259:3 / /boot/grub rw - vfat /dev/nvme0n1p3 rw\n"
ALIKE = "72 24 259:3 / /boot2 rw shared:3 master:4 - xfs /dev/sdb1 rw\n"
BTRFS = "24 1 0:22 /@ / rw,relatime shared:1 - btrfs /dev/nvme0n1p2 rw,subvol=/@\n"
MD = "70 24 9:0 / /boot rw - ext4 /dev/md0 rw\n"
ASKED = "asked grub-probe\n"


def made(root: Path, mounts: str, *, mapper: bool) -> None:
    for folder in ("boot/grub", "proc/self", "sys/dev/block", "sys/module", "bin"):
        (root / folder).mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    for number, name in (("259:1", "nvme0n1p1"), ("259:2", "nvme0n1p2"), ("259:3", "nvme0n1p3")):
        place = f"../../devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1/{name}"
        (root / "sys/dev/block" / number).symlink_to(place)
    (root / "sys/dev/block/9:0").symlink_to("../../devices/virtual/block/md0")
    if mapper:
        (root / "sys/module/dm_mod").mkdir()
    asker = root / "bin/grub-probe"
    asker.write_text("#!/bin/sh\necho asked grub-probe\n")
    asker.chmod(0o755)


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda s: s[0])
@pytest.mark.parametrize(
    ("mounts", "mapper", "told"),
    [
        pytest.param(ROOT, False, ("", "ext2\n"), id="on-the-root"),
        pytest.param(ROOT + BOOT.replace("ext4", "xfs"), False, ("", "xfs\n"), id="boot-apart"),
        pytest.param(ROOT + BOOT + ESP, False, ("", "fat\n"), id="on-the-esp"),
        pytest.param(ROOT + ALIKE, False, ("", "ext2\n"), id="a-name-that-begins-alike"),
        pytest.param(BTRFS, False, ("", "btrfs\n"), id="btrfs"),
        pytest.param(ROOT + MD, False, (ASKED, ASKED), id="md"),
        pytest.param(ROOT, True, (ASKED, ASKED), id="the-mapper-is-loaded"),
        pytest.param("", False, (ASKED, ASKED), id="nothing-known"),
    ],
)
def test_layers_below_grub_are_told(
    mounts: str, mapper: bool, told: tuple[str, str], shell: tuple[str, ...], tmp_path: Path
) -> None:
    made(tmp_path, mounts, mapper=mapper)
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:], "-s"),
        input=probe_script(),
        env={"GDR_ROOT": str(tmp_path), "GDR_BIN": str(tmp_path / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    frames = Evidence.parse(done.stdout).frames
    found = (frames["grub-abstraction"], frames["grub-fs"])
    assert [each.state for each in found] == [State.OK, State.OK], found
    assert [each.text for each in found] == list(told)
