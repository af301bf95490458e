"""Kernel modules as files: real, tiny ELF objects that carry no code.

The layout is fixed, so that the nodes' own ``dkms`` can write one from sh: 512 bytes of
headers that are the same in every module, then ``.modinfo``, then ``__ksymtab_strings``
(the names that the module exports), then ``__versions`` (the names that it imports, each
with its checksum), all filled up with zeroes. See elf(5) and scripts/mod/modpost.c.
"""

from __future__ import annotations

import struct

HEAD_BYTES = 512
MODINFO_BYTES = 1024
KSYMTAB_BYTES = 256
VERSIONS_BYTES = 1024
_NAMES = b"\0.shstrtab\0.modinfo\0__ksymtab_strings\0__versions\0"
_NAMES_AT = 64 + 5 * 64  # behind the ELF header and five section headers
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _STRTAB = 1, 3
_ALLOC = 2


def head() -> bytes:
    """The first 512 bytes of every module: ELF header, section headers, section names."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian, version 1
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, _RELOCATABLE, _X86_64, 1, 0, 0, 64, 0, 64, 0, 0, 64, 5, 1
    )
    sections = (
        _section(0, 0, 0, 0, 0)
        + _section(_NAMES.index(b".shstrtab"), _STRTAB, 0, _NAMES_AT, len(_NAMES))
        + _section(_NAMES.index(b".modinfo"), _PROGBITS, _ALLOC, HEAD_BYTES, MODINFO_BYTES)
        + _section(
            _NAMES.index(b"__ksymtab"), _PROGBITS, _ALLOC, HEAD_BYTES + MODINFO_BYTES, KSYMTAB_BYTES
        )
        + _section(
            _NAMES.index(b"__versions"),
            _PROGBITS,
            _ALLOC,
            HEAD_BYTES + MODINFO_BYTES + KSYMTAB_BYTES,
            VERSIONS_BYTES,
        )
    )
    return (header + sections + _NAMES).ljust(HEAD_BYTES, b"\0")


def _section(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 1, 0)


def checksum(name: str) -> int:
    """The version of a symbol on every simulated node: what cksum(1) makes of its name."""
    crc = 0
    for byte in name.encode() + len(name).to_bytes((len(name).bit_length() + 7) // 8, "little"):
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ 0x104C11DB7 if crc & 0x80000000 else crc << 1
    return crc ^ 0xFFFFFFFF


def module_file(
    info: tuple[tuple[str, str], ...],
    exports: tuple[str, ...] = (),
    imports: tuple[str, ...] = (),
) -> bytes:
    """One .ko file.

    :param info: the lines of ``modinfo``, in order: ("license", "GPL"), ...
    :param exports: names of exported symbols.
    :param imports: names of imported ones, beside what every module imports.
    """
    strings = b"".join(f"{key}={value}".encode() + b"\0" for key, value in info)
    symbols = b"".join(name.encode() + b"\0" for name in exports)
    needed = ("module_layout", *imports)
    versions = b"".join(struct.pack("<Q56s", checksum(name), name.encode()) for name in needed)
    if (
        len(strings) > MODINFO_BYTES
        or len(symbols) > KSYMTAB_BYTES
        or len(versions) > VERSIONS_BYTES
    ):
        raise ValueError("the module has more to say than its file has room for")
    return (
        head()
        + strings.ljust(MODINFO_BYTES, b"\0")
        + symbols.ljust(KSYMTAB_BYTES, b"\0")
        + versions.ljust(VERSIONS_BYTES, b"\0")
    )
