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
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from toolkit import __version__
from toolkit.built.plan.model import BuiltFile
from toolkit.errors import UsageError
from toolkit.package_data import kept
from toolkit.safe_file import FileLock, hold
from toolkit.untrusted import read_json

DAY_S = 86400.0
_DIGEST = re.compile(r"[0-9a-f]{64}")
MANIFEST = "manifest.json"
SCHEMA = "gdr-toolkit/cache/1"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")

About = tuple[tuple[str, str], ...]  # what went into a build, by name


class Entry(Struct, frozen=True):
    """One build, whole: every file is what the manifest says."""

    about: About
    files: tuple[BuiltFile, ...]  # in order of names


class EntryManifest(Struct, frozen=True):
    """What an entry should be."""

    about: About
    sums: tuple[tuple[str, int, str], ...]  # name, bytes and SHA-256 of each file, by name


class Damaged(Exception):
    """An entry is not what its manifest says; the sentence says in what."""


def digest_of(about: About) -> str:
    """The name of the entry with these inputs."""
    text = json.dumps(dict(about), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def keepable(names: Iterable[str]) -> bool:
    """Whether files may be called so: no folders, nothing hidden, not the manifest itself."""
    return all(_NAME.fullmatch(name) and name != MANIFEST for name in names)


def read_manifest(text: bytes) -> EntryManifest:
    """Read one.

    :raises Damaged: it is no manifest of ours.
    """
    try:
        told = read_json(text)
        if told["schema"] != SCHEMA:
            raise Damaged(f"its manifest is of another kind, {str(told['schema'])[:40]!r}")
        about = tuple((str(name), str(value)) for name, value in told["inputs"].items())
        sums = [(str(e["name"]), int(e["size"]), str(e["sha256"])) for e in told["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise Damaged("its manifest cannot be read") from why
    if not keepable(name for name, _, _ in sums):
        raise Damaged("its manifest names files that we never keep")
    return EntryManifest(about, tuple(sorted(sums)))


def write_manifest(entry: Entry) -> bytes:
    """The manifest of an entry, made now by this version."""
    told = {
        "schema": SCHEMA,
        "toolkit": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "inputs": dict(entry.about),
        "files": [
            {"name": each.name, "size": len(each.data), "sha256": each.sha256}
            for each in sorted(entry.files, key=lambda each: each.name)
        ],
    }
    return (json.dumps(told, indent=2) + "\n").encode()


def read_entry(place: Path, digest: str) -> Entry:
    """The entry in a folder, every byte held against its manifest.

    :raises Damaged: it is another one, or not whole, or has what no manifest names.
    """
    try:
        manifest = read_manifest((place / MANIFEST).read_bytes())
        if digest_of(manifest.about) != digest:
            raise Damaged("its manifest is that of another build")
        named = {name for name, _, _ in manifest.sums}
        odd = ({each.name for each in place.iterdir()} - {MANIFEST}) ^ named
        if odd:
            raise Damaged(f"its manifest and its folder differ in {', '.join(sorted(odd))}")
        files = tuple(_verified(place / name, size, wanted) for name, size, wanted in manifest.sums)
    except OSError as why:
        raise Damaged(f"{Path(str(why.filename)).name}: {why.strerror}") from why
    return Entry(manifest.about, files)


def _verified(file: Path, size: int, wanted: str) -> BuiltFile:
    """One file, as the manifest has it; a link or a pipe is none of ours."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged(f"{file.name} is no file")
        kept = BuiltFile(file.name, stream.read())
    if len(kept.data) != size:
        raise Damaged(f"{file.name} has {len(kept.data)} bytes and should have {size}")
    if kept.sha256 != wanted:
        raise Damaged(f"{file.name} is not the file that was kept")
    return kept


class StoreLookup(Struct, frozen=True):
    """What a look for an entry came to: it, or nothing; and what was wrong with it."""

    entry: Entry | None
    trouble: str = ""  # "" or a sentence: it was damaged, and was put aside


class StoreRow(Struct, frozen=True):
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

    def look(self, digest: str, *, again: bool = True) -> StoreLookup:
        """The entry, each of its files verified. A damaged one is put aside, and said.

        :param again: once more, where another process replaced or removed it meanwhile.
        """
        place, mark = self._place(digest), self.mark(digest)
        if not mark:
            return StoreLookup(None)
        try:
            entry = read_entry(place, digest)
        except Damaged as why:
            if again and self.mark(digest) != mark:
                return self.look(digest, again=False)
            self._put_aside(place)
            return StoreLookup(
                None, f"the cached build {digest[:12]} was damaged: {why}; put aside"
            )
        with suppress(OSError):  # the time of the last use, for prune
            os.utime(place / MANIFEST)
        return StoreLookup(entry)

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

    def rows(self) -> tuple[StoreRow, ...]:
        """All entries, the last used first."""
        digests = (each.name for each in self.folder.iterdir() if _DIGEST.fullmatch(each.name))
        found = [row for digest in digests if (row := self._row(digest))]
        return tuple(sorted(found, key=lambda row: (-row.used, row.digest)))

    def prune(self, days: float) -> tuple[StoreRow, ...]:
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

    def _row(self, digest: str) -> StoreRow | None:
        place = self._place(digest)
        try:
            size = sum(each.stat().st_size for each in place.iterdir())
            used = (place / MANIFEST).stat().st_mtime
            about = read_manifest((place / MANIFEST).read_bytes()).about
        except FileNotFoundError:
            return None if not place.exists() else StoreRow(digest, (), 0.0, 0)
        except (OSError, Damaged):
            return StoreRow(digest, (), 0.0, 0)
        return StoreRow(digest, about, used, size)

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
    """Whoever can write here decides what kernels load."""
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
