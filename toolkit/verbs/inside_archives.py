"""The layers of an OCI layout or of ``docker save``, from a folder or a tar, one member at a time.

Sources: opencontainers/image-spec image-layout.md, manifest.md, config.md; moby image/spec.
"""

from __future__ import annotations

import platform
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any  # of JSON: whatever it says

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.untrusted import read_json

_JSON = 16 << 20  # bytes; a manifest has a few thousand
_ZSTD = b"\x28\xb5\x2f\xfd"
_HINT = "name an OCI layout, its archive, what docker save wrote, or a squashfs file"
Table = dict[str, Any]
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Member(Struct, frozen=True):
    """One file of a layer."""

    path: str  # without "./" or a slash at its start
    link: str = ""
    hard: bool = False  # ``link`` is another file of the image
    folder: bool = False


Members = Iterator[tuple[Member, "IO[bytes] | None"]]


class Layers(Struct, frozen=True):
    """One image: where its blobs are, and which of them are its layers, the lowest first."""

    blobs: Blobs
    names: tuple[str, ...]
    variables: list[str]  # NAME=VALUE, as its configuration has them

    def each(self) -> Iterator[Members]:
        """Each layer's members; those of one are read before the next is asked for.

        :raises UsageError: one cannot be read.
        """
        for name in self.names:
            with self.blobs.open(name) as opened:
                packed = opened.read(4) == _ZSTD
                opened.seek(0)
                yield _unpacked(self.blobs, opened) if packed else _listed(self.blobs, name, opened)


class Blobs:
    """Files by name: of a folder, or of a tar."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tar = None if path.is_dir() else tarfile.open(path)  # noqa: SIM115 close() closes it
        except (tarfile.TarError, zlib.error, EOFError) as why:
            said = str(why).partition(":\n")[0]  # tarfile adds a line for each way it tried
            raise UsageError(f"{path}: no image that we know: {said}", hint=_HINT) from why

    def open(self, name: str) -> IO[bytes]:
        """:raises UsageError: it is not there."""
        clean = posixpath.normpath("/" + name).lstrip("/")
        try:
            if self._tar is None:
                return (self._path / clean).open("rb")
            found = self._tar.extractfile(clean)
        except (KeyError, OSError) as why:
            raise UsageError(f"{self._path}: no {clean} in it", hint=_HINT) from why
        if found is None:
            raise UsageError(f"{self._path}: {clean} is no file", hint=_HINT)
        return found

    def has(self, name: str) -> bool:
        if self._tar is None:
            return (self._path / name).is_file()
        return name in self._tar.getnames()

    def json(self, name: str) -> list[Table]:
        """A table, or a list of these.

        :raises UsageError: it is not there, or no JSON.
        """
        with self.open(name) as opened:
            try:
                read = read_json(opened.read(_JSON).decode())
                return read if isinstance(read, list) else [read]
            except (ValueError, RecursionError) as why:
                raise UsageError(f"{self._path}: {name}: {why}", hint=_HINT) from why

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()

    def __str__(self) -> str:
        return str(self._path)


@contextmanager
def opened_layers(path: Path) -> Iterator[Layers]:
    """The image of this machine's kind, or the first, for the length of the block.

    :raises UsageError: there is none.
    """
    blobs = Blobs(path)
    try:
        yield _layers(path, blobs)
    finally:
        blobs.close()


def _layers(path: Path, blobs: Blobs) -> Layers:
    try:
        if blobs.has("index.json"):
            manifest = _manifest(blobs, blobs.json("index.json")[0])
            config = blobs.json(_blob(manifest["config"]))[0]
            names = tuple(map(_blob, manifest["layers"]))
        else:
            saved = blobs.json("manifest.json")[0]
            config, names = blobs.json(saved["Config"])[0], tuple(map(str, saved["Layers"]))
        told = [str(each) for each in (config.get("config") or {}).get("Env") or ()]
    except (KeyError, IndexError, TypeError, AttributeError) as why:
        raise UsageError(f"{path}: its manifest lacks {why}", hint=_HINT) from why
    return Layers(blobs, names, told)


def _manifest(blobs: Blobs, index: Table) -> Table:
    """Of an index, which may name further ones."""
    for _ in range(4):
        if "layers" in index:
            return index
        ours = _MACHINES.get(platform.machine(), platform.machine())
        rows = index["manifests"]
        fit = [e for e in rows if (e.get("platform") or {}).get("architecture") == ours]
        index = blobs.json(_blob((fit or rows)[0]))[0]
    raise UsageError(f"{blobs}: its index has no end", hint=_HINT)


def _blob(row: Table) -> str:
    return "blobs/" + str(row["digest"]).replace(":", "/", 1)


def _unpacked(blobs: Blobs, opened: IO[bytes]) -> Members:
    """By zstd, which Python has not."""
    with tempfile.TemporaryFile() as packed:
        shutil.copyfileobj(opened, packed)
        packed.seek(0)
        try:
            with subprocess.Popen(("zstd", "-dc"), stdin=packed, stdout=subprocess.PIPE) as child:
                yield from _listed(blobs, "a layer", child.stdout or packed)
        except OSError as why:
            raise UsageError(f"{blobs}: its layers need zstd", hint="install zstd here") from why


def _listed(blobs: Blobs, name: str, opened: IO[bytes]) -> Members:
    try:
        with tarfile.open(fileobj=opened, mode="r|*") as layer:
            for each in layer:
                path = posixpath.normpath("/" + each.name).lstrip("/")
                link = each.linkname
                if each.islnk():
                    link = posixpath.normpath("/" + link).lstrip("/")
                data = layer.extractfile(each) if each.isreg() else None
                yield Member(path, link, each.islnk(), each.isdir()), data
    except (tarfile.TarError, zlib.error, EOFError, OSError) as why:
        raise UsageError(f"{blobs}: {name}: {why}", hint="is the file whole?") from why
