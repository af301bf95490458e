"""A kernel that is quickly unpacked: under emulation that takes a third of a boot.

Debian packs the kernels of bookworm by xz, which is slow to unpack; what is not packed is slow to
load, for GRUB moves it byte by byte. Here it is packed by LZ4, and a few instructions
(``inside/entry.S``) stand where the kernel's own unpacking began. GRUB loads it as any other.
Source: Documentation/arch/x86/boot.rst of the kernel, boot protocol 2.15; lz4_Block_format.md.
"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

_XZ = b"\xfd7zXZ\x00"
_LOAD, _NOBITS = 1, 8  # types of a segment and of a section, see elf(5)
_MAP = 0xFFFF_FFFF_8000_0000  # where a kernel's addresses begin: there is physical address 0
_PAGE = 4096
_LARGE = 2 << 20  # where a kernel's addresses must begin
_LEGACY = struct.pack("<I", 0x184C2102)  # what LZ4 begins with whose blocks follow upon each other
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


def repacked(image: bytes, entry: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """The image of a kernel in another packing; as it is where it is not packed by xz.

    :param entry: the code that is entered; its last eight bytes take the size of the kernel, and
        how far behind the beginning of what is packed it lies.
    :param pack: as ``lz4 -l`` does.
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
    packed = pack(bytes(memory)).removeprefix(_LEGACY) + bytes(4)
    packed += bytes(-len(packed) % _PAGE)
    body = packed + entry[:-8] + struct.pack("<II", len(memory), len(packed))
    body += bytes(-len(body) % 16)
    head = bytearray(image[:setup])
    whole = max(each.start - first + each.size for each in segments)
    needed = max(
        *struct.unpack_from("<I", head, _NEEDED),
        len(body) + 16 * _PAGE + _LARGE + whole,  # entry.S's tables, and the kernel behind them
    )
    struct.pack_into("<I", head, _SIZE, len(body) // 16)
    struct.pack_into("<I", head, _ENTRY, _ENTERED_AT + len(packed))
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
