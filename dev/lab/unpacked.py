"""A kernel that need not unpack itself: under emulation that takes a third of a boot.

Debian packs the kernels of bookworm by xz. Here what would have been unpacked is the image itself,
and a few instructions (``inside/entry.S``) stand where the kernel's own unpacking began. GRUB loads
it as any other. Source: Documentation/arch/x86/boot.rst of the kernel, boot protocol 2.15.
"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterator
from typing import NamedTuple

_XZ = b"\xfd7zXZ\x00"
_LOAD, _NOBITS = 1, 8  # types of a segment and of a section, see elf(5)
_MAP = 0xFFFF_FFFF_8000_0000  # where a kernel's addresses begin: there is physical address 0
_PAGE = 4096
# Offsets in the header of the setup code.
_SECTORS, _SIZE, _ENTRY, _PAYLOAD, _PREFERRED, _NEEDED = 0x1F1, 0x1F4, 0x214, 0x248, 0x258, 0x260
_ENTERED_AT = 0x10_0000  # as the header counts, wherever the image is loaded
# Where no memory is. GRUB takes whatever address is preferred, and fills it byte by byte from
# another place; without one that it can have, it loads the image where it leaves it.
_NOWHERE = 0xF000_0000


class _Segment(NamedTuple):
    start: int  # physical address
    data: bytes
    size: int  # in memory


def unpacked(image: bytes, entry: bytes) -> bytes:
    """The image of a kernel without its packing; as it is where it is not packed by xz.

    :param entry: the code that is entered; its last four bytes take how far behind the kernel's
        beginning it lies.
    """
    setup = (image[_SECTORS] + 1) * 512
    at, length = struct.unpack_from("<II", image, _PAYLOAD)
    packed = image[setup + at : setup + at + length]
    if not packed.startswith(_XZ):
        return image
    kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed)
    segments = list(_segments(kernel))
    first = min(each.start for each in segments)
    memory = bytearray(_cleared(kernel) - first)  # what lies behind is cleared by the kernel
    for each in segments:
        memory[each.start - first : each.start - first + len(each.data)] = each.data
    if any(memory[_cleared(kernel) - first :]):
        raise ValueError("the kernel has data where it clears its memory")
    del memory[_cleared(kernel) - first :]
    memory += bytes(-len(memory) % _PAGE)
    body = bytes(memory) + entry[:-4] + struct.pack("<I", len(memory))
    body += bytes(-len(body) % 16)
    head = bytearray(image[:setup])
    needed = max(
        *struct.unpack_from("<I", head, _NEEDED),
        *(each.start - first + each.size for each in segments),
        len(body) + 16 * _PAGE,  # the tables that entry.S makes lie behind it
    )
    struct.pack_into("<I", head, _SIZE, len(body) // 16)
    struct.pack_into("<I", head, _ENTRY, _ENTERED_AT + len(memory))
    struct.pack_into("<II", head, _PAYLOAD, 0, 0)
    struct.pack_into("<QI", head, _PREFERRED, _NOWHERE, needed)
    return bytes(head) + body


def _segments(kernel: bytes) -> Iterator[_Segment]:
    begin, size, count = (
        *struct.unpack_from("<Q", kernel, 32),
        *struct.unpack_from("<HH", kernel, 54),
    )
    for number in range(count):
        kind, _, at, _, start, held, whole, _ = struct.unpack_from(
            "<IIQQQQQQ", kernel, begin + number * size
        )
        if kind == _LOAD:
            yield _Segment(start, kernel[at : at + held], whole)


def _cleared(kernel: bytes) -> int:
    """Where .bss begins, as a physical address: the largest section that is no part of the file."""
    begin, size, count = (
        *struct.unpack_from("<Q", kernel, 40),
        *struct.unpack_from("<HH", kernel, 58),
    )
    found = []
    for number in range(count):
        kind, _, address, _, length = struct.unpack_from(
            "<IQQQQ", kernel, begin + number * size + 4
        )
        if kind == _NOBITS and address >= _MAP:
            found.append((length, address - _MAP))
    return int(max(found)[1])
