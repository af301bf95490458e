"""Attribute registries, kept by the BIOS that they belong to: they are large, and seldom change.

    CACHE/registries/HASH.json     "sha256 DIGEST\\n", then the registry as served

What a file holds is used only where its digest fits. A cache that cannot be read or written
costs time, never a reading. Within one run the BMCs of equal machines share one text.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from pathlib import Path

from msgspec import Struct

from toolkit.safe_file import private_folder, write_file

_HEAD = b"sha256 "


class RegistryKey(Struct, frozen=True):
    """What makes two registries the same. Lockdown counts: it shows in each entry."""

    vendor: str
    model: str
    version: str  # of the BIOS
    name: str  # as the BIOS resource has it
    lockdown: str = ""  # what tells of it, as served

    @property
    def known(self) -> bool:
        """Whether it says enough: without a version, two may differ and look alike."""
        return bool(self.version and self.name)

    @property
    def digest(self) -> str:
        parts = (self.vendor, self.model, self.version, self.name, self.lockdown)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class RegistryCache:
    """Registries by key, in memory and, where a folder is given, on disk. For many threads."""

    def __init__(self, folder: Path | None = None, *, fresh: bool = False) -> None:
        """:param fresh: what is on disk counts for nothing: a change is about to be planned."""
        self._folder = folder
        self._fresh = fresh
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._turns: dict[str, threading.Lock] = {}
        self._vain: set[str] = set()

    def turn(self, key: RegistryKey) -> threading.Lock:
        """Held by whoever fetches: BMCs of equal machines fetch one after the other, thus once."""
        with self._lock:
            return self._turns.setdefault(key.digest, threading.Lock())

    def worth(self, key: RegistryKey) -> bool:
        """Whether one's fetching may spare others theirs, so that they wait for it."""
        with self._lock:
            return key.known and key.digest not in self._vain

    def in_vain(self, key: RegistryKey) -> None:
        """One of these BMCs gave none: the others look for themselves, side by side."""
        with self._lock:
            self._vain.add(key.digest)

    def get(self, key: RegistryKey) -> str | None:
        """The registry as it was served; None where it is not known."""
        if not key.known:
            return None
        with self._lock:
            found = self._texts.get(key.digest)
        if found is None and not self._fresh and (found := self._read(key)) is not None:
            with self._lock:
                found = self._texts.setdefault(key.digest, found)
        return found

    def put(self, key: RegistryKey, text: str) -> None:
        """Keep a registry that was read in full."""
        if not (key.known and text):
            return
        with self._lock:
            self._texts[key.digest] = text
        if self._folder is None:
            return
        data = text.encode("utf-8", "surrogateescape")
        file = self._folder / f"{key.digest}.json"
        # A disk that is full or not ours: the next run fetches it again.
        with contextlib.suppress(OSError):
            private_folder(file.parent)
            head = _HEAD + hashlib.sha256(data).hexdigest().encode() + b"\n"
            write_file(file, head + data, 0o600)

    def _read(self, key: RegistryKey) -> str | None:
        if self._folder is None:
            return None
        try:
            whole = (self._folder / f"{key.digest}.json").read_bytes()
        except OSError:
            return None
        head, _, data = whole.partition(b"\n")
        if head != _HEAD + hashlib.sha256(data).hexdigest().encode():
            return None
        return data.decode("utf-8", "surrogateescape")
