"""One file of a tar archive, read without unpacking the rest."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from lzma import LZMAError
from pathlib import Path
from typing import BinaryIO, Self

from toolkit.errors import UsageError
from toolkit.plural import sized

_PACKED = (b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh")  # gzip, xz, bzip2: Python unpacks these itself
_ZSTD = b"\x28\xb5\x2f\xfd"  # which it does since 3.14 alone
_NAMING = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_NAMES = 1 << 20  # bytes of such a header: a few names and times
_LEAST, _RATIO, _MOST = 64 << 20, 100, 8 << 30  # evidence packs to a tenth; a bomb to a thousandth
_CHUNK = 1 << 20
_HEAD, _MAGIC_AT = 512, 257  # where a header of POSIX or GNU has the word "ustar"


def most_unpacked(size: int) -> int:
    """Bytes that a packed file of so many may unpack to."""
    return min(_LEAST + _RATIO * size, _MOST)


class SmallHeader(tarfile.TarInfo):
    """A member whose names are names: tarfile holds them in memory, whatever size they claim."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _NAMING and found.size > _NAMES:
            raise UsageError(
                f"a header of its tar claims {found.size} bytes", hint="no tar of ours has such"
            )
        return found


class Unpacked(io.RawIOBase):
    """What a packed file unpacks to, up to what evidence can pack to: a bomb ends it early."""

    def __init__(self, file: Path, packed: BinaryIO | GzipFile) -> None:
        self._file, self._packed = file, packed
        self._most = most_unpacked(file.stat().st_size)
        self._read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """:raises UsageError: what was unpacked so far is more than evidence can be."""
        data = self._packed.read(min(size, _CHUNK) if size >= 0 else _CHUNK)
        self._read += len(data)
        if self._read > self._most:
            raise UsageError(
                f"{self._file}: unpacks to more than {sized(self._most)}",
                hint="no incident of ours does; look at where it comes from",
            )
        return data


def is_tar(path: Path) -> bool:
    """Whether a file is an archive, plain or packed, by what it begins with.

    :raises OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return head.startswith((*_PACKED, _ZSTD)) or head[_MAGIC_AT:].startswith(b"ustar")


def read_member(path: Path, inside: str, largest: int) -> bytes | None:
    """A plain file of an archive: the last of that name, which is what unpacking leaves.

    The whole archive is read, so that one that is cut or damaged is no answer.

    :param inside: its path, without a slash or a dot before it.
    :param largest: bytes.
    :returns: None where there is no such file.
    :raises UsageError: it is no whole archive, or the file is larger than that.
    :raises OSError: it cannot be read.
    """
    found = None
    try:
        with _opened(path) as archive:
            for member in archive:
                if member.name.removeprefix("./").lstrip("/") != inside:
                    continue
                if member.size > largest:
                    raise UsageError(
                        f"{path}: /{inside} has {member.size} bytes, too many for one",
                        hint="name a tar of a root file system",
                    )
                held = archive.extractfile(member) if member.isfile() else None
                found = held.read() if held is not None else None
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass  # padding, and what is damaged behind the last member
    except (tarfile.TarError, EOFError, LZMAError, zlib.error, BadGzipFile, RecursionError) as why:
        hint = "it may be cut short: fetch it again"
        said = str(why).partition("\n")[0].rstrip(":")
        raise UsageError(f"{path}: no whole tar: {said}", hint=hint) from why
    return found


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    with path.open("rb") as file:
        packed = file.read(len(_ZSTD)) == _ZSTD
        file.seek(0)
        if not packed:
            with tarfile.open(fileobj=file, mode="r:*", tarinfo=SmallHeader) as archive:
                yield archive
            return
    words = ("zstd", "-q", "-d", "-c", "--", str(path))
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise UsageError(f"{path}: zstd is not here", hint="install zstd") from None
    with child:
        try:
            with tarfile.open(fileobj=child.stdout, mode="r|", tarinfo=SmallHeader) as archive:
                yield archive
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise UsageError(f"{path}: no whole tar, says zstd", hint="fetch it again")
