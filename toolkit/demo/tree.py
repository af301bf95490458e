"""A directory tree as a value, and how one comes to lie on disk."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

# Folders whose files only ever change by being replaced, and which may therefore be
# shared between trees by hard links. Everything else is copied: operators edit it.
SHARED = ("boot", "lib", "sys", "usr", ".node")


@dataclass(frozen=True, slots=True)
class Tree:
    """What is to lie where; paths are relative to the node's root."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def text(self, path: str, content: str) -> None:
        self.files[path] = content.encode()

    def line(self, path: str, content: str) -> None:
        """A file of one line, as most of /sys is."""
        self.files[path] = f"{content}\n".encode()

    def data(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def link(self, path: str, target: str) -> None:
        """A symbolic link at ``path``, to ``target`` word for word."""
        self.links[path] = target

    def relative_link(self, path: str, target: str) -> None:
        """A symbolic link to another path of this tree, relative, as the kernel makes them."""
        self.links[path] = os.path.relpath(target, str(Path(path).parent))

    def folder(self, path: str) -> None:
        self.folders.add(path)

    def write(self, root: Path) -> None:
        """Lay the tree out below ``root``, which must not have these files yet."""
        parents = {path.rpartition("/")[0] for path in (*self.files, *self.links)}
        for folder in sorted(parents | self.folders):
            (root / folder).mkdir(parents=True, exist_ok=True)
        base = os.fspath(root)
        for path, content in self.files.items():
            with open(f"{base}/{path}", "xb") as file:  # noqa: PTH123  # a thousand files: twice as fast as Path
                file.write(content)
        for path, target in self.links.items():
            os.symlink(target, f"{base}/{path}")  # noqa: PTH211  # likewise


def clone(source: Path, target: Path) -> None:
    """Copy a tree; what never changes in place is shared by hard links."""
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        linked = entry.name in SHARED
        if entry.is_dir(follow_symlinks=False):
            _clone_folder(entry.path, f"{target}/{entry.name}", linked)
        else:
            _clone_file(entry, f"{target}/{entry.name}", linked)


def _clone_folder(source: str, target: str, linked: bool) -> None:
    os.mkdir(target)  # noqa: PTH102  # likewise
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _clone_folder(entry.path, f"{target}/{entry.name}", linked)
            else:
                _clone_file(entry, f"{target}/{entry.name}", linked)


def _clone_file(entry: os.DirEntry[str], target: str, linked: bool) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)  # noqa: PTH115, PTH211  # likewise
    elif linked:
        os.link(entry.path, target)
    else:
        shutil.copy2(entry.path, target)
