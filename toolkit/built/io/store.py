"""Results of builds, kept by what went into them: one folder an entry.

    FOLDER/DIGEST/manifest.json      what went in; SHA-256 and size of each file
    FOLDER/DIGEST/NAME               a file of the build
    FOLDER/.locks/DIGEST             held while somebody builds it
    FOLDER/.making-DIGEST-*          being written; whoever holds the lock may clear it away
    FOLDER/.damaged/DIGEST-*         was not what its manifest says; nobody reads it again

The digest is the SHA-256 of what went in, as JSON with sorted keys and no spaces. What lies
here is loaded into kernels as root: the folder has to be ours, and writable by nobody else.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from toolkit.built.io.manifest import (
    MANIFEST,
    About,
    Damaged,
    Entry,
    digest_of,
    keepable,
    read_entry,
    read_manifest,
    write_manifest,
)
from toolkit.errors import UsageError
from toolkit.package_data import kept
from toolkit.safe_file import FileLock, hold

DAY_S = 86400.0
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look for an entry came to: it, or nothing; and what was wrong with it."""

    entry: Entry | None
    trouble: str = ""  # "" or a sentence: it was damaged, and was put aside


@dataclass(frozen=True, slots=True)
class Row:
    """One entry as it is listed; its files have not been read."""

    digest: str
    about: About  # () where the manifest cannot be read
    used: float  # when it was made or last taken, in seconds since 1970
    size: int  # bytes

    def value(self, name: str) -> str:
        return dict(self.about).get(name, "")


def default_folder() -> Path:
    """:raises UsageError: nobody knows where the user keeps caches."""
    return kept("XDG_CACHE_HOME", "~/.cache") / "builds"


class Store:
    """The folder of results. Any number of processes may use one at once."""

    def __init__(self, folder: Path) -> None:
        """Make the folder where it is missing.

        :raises UsageError: it cannot be made or written, or is not ours alone.
        """
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_strangers(folder)
            for name in (".locks", ".damaged"):
                (folder / name).mkdir(mode=0o700, exist_ok=True)
            # Asked of the kernel: a read-only file system is told of by nothing less, nor is one
            # that knows no locks.
            with tempfile.TemporaryFile(dir=folder / ".locks") as trial:
                fcntl.flock(trial, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as why:
            raise UsageError(
                f"the cache {folder} cannot be used: {why.strerror}",
                hint="name another one with --cache DIR",
            ) from why

    def mark(self, digest: str) -> int:
        """What tells an entry from the one that replaces it; 0 where there is none."""
        with suppress(OSError):
            about = self._place(digest).stat()
            return about.st_ino if stat.S_ISDIR(about.st_mode) else 0
        return 0

    def look(self, digest: str, *, again: bool = True) -> Looked:
        """The entry, each of its files verified. A damaged one is put aside, and said.

        :param again: once more, where another process replaced or removed it meanwhile.
        """
        place, mark = self._place(digest), self.mark(digest)
        if not mark:
            return Looked(None)
        try:
            entry = read_entry(place, digest)
        except Damaged as why:
            if again and self.mark(digest) != mark:
                return self.look(digest, again=False)
            self._put_aside(place)
            return Looked(None, f"the cached build {digest[:12]} was damaged: {why}; put aside")
        with suppress(OSError):  # the time of the last use, for prune
            os.utime(place / MANIFEST)
        return Looked(entry)

    def keep(self, entry: Entry, *, replace: bool = False) -> None:
        """Write an entry: aside, to the disk, then renamed.

        :param replace: over one that is there; it stays unless this is said.
        :raises OSError: it could not be written; nothing of it is left.
        """
        digest = digest_of(entry.about)
        old = self.mark(digest) if replace else 0
        if not keepable(each.name for each in entry.files):
            raise ValueError(f"files that cannot be kept: {[each.name for each in entry.files]}")
        making = Path(tempfile.mkdtemp(prefix=f".making-{digest}-", dir=self.folder))
        try:
            for each in entry.files:
                _write(making / each.name, each.data)
            _write(making / MANIFEST, write_manifest(entry))
            _sync(making)
            if replace:
                self._remove(digest)
            making.rename(self._place(digest))
            _sync(self.folder)
        except OSError:
            # Another one of the same digest is as good: equal inputs are one build. Not so the
            # one that was to be replaced.
            if (old and self.mark(digest) == old) or self.look(digest).entry is None:
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def hold(self, digest: str) -> FileLock | None:
        """The right to build an entry; None while another process has it.

        The kernel takes it back from whoever is killed. What a killed one had half written
        is cleared away here.

        :raises OSError: the lock cannot be made.
        """
        held = hold(self.folder / ".locks" / self._place(digest).name)
        if held is not None:
            for stale in self.folder.glob(f".making-{digest}-*"):
                shutil.rmtree(stale, ignore_errors=True)
        return held

    def rows(self) -> tuple[Row, ...]:
        """All entries, the last used first."""
        found = [row for digest in self._digests() if (row := self._row(digest))]
        return tuple(sorted(found, key=lambda row: (-row.used, row.digest)))

    def prune(self, days: float) -> tuple[Row, ...]:
        """Remove what nobody has used for so many days, and all that was put aside.

        Entries that are being built are left alone.
        """
        oldest = time.time() - days * DAY_S
        gone = []
        for row in self.rows():
            held = self.hold(row.digest) if row.used <= oldest else None
            if held is not None:
                with held:
                    if self._remove(row.digest):
                        gone.append(row)
                    held.forget()
        for stale in (self.folder / ".damaged").iterdir():
            shutil.rmtree(stale, ignore_errors=True)
        return tuple(gone)

    def _place(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no digest")
        return self.folder / digest

    def _digests(self) -> Iterator[str]:
        yield from (each.name for each in self.folder.iterdir() if _DIGEST.fullmatch(each.name))

    def _row(self, digest: str) -> Row | None:
        place = self._place(digest)
        try:
            size = sum(each.stat().st_size for each in place.iterdir())
            used = (place / MANIFEST).stat().st_mtime
            about = read_manifest((place / MANIFEST).read_bytes()).about
        except FileNotFoundError:
            return None if not place.exists() else Row(digest, (), 0.0, 0)
        except (OSError, Damaged):
            return Row(digest, (), 0.0, 0)
        return Row(digest, about, used, size)

    def _remove(self, digest: str) -> bool:
        """Out of sight in one step, so that nobody reads half an entry; whether it is.

        Nothing is made for it: it is called where the disk is full.
        """
        aside = self.folder / f".making-{digest}-gone-{os.getpid()}-{time.monotonic_ns()}"
        try:
            self._place(digest).rename(aside)
        except OSError:
            return False
        shutil.rmtree(aside, ignore_errors=True)
        return True

    def _put_aside(self, place: Path) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        with suppress(FileNotFoundError):  # another process was quicker
            place.rename(self.folder / ".damaged" / f"{place.name}-{stamp}")


def _refuse_strangers(folder: Path) -> None:
    """Whoever can write here decides what kernels load.

    :raises UsageError: somebody else can.
    """
    about = folder.stat()
    if about.st_uid not in {os.geteuid(), 0}:
        raise UsageError(
            f"the cache {folder} belongs to user {about.st_uid}, not to us ({os.geteuid()})",
            hint="name one of our own with --cache DIR",
        )
    if stat.S_IMODE(about.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"the cache {folder} can be written by others: what lies there is loaded as root",
            hint=f"chmod 700 {folder}, after a look at what is in it",
        )


def _write(file: Path, data: bytes) -> None:
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    """A rename is on the disk only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
