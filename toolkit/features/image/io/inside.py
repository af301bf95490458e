"""Files of an image, by paths as the image sees them: no link in it leads out of it."""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPENAT2 = 437  # the same number on every machine that the kernel runs on, but for alpha
_IN_ROOT = 0x10  # RESOLVE_IN_ROOT: / and .. and links are those of the folder given
_NO_MAGIC = 0x02  # RESOLVE_NO_MAGICLINKS
_RENAME_EXCHANGE = 2
_HERE = -100  # AT_FDCWD
_C = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def read_inside(root: Path, path: str) -> bytes:
    """A file of the image.

    :raises OSError: there is none, or it cannot be read.
    """
    with _root(root) as top:
        descriptor = _open(top, path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 # a descriptor has no path
            return file.read()


def write_inside(
    root: Path, path: str, data: bytes, mode: int = 0o644, *, owner: tuple[int, int] = (0, 0)
) -> None:
    """Put a file in the image, whole or not at all, with the folders that it needs.

    :param owner: numbers of its user and its group.

    :raises OSError: it cannot be written.
    """
    above, _, name = path.strip("/").rpartition("/")
    with _root(root) as top, _folders(top, above) as folder:
        beside = f".{name}.gdr-{secrets.token_hex(4)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(beside, flags, 0o600, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 # a descriptor has no path
                file.write(data)
                file.flush()
                os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(beside, dir_fd=folder)
            raise


def link_inside(root: Path, path: str, target: str) -> None:
    """Put a symbolic link in the image, in the place of what is there.

    :raises OSError: it cannot be made.
    """
    above, _, name = path.strip("/").rpartition("/")
    with _root(root) as top, _folders(top, above) as folder:
        beside = f".{name}.gdr-{secrets.token_hex(4)}"
        os.symlink(target, beside, dir_fd=folder)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_inside(root: Path, path: str) -> None:
    """Remove what is at a path, a folder with all that is in it. What is not there is none.

    :raises OSError: it cannot be removed.
    """
    above, _, name = path.strip("/").rpartition("/")
    with _root(root) as top:
        try:
            folder = _open(top, above or ".", os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            return
        try:
            _remove(folder, name)
        finally:
            os.close(folder)


def exchange(one: Path, other: Path) -> None:
    """Let two paths change places, in one step.

    :raises OSError: the file system cannot do it, or they are not on the same one.
    """
    words = (_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE)
    if _C.renameat2(*words):
        why = ctypes.get_errno()
        raise OSError(why, os.strerror(why), str(one), None, str(other))


def flush_folder(folder: Path) -> None:
    """See that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_file_system(folder: Path) -> None:
    """See that all that was written to the file system of a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _C.syncfs(descriptor):
            why = ctypes.get_errno()
            raise OSError(why, os.strerror(why), str(folder))
    finally:
        os.close(descriptor)


def _remove(folder: int, name: str) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        for each in os.listdir(inner):  # noqa: PTH208 # a descriptor has no path
            _remove(inner, each)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


@contextmanager
def _root(root: Path) -> Iterator[int]:
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folders(top: int, path: str) -> Iterator[int]:
    """The folder at ``path``, made where it is missing."""
    at = _open(top, ".", os.O_PATH | os.O_DIRECTORY)
    try:
        done: list[str] = []
        for name in filter(None, path.split("/")):
            done.append(name)
            try:
                below = _open(top, "/".join(done), os.O_PATH | os.O_DIRECTORY)
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=at)
                below = _open(top, "/".join(done), os.O_PATH | os.O_DIRECTORY)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _open(top: int, path: str, flags: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC)
    words = (_OPENAT2, top, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    descriptor: int = _C.syscall(*words)
    if descriptor < 0:
        why = ctypes.get_errno()
        raise OSError(why, os.strerror(why), path)
    return descriptor
