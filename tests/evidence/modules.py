"""Kernel modules as bytes, made to measure: real ELF objects that carry no code.

ko(info, {"nvidia_p2p_get_pages": 0x1234})         imports with their versions
ko(info, {...}, signature=signed("DKMS key"))       with a signature behind it
sent("/lib/modules/x/nvidia-peermem.ko", ko(...))   as the probe sends it
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from tests.evidence.board import od

_PROGBITS, _SYMTAB, _STRTAB, _NOTE, _ALLOC = 1, 2, 3, 7, 2
MAGIC = b"~Module signature appended~\n"


def ko(
    info: Mapping[str, str],
    versions: Mapping[str, int],
    *,
    undefined: Iterable[str] | None = None,
    extended: bool = False,
    symbols: bool = True,
    signature: bytes = b"",
    build: bytes = b"",
    build_first: bool = False,
    functions: int = 0,
) -> bytes:
    """One module file.

    :param versions: imports with their checksums; "module_layout" is no import.
    :param undefined: imports, where they are others than those with a checksum.
    :param symbols: whether it has a symbol table.
    :param extended: in the two sections that kernels have since 6.14.
    :param build: the linker's hash, 20 bytes, in a note as real modules have it.
    :param build_first: before all other sections, as the linker lays modules out.
    :param functions: each in a section of its own, as -ffunction-sections has them.
    """
    names = [name for name in versions if name != "module_layout"]
    names = names if undefined is None else list(undefined)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    table_of_symbols = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", strings.index(b"\0" + name.encode() + b"\0") + 1, 0x10, 0, 0, 0, 0)
        for name in names
    )
    text = b"".join(f"{key}={value}".encode() + b"\0" for key, value in info.items())
    sections = [(".modinfo", _PROGBITS, _ALLOC, text, 0, 0)]
    if extended:
        crcs = b"".join(struct.pack("<I", crc) for crc in versions.values())
        listed = b"".join(name.encode() + b"\0" for name in versions)
        sections.append(("__version_ext_crcs", _PROGBITS, _ALLOC, crcs, 0, 0))
        sections.append(("__version_ext_names", _PROGBITS, _ALLOC, listed, 0, 0))
    elif versions:
        table = b"".join(struct.pack("<Q56s", crc, n.encode()) for n, crc in versions.items())
        sections.append(("__versions", _PROGBITS, _ALLOC, table, 0, 0))
    if build:
        note = struct.pack("<III4s", 4, len(build), 3, b"GNU") + build
        at = 0 if build_first else len(sections)
        sections.insert(at, (".note.gnu.build-id", _NOTE, _ALLOC, note, 0, 0))
    sections += [(f".text.f{each}", _PROGBITS, _ALLOC, b"\xc3", 0, 0) for each in range(functions)]
    strtab = len(sections) + 2
    if symbols:
        sections.append((".symtab", _SYMTAB, 0, table_of_symbols, strtab, 24))
    sections.append((".strtab", _STRTAB, 0, strings, 0, 0))
    return _elf(sections) + signature


def _elf(sections: list[tuple[str, int, int, bytes, int, int]]) -> bytes:
    names = b"\0" + b"".join(each[0].encode() + b"\0" for each in sections) + b".shstrtab\0"
    sections = [*sections, (".shstrtab", _STRTAB, 0, names, 0, 0)]
    body, rows = bytearray(), [bytes(64)]
    for name, kind, flags, data, link, entry in sections:
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        where = (at, kind, flags, 0, 64 + len(body), len(data), link, 0, 1, entry)
        rows.append(struct.pack("<IIQQQQIIQQ", *where))
        body += data
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    sizes = (64, 0, 0, 64, len(rows), len(rows) - 1)
    head = struct.pack("<16sHHIQQQIHHHHHH", ident, 1, 62, 1, 0, 0, 64 + len(body), 0, *sizes)
    return head + bytes(body) + b"".join(rows)


def der(tag: int, *parts: bytes) -> bytes:
    """One DER element."""
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    return bytes([tag, 0x82]) + size.to_bytes(2, "big") + content


def signed(
    signer: str,
    *,
    serial: bytes = b"\x12\x34",
    key_id: bytes = b"",
    digest: str = "608648016503040203",
) -> bytes:
    """What scripts/sign-file appends: a PKCS#7 message, its fields and the closing words."""
    common = der(0x31, der(0x30, der(0x06, b"\x55\x04\x03"), der(0x0C, signer.encode())))
    organisation = der(0x31, der(0x30, der(0x06, b"\x55\x04\x0a"), der(0x0C, b"Example")))
    who = der(0x30, der(0x30, organisation, common), der(0x02, serial))
    algorithm = der(0x30, der(0x06, bytes.fromhex(digest)))
    info = der(
        0x30,
        der(0x02, b"\x01"),
        der(0x80, key_id) if key_id else who,
        algorithm,
        der(0x30, der(0x06, bytes.fromhex("2a864886f70d010101"))),
        der(0x04, bytes(256)),
    )
    data = der(0x30, der(0x06, bytes.fromhex("2a864886f70d010701")))
    message = der(0x30, der(0x02, b"\x01"), der(0x31, algorithm), data, der(0x31, info))
    pkcs7 = der(0x30, der(0x06, bytes.fromhex("2a864886f70d010702")), der(0xA0, message))
    return pkcs7 + bytes([0, 0, 2, 0, 0, 0, 0, 0]) + len(pkcs7).to_bytes(4, "big") + MAGIC


def sent(path: str, data: bytes) -> str:
    """One block of the frame "peermem-elf", with the whole file in one range."""
    told = " signed" if data.endswith(MAGIC) else ""
    return f"@{path}\nsize {len(data)}{told}\n{od(data)}"
