"""What lies on a node at one moment, and what a power loss leaves of it.

A disk forgets what was not flushed: a file's bytes, and a folder's entries, each by inode.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")
LOSSES = ("data", "entries", "both", "mixed")


class Entry(NamedTuple):
    """One line of a folder."""

    name: str
    inode: int
    kind: str  # "d", "f" or "l"
    mode: int
    target: bytes  # of a link


class Lies(NamedTuple):
    """What is at one path."""

    kind: str
    mode: int
    data: bytes  # of a file; of a link its target


class Layer(NamedTuple):
    """Folders and files by inode: all that there are, or those that were flushed."""

    folders: Mapping[int, tuple[Entry, ...]]
    files: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class Moment:
    """A tree between two commands."""

    top: int  # inode of its root
    live: Layer
    flushed: Layer

    def left(self, loss: str, dice: Random) -> dict[str, Lies]:
        """What is found when all that ran was killed, or the power failed; by path, parents first.

        :param loss: whose newest state is lost: "" of nothing, "data" of files, "entries" of
            folders, "both", or by chance for each ("mixed").
        """
        found: dict[str, Lies] = {}

        def newest(
            live: Mapping[int, T], flushed: Mapping[int, T], inode: int, what: str, no: T
        ) -> T:
            kept = inode in live and not _lost(loss, what, dice)
            return live[inode] if kept else flushed.get(inode, no)

        def look(folder: int, path: str) -> None:
            for name, inode, kind, mode, target in newest(
                self.live.folders, self.flushed.folders, folder, "entries", ()
            ):
                data = target
                if kind == "f":
                    data = newest(self.live.files, self.flushed.files, inode, "data", b"")
                found[path + name] = Lies(kind, mode, data)
                if kind == "d":
                    look(inode, f"{path}{name}/")

        look(self.top, "")
        return found


def _lost(loss: str, what: str, dice: Random) -> bool:
    return dice.random() < 0.5 if loss == "mixed" else loss in {what, "both"}


class Disk:
    """The disk below a tree, told of each flush."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, root.stat().st_ino
        first = self._live()  # what lay there before is on the disk
        self.folders, self.files = dict(first.folders), dict(first.files)
        self.moments = [Moment(self.top, first, first)]

    def look(self) -> None:
        """Remember the moment, where anything is other than at the last."""
        flushed = Layer(dict(self.folders), dict(self.files))
        now = Moment(self.top, self._live(), flushed)
        if now != self.moments[-1]:
            self.moments.append(now)

    def flush(self, path: Path) -> None:
        if not path.is_relative_to(self.root):
            return
        inode = path.stat().st_ino
        if path.is_dir():
            self.folders[inode] = tuple(_entries(path))
        else:
            self.files[inode] = path.read_bytes()

    def _live(self) -> Layer:
        while True:
            try:
                return layer(self.root)
            except FileNotFoundError:  # another part of a pipeline is at work
                continue


def _entries(folder: Path) -> list[Entry]:
    found = []
    with os.scandir(folder) as entries:
        for each in sorted(entries, key=lambda entry: entry.name):
            stat = each.stat(follow_symlinks=False)
            kind = "l" if each.is_symlink() else "d" if each.is_dir() else "f"
            target = os.fsencode(Path(each.path).readlink()) if kind == "l" else b""
            found.append(Entry(each.name, stat.st_ino, kind, stat.st_mode & 0o7777, target))
    return found


def layer(root: Path) -> Layer:
    """All that lies below a root."""
    folders: dict[int, tuple[Entry, ...]] = {}
    files: dict[int, bytes] = {}
    todo = [(root.stat().st_ino, root)]
    while todo:
        inode, folder = todo.pop()
        folders[inode] = tuple(_entries(folder))
        for each in folders[inode]:
            if each.kind == "d":
                todo.append((each.inode, folder / each.name))
            elif each.kind == "f":
                files[each.inode] = (folder / each.name).read_bytes()
    return Layer(folders, files)


def lying(root: Path) -> dict[str, Lies]:
    """What is below a root now."""
    now = layer(root)
    return Moment(root.stat().st_ino, now, now).left("", Random(0))  # noqa: S311 no chance in it


def build(found: Mapping[str, Lies], root: Path) -> None:
    """The tree anew, in the place of what is there."""
    shutil.rmtree(root)
    root.mkdir()
    for path, (kind, mode, data) in found.items():
        at = root / path
        if kind == "l":
            at.symlink_to(os.fsdecode(data))
            continue
        if kind == "d":
            at.mkdir()
        else:
            at.write_bytes(data)
        at.chmod(mode)
