"""The folder that one boot of an image has for itself, and the lock that tells whether it lives.

TMPDIR/gdr-boot-XXXXXXXX/        one-time keys, the console, a throw-away disk
    lock                         held for as long as the boot takes
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.safe_file import hold

_PREFIX = "gdr-boot-"
_YOUNG_S = 60.0


def boot_home() -> Path:
    """Where boots have their folders."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")  # noqa: S108 where large files belong


@contextmanager
def boot_folder() -> Iterator[Path]:
    """All that the boot has for itself; what a killed one has left goes first."""
    home = boot_home()
    for left in home.glob(f"{_PREFIX}*"):
        _sweep(left)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        held = hold(folder / "lock")
    except OSError as why:
        raise UsageError(f"{home}: {why.strerror}", hint="TMPDIR=/FOLDER with room") from why
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            held.let_go()


def _sweep(left: Path) -> None:
    """Remove what a boot has left whose process is gone: the kernel then takes its lock back.

    A number of its process would not tell: containers may share the folder, and not the numbers.
    """
    with suppress(OSError):
        told = left.lstat()
        young = time.time() - told.st_mtime < _YOUNG_S  # may be about to take its lock
        if told.st_uid != os.geteuid() or not stat.S_ISDIR(told.st_mode) or young:
            return
        if (held := hold(left / "lock")) is not None:
            with held:
                shutil.rmtree(left, ignore_errors=True)
