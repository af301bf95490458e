"""A directory tree as a value, and how one comes to lie on disk."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

from msgspec import Struct, field

# Folders whose files only ever change by being replaced, and which may therefore be
# shared between trees by hard links. Everything else is copied: operators edit it.
SHARED = ("boot", "lib", "sys", "usr", ".node")


class NodeTree(Struct, frozen=True):
    """What is to lie where; paths are relative to the node's root."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)  # those of the files that can be executed

    def text(self, path: str, content: str) -> None:
        self.files[path] = content.encode()

    def program(self, path: str, content: str) -> None:
        """A file that can be executed."""
        self.text(path, content)
        self.programs.add(path)

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

    def archive(self) -> bytes:
        """The files and links as a tar, for the node's own commands to unpack."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path, content in self.files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
            for path, target in self.links.items():
                entry = tarfile.TarInfo(path)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
        return buffer.getvalue()

    def write(self, root: Path) -> None:
        """Lay the tree out below ``root``, which must not have these files yet."""
        parents = {path.rpartition("/")[0] for path in (*self.files, *self.links)}
        for folder in sorted(parents | self.folders):
            (root / folder).mkdir(parents=True, exist_ok=True)
        base = os.fspath(root)
        written: dict[bytes, str] = {}
        for path, content in self.files.items():
            place = f"{base}/{path}"
            if path.startswith("sys/") and content in written:
                os.link(written[content], place)  # most of /sys says the same few things
                continue
            with open(place, "xb") as file:  # noqa: PTH123  # hundreds of files: faster than Path
                file.write(content)
            if path.startswith("sys/"):
                written[content] = place
        for path in self.programs:
            (root / path).chmod(0o755)
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
