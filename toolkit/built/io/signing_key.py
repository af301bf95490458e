"""What an operator named to sign with: a key file or a PKCS#11 URI, and a certificate."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from toolkit.built.io.openssl import PIN
from toolkit.errors import UsageError

URI = "pkcs11:"
_HELD = frozenset({"module-path", "pin-source", "pin-value"})  # go other ways than the URI
_LONGEST = 1024  # of a PIN; what is longer is another file


class SigningKey(Struct, frozen=True):
    """A private key by its name alone: what it is never enters this process."""

    name: str  # path, or PKCS#11 URI without PIN and module
    module: str = ""  # PKCS#11 module that the URI named; "" for the system's own choice
    secret: str | None = None  # passphrase or PIN

    def __repr__(self) -> str:
        return f"SigningKey(name={self.name!r}, module={self.module!r})"

    @property
    def on_token(self) -> bool:
        return self.name.startswith(URI)


def takes_secret(key: str) -> bool:
    """Whether a passphrase or PIN that lies in the environment is meant for ``key``.

    A key file is not looked into for it: what is not encrypted needs none, and takes no harm.
    """
    return not _is_uri(key) or "pin-source=" not in key


def take_key(key: str, secret: str | None) -> SigningKey:
    """What ``--sign-key`` named.

    :raises UsageError: not there, readable by others, or a URI that holds a PIN.
    """
    secret = _checked(secret)
    if not _is_uri(key):
        _refuse_shared(Path(key), "signing key")
        return SigningKey(key, secret=secret)
    held = _held(key)
    if "pin-value" in held:
        raise UsageError(
            "the PKCS#11 URI holds the PIN, and every user of this machine sees command lines",
            hint="take pin-value out and pass it by --sign-pin-fd 3 3</path/to/pin; "
            "and change the PIN",
        )
    if secret is None and "pin-source" in held:
        secret = _checked(_pin_from(held["pin-source"]))
    if not secret:
        # With an empty one the token would count a failed login, and lock itself after a few.
        raise UsageError(
            "the token's PIN was not given",
            hint=f"--ask-sign-pin, --sign-pin-fd 3 3</path/to/pin, or {PIN}",
        )
    return SigningKey(_cleared(key), held.get("module-path", ""), secret)


def _checked(secret: str | None) -> str | None:
    """:raises UsageError: for what is longer than any: it would not go through a pipe at once."""
    if secret is not None and len(secret) > _LONGEST:
        raise UsageError(
            f"what was given as passphrase or PIN has over {_LONGEST} characters",
            hint="is it the passphrase alone? its first line counts",
        )
    return secret


def _is_uri(key: str) -> bool:
    return key[: len(URI)].lower() == URI


def _held(uri: str) -> dict[str, str]:
    """What of _HELD is in it, wherever: some write query attributes into the path."""
    pairs = (each.partition("=") for each in re.split("[;?&]", uri[len(URI) :]))
    return {name: unquote(value) for name, _, value in pairs if name in _HELD}


def _cleared(uri: str) -> str:
    path, _, query = uri[len(URI) :].partition("?")
    path, query = (
        mark.join(each for each in text.split(mark) if each.partition("=")[0] not in _HELD)
        for text, mark in ((path, ";"), (query, "&"))
    )
    return f"{URI}{path}{query and '?'}{query}"


def _pin_from(source: str) -> str:
    if "\0" in source:  # by %00
        raise UsageError(
            "the pin-source of the PKCS#11 URI is no path",
            hint="pin-source=file:/path, or --sign-pin-fd",
        )
    path = Path(source.removeprefix("file://").removeprefix("file:"))
    _refuse_shared(path, "pin-source")
    try:
        with path.open(encoding="utf-8") as file:  # "\r\n" is read as "\n"
            return file.readline(_LONGEST + 2).removesuffix("\n")
    except OSError as why:
        raise UsageError(
            f"pin-source {path}: {why.strerror}",
            hint="name a file that can be read, or --sign-pin-fd",
        ) from why
    except UnicodeDecodeError as why:
        raise UsageError(
            f"pin-source {path} is no text", hint="it holds the PIN alone, in one line"
        ) from why  # its words would hold bytes


def _refuse_shared(path: Path, what: str) -> None:
    """A secret that others can read is no secret; one that others can write is not ours."""
    try:
        found = path.stat()
    except OSError as why:
        raise UsageError(
            f"{what} {path}: {why.strerror}", hint="keys stay where they are: build there"
        ) from why
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{what} {path} is no file", hint="name a file in PEM or DER")
    if found.st_mode & 0o077:
        raise UsageError(
            f"{what} {path} has mode {stat.S_IMODE(found.st_mode):04o}: others may read it",
            hint=f"chmod 600 {path}",
        )
    if found.st_uid not in {0, os.geteuid()}:
        raise UsageError(
            f"{what} {path} belongs to user {found.st_uid}",
            hint="it should belong to who signs, or to root",
        )
