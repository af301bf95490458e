"""A lock on a file, which the kernel takes back from whoever dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
