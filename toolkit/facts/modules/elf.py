"""The parts of ELF files that the probe sends, read by pyelftools.

The probe sends no module, but the ranges of it that a verdict needs, as ``od -A x -t x1``
prints them. Here the file is put together again, with holes; what lies in a hole is never
read as zeroes, it is refused.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable

if TYPE_CHECKING:
    from elftools.elf.sections import Section, SymbolTableSection

_LARGEST = 32 << 20  # bytes; nvidia-peermem with all its debug information has 1 MB
# elf(5), e_shnum: from SHN_LORESERVE (0xff00) on the count stands elsewhere, where the kernel's
# loader does not look. The driver's nvidia-modeset.ko has 6,018: about one for each function.
_MOST_SECTIONS = 0xFEFF
_OVER = 8  # times its length that a file may be read; 24 bytes of a symbol have 64 of its name read
_PACKAGES = {"xz": "xz-utils (xz)"}  # elsewhere the package is called as the program
_HEAD = re.compile(r"size (\d{1,9})( signed)?")
_ROW = re.compile(r"([0-9a-f]+)((?: [0-9a-f]{2}){0,16})")


class SparseFile(Struct, frozen=True):
    """A file of which some ranges are known."""

    data: bytes  # of the whole length, zeroes where not known
    known: tuple[tuple[int, int], ...]  # ranges, end excluded, in the order of the text
    signed: bool = False  # whether a signature stands at its end

    @property
    def tail(self) -> bytes:
        """The last bytes, as far back as they are known without a hole; none where not known."""
        starts = [first for first, last in self.known if last == len(self.data)]
        return self.data[min(starts) :] if starts else b""

    def covers(self, start: int, size: int) -> bool:
        """Whether every byte of the range was sent."""
        at, end = start, start + size
        for first, last in sorted(self.known):
            if first <= at < last:
                at = last
        return at >= end

    @classmethod
    def parse(cls, path: str, lines: list[str], *, largest: int = _LARGEST) -> SparseFile:
        """Unfold what od printed: "*" stands for repetitions of the line above.

        :param lines: "size BYTES" or "size BYTES signed", then rows of od; an address alone
            ends a range.
        :param largest: bytes; a file that is said to be larger is refused.
        :raises NoEvidence: where the probe says what it lacked to read the file.
        :raises Unparsable: at a line that does not follow from those above it.
        """
        head = (lines or [""])[0]
        if head.startswith("lacks "):
            tool = head.removeprefix("lacks ")
            hint = f"install {_PACKAGES.get(tool, tool)} there" if tool.isalnum() else ""
            raise NoEvidence(f"{path}: not read, {head}", hint=hint)
        told = _HEAD.fullmatch(head)
        if told is None or not 0 < int(told[1]) <= largest:
            raise Unparsable(path, head, 1)
        data, known = bytearray(int(told[1])), []
        row, start, following, folded = b"", 0, -1, False  # following: where the next row begins
        for number, line in enumerate(lines[1:], start=2):
            if line == "*" and row and not folded:
                folded = True
                continue
            found = _ROW.fullmatch(line)
            at = int(found[1], 16) if found else -1
            now = bytes.fromhex(found[2]) if found else b""
            if following < 0:
                start = following = at
            gap = at - following
            # Behind a folded row, which stands for some bytes, another may begin at any distance.
            fits = gap > 0 if folded else gap == 0
            if found is None or at + len(now) > len(data) or not fits:
                raise Unparsable(path, line, number)
            data[following:at] = (row * (gap // len(row) + 1))[:gap] if row else b""
            data[at : at + len(now)] = now
            row, following, folded = now, at + len(now), False
            if not now:  # the address alone ends a range
                known.append((start, at))
                row, following = b"", -1
        return cls(bytes(data), tuple(known), told[2] is not None)


class Elf(Struct, frozen=True):
    """What the sections of a module hold."""

    sections: tuple[tuple[str, bytes], ...]  # by name, those that were sent
    undefined: tuple[str, ...]  # the symbols that others must provide
    symbols: bool  # whether there is a symbol table at all
    machine: str  # as ELF names it: "EM_X86_64"
    relocatable: bool  # as modules are, and programs are not
    end: int  # where the last section or the table of sections ends; bytes from the start


class _Metered(io.BytesIO):
    """A file that can be read a few times over: its tables may overlap, and its names never end."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._left = _OVER * len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """:raises Unparsable: once more was read than a sound file needs."""
        found = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise Unparsable("ELF file", f"tables that have it read more than {_OVER} times over")
        return found


def read_elf(
    path: str,
    file: SparseFile,
    wanted: tuple[str, ...],
    *,
    spare: tuple[str, ...] = (),
    imports: bool = True,
) -> Elf:
    """Read the wanted sections and the undefined symbols.

    :param spare: sections that are read where they were sent, and left out where not.
    :param imports: False where the symbol table was not sent, and nobody asks for it.
    :raises Unparsable: where it is no ELF file, or a wanted section was not sent.
    """
    try:
        return _read(file, wanted, spare, imports)
    except Unparsable:
        raise
    # The library has no single error of its own for damaged bytes.
    except Exception as why:
        raise Unparsable(path, f"{type(why).__name__}: {why}") from why


def import_reader() -> None:
    """Import the library now: where each node will send such a file, and is waited for."""
    import elftools.elf.elffile  # noqa: F401, PLC0415 likewise


def _read(file: SparseFile, wanted: tuple[str, ...], spare: tuple[str, ...], imports: bool) -> Elf:
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 only where a file was sent
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415 likewise

    elf = ELFFile(_Metered(file.data))
    head = elf.header
    if not file.covers(0, 64) or not file.covers(head.e_shoff, head.e_shnum * head.e_shentsize):
        raise Unparsable("ELF file", "its headers were not sent")
    if not 0 < head.e_shnum <= _MOST_SECTIONS:
        raise Unparsable("ELF file", f"no sections, or more than {_MOST_SECTIONS}")
    sections: list[tuple[str, bytes]] = []
    undefined: list[str] = []
    symbols = False
    end = head.e_shoff + head.e_shnum * head.e_shentsize
    _sent(file, elf.get_section(head.e_shstrndx))
    for section in elf.iter_sections():
        if section.header.sh_type not in ("SHT_NOBITS", "SHT_NULL"):
            end = max(end, section.header.sh_offset + section.header.sh_size)
        if section.name in wanted or (
            section.name in spare and file.covers(section.header.sh_offset, section.header.sh_size)
        ):
            sections.append((section.name, _sent(file, section)))
        if isinstance(section, SymbolTableSection):
            symbols = True
            undefined += _undefined(file, section) if imports else ()
    machine, relocatable = str(head.e_machine), head.e_type == "ET_REL"
    return Elf(tuple(sections), tuple(undefined), symbols, machine, relocatable, end)


def _undefined(file: SparseFile, table: SymbolTableSection) -> Iterator[str]:
    _sent(file, table)
    _sent(file, table.stringtable)
    for each in table.iter_symbols():
        if each.entry.st_shndx == "SHN_UNDEF" and each.name:
            yield each.name


def _sent(file: SparseFile, section: Section) -> bytes:
    start, size = section.header.sh_offset, section.header.sh_size
    if not file.covers(start, size):
        raise Unparsable("ELF file", f"section {section.name} was not sent in full")
    return file.data[start : start + size]
