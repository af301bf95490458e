"""The folder beside an image in which it is worked on, and the lock that keeps others off.

    .NAME.gdr-image.lock        held by who works on NAME; says who that is
    .NAME.gdr-image.XXXXXX/     its folder
        lock                    held by every process that works in the folder
        root, disk              the copy that takes the image's place
        ...                     see media.sh

The kernel takes locks back from whoever dies. Whoever holds the first one and finds a folder
whose lock is free has found what a killed run left, and removes it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from glob import escape
from pathlib import Path

from toolkit.errors import ApplyError, LockedError, UsageError
from toolkit.features.image.io.namespace import full
from toolkit.interrupts import Interrupts
from toolkit.safe_file import FileLock, hold

MARK = ".gdr-image."
_PATIENCE_S = 20.0  # for processes of a killed run to be gone
_FOLDERS = {"view": 0o755, "layers": 0o755, "scratch": 0o1777}


@contextmanager
def aside(target: Path) -> Iterator[tuple[Path, FileLock]]:
    """A folder beside ``target``, ours alone; removed at the end.

    :param target: what will be replaced; resolved, so that one image has one name.
    :returns: the folder, and its lock.
    :raises LockedError: another run is at work on the same image, which is named.
    :raises UsageError: nothing can be written beside it.
    """
    lock = target.with_name(f".{target.name}{MARK}lock")
    with _alone(target, lock) as held:
        made: tuple[Path, FileLock] | None = None
        try:
            _sweep(target)
            with Interrupts() as begun:
                made = _folder(target)
            if begun.pressed:
                raise KeyboardInterrupt
            yield made
        finally:
            with Interrupts() as told:  # an impatient Ctrl-C would leave the folder to the next run
                if made is not None:
                    folder, inner = made
                    inner.let_go()
                    remove(folder)
                held.forget()
            if told.pressed:
                raise KeyboardInterrupt


def remove(folder: Path) -> None:
    """The whole folder; what cannot be removed is left to the next run. Never through a mount."""
    if mounts(folder):
        return
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)  # somebody who is being killed still wrote into it


@contextmanager
def _alone(target: Path, lock: Path) -> Iterator[FileLock]:
    try:
        held = hold(lock)
    except OSError as why:
        raise unwritable(target, why) from why
    if held is None:
        who = ""
        with suppress(OSError):
            who = lock.read_text(encoding="utf-8").strip()
        raise LockedError(
            f"{target}: another run is at work on it: {who or 'it does not say who'}",
            hint="nothing was touched; wait for it, or end it: what it leaves is cleared away then",
        )
    with held:
        who = f"process {os.getpid()} since {datetime.now():%Y-%m-%d %H:%M:%S}"
        with suppress(OSError):  # on a full disk the lock alone has to do
            lock.write_text(f"{who}\n", encoding="utf-8")
        yield held


def _sweep(target: Path) -> None:
    for left in sorted(target.parent.glob(f".{escape(target.name)}{MARK}*")):
        if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.geteuid():
            _await_end(target, left)
            remove(left)


def _await_end(target: Path, left: Path) -> None:
    """Until nobody works in a folder any more: who was killed may still be ending."""
    end = time.monotonic() + _PATIENCE_S
    while (held := hold(left / "lock")) is None:
        if time.monotonic() > end:
            raise LockedError(
                f"{target}: processes of a run that was killed are still at work in {left}",
                hint=f"see which, and end them: fuser -v {left}/lock",
            )
        time.sleep(0.05)
    held.let_go()


def _folder(target: Path) -> tuple[Path, FileLock]:
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}{MARK}", dir=target.parent))
        held = hold(folder / "lock")
        for name, mode in _FOLDERS.items():
            (folder / name).mkdir()
            (folder / name).chmod(mode)
    except OSError as why:
        if folder is not None:
            remove(folder)
        raise unwritable(target, why) from why
    if held is None:
        raise LockedError(
            f"{folder}: somebody else took the lock of a folder just made",
            hint="run again; see who else works beside it: fuser",
        )
    return folder, held


def unwritable(target: Path, why: OSError) -> ApplyError | UsageError:
    if why.errno in {errno.ENOSPC, errno.EDQUOT}:
        return full(str(target))
    return UsageError(
        f"{target}: nothing can be written beside it: {why.strerror}",
        hint="the work is done beside the image, so that it can take its place in one step",
    )


def mounts(folder: Path) -> tuple[tuple[Path, str], ...]:
    """What is mounted at a folder or below, as we see it: mount point and kind."""
    found = []
    for row in Path("/proc/self/mountinfo").read_bytes().split(b"\n"):
        left, _, right = row.partition(b" - ")
        if right:
            point = Path(os.fsdecode(left.split()[4].decode("unicode_escape").encode("latin-1")))
            if point.is_relative_to(folder):
                found.append((point, right.split()[0].decode()))
    return tuple(found)
