"""Files of any sort, opened in memory: archives and packed files, one within the other."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import IO

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.tar_member import SmallHeader, most_unpacked

_CHUNK = 1 << 20
_DEEP = 4  # packed files within one another; a log in a tar in a zip is three
_MANY = 10_000  # files
_GZIP, _XZ, _BZIP2, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_MAGIC_AT = 257  # where a header of POSIX or GNU tar has the word "ustar"
_SUFFIXES = (".gz", ".xz", ".zst", ".bz2", ".tgz", ".txz")
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, lzma.LZMAError, zlib.error,
           RecursionError, NotImplementedError, ValueError)  # fmt: skip


class Leaf(Struct, frozen=True):
    """One file that holds no others; or one that could not be opened."""

    name: str  # "ticket.zip/gpu07/logs.tar.gz/dmesg.txt"
    data: bytes
    why: str = ""  # why it could not be opened


def _none(_: str) -> bool:
    return False


class UnpackRoom(Struct):
    """What may still be unpacked of one source."""

    size: int  # bytes
    files: int = _MANY
    skips: Callable[[str], bool] = _none  # whether a file of that name is left packed

    @classmethod
    def of(cls, size: int, most: int, skips: Callable[[str], bool] = _none) -> UnpackRoom:
        """For a source of so many bytes: as much as evidence packs to, and never more than most."""
        return cls(min(most_unpacked(size), most), skips=skips)

    def shows(self, name: str) -> bool:
        """Whether a member of an archive is opened: hidden ones are not."""
        return PurePosixPath(name).name[:1] not in {"", "."} and not self.skips(name)

    def read(self, name: str, stream: IO[bytes]) -> bytes:
        """The whole stream.

        :raises UsageError: there is no room for it.
        """
        parts = []
        while part := stream.read(_CHUNK):
            self.size -= len(part)
            if self.size < 0:
                raise UsageError(
                    f"{name}: unpacks to more than evidence can be",
                    hint="name the files that matter, one by one; look at where it comes from",
                )
            parts.append(part)
        return b"".join(parts)


def is_packed(data: bytes) -> bool:
    """Whether it holds other files, or is packed, by what it begins with."""
    begins = data.startswith((_GZIP, _XZ, _BZIP2, _ZSTD, *_ZIP))
    return begins or data[_MAGIC_AT : _MAGIC_AT + 5] == b"ustar"


def leaves(name: str, data: bytes, room: UnpackRoom, deep: int = 0) -> Iterator[Leaf]:
    """Every file within this one, or itself; hidden ones are passed over.

    :param room: taken from, by all that is unpacked.
    :raises UsageError: it holds more than there is room for.
    """
    if deep >= _DEEP or not is_packed(data):
        room.files -= 1
        if room.files < 0:
            raise UsageError(f"{name}: one file too many", hint="name those that matter")
        yield Leaf(name, data)
        return
    try:
        for inner, content in _inside(name, data, room):
            yield from leaves(inner, content, room, deep + 1)
    except _DAMAGE as why:
        said = str(why).partition("\n")[0].rstrip(":")
        yield Leaf(name, data, f"is damaged: {said or type(why).__name__}")
    except _Locked as why:
        yield Leaf(name, data, str(why))


class _Locked(Exception):
    """What lies here cannot be opened, and is whole for all that anybody knows."""


def _inside(name: str, data: bytes, room: UnpackRoom) -> Iterator[tuple[str, bytes]]:
    if data.startswith(_ZIP):
        yield from _of_zip(name, data, room)
    elif data[_MAGIC_AT : _MAGIC_AT + 5] == b"ustar":
        yield from _of_tar(name, data, room)
    else:
        suffix = PurePosixPath(name).suffix
        inner = name.removesuffix(suffix) if suffix in _SUFFIXES else name
        yield inner, _unpacked(name, data, room)


def _of_tar(name: str, data: bytes, room: UnpackRoom) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", tarinfo=SmallHeader) as tar:
        for member in tar:
            held = tar.extractfile(member) if member.isreg() and room.shows(member.name) else None
            if held is not None:
                yield f"{name}/{_inner(member.name)}", room.read(name, held)


def _of_zip(name: str, data: bytes, room: UnpackRoom) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        for each in whole.infolist():
            if each.is_dir() or not room.shows(each.filename):
                continue
            if each.flag_bits & 1:
                raise _Locked("needs a password")
            with whole.open(each) as held:
                yield f"{name}/{_inner(each.filename)}", room.read(name, held)


def _inner(name: str) -> str:
    return name.removeprefix("./").lstrip("/")


def _unpacked(name: str, data: bytes, room: UnpackRoom) -> bytes:
    raw = io.BytesIO(data)
    if data.startswith(_GZIP):
        return room.read(name, gzip.GzipFile(fileobj=raw))  # type: ignore[arg-type] # it reads as IO does
    if data.startswith(_XZ):
        return room.read(name, lzma.LZMAFile(raw))
    if data.startswith(_BZIP2):
        return room.read(name, bz2.BZ2File(raw))
    return _of_zstd(name, data, room)


def _of_zstd(name: str, data: bytes, room: UnpackRoom) -> bytes:
    """By the program, for Python has none before 3.14."""
    with tempfile.TemporaryFile() as packed:
        packed.write(data)
        packed.seek(0)
        try:
            child = subprocess.Popen(
                ("zstd", "-q", "-d", "-c"),
                stdin=packed,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise _Locked("zstd is not here to unpack it") from None
        with child:  # which ends at once where it is read no further
            assert child.stdout is not None  # noqa: S101 # it was asked for, above
            found = room.read(name, child.stdout)
    if child.returncode:
        raise EOFError("says zstd")
    return found
