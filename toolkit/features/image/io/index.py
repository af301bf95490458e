"""What a tree holds, and what differs between two looks at it."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

_CHUNK = 1 << 20


class FileKind(StrEnum):
    """What stands at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    DEVICE = "device"
    PIPE = "pipe"
    SOCKET = "socket"


class TreeChange(StrEnum):
    """How a path differs from what it was."""

    ADDED = "added"
    REMOVED = "removed"
    CONTENT = "content"  # other bytes, another target, another device
    KIND = "kind"  # a file where a folder was
    ATTRIBUTES = "attributes"  # owner, mode or extended attributes alone


class TreeEntry(Struct, frozen=True):
    """One path of a tree."""

    kind: FileKind
    mode: int  # without the kind
    owner: tuple[int, int]  # user, group
    what: str  # SHA-256 of a file; target of a link; numbers of a device
    attributes: str  # SHA-256 of the extended attributes, "" for none
    stamp: tuple[int, int, int]  # inode, ctime in ns, size: alike means untouched


class TreeDifference(Struct, frozen=True):
    """One path that is not as it was."""

    path: str  # from the root of the image: "/etc/fstab"
    change: TreeChange


Index = Mapping[str, TreeEntry]  # by path from the root of the image


def look(root: Path, known: Index | None = None) -> Index:
    """``root`` and everything below, with the SHA-256 of every file. Links are never followed.

    :param known: an earlier look at the same tree: what was not touched since is not read again.
    :raises OSError: something cannot be read.
    """
    return dict(_entries(root, "", known or {}))


def differences(before: Index, after: Index) -> tuple[TreeDifference, ...]:
    """What differs, by path. Times do not count, nor do hard links."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        change = _change(before.get(path), after.get(path))
        if change is not None:
            found.append(TreeDifference(path, change))
    return tuple(found)


def stamps(
    root: Path, left_out: Collection[str] = frozenset()
) -> Mapping[str, tuple[int, int, int]]:
    """What tells whether a tree was touched since: inode, ctime and size of each path.

    :param left_out: folders that are not looked at, nor what is below.
    """
    return {path: _stamp(status) for path, _, status in _walk(root, "", left_out)}


def _change(old: TreeEntry | None, new: TreeEntry | None) -> TreeChange | None:
    if old is None or new is None:
        return TreeChange.ADDED if old is None else TreeChange.REMOVED
    if old.kind is not new.kind:
        return TreeChange.KIND
    if old.what != new.what:
        return TreeChange.CONTENT
    alike = (old.mode, old.owner, old.attributes) == (new.mode, new.owner, new.attributes)
    return None if alike else TreeChange.ATTRIBUTES


def _entries(root: Path, below: str, known: Index) -> Iterator[tuple[str, TreeEntry]]:
    for path, full, status in _walk(root, below):
        old = known.get(path)
        if old is not None and old.stamp == _stamp(status):
            yield path, old
            continue
        kind = _kind(status.st_mode)
        yield (
            path,
            TreeEntry(
                kind,
                stat.S_IMODE(status.st_mode),
                (status.st_uid, status.st_gid),
                _what(kind, full, status),
                _attributes(full),
                _stamp(status),
            ),
        )


def _walk(
    root: Path, below: str, left_out: Collection[str] = frozenset()
) -> Iterator[tuple[str, str, os.stat_result]]:
    """Path from the root, path to open, and status: a folder before what is in it."""
    if not below:
        yield "/", str(root), root.stat()
    with os.scandir(f"{root}{below}") as found:
        rows = sorted(found, key=lambda each: each.name)
    for row in rows:
        status = row.stat(follow_symlinks=False)
        path = f"{below}/{row.name}"
        if path in left_out:
            continue
        # scandir's answer may be of below a mount: what is mounted there is what counts.
        if stat.S_ISDIR(status.st_mode):
            status = os.lstat(row.path)
        yield path, row.path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(root, path, left_out)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return status.st_ino, status.st_ctime_ns, size


def _kind(mode: int) -> FileKind:
    kinds = (
        (stat.S_ISREG, FileKind.FILE),
        (stat.S_ISDIR, FileKind.FOLDER),
        (stat.S_ISLNK, FileKind.LINK),
        (stat.S_ISFIFO, FileKind.PIPE),
        (stat.S_ISSOCK, FileKind.SOCKET),
    )
    return next((kind for is_it, kind in kinds if is_it(mode)), FileKind.DEVICE)


def _what(kind: FileKind, full: str, status: os.stat_result) -> str:
    if kind is FileKind.FILE:
        return _hash(full)
    if kind is FileKind.LINK:
        return str(Path(full).readlink())
    if kind is FileKind.DEVICE:
        letter = "b" if stat.S_ISBLK(status.st_mode) else "c"
        return f"{letter} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return ""


def _hash(full: str) -> str:
    sum_ = sha256()
    descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOATIME)
    try:
        while data := os.read(descriptor, _CHUNK):
            sum_.update(data)
    finally:
        os.close(descriptor)
    return sum_.hexdigest()


def _attributes(full: str) -> str:
    try:
        names = sorted(os.listxattr(full, follow_symlinks=False))
        if not names:
            return ""
        sum_ = sha256()
        for name in names:
            value = os.getxattr(full, name, follow_symlinks=False)
            sum_.update(f"{name} {len(value)} ".encode("utf-8", "surrogateescape") + value)
        return sum_.hexdigest()
    except OSError:  # a file system without them
        return ""
