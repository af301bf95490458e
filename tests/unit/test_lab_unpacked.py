"""A kernel in another packing: the same memory, entered elsewhere."""

from __future__ import annotations

import lzma
import struct

import pytest

from dev.lab.unpacked import repacked

MAP = 0xFFFF_FFFF_8000_0000
ENTRY = b"code" + bytes(8)
TEXT, DATA = b"text" * 2000, b"data" * 300
START, BSS = 0x100_0000, 0x100_4000


def kernel(data: bytes = DATA) -> bytes:
    """An ELF file: text at START, data a page before .bss, which the file's last segment covers."""
    head, segments, sections = 64, 56 * 2, 64 * 2
    text, later = head + segments + sections, head + segments + sections + len(TEXT)
    elf = bytearray(head)
    struct.pack_into("<QQQ", elf, 24, START, head, head + segments)
    struct.pack_into("<HHHH", elf, 54, 56, 2, 64, 2)
    for at, where, held, whole in (
        (text, START, len(TEXT), len(TEXT)),
        (later, BSS - 4096, 4096 + 8192, 4096 + 65536),
    ):
        elf += struct.pack("<IIQQQQQQ", 1, 5, at, where + MAP, where, held, whole, 4096)
    elf += struct.pack("<IIQQQQIIQQ", 0, 1, 3, MAP + START, text, len(TEXT), 0, 0, 16, 0)
    elf += struct.pack("<IIQQQQIIQQ", 0, 8, 3, MAP + BSS, later, 65536, 0, 0, 16, 0)
    return bytes(elf) + TEXT + data + bytes(4096 + 8192 - len(data))


def image(packed: bytes) -> bytes:
    setup = bytearray(2 * 512)
    setup[0x1F1] = 1
    struct.pack_into("<II", setup, 0x248, 100, len(packed))
    struct.pack_into("<I", setup, 0x260, 0x2_0000)
    return bytes(setup) + bytes(100) + packed + b"rest"


LEGACY = struct.pack("<I", 0x184C2102)


def pack(data: bytes) -> bytes:
    """As it is, after what LZ4 begins with."""
    return LEGACY + data


def test_memory_is_as_the_kernel_would_have_unpacked_it() -> None:
    made = repacked(image(lzma.compress(kernel())), ENTRY, pack)
    body = made[1024:]
    memory = BSS - START
    assert body[: len(TEXT)] == TEXT
    assert body[memory - 4096 :].startswith(DATA)
    assert body[memory : memory + 4] == bytes(4)  # no block follows
    at = memory + 4096
    # Who is entered knows how large, and how far.
    assert body[at : at + 12] == b"code" + struct.pack("<II", memory, at)
    assert struct.unpack_from("<I", made, 0x214) == (0x10_0000 + at,)
    assert struct.unpack_from("<I", made, 0x1F4) == (len(body) // 16,)
    # What is packed, and behind it the kernel from where pages of 2 MiB begin.
    assert struct.unpack_from("<I", made, 0x260)[0] >= len(body) + (2 << 20) + memory + 65536


def test_another_packing_stays() -> None:
    other = image(b"\x28\xb5\x2f\xfd and so on")
    assert repacked(other, ENTRY, pack) == other


def test_data_where_the_kernel_clears_is_refused_not_lost() -> None:
    with pytest.raises(ValueError, match="has data where it clears"):
        repacked(image(lzma.compress(kernel(DATA + b"x" * 4096))), ENTRY, pack)
