"""A secret in a file: whose mode says that nobody else reads it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.ssh.credentials import read_secret


def read_secret_file(path: Path) -> str:
    """The first line of a file that only its owner may read.

    Links are followed: what counts is the file that is opened, and it is looked at once it is.

    :raises UsageError: it is not there, others may read or write it, or it is empty.
    """
    try:
        # Not to wait for a writer, where somebody put a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as why:
        raise UsageError(
            f"{path}: cannot be read: {why.strerror}",
            hint="name a file that you can read, of mode 0600",
        ) from why
    try:
        _refuse_shared(path, os.fstat(descriptor))
        return read_secret(descriptor)
    except UsageError as why:
        if str(path) in str(why):
            raise
        raise UsageError(f"{path}: {why}", hint=why.hint) from why
    finally:
        os.close(descriptor)


def _refuse_shared(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path}: is no file", hint="a pipe is read with --bmc-pass-fd")
    if found.st_mode & 0o077:
        raise UsageError(
            f"{path}: has mode {stat.S_IMODE(found.st_mode):04o}: others may read it",
            hint=f"chmod 600 {path}, and change the password",
        )
    if found.st_uid not in {0, os.geteuid()}:
        raise UsageError(
            f"{path}: belongs to user {found.st_uid}", hint="it should belong to you, or to root"
        )
