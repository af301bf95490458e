"""Modules as they are in their files: what they import, export and were built against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import blocks, rows
from toolkit.facts.modules.elf import SparseFile, read_elf
from toolkit.facts.modules.signature import MAGIC, Signature, parse_signature

SHARED = re.compile(r"ib_(un)?register_peer_memory_client|nvidia_p2p_\w+")
_WITH_SYMBOLS = 512 << 20  # bytes; the driver itself, where nobody has stripped it
_VERSION_BYTES = 64  # a checksum of 8 bytes, then the name, filled up with zeroes
_EXPORT = re.compile(r"(0x[0-9a-f]{1,16})\t(\w+)")
_NEEDS = re.compile(r"([^:]*):(.*)")
_LAYOUT = re.compile(r"layout (0x[0-9a-f]{1,16})")
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_BUILD_ID = ".note.gnu.build-id"
_SECTIONS = (".modinfo", "__versions", "__version_ext_crcs", "__version_ext_names")


class ModuleImage(Struct, frozen=True):
    """One module file, read from its bytes."""

    path: str
    info: Mapping[str, str]  # the lines of modinfo: "depends", "vermagic", "srcversion", ...
    imports: frozenset[str]  # symbols that others must provide
    versions: Mapping[str, int]  # the checksum that each import had when it was built
    signature: Signature | None
    machine: str  # "x86_64", "aarch64", or as ELF names another
    build_id: str = ""  # the linker's hash of what was built: lower-case hex; "" without one

    @property
    def shared(self) -> tuple[str, ...]:
        """Imports from the driver and from the RDMA core; none in a stub."""
        return tuple(sorted(name for name in self.imports if SHARED.fullmatch(name)))

    @property
    def depends(self) -> tuple[str, ...]:
        return tuple(each for each in self.info.get("depends", "").split(",") if each)

    @property
    def kernel(self) -> str:
        """The kernel release it was compiled for."""
        return self.info.get("vermagic", "").split(" ", 1)[0]

    @property
    def flags(self) -> tuple[str, ...]:
        """The rest of vermagic: ("SMP", "preempt", "mod_unload", "modversions")."""
        return tuple(self.info.get("vermagic", "").split()[1:])


def parse_image(path: str, lines: list[str]) -> ModuleImage:
    """Read the bytes of one module file.

    :raises NoEvidence: where the node could not unpack it.
    :raises Unparsable: where the bytes are those of no module, or too few of them.
    """
    return _image(path, tuple(lines))


@lru_cache(maxsize=8)  # the nodes of a fleet have the same few modules
def _image(path: str, lines: tuple[str, ...]) -> ModuleImage:
    return _read(path, SparseFile.parse(path, list(lines)))


def read_image(path: str, data: bytes) -> ModuleImage:
    """Read a whole module file.

    :param data: all of it, not packed.
    :raises Unparsable: where it is no module, ends early, or has bytes behind its end that
        are no signature.
    """
    whole = SparseFile(data, ((0, len(data)),), data.endswith(MAGIC))
    image = _read(path, whole)
    end = read_elf(path, whole, ()).end
    if not whole.signed and end != len(data):
        raise Unparsable(path, f"{len(data) - end} bytes behind its end, and no signature")
    return image


def read_sections(path: str, lines: list[str]) -> ModuleImage:
    """Read a module of which the symbol table was not sent: its imports are those with versions.

    :param lines: as for ``parse_image``.
    :raises NoEvidence: where the node could not unpack it.
    :raises Unparsable: where the bytes are those of no module, or too few of them.
    """
    return _read(path, SparseFile.parse(path, lines, largest=_WITH_SYMBOLS), imports=False)


def _read(path: str, file: SparseFile, *, imports: bool = True) -> ModuleImage:
    # The probe sends no notes: only what is read for passports has them.
    elf = read_elf(path, file, _SECTIONS, spare=(_BUILD_ID,), imports=imports)
    if not elf.relocatable:
        raise Unparsable(path, "no module: it is not relocatable")
    held = dict(elf.sections)
    if ".modinfo" not in held:
        raise Unparsable(path, "no .modinfo")
    versions = _versions(path, held)
    if not elf.symbols and not versions:
        raise Unparsable(path, "neither a symbol table nor symbol versions")
    names = frozenset(elf.undefined) | (versions.keys() - {"module_layout"})
    signature = parse_signature(path, file.tail) if file.signed else None
    machine = _MACHINES.get(elf.machine, elf.machine)
    # The zero-ended "key=value" strings; of a key that is there twice, the first.
    found: dict[str, str] = {}
    for entry in held[".modinfo"].split(b"\0"):
        key, _, value = entry.decode("utf-8", "replace").partition("=")
        if key:
            found.setdefault(key, value)
    info = MappingProxyType(found)
    build = parse_build_id(path, held.get(_BUILD_ID, b""))
    return ModuleImage(path, info, names, versions, signature, machine, build)


def parse_build_id(path: str, note: bytes) -> str:
    """The id in a note of the linker: lower-case hex, "" for no note.

    Source: elf(5), Notes: three words of 32 bits, then the name, filled up to four bytes.

    :raises Unparsable: where it is another note.
    """
    if not note:
        return ""
    name, size, kind = (int.from_bytes(note[at : at + 4], "little") for at in (0, 4, 8))
    if (name, kind) != (4, 3) or note[12:16] != b"GNU\0" or len(note) < 16 + size:
        raise Unparsable(f"build id of {path}", note[:40].hex())
    return note[16 : 16 + size].hex()


def _versions(path: str, held: Mapping[str, bytes]) -> Mapping[str, int]:
    """Checksums by symbol: of the old section, and of the two that kernels have since 6.14.

    :raises Unparsable: where a section is no whole number of entries.
    """
    found: dict[str, int] = {}
    table = held.get("__versions", b"")
    if len(table) % _VERSION_BYTES:
        raise Unparsable(path, f"__versions of {len(table)} bytes")
    for at in range(0, len(table), _VERSION_BYTES):
        name = table[at + 8 : at + _VERSION_BYTES].split(b"\0", 1)[0]
        if name:
            found[name.decode("utf-8", "replace")] = int.from_bytes(table[at : at + 8], "little")
    crcs = held.get("__version_ext_crcs", b"")
    names = [each for each in held.get("__version_ext_names", b"").split(b"\0") if each]
    if len(crcs) != 4 * len(names):
        raise Unparsable(path, f"{len(names)} names for {len(crcs)} bytes of checksums")
    for index, word in enumerate(names):
        crc = int.from_bytes(crcs[4 * index : 4 * index + 4], "little")
        found[word.decode("utf-8", "replace")] = crc
    return MappingProxyType(found)


class Exports(Struct, frozen=True):
    """What one installed module offers of the shared symbols."""

    path: str
    crcs: Mapping[str, int]  # checksum by symbol; 0 where the kernel keeps no versions
    layout: int | None  # checksum of module_layout in the kernel that it was built against


def parse_exports(text: str) -> tuple[Exports, ...]:
    """Read the probe's blocks of exported symbols.

    :raises Unparsable: at a line of another shape.
    """
    found = []
    for path, lines in blocks(text, "exports"):
        crcs: dict[str, int] = {}
        layout = None
        for number, line in enumerate(lines, start=1):
            if row := _EXPORT.fullmatch(line):
                crcs[row[2]] = int(row[1], 16)
            elif told := _LAYOUT.fullmatch(line):
                layout = int(told[1], 16)
            elif not line.startswith("lacks "):  # without it, nothing is told of this one
                raise Unparsable(f"exports of {path}", line, number)
        found.append(Exports(path, MappingProxyType(crcs), layout))
    return tuple(found)


def parse_symbol_versions(text: str) -> dict[str, dict[str, int]]:
    """Checksums by symbol, of each Module.symvers.

    :raises Unparsable: at a line of another shape.
    """
    files: dict[str, dict[str, int]] = {}
    for path, lines in blocks(text, "Module.symvers"):
        files[path] = {}
        for number, line in enumerate(lines, start=1):
            row = line.split("\t")
            if len(row) < 4 or not re.fullmatch(r"0x[0-9a-f]{1,16}", row[0]):
                raise Unparsable(path, line, number)
            files[path][row[1]] = int(row[0], 16)
    return files


def parse_module_deps(text: str, release: str) -> dict[str, tuple[str, ...]]:
    """modules.dep: absolute paths of the files that each file needs, by its own.

    :raises Unparsable: at a line without a colon.
    """
    return {
        _absolute(row[1], release): tuple(_absolute(each, release) for each in row[2].split())
        for row in rows(text, _NEEDS, "modules.dep")
    }


def _absolute(path: str, release: str) -> str:
    return path if path.startswith("/") else f"/lib/modules/{release}/{path}"
