"""Where partitions lie and what is in them, from bytes that are laid as the formats say."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from msgspec.structs import replace

from toolkit.errors import Unsupported
from toolkit.features.image.io.partitions import Partition, PartitionContent, partitions

SIZE = 4 << 20
NUMBER = UUID("01234567-89ab-cdef-0123-456789abcdef")
ESP = UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
LINUX = UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")


def laid(*pieces: tuple[int, bytes]) -> io.BytesIO:
    whole = bytearray(max((at + len(data) for at, data in pieces), default=0))
    for at, data in pieces:
        whole[at : at + len(data)] = data
    return io.BytesIO(bytes(whole))


def row(kind: int, start: int, count: int) -> bytes:
    return struct.pack("<B3xB3xII", 0x80, kind, start, count)


def table(*rows: bytes) -> bytes:
    return b"\x01" * 440 + b"\xef\xbe\xad\xde\0\0" + b"".join(rows).ljust(64, b"\0") + b"\x55\xaa"


def ext4(at: int, name: bytes = b"root") -> tuple[tuple[int, bytes], ...]:
    return ((at + 1080, b"\x53\xef"), (at + 1128, NUMBER.bytes + name.ljust(16, b"\0")))


def fat(mark: int, serial: int, name: int) -> list[tuple[int, bytes]]:
    return [
        (510, b"\x55\xaa"),
        (mark, b"FAT"),
        (serial, b"\x78\x56\xcd\xab"),
        (name, b"EFI SYS    "),
    ]


INSIDES: list[tuple[list[tuple[int, bytes]], PartitionContent]] = [
    ([(0, b"LUKS\xba\xbe")], PartitionContent("LUKS")),
    ([(512, b"LABELONE")], PartitionContent("LVM")),
    ([(4096, b"\xfc\x4e\x2b\xa9")], PartitionContent("RAID")),
    ([(4086, b"SWAPSPACE2")], PartitionContent("swap")),
    ([(3, b"-FVE-FS-")], PartitionContent("BitLocker")),
    (list(ext4(0)), PartitionContent("ext4", str(NUMBER), "root")),
    (list(ext4(0, b"sixteen-letters!")), PartitionContent("ext4", str(NUMBER), "sixteen-letters!")),
    (list(ext4(0, b"\xff")), PartitionContent("ext4", str(NUMBER), "\N{REPLACEMENT CHARACTER}")),
    (
        [(0, b"XFSB"), (32, NUMBER.bytes), (108, b"twelve-bytes"), (120, b"x")],
        PartitionContent("xfs", str(NUMBER), "twelve-bytes"),
    ),
    (fat(82, 67, 71), PartitionContent("vfat", "abcd-5678", "EFI SYS")),
    (fat(54, 39, 43), PartitionContent("vfat", "abcd-5678", "EFI SYS")),
    (
        [(65536 + 64, b"_BHRfS_M"), (65536 + 32, NUMBER.bytes), (65536 + 299, b"b" * 256 + b"x")],
        PartitionContent("btrfs", str(NUMBER), "b" * 256),
    ),
    ([(0, b"\0" * 70000)], PartitionContent("")),
    ([], PartitionContent("")),
]


@pytest.mark.parametrize(("pieces", "inside"), INSIDES)
def test_what_a_whole_disk_holds(pieces: list[tuple[int, bytes]], inside: PartitionContent) -> None:
    assert partitions(laid(*pieces), SIZE) == (Partition(0, 0, SIZE, "", False, inside),)


@pytest.mark.parametrize(("pieces", "inside"), INSIDES)
def test_what_a_partition_holds(pieces: list[tuple[int, bytes]], inside: PartitionContent) -> None:
    moved = [(at + 2048 * 512, data) for at, data in pieces]
    disk = laid((0, table(row(0x83, 2048, 100))), *moved)
    [found] = partitions(disk, SIZE)
    assert found == Partition(1, 2048 * 512, 100 * 512, "deadbeef-01", False, inside)


def test_a_boot_sector_of_fat_is_no_table() -> None:
    [found] = partitions(laid(*fat(82, 67, 71), (450, b"\x83")), SIZE)
    assert (found.number, found.inside.kind) == (0, "vfat")


def test_partitions_of_an_mbr() -> None:
    rows = (row(0xEF, 64, 8), row(0, 72, 8), row(0x83, 80, 0), row(0x82, 96, 16))
    disk = laid((0, table(*rows)), *ext4(96 * 512))
    assert partitions(disk, 112 * 512) == (
        Partition(1, 64 * 512, 8 * 512, "deadbeef-01", True, PartitionContent("")),
        Partition(
            4,
            96 * 512,
            16 * 512,
            "deadbeef-04",
            False,
            PartitionContent("ext4", str(NUMBER), "root"),
        ),
    )


@pytest.mark.parametrize("kind", [0x05, 0x0F, 0x85])
def test_logical_partitions_stand_in_tables_of_their_own(kind: int) -> None:
    disk = laid(
        (0, table(row(0x83, 8, 8), row(kind, 100, 900))),
        (100 * 512, table(row(0x83, 1, 9), row(kind, 20, 40))),
        (120 * 512, table(row(0, 0, 0), row(kind, 40, 40))),
        (140 * 512, table(row(0xEF, 2, 10))),
    )
    found = partitions(disk, SIZE)
    assert [(each.number, each.start // 512, each.size // 512, each.efi) for each in found] == [
        (1, 8, 8, False),
        (5, 101, 9, False),
        (7, 142, 10, True),
    ]
    assert [each.uuid for each in found] == ["deadbeef-01", "deadbeef-05", "deadbeef-07"]


def test_logical_partitions_that_never_end_are_left() -> None:
    loop = table(row(0x83, 1, 1), row(0x05, 100, 1))
    found = partitions(
        laid((0, table(row(0x05, 100, 9))), (100 * 512, loop), (200 * 512, loop)), SIZE
    )
    assert [each.number for each in found] == list(range(5, 128))


@pytest.mark.parametrize("following", [row(0x83, 20, 40), row(0x05, 0, 40)])
def test_a_table_that_names_no_next_one_is_the_last(following: bytes) -> None:
    disk = laid((0, table(row(0x05, 100, 900))), (100 * 512, table(row(0x83, 1, 9), following)))
    assert [each.number for each in partitions(disk, SIZE)] == [5]


def test_a_damaged_table_of_a_logical_partition() -> None:
    with pytest.raises(Unsupported, match="table of logical partition 5 is damaged"):
        partitions(laid((0, table(row(0x05, 100, 9)))), SIZE)


def gpt(
    sector: int, *rows: tuple[UUID, int, int], length: int = 128, many: int = 128
) -> io.BytesIO:
    head = b"EFI PART" + bytes(64) + struct.pack("<QII", 4, many, length)
    laid_rows = [
        (4 * sector + at * length, kind.bytes_le + NUMBER.bytes_le + struct.pack("<QQ", one, last))
        for at, (kind, one, last) in enumerate(rows)
    ]
    return laid((0, table(row(0xEE, 1, 99))), (sector, head), *laid_rows)


@pytest.mark.parametrize("sector", [512, 4096])
@pytest.mark.parametrize("length", [128, 256])
def test_partitions_of_a_gpt(sector: int, length: int) -> None:
    nothing = UUID(int=0)
    disk = gpt(sector, (ESP, 40, 49), (nothing, 7, 8), (LINUX, 50, 50), length=length)
    esp = Partition(1, 40 * sector, 10 * sector, str(NUMBER), True, PartitionContent(""))
    linux = replace(esp, number=3, start=50 * sector, size=sector, efi=False)
    assert partitions(disk, 51 * sector) == (esp, linux)
    with pytest.raises(Unsupported, match="partition 3 ends behind the end"):
        partitions(disk, 51 * sector - 1)


def test_as_many_rows_of_a_gpt_as_it_says_and_no_more_than_128() -> None:
    rows = [(LINUX, 40, 40)] * 130
    assert len(partitions(gpt(512, *rows, many=3), SIZE)) == 3
    assert len(partitions(gpt(512, *rows, many=1024), SIZE)) == 128


@pytest.mark.parametrize("wrong", [lambda: gpt(512, length=127), lambda: gpt(512, many=1025)])
def test_a_gpt_that_makes_no_sense(wrong: Callable[[], io.BytesIO]) -> None:
    with pytest.raises(Unsupported, match="its GPT makes no sense"):
        partitions(wrong(), SIZE)
