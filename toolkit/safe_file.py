"""Atomic writes: a file under a random name beside, which takes its place once it is whole.

Nothing that another user planted is written through: no link of his, no pipe of his in a
folder that all may write to, no file that waits under the name we are about to use. What
/dev/stdout and the like stand for is written to as it is.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import re
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LINKS = 40  # as many as the kernel follows
_ANY = re.compile(r"/proc/\d+/(task/\d+/)?fd")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Beside:
    """What is to be a file. ``finish`` or ``drop`` ends it; as a context, whichever fits."""

    folder: int  # a descriptor
    name: str
    beside: str  # its name until it is whole; "" for what is written to as it is
    descriptor: int
    errors: str  # what becomes of letters that UTF-8 has not
    mode: int | None = None  # that it gets in the end; None for that of a new file
    size: int = 0  # bytes written

    def write(self, data: str | bytes) -> None:
        """:raises OSError: it cannot be written; nothing of it is left."""
        if self.descriptor < 0:
            return
        left = memoryview(data if isinstance(data, bytes) else data.encode("utf-8", self.errors))
        try:
            while left:
                done = os.write(self.descriptor, left)
                self.size, left = self.size + done, left[done:]
        except OSError:
            self.drop()
            raise

    def finish(self, *, flush: bool = False) -> None:
        """Put it in its place.

        :param flush: be sure that it is on the disk first.
        :raises OSError: it cannot be; what was there stays, and nothing of the new is left.
        """
        if self.descriptor < 0:
            return
        try:
            if self.beside:
                if self.mode is not None:
                    os.fchmod(self.descriptor, self.mode)
                if flush:
                    os.fsync(self.descriptor)
                os.rename(self.beside, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
                self.beside = ""
                if flush:
                    self._flush_folder()
        finally:
            self.drop()

    def drop(self) -> None:
        """Leave nothing of it; once it has ended, this does nothing."""
        if self.descriptor < 0:
            return
        if self.beside:
            with suppress(OSError):
                os.unlink(self.beside, dir_fd=self.folder)
        for each in (self.descriptor, self.folder):
            with suppress(OSError):
                os.close(each)
        self.descriptor = -1

    def _flush_folder(self) -> None:
        """A rename is on the disk only once its folder is."""
        with suppress(OSError):  # a folder that may be written and not be read
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.folder)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.drop() if kind else self.finish()


def open_beside(
    path: Path, mode: int = 0o666, *, errors: str = "replace", exact: bool = False
) -> Beside:
    """Begin to write a file; a file of ours that is there keeps its mode.

    :param mode: of a new file; the umask takes from it.
    :param errors: what becomes of letters that UTF-8 has not, as surrogates.
    :param exact: the file gets this mode, whatever the umask and the old one.
    :raises OSError: nothing can be written there, or it would go through what another planted.
    """
    for _ in range(_LINKS):
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = _stat(path.name, folder)
            if found is None or stat.S_ISREG(found.st_mode):
                last = mode if exact else _kept(path, found, folder)
                return _new(folder, path.name, mode, errors, last)
            _refuse_planted(path, found, folder)
            if not stat.S_ISLNK(found.st_mode):
                descriptor = _as_it_is(path, found, folder)
            elif _ANY.fullmatch(real := os.path.realpath(path.parent)):
                descriptor = _of_process(path, real)
            else:
                path = path.parent / os.readlink(path.name, dir_fd=folder)
                os.close(folder)
                continue
            return Beside(folder, path.name, "", descriptor, errors)
        except OSError:
            os.close(folder)
            raise
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def write_file(path: Path, data: str | bytes, mode: int = 0o666, *, errors: str = "replace") -> int:
    """Write a file, whole or not at all.

    :returns: its size in bytes.
    :raises OSError: it cannot be written; what was there stays.
    """
    with open_beside(path, mode, errors=errors) as file:
        file.write(data)
    return file.size


def try_folder(path: Path) -> None:
    """Be sure that a folder takes files, or that it can be made; nothing of the trial stays.

    :raises OSError: it cannot.
    """
    there = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    Path(tempfile.mkdtemp(prefix=".", dir=there)).rmdir()  # access(2) lets root write to /proc


def private_folder(path: Path, *, fresh: bool = False) -> None:
    """Make a folder, and those above it that are missing, for us alone.

    :raises OSError: it cannot be made; FileExistsError: it is there, and was to be fresh.
    """
    for each in reversed(path.parents):
        if not each.exists():
            each.mkdir(0o700, exist_ok=True)
    path.mkdir(0o700, exist_ok=not fresh)


def private_file(path: Path) -> None:
    """Make an empty file for us alone, where there is none: one that another program fills.

    :raises OSError: it cannot be made, or is a link.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def others_may_write(path: Path) -> str:
    """Why code that lies there may be another's, in one clause; "" where it is ours or root's.

    As sshd is strict: it and all above it are of these two, and no other may write there, but to
    a folder above it where each keeps his own (the sticky bit). ACLs are not looked at.

    :raises OSError: it cannot be looked at.
    """
    for whole in {path.absolute(), path.resolve()}:  # each of which may be put in another's place
        for place in (whole, *whole.parents):
            about = place.stat()
            if about.st_uid not in {0, os.geteuid()}:
                return f"{place} is of user {about.st_uid}"
            many = about.st_mode & stat.S_IWOTH
            many |= about.st_mode & stat.S_IWGRP and not _group_of_one(about)
            if many and (place == whole or not about.st_mode & stat.S_ISVTX):
                return f"{place} may be written by others"
    return ""


def _group_of_one(about: os.stat_result) -> bool:
    """Whether the group is its owner's own, which a umask of 002 rests on."""
    try:
        owner, group = pwd.getpwuid(about.st_uid), grp.getgrgid(about.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and not {*group.gr_mem} - {owner.pw_name}


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _kept(path: Path, found: os.stat_result | None, folder: int) -> int | None:
    """The mode of a file of ours that is there; None where a new one's fits."""
    if found is None or found.st_uid == os.geteuid():
        return stat.S_IMODE(found.st_mode) if found else None
    if os.geteuid():  # a rename would be refused, once all is done
        _refuse_planted(path, found, folder)
    return None


def _new(folder: int, name: str, mode: int, errors: str, last: int | None) -> Beside:
    beside = f".{name[:100]}.{secrets.token_hex(8)}"
    private = mode & 0o600 if last is not None else mode
    return Beside(folder, name, beside, os.open(beside, _NEW, private, dir_fd=folder), errors, last)


def _refuse_planted(path: Path, found: os.stat_result, folder: int) -> None:
    """As the kernel does where fs.protected_symlinks and protected_fifos are set."""
    about = os.fstat(folder)
    shared = about.st_mode & stat.S_ISVTX and about.st_mode & stat.S_IWOTH
    if shared and found.st_uid not in {os.geteuid(), about.st_uid}:
        what = f"is user {found.st_uid}'s, in a folder that all may write to"
        raise OSError(errno.EPERM, what, str(path))


def _as_it_is(path: Path, found: os.stat_result, folder: int) -> int:
    """A device or a pipe: a rename would put a file in its place."""
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
        raise OSError(errno.EINVAL, "is neither a file, nor a pipe, nor a terminal", str(path))
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path.name, flags, dir_fd=folder)
    if not os.path.samestat(found, os.fstat(descriptor)):
        os.close(descriptor)
        raise OSError(errno.EAGAIN, "was replaced while it was opened", str(path))
    return descriptor


def _of_process(path: Path, real: str) -> int:
    """What an open descriptor stands for: /dev/stdout, or /dev/fd/63 of a shell's >(...)."""
    if not real.startswith(f"/proc/{os.getpid()}/"):
        return os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    # The same one: opened anew, a file would be written from its beginning once more.
    descriptor = os.dup(int(path.name))
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        os.close(descriptor)
        raise OSError(errno.EBADF, "is open for reading alone", str(path))
    return descriptor


class FileLock:
    """A lock that is ours until it is let go."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file, self._descriptor = file, descriptor

    def __enter__(self) -> FileLock:
        return self

    @property
    def descriptor(self) -> int:
        """For processes that are to hold it as well."""
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Once is enough; again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def forget(self) -> None:
        """Remove the file as well: nobody needs a lock on what is gone."""
        self._file.unlink(missing_ok=True)


def hold(file: Path) -> FileLock | None:
    """Take the lock, or None where another process, or another thread, has it.

    :raises OSError: the file cannot be made.
    """
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have removed the file: then we hold a lock on nothing.
            if _same(file, descriptor):
                return FileLock(file, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _same(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
