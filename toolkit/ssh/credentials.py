"""Secrets: read from the terminal or a file descriptor, never from the command line."""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path

from msgspec import Struct

from toolkit.errors import UsageError


class Credentials(Struct, frozen=True):
    """What the operator typed in. None of it shows in a repr, a log or a report."""

    password: str | None = None  # for the login
    become_password: str | None = None  # for sudo

    def __repr__(self) -> str:
        given = [name for name in ("password", "become_password") if getattr(self, name)]
        return f"Credentials({', '.join(f'{name}=***' for name in given)})"


def read_secret(source: str | int, *, option: str = "pass-fd") -> str:
    """One secret, without its newline.

    :param source: a prompt for the terminal, or the number of a file descriptor whose
        first line it is.
    :param option: by which the descriptor would be named, for whoever has no terminal.
    :raises UsageError: without a terminal, from a closed descriptor, for an empty line.
    """
    secret = _first_line(source) if isinstance(source, int) else _typed(source, option)
    if not secret or "\n" in secret or "\0" in secret:
        raise UsageError("the password is empty", hint="its first line is the password")
    return secret


def _first_line(descriptor: int) -> str:
    line = b""
    try:
        # Byte by byte: what follows the line belongs to whoever reads the descriptor next.
        while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
            line += byte
    except (OSError, OverflowError) as why:  # beyond what any number of a descriptor is
        told = why.strerror if isinstance(why, OSError) else "there is none of that number"
        raise UsageError(
            f"file descriptor {descriptor}: {told}",
            hint=f"open it for us: {descriptor}</path/to/secret",
        ) from why
    return line.decode("utf-8", "surrogateescape")


def _typed(prompt: str, option: str) -> str:
    try:
        # Asks for the terminal itself, and not for stdin, which getpass would fall back to.
        with open("/dev/tty", "r+b", buffering=0):  # noqa: PTH123 a device, opened raw
            return getpass.getpass(prompt)
    except (OSError, EOFError) as why:
        raise UsageError(
            "there is no terminal to ask for a password on",
            hint=f"pass it by file descriptor: --{option} 3 3</path/to/secret",
        ) from why


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
