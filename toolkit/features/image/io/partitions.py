"""Where the partitions of a disk lie, and what is in each: read from its own bytes.

The kernel need not know partition tables, and no program need be there that does. Formats: MBR
as IBM's DOS left it, GPT as the UEFI specification has it (chapter 5), and for what is inside
the same magic numbers that libblkid goes by.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO
from uuid import UUID

from msgspec import Struct

from toolkit.errors import Unsupported

_EXTENDED = {0x05, 0x0F, 0x85}
_ESP = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
_MOST = 128  # partitions that are looked at


class PartitionContent(Struct, frozen=True):
    """What a partition is formatted as."""

    kind: str  # as mount calls it: "ext4", "vfat"; "LVM", "LUKS", ... for what is not mounted; ""
    uuid: str = ""  # as /etc/fstab writes it, in lower case
    label: str = ""


class Partition(Struct, frozen=True):
    """One partition, or the whole disk where that has no table."""

    number: int  # 0 for the whole disk
    start: int  # bytes
    size: int  # bytes
    uuid: str  # PARTUUID, in lower case; "" for the whole disk
    efi: bool  # it says that it is an EFI system partition
    inside: PartitionContent


def partitions(disk: BinaryIO, size: int) -> tuple[Partition, ...]:
    """The partitions of a disk, by number.

    :param size: of the disk, in bytes.
    :raises Unsupported: its table makes no sense.
    """
    head = _at(disk, 0, 512)
    for sector in (512, 4096):
        if _at(disk, sector, 8) == b"EFI PART":
            return tuple(_gpt(disk, sector, size))
    whole = _inside(disk, 0)
    if whole.kind or head[510:512] != b"\x55\xaa":
        return (Partition(0, 0, size, "", False, whole),)
    return tuple(_mbr(disk, head, size))


def _mbr(disk: BinaryIO, head: bytes, size: int) -> Iterator[Partition]:
    name = f"{struct.unpack_from('<I', head, 440)[0]:08x}"
    for number, (kind, start, count) in enumerate(_rows(head, 4), start=1):
        if kind in _EXTENDED:
            yield from _logical(disk, start, name, size)
        elif kind and count:
            uuid = f"{name}-{number:02x}"
            yield _partition(disk, size, number, (start, count), uuid=uuid, efi=kind == 0xEF)


def _logical(disk: BinaryIO, base: int, name: str, size: int) -> Iterator[Partition]:
    """Each is described by a table of its own, which says where the next such table is."""
    at, number = base, 5
    while number < _MOST:
        table = _at(disk, at * 512, 512)
        if table[510:512] != b"\x55\xaa":
            raise Unsupported(
                f"the table of logical partition {number} is damaged",
                hint="look at it with fdisk -l, or name another image",
            )
        (kind, start, count), (following, step, _) = _rows(table, 2)
        if kind and count:
            uuid, spot = f"{name}-{number:02x}", (at + start, count)
            yield _partition(disk, size, number, spot, uuid=uuid, efi=kind == 0xEF)
        if following not in _EXTENDED or not step:
            return
        at, number = base + step, number + 1


def _rows(table: bytes, many: int) -> list[tuple[int, int, int]]:
    """Kind, first sector and number of sectors of each row."""
    rows = (table[446 + 16 * each : 462 + 16 * each] for each in range(many))
    return [(row[4], *struct.unpack_from("<II", row, 8)) for row in rows]


def _gpt(disk: BinaryIO, sector: int, size: int) -> Iterator[Partition]:
    head = _at(disk, sector, 92)
    first, many, length = struct.unpack_from("<QII", head, 72)
    if length < 128 or many > 1024:
        raise Unsupported(
            "its GPT makes no sense", hint="look at it with sgdisk --verify, or name another image"
        )
    for number in range(1, min(many, _MOST) + 1):
        row = _at(disk, first * sector + (number - 1) * length, 128)
        start, last = struct.unpack_from("<QQ", row, 32)
        kind = str(UUID(bytes_le=row[:16]))
        if UUID(kind).int == 0:
            continue
        scale = sector // 512
        spot = (start * scale, (last - start + 1) * scale)
        uuid = str(UUID(bytes_le=row[16:32]))
        yield _partition(disk, size, number, spot, uuid=uuid, efi=kind == _ESP)


def _partition(
    disk: BinaryIO, size: int, number: int, spot: tuple[int, int], *, uuid: str, efi: bool
) -> Partition:
    """:param spot: start and length, in units of 512 bytes."""
    start, count = spot
    if (start + count) * 512 > size:
        raise Unsupported(
            f"partition {number} ends behind the end of the disk",
            hint="is the image whole? copy it again",
        )
    return Partition(number, start * 512, count * 512, uuid, efi, _inside(disk, start * 512))


# Magic number, where it is, and what it stands for that is not mounted as it is.
_CLOSED = (
    (b"LUKS\xba\xbe", 0, "LUKS"),
    (b"LABELONE", 512, "LVM"),
    (b"\xfc\x4e\x2b\xa9", 4096, "RAID"),
    (b"SWAPSPACE2", 4086, "swap"),
    (b"-FVE-FS-", 3, "BitLocker"),
)


def _inside(disk: BinaryIO, start: int) -> PartitionContent:
    head = _at(disk, start, 8192)
    for magic, where, kind in _CLOSED:
        if head[where : where + len(magic)] == magic:
            return PartitionContent(kind)
    if head[1080:1082] == b"\x53\xef":
        return PartitionContent("ext4", str(UUID(bytes=head[1128:1144])), _text(head[1144:1160]))
    if head[:4] == b"XFSB":
        return PartitionContent("xfs", str(UUID(bytes=head[32:48])), _text(head[108:120]))
    if head[510:512] == b"\x55\xaa":
        for mark, serial, name in ((82, 67, 71), (54, 39, 43)):  # FAT32, then FAT12 and 16
            if head[mark : mark + 3] == b"FAT":
                number = struct.unpack_from("<I", head, serial)[0]
                label = _text(head[name : name + 11]).strip()
                return PartitionContent("vfat", f"{number >> 16:04x}-{number & 0xFFFF:04x}", label)
    super_ = _at(disk, start + 65536, 1024)
    if super_[64:72] == b"_BHRfS_M":
        return PartitionContent("btrfs", str(UUID(bytes=super_[32:48])), _text(super_[299:555]))
    return PartitionContent("")


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("utf-8", "replace")


def _at(disk: BinaryIO, offset: int, count: int) -> bytes:
    disk.seek(offset)
    return disk.read(count).ljust(count, b"\0")
