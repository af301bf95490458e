"""Little disks: a table of partitions, and what is in each, made without a loop device."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

MIB = 1 << 20
SIZE = 64 * MIB
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Part:
    """One partition; a file system with what is in ``folder``, or bytes at its start."""

    mib: int
    folder: Path | None = None
    uuid: str = ""  # of the file system
    magic: tuple[int, bytes] = (0, b"")
    kind: str = "L"  # as sfdisk calls it


def disk(path: Path, parts: tuple[Part, ...], *, table: str = "gpt", qcow2: bool = False) -> Path:
    """Make one at ``path``."""
    with path.open("wb") as file:
        file.truncate(SIZE)
    lines = [f"label: {table}", *(f"size={each.mib}M, type={each.kind}" for each in parts)]
    call("sfdisk", "-q", path, text="\n".join(lines) + "\n")
    start = MIB
    for part in parts:
        if part.folder is not None:
            named = ("-U", part.uuid) if part.uuid else ()
            where = ("-E", f"offset={start}", "-d", part.folder)
            call("mke2fs", "-q", "-F", "-t", "ext4", *named, *where, path, f"{part.mib}M")
        with path.open("r+b") as file:
            file.seek(start + part.magic[0])
            file.write(part.magic[1])
        start += part.mib * MIB
    if qcow2:
        raw = path.rename(path.with_suffix(".raw"))
        call("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path)
        raw.unlink()
    return path


def call(*words: str | Path, text: str = "") -> str:
    """Run one command, which must do what it is asked."""
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words[0]}: {done.stderr}"
    return done.stdout


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
