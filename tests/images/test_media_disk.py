"""--disk: partitions found and mounted without partition nodes, the result in the same format."""

from __future__ import annotations

import fcntl
import json
import os
import struct
from pathlib import Path

import pytest

from tests.images.disks import MIB, SIZE, Part, call, digest, disk
from tests.images.little import little_root, loops, mounts, names
from toolkit.errors import (
    LockedError,
    StaleError,
    ToolkitError,
    Unsupported,
    UsageError,
)
from toolkit.features.image.io.disk import Disk
from toolkit.features.image.io.index import TreeChange, TreeDifference
from toolkit.features.image.io.media import ImageSource, Medium, Staged, stage

pytestmark = pytest.mark.builds

BOOT = "11111111-2222-3333-4444-555555555555"
ROOT = "aaaaaaaa-2222-3333-4444-555555555555"
FSTAB = f"# <file system>\nUUID={ROOT} / ext4 defaults 0 1\nUUID={BOOT} /boot ext4 ro 0 2\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose fstab has /boot in a partition of its own."""
    made = little_root(tmp_path_factory.mktemp("root") / "root")
    (made / "boot").mkdir()
    (made / "etc/fstab").write_text(FSTAB)
    return made


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boot")
    (folder / "vmlinuz-6.1").write_text("a kernel\n")
    return folder


@pytest.fixture
def parts(root: Path, boot: Path) -> tuple[Part, ...]:
    return (Part(8, boot, BOOT), Part(40, root, ROOT))


def staged(path: Path) -> ImageSource:
    return ImageSource(Medium.DISK, path)


def refused(path: Path, kind: type[ToolkitError]) -> str:
    before = digest(path), names(path.parent)
    with pytest.raises(kind) as told, stage(staged(path)):
        pass
    assert (digest(path), names(path.parent)) == before
    assert mounts(path.parent) == loops(path.parent) == []
    return str(told.value)


def change(on: Staged) -> None:
    assert on.run("echo new >/etc/new && echo two >/boot/vmlinuz-6.12 && rm /etc/pipe\n").exit == 0


CHANGED = (
    TreeDifference("/boot/vmlinuz-6.12", TreeChange.ADDED),
    TreeDifference("/etc/new", TreeChange.ADDED),
    TreeDifference("/etc/pipe", TreeChange.REMOVED),
)


@pytest.mark.parametrize(("table", "qcow2"), [("gpt", False), ("dos", True)])
def test_root_and_boot_are_changed_and_the_disk_stays_what_it_was(
    tmp_path: Path, parts: tuple[Part, ...], table: str, qcow2: bool
) -> None:
    image = disk(tmp_path / "node.img", parts, table=table, qcow2=qcow2)
    image.chmod(0o640)
    os.chown(image, 12, 34)
    before = digest(image)
    with stage(staged(image)) as on:
        change(on)
        assert "a kernel" in on.run("cat /boot/vmlinuz-6.1\n").stdout
        assert digest(image) == before
        assert mounts(tmp_path) == []  # here: they are in there alone
        assert on.commit() == CHANGED
    assert mounts(tmp_path) == loops(tmp_path) == []
    assert names(tmp_path) == ["node.img"]
    status = image.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 12, 34)
    told = json.loads(call("qemu-img", "info", "--output=json", image))
    assert told["format"] == ("qcow2" if qcow2 else "raw")
    assert told["virtual-size"] == SIZE
    assert told["actual-size"] < SIZE // 2  # what is empty takes no room
    with stage(staged(image)) as again:
        assert again.read("/etc/new") == b"new\n"
        assert again.read("/boot/vmlinuz-6.12") == b"two\n"


def test_a_disk_without_partitions_is_one_file_system(tmp_path: Path, root: Path) -> None:
    alone = tmp_path / "root"
    call("cp", "-a", root, alone)
    (alone / "etc/fstab").unlink()
    image = tmp_path / "plain.img"
    call("mke2fs", "-q", "-F", "-t", "ext4", "-d", alone, image, "40M")
    with stage(staged(image)) as on:
        on.write("/etc/new", b"new\n")
        assert on.commit() == (TreeDifference("/etc/new", TreeChange.ADDED),)


def test_leaving_without_commit_leaves_the_disk_bit_for_bit(
    tmp_path: Path, parts: tuple[Part, ...]
) -> None:
    image = disk(tmp_path / "node.qcow2", parts, qcow2=True)
    before = digest(image), image.stat()
    with stage(staged(image)) as on:
        change(on)
    assert (digest(image), image.stat()) == before


def test_its_root_is_on_a_device_that_grub_takes_for_one(
    tmp_path: Path, parts: tuple[Part, ...]
) -> None:
    """On a loop device, GRUB's own script writes a menu without kernels, and exits with 0."""
    image = disk(tmp_path / "node.img", parts)
    with stage(staged(image)) as on:
        told = on.run("cat /proc/self/mounts; ls -l /dev/disk/by-uuid/ /dev/shm/gdr-image\n").stdout
    devices = {row.split()[1]: row.split()[0] for row in told.splitlines() if "gdr-image/" in row}
    assert devices == {"/": "/dev/shm/gdr-image/2", "/boot": "/dev/shm/gdr-image/1"}
    assert f"{ROOT} -> ../2" in told


@pytest.mark.parametrize(
    ("magic", "words"),
    [
        pytest.param((0, b"LUKS\xba\xbe"), "and there is LUKS (partitions 1: LUKS)", id="luks"),
        pytest.param((512, b"LABELONE"), "and there is LVM (partitions 1: LVM)", id="lvm"),
        pytest.param((0, b""), "no partition holds a system", id="nothing"),
    ],
)
def test_what_cannot_be_mounted_is_named(
    tmp_path: Path, magic: tuple[int, bytes], words: str
) -> None:
    image = disk(tmp_path / "node.img", (Part(40, magic=magic),))
    assert words in refused(image, Unsupported)


def test_two_systems_on_one_disk_are_not_guessed_between(tmp_path: Path, root: Path) -> None:
    image = disk(tmp_path / "node.img", (Part(20, root), Part(20, root)))
    assert "partitions 1 and 2 each hold a system" in refused(image, Unsupported)


def test_a_boot_that_is_elsewhere_is_not_left_out_in_silence(tmp_path: Path, root: Path) -> None:
    image = disk(tmp_path / "node.img", (Part(40, root, ROOT),))
    told = refused(image, Unsupported)
    assert f"/boot is mounted from UUID={BOOT}, which is not on this disk" in told


def test_an_esp_is_mounted_or_the_kernel_that_cannot_is_named(tmp_path: Path, root: Path) -> None:
    """A FAT of which only the head is there, under a kernel with and one without FAT."""
    with_esp = tmp_path / "root"
    call("cp", "-a", root, with_esp)
    (with_esp / "boot/efi").mkdir()
    (with_esp / "etc/fstab").write_text("UUID=ABCD-1234 /boot/efi vfat umask=0077 0 1\n")
    head = bytearray(512)
    head[43 - 4 : 43] = struct.pack("<I", 0xABCD1234)
    head[54:57], head[510:512] = b"FAT", b"\x55\xaa"
    image = disk(
        tmp_path / "node.img", (Part(8, magic=(0, bytes(head)), kind="U"), Part(40, with_esp))
    )
    told = refused(image, ToolkitError)
    known = "\tvfat\n" in Path("/proc/filesystems").read_text()
    assert ("mount" if known else "cannot mount partition 1: vfat") in told


def test_a_table_that_makes_no_sense_is_refused(tmp_path: Path, root: Path) -> None:
    image = disk(tmp_path / "node.img", (Part(40, root, ROOT),), table="dos")
    os.truncate(image, 20 * MIB)
    assert "partition 1 ends behind the end of the disk" in refused(image, Unsupported)


def test_what_the_result_would_lose_is_refused(tmp_path: Path, parts: tuple[Part, ...]) -> None:
    base = disk(tmp_path / "node.qcow2", parts, qcow2=True)
    over = tmp_path / "over.qcow2"
    call("qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", over)
    assert "it has another image below it" in refused(over, Unsupported)
    call("qemu-img", "snapshot", "-c", "first", base)
    assert "it has snapshots in it" in refused(base, Unsupported)


def test_another_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    image = tmp_path / "node.vmdk"
    image.write_bytes(b"KDMV" + bytes(600))
    assert "is VMDK, not raw or qcow2" in refused(image, Unsupported)


def test_a_disk_that_a_machine_runs_from_is_left_alone(
    tmp_path: Path, parts: tuple[Part, ...]
) -> None:
    image = disk(tmp_path / "node.img", parts)
    with image.open("r+b") as running:  # the byte that QEMU locks for one who writes
        words = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0)
        fcntl.fcntl(running, fcntl.F_OFD_SETLK, words)
        assert "a machine runs from it" in refused(image, LockedError)


def test_a_disk_that_is_mounted_on_this_machine_is_left_alone(
    tmp_path: Path, parts: tuple[Part, ...]
) -> None:
    """What is written there later would go into the file that was replaced."""
    image, point = disk(tmp_path / "node.img", parts), tmp_path / "mounted"
    point.mkdir()
    with stage(staged(image)) as on:
        call("mount", "-o", f"loop,offset={MIB}", image, point)
        try:
            with pytest.raises(LockedError, match="it is in use as /dev/loop"):
                on.commit()
            with pytest.raises(LockedError, match="it is in use as /dev/loop"):
                Disk(image).bring(None, tmp_path)  # type: ignore[arg-type] # it comes to no room
        finally:
            call("umount", point)
    assert names(tmp_path) == ["mounted", "node.img"]


def test_lines_of_other_disks_are_not_taken_for_this_one(tmp_path: Path) -> None:
    root = little_root(tmp_path / "root")
    (root / "srv").mkdir()
    (root / "etc/fstab").write_text("/dev/sda1 / ext4\n/dev/sdb1 /srv ext4\n")
    with stage(staged(disk(tmp_path / "node.img", (Part(40, root),)))) as on:
        assert on.run("ls /srv\n").stdout == ""


def test_no_line_leads_out_of_it(tmp_path: Path) -> None:
    root = little_root(tmp_path / "root")
    (root / "etc/fstab").write_text(f"UUID={BOOT} {'/..' * 20}{tmp_path} ext4\n")
    (tmp_path / "empty").mkdir()
    parts = (Part(40, root), Part(8, tmp_path / "empty", BOOT))
    assert "is no folder there" in refused(disk(tmp_path / "node.img", parts), Unsupported)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        pytest.param(b"\xfd7zXZ\0", "is packed by xz", id="xz"),
        pytest.param(b"<<< Oracle VM VirtualBox Disk Image >>>", "is VDI, not raw", id="vdi"),
    ],
)
def test_what_a_disk_comes_in_is_named(tmp_path: Path, head: bytes, words: str) -> None:
    (tmp_path / "node.img").write_bytes(head + bytes(600))
    assert words in refused(tmp_path / "node.img", Unsupported)


def test_a_disk_that_somebody_wrote_to_meanwhile_is_not_replaced(
    tmp_path: Path, parts: tuple[Part, ...]
) -> None:
    image = disk(tmp_path / "node.img", parts)
    with stage(staged(image)) as on:
        with image.open("r+b") as file:
            file.write(b"theirs")
        with pytest.raises(StaleError, match="somebody wrote to it while"):
            on.commit()
    assert image.read_bytes()[:6] == b"theirs"


def test_what_is_no_disk_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"), stage(staged(tmp_path)):
        pass
