"""An image that is a root in a tar archive: what docker export writes, or debootstrap packed.

Equal input and equal changes give equal bytes: members are sorted by name, and nothing is newer
than SOURCE_DATE_EPOCH or, without it, than the newest member of the input.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from toolkit.errors import Unsupported, UsageError
from toolkit.features.image.io.index import TreeDifference
from toolkit.features.image.io.inside import flush_folder
from toolkit.features.image.io.namespace import MountRoom, demand, refusal

# What the file begins with, and what unpacks it.
_UNPACK = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
)
# Threads are fixed, for xz and zstd cut their work, and so their output, by them.
_PACK = {
    ".tar": "",
    ".tar.gz": "gzip -n",
    ".tgz": "gzip -n",
    ".tar.xz": "xz -T2",
    ".txz": "xz -T2",
    ".tar.zst": "zstd -q -T2",
}
_ALL = ("--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*")
# Times of reading and names with a process's number in them would differ with each run.
_PAX = "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"
_LAYERS = {"manifest.json", "oci-layout", "index.json"}  # of an archive of layers, not of a root


class Tar:
    """An archive, unpacked beside the place where the result goes, and packed there again."""

    way = "a new archive takes its name in one step (rename)"

    def __init__(self, path: Path, out: Path | None) -> None:
        """:raises UsageError: there is no such file, or it is not said where the result goes."""
        if not path.is_file():
            raise UsageError(f"{path}: is no file", hint="--tar names an archive with a root in it")
        if out is None:
            raise UsageError(f"{path}: where the result goes is not said", hint="--out NAME.tar")
        if out.is_dir() or not out.parent.is_dir():
            raise UsageError(f"{out}: is no place for a file", hint="name a file: --out image.tar")
        suffixes = [each for each in _PACK if out.name.endswith(each)]
        if not suffixes:
            raise UsageError(f"{out}: what to pack it with is not known", hint=" ".join(_PACK))
        self._path = path.resolve()
        self.target = out.parent.resolve() / out.name
        self._pack = _PACK[suffixes[0]]
        self._packed = ""  # what it was packed by, once that is known
        self._epoch = _epoch()

    def bring(self, room: MountRoom, folder: Path) -> Path:
        """Look at every member, then unpack all.

        :raises Unsupported: one would come to lie outside.
        :raises ApplyError: the archive is damaged, or there is no space for it.
        """
        with self._path.open("rb") as file:
            head = file.read(8)
        self._packed = next((name for magic, name in _UNPACK if head.startswith(magic)), "")
        tools = ("tar", self._packed, self._pack.partition(" ")[0])
        demand(str(self._path), (each for each in tools if each))
        tree = folder / "root"
        tree.mkdir()
        newest = 0
        with self._members(room) as members:
            links: dict[PurePosixPath, str] = {}
            for each in members:
                self._refuse(each, links)
                newest = max(newest, int(each.mtime))
        if self._epoch is None:
            self._epoch = newest
        words = ("tar", "-x", "-p", "--same-owner", *_ALL, "-C", tree, "-f", self._path)
        room.call(*words)
        return tree

    def pack(self, room: MountRoom, folder: Path, _: tuple[TreeDifference, ...]) -> None:
        """Make the archive, and see that it is on the disk."""
        room.call("umount", "-n", "-R", folder / "view")
        result = folder / "result"
        packed = ("-I", self._pack) if self._pack else ()
        times = (f"--mtime=@{self._epoch}", "--clamp-mtime", "--sort=name")
        words = ("tar", "-c", "--format=posix", _PAX, *_ALL, *times, *packed)
        room.call(*words, "-C", folder / "root", "-f", result, ".")
        result.chmod(0o644)
        room.call("sync", result)

    def put(self, folder: Path) -> None:
        """Give the result its name."""
        (folder / "result").replace(self.target)
        flush_folder(self.target.parent)

    @contextmanager
    def _members(self, room: MountRoom) -> Iterator[Iterator[tarfile.TarInfo]]:
        tool = self._packed
        with self._path.open("rb") as file:
            if not tool:
                yield self._read(file)
                return
            words = (*room.words(), tool, "-dc", str(self._path))
            with subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as child:
                assert child.stdout is not None  # noqa: S101 # it was asked for, a line above
                try:
                    yield self._read(child.stdout)
                    while child.stdout.read(1 << 20):  # padding, and what is damaged behind it
                        pass
                finally:
                    child.stdout.close()
                    said = child.stderr.read() if child.stderr is not None else b""
        if child.returncode:
            raise refusal(str(self._path), tool, child.returncode, said)

    def _read(self, stream: IO[bytes]) -> Iterator[tarfile.TarInfo]:
        try:
            with tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as archive:
                yield from archive
        except tarfile.TarError as why:
            raise UsageError(
                f"{self._path}: cannot be read as a tar archive: {why}",
                hint="it may be cut short: fetch it again",
            ) from why

    def _refuse(self, each: tarfile.TarInfo, links: dict[PurePosixPath, str]) -> None:
        if each.name.removeprefix("./") in _LAYERS:
            raise Unsupported(
                f"{self._path}: holds layers of a container image ({each.name}), not one root",
                hint="make a container of it and pack what it sees: docker create, docker export",
            )
        names = [each.name] + ([each.linkname] if each.islnk() else [])
        for name in names:
            spot = PurePosixPath(name)
            if spot.is_absolute() or ".." in spot.parts:
                raise self._leads_out(each, "")
            for above in spot.parents:
                if above in links and _climbs(above, links):
                    raise self._leads_out(each, f", by the link {above} to {links[above]}")
        if each.issym():
            links[PurePosixPath(each.name)] = each.linkname
        else:
            links.pop(PurePosixPath(each.name), None)

    def _leads_out(self, each: tarfile.TarInfo, by: str) -> Unsupported:
        return Unsupported(
            f"{self._path}: {each.name} leads out of it{by}",
            hint="nothing was unpacked; such an archive is damaged, or made to do harm",
        )


def _climbs(link: PurePosixPath, links: dict[PurePosixPath, str]) -> bool:
    """Whether a link leads out of the archive, by itself or by links on its way."""
    left = [*reversed(PurePosixPath(links[link]).parts)]
    at, steps = [*link.parent.parts], 0
    if links[link].startswith("/"):
        return True
    while left:
        steps += 1
        name = left.pop()
        if name == "..":
            if not at:
                return True
            at.pop()
            continue
        here = PurePosixPath(*at, name)
        target = links.get(here)
        if target is None:
            at.append(name)
        elif target.startswith("/") or steps > 64:
            return True
        else:
            left += reversed(PurePosixPath(target).parts)
    return False


def _epoch() -> int | None:
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    if told and not told.isdecimal():
        raise UsageError(
            f"SOURCE_DATE_EPOCH is {told!r}: seconds since 1970 are expected",
            hint="for example: SOURCE_DATE_EPOCH=$(git log -1 --pretty=%ct)",
        )
    return int(told) if told else None
