"""What a line of an image's /etc/fstab means on the disk that it lies on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from toolkit.errors import ApplyError, Unsupported
from toolkit.features.image.io.mounts import (
    _LET_GO,
    _MOUNT,
    _UNMOUNT,
    Mounted,
    MountRow,
    _of_root,
    _subvolume,
    named,
    rows,
)
from toolkit.features.image.io.partitions import Partition, PartitionContent

FIRST = Partition(1, 0, 1, "aa-01", True, PartitionContent("vfat", "abcd-1234", "EFI"))
SECOND = Partition(2, 1, 1, "aa-02", False, PartitionContent("ext4", "1111", "root"))


@pytest.mark.parametrize(
    ("device", "disk", "number"),
    [
        pytest.param("UUID=ABCD-1234", "", 1, id="uuid-in-another-case"),
        pytest.param('UUID="1111"', "", 2, id="in-quotes"),
        pytest.param("PARTUUID=aa-02", "", 2, id="of-the-partition"),
        pytest.param("LABEL=root", "", 2, id="label"),
        pytest.param("LABEL=ROOT", "", 0, id="labels-have-cases"),
        pytest.param("/dev/disk/by-uuid/1111", "", 2, id="link"),
        pytest.param("/dev/sda2", "", 2, id="first-disk"),
        pytest.param("/dev/hda2", "", 2, id="first-disk-by-ide"),
        pytest.param("/dev/vda2", "", 2, id="first-disk-of-a-guest"),
        pytest.param("/dev/xvda2", "", 2, id="first-disk-of-xen"),
        pytest.param("/dev/disk/by-partuuid/aa-02", "", 2, id="link-of-the-partition"),
        pytest.param("/dev/nvme0n1p2", "", 2, id="first-nvme"),
        pytest.param("/dev/mmcblk0p1", "", 1, id="first-card"),
        pytest.param("/dev/sdb2", "", 0, id="another-disk"),
        pytest.param("/dev/nvme1n1p2", "", 0, id="another-nvme"),
        pytest.param("/dev/sdb2", "sdb", 2, id="the-disk-of-the-root"),
        pytest.param("/dev/sda2", "sdb", 0, id="beside-the-disk-of-the-root"),
        pytest.param("/dev/sda9", "", 0, id="no-such-partition"),
        pytest.param("/srv/disk", "", 0, id="a-folder"),
        pytest.param("tmpfs", "", 0, id="no-device"),
    ],
)
def test_which_partition_a_line_means(device: str, disk: str, number: int) -> None:
    [row] = rows(f"{device} /x ext4 defaults 0 0\n")
    found = named(row, (FIRST, SECOND), disk)
    assert (found.number if found else 0) == number


@pytest.mark.parametrize(
    ("text", "disk"),
    [
        pytest.param("/dev/sdb2 / ext4\n/dev/sda1 /srv ext4\n", "sdb", id="by-device"),
        pytest.param("UUID=1111 / ext4\n/dev/sdb1 /srv ext4\n", "", id="by-uuid"),
        pytest.param("/dev/nvme1n1p3 / ext4\n", "nvme1n1", id="nvme"),
    ],
)
def test_how_the_system_calls_its_disk(text: str, disk: str) -> None:
    assert _of_root(rows(text)) == disk


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param("defaults", "", id="none"),
        pytest.param("noatime,subvol=/@home", "subvol=/@home", id="by-name"),
        pytest.param("subvolid=258,noatime", "subvolid=258", id="by-number"),
    ],
)
def test_which_subvolume_is_mounted(options: str, told: str) -> None:
    [row] = rows(f"UUID=1111 /home btrfs {options} 0 0\n")
    assert _subvolume(row) == told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("# UUID=1 / ext4\n  # x / ext4\nUUID=1 /\n", ()),
        ("UUID=1 / ext4\n", (MountRow("UUID=1", "/", "ext4", ("defaults",)),)),
        (
            "a\\040b\t/x\\011y xfs ro,noatime 0 0\n",
            (MountRow("a b", "/x\ty", "xfs", ("ro", "noatime")),),
        ),
    ],
)
def test_lines_of_an_fstab(text: str, found: tuple[MountRow, ...]) -> None:
    assert rows(text) == found


class FakeRoom:
    """Mounts by laying what a partition holds, and notes what it was told."""

    def __init__(self, holds: dict[int, dict[str, str]], fails: str = "") -> None:
        self.door = Path("/")
        self.holds, self.fails = holds, fails
        self.mounts: dict[str, tuple[str, ...]] = {}  # what is mounted now, by place
        self.calls: list[tuple[str, ...]] = []

    def call(self, *argv: str | Path) -> str:
        shell, option, script, name, *words = map(str, argv)
        assert (shell, option, name) == ("sh", "-c", "gdr")
        self.calls.append((script, *words))
        if script == _MOUNT:
            if self.fails:
                raise ApplyError(self.fails)
            kind, spot, disk, number, options, target, uuid = words
            self.mounts[target] = (kind, number, options)
            assert spot.startswith(f"{options.partition(',subvol')[0]},loop,offset=")
            assert disk.endswith("/disk")
            assert uuid == f"uuid-{number}"
            _, _, subvolume = options.partition("subvol=")
            lay(Path(target), self.holds.get(int(number), {}), subvolume)
        elif script == _UNMOUNT:
            assert self.mounts.pop(words[0])[1] == words[1]
            shutil.rmtree(words[0])
            Path(words[0]).mkdir()
        return ""


def lay(target: Path, files: dict[str, str], subvolume: str) -> None:
    for path, text in files.items():
        if subvolume and not path.startswith(f"{subvolume}/"):
            continue
        place = target / path.removeprefix(f"{subvolume}/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if text == "/":
            place.mkdir()
        elif text.startswith("->"):
            place.symlink_to(text[2:])
        else:
            place.write_text(text)


def partition(number: int, kind: str, *, efi: bool = False) -> Partition:
    inside = PartitionContent(kind, f"uuid-{number}", f"label{number}")
    return Partition(number, number * 100, number * 10, f"pu-{number}", efi, inside)


ROOT = {"etc/os-release": "x"}


def mounted(
    tmp_path: Path, holds: dict[int, dict[str, str]], *found: Partition, fails: str = ""
) -> list[tuple[str, ...]]:
    (tmp_path / "tree").mkdir()
    room = FakeRoom(holds, fails)
    on = Mounted("image", room, tmp_path / "disk", tmp_path / "tree")  # type: ignore[arg-type]  # a stand-in
    on.mount(found)
    tree = str(tmp_path / "tree")
    return [(*how, place.removeprefix(tree) or "/") for place, how in room.mounts.items()]


@pytest.mark.parametrize(("kind", "options"), [("ext4", "rw"), ("xfs", "nouuid"), ("btrfs", "rw")])
@pytest.mark.parametrize("sign", ["etc/os-release", "usr/lib/os-release"])
@pytest.mark.parametrize("how", ["x", "->/nowhere"])
def test_a_root_is_known_by_its_os_release(
    tmp_path: Path, kind: str, options: str, sign: str, how: str
) -> None:
    holds = {3: {sign: how}, 2: {"etc/passwd": ""}, 4: {sign: "/"}}
    found = [partition(2, "ext4"), partition(3, kind), partition(4, "xfs"), partition(5, "vfat")]
    assert mounted(tmp_path, holds, *found) == [(kind, "3", options, "/")]


@pytest.mark.parametrize(
    ("holds", "options"),
    [
        ({"etc/os-release": "", "root/etc/os-release": ""}, "rw"),
        ({"root/etc/os-release": ""}, "rw,subvol=root"),
        ({"@/etc/os-release": ""}, "rw,subvol=@"),
        ({"@/etc/os-release": "", "root/x": ""}, "rw,subvol=@"),
    ],
)
def test_the_root_of_a_btrfs_is_a_subvolume(
    tmp_path: Path, holds: dict[str, str], options: str
) -> None:
    assert mounted(tmp_path, {1: holds}, partition(1, "btrfs")) == [("btrfs", "1", options, "/")]


def test_a_folder_that_only_btrfs_has_is_no_root_of_ext4(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no partition holds a system"):
        mounted(tmp_path, {1: {"root/etc/os-release": ""}}, partition(1, "ext4"))


def test_where_each_partition_is_and_that_it_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    room = FakeRoom({1: ROOT})
    on = Mounted("image", room, tmp_path / "disk", tmp_path / "tree")  # type: ignore[arg-type]  # a stand-in
    on.mount((partition(1, "xfs"),))
    spot = "nouuid,loop,offset=100,sizelimit=10"
    tree = str(tmp_path / "tree")
    mount = (_MOUNT, "xfs", spot, f"{tmp_path}/disk", "1", "nouuid", tree, "uuid-1")
    assert room.calls == [mount, (_UNMOUNT, tree, "1"), mount]
    on.unmount()
    assert room.calls[3:] == [(_LET_GO, tree)]


def test_what_its_fstab_puts_below_it(tmp_path: Path) -> None:
    fstab = (
        "UUID=uuid-2 / ext4\nLABEL=label1 /boot/efi vfat\nUUID=uuid-3 /boot ext4\n"
        "UUID=uuid-4 none swap\nUUID=uuid-4 /swap swap\nproc /proc proc\n"
        "UUID=other /srv ext4\nUUID=other /var/x ext4 nofail\nUUID=other /opt ext4 noauto\n"
        "/usr/a /usr/b none bind\nUUID=x /etc/b ext4 ro,bind\ntmpfs /var/tmp tmpfs\n"
        "UUID=uuid-5 /home btrfs ro,subvol=/@home,x\n"
    )
    holds = {
        2: ROOT | {"etc/fstab": fstab, "boot": "/", "home": "/"},
        3: {"efi": "/"},
    }
    kinds = ("vfat", "ext4", "xfs", "swap", "btrfs")
    found = [partition(at, kind, efi=at == 1) for at, kind in enumerate(kinds, start=1)]
    assert mounted(tmp_path, holds, *found) == [
        ("ext4", "2", "rw", "/"),
        ("xfs", "3", "nouuid", "/boot"),
        ("vfat", "1", "rw", "/boot/efi"),
        ("btrfs", "5", "rw,subvol=/@home", "/home"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "UUID=other /boot ext4",
        "/dev/sdb1 /usr ext4",
        "LABEL=other /var/lib/dkms xfs rw,noatime",
        "PARTUUID=x /lib ext4",
        "UUID=x /opt/a ext4",
        "UUID=x /etc ext4",
        "UUID=x /efi vfat",
    ],
)
def test_a_part_of_the_system_that_is_on_another_disk(tmp_path: Path, line: str) -> None:
    folder = line.split()[1]
    says = f"image: {folder} is mounted from {line.split(maxsplit=1)[0]}, which is not on this disk"
    with pytest.raises(Unsupported, match=says):
        mounted(tmp_path, {1: ROOT | {"etc/fstab": f"{line}\n"}}, partition(1, "ext4"))


@pytest.mark.parametrize(
    ("below", "fstab", "folder"),
    [
        ({"efi": "/", "boot": "/"}, "", "/efi"),
        ({"boot": "/"}, "", "/boot"),
        ({"efi/x": "", "boot": "/"}, "", "/boot"),
        ({"efi": "->/boot", "boot": "/"}, "", "/boot"),
        ({"efi/x": "", "boot/x": ""}, "", ""),
        ({}, "", ""),
        ({"efi": "/", "srv": "/"}, "UUID=uuid-2 /srv vfat\n", "/srv"),
    ],
)
def test_the_partition_that_systemd_finds_without_an_fstab(
    tmp_path: Path, below: dict[str, str], fstab: str, folder: str
) -> None:
    holds = {1: ROOT | below | ({"etc/fstab": fstab} if fstab else {})}
    found = mounted(tmp_path, holds, partition(1, "ext4"), partition(2, "vfat", efi=True))
    assert [each[3] for each in found[1:]] == ([folder] if folder else [])


@pytest.mark.parametrize("other", [partition(2, "vfat"), partition(2, "ext4", efi=True)])
def test_no_other_partition_is_the_efi_system_partition(tmp_path: Path, other: Partition) -> None:
    assert len(mounted(tmp_path, {1: ROOT | {"efi": "/"}}, partition(1, "ext4"), other)) == 1


@pytest.mark.parametrize(
    ("below", "folder"),
    [
        ({}, "/srv"),
        ({"srv": "file"}, "/srv"),
        ({"srv": "->/etc"}, "/srv"),
        ({"a": "->/etc", "etc/b": "/"}, "/a/b"),
        ({"srv": "/"}, "/srv/../srv"),
    ],
)
def test_a_line_of_its_fstab_that_leads_to_no_folder(
    tmp_path: Path, below: dict[str, str], folder: str
) -> None:
    holds = {1: ROOT | below | {"etc/fstab": f"UUID=uuid-2 {folder} ext4\n"}}
    with pytest.raises(Unsupported, match=f"image: {folder} is in its fstab, and is no folder"):
        mounted(tmp_path, holds, partition(1, "ext4"), partition(2, "ext4"))


@pytest.mark.parametrize(
    ("holds", "found", "says", "hint"),
    [
        (
            {1: ROOT, 3: ROOT},
            [partition(1, "ext4"), partition(2, "ext4"), partition(3, "xfs")],
            "image: partitions 1 and 3 each hold a system; one is expected",
            "use --root",
        ),
        (
            {},
            [partition(1, "LVM"), partition(2, "LUKS"), partition(3, "swap")],
            "image: no partition that can be mounted holds a system, and there is LUKS and LVM "
            "(partitions 1: LVM, 2: LUKS, 3: swap)",
            "open the LUKS by hand",
        ),
        (
            {},
            [partition(1, ""), partition(2, "vfat")],
            "image: no partition holds a system with /etc/os-release "
            "(partitions 1: unknown, 2: vfat)",
            "ext4, xfs or btrfs",
        ),
    ],
)
def test_a_disk_without_one_root(
    tmp_path: Path,
    holds: dict[int, dict[str, str]],
    found: list[Partition],
    says: str,
    hint: str,
) -> None:
    with pytest.raises(Unsupported) as raised:
        mounted(tmp_path, holds, *found)
    assert str(raised.value) == says
    assert hint in raised.value.hint


def test_a_file_system_that_this_kernel_does_not_know(tmp_path: Path) -> None:
    said = "image: sh ended with status 32: mount: unknown filesystem type 'xfs'."
    with pytest.raises(Unsupported, match="cannot mount partition 1: xfs") as raised:
        mounted(tmp_path, {}, partition(1, "xfs"), fails=said)
    assert raised.value.hint.startswith("modprobe xfs")


def test_a_mount_that_fails_otherwise(tmp_path: Path) -> None:
    with pytest.raises(ApplyError, match="wrong fs type"):
        mounted(tmp_path, {}, partition(1, "xfs"), fails="wrong fs type, bad superblock")
