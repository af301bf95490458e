"""What a line of an image's /etc/fstab means on the disk that it lies on."""

from __future__ import annotations

import pytest

from toolkit.reach.media_mounts import _of_root, _subvolume, named, rows
from toolkit.reach.media_partitions import Inside, Partition

FIRST = Partition(1, 0, 1, "aa-01", True, Inside("vfat", "abcd-1234", "EFI"))
SECOND = Partition(2, 1, 1, "aa-02", False, Inside("ext4", "1111", "root"))


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
