"""What one build left, and the manifest that says so: written once, believed never unverified."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from toolkit import __version__
from toolkit.untrusted import read_json

MANIFEST = "manifest.json"
SCHEMA = "gdr-toolkit/cache/1"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")

About = tuple[tuple[str, str], ...]  # what went into a build, by name


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file of an entry."""

    name: str  # no folder in it
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One build, whole: every file is what the manifest says."""

    about: About
    files: tuple[EntryFile, ...]  # in order of names


@dataclass(frozen=True, slots=True)
class EntryManifest:
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


def _verified(file: Path, size: int, wanted: str) -> EntryFile:
    """One file, as the manifest has it; a link or a pipe is none of ours."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged(f"{file.name} is no file")
        kept = EntryFile(file.name, stream.read())
    if len(kept.data) != size:
        raise Damaged(f"{file.name} has {len(kept.data)} bytes and should have {size}")
    if kept.sha256 != wanted:
        raise Damaged(f"{file.name} is not the file that was kept")
    return kept
