"""What an operator named to sign with: a key file or a PKCS#11 URI, and a certificate."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from toolkit.errors import UsageError
from toolkit.reach.openssl import PIN

URI = "pkcs11:"
_HELD = re.compile(r"[;?&]?\b(module-path|pin-source|pin-value)=([^;?&]*)")
_ENCRYPTED = ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key by its name alone: what it is never enters this process."""

    name: str  # path, or PKCS#11 URI without PIN and module
    module: str = ""  # PKCS#11 module that the URI named; "" for the system's own choice
    secret: str | None = field(default=None, repr=False)  # passphrase or PIN

    @property
    def on_token(self) -> bool:
        return self.name.startswith(URI)


def needs_secret(key: str) -> bool:
    """Whether a passphrase or a PIN must be had before ``key`` can be used.

    :raises UsageError: where the key file cannot be read.
    """
    if key.startswith(URI):
        return "pin-source=" not in key
    try:
        with Path(key).open("rb") as file:
            head = [file.readline(100).decode("ascii", "replace").strip() for _ in range(2)]
    except OSError as why:
        raise UsageError(f"signing key {key}: {why.strerror}") from why
    return any(each in _ENCRYPTED for each in head)


def take_key(key: str, secret: str | None) -> SigningKey:
    """What ``--sign-key`` named.

    :raises UsageError: not there, readable by others, or a URI that holds a PIN.
    """
    if not key.startswith(URI):
        _refuse_shared(Path(key), "signing key")
        return SigningKey(key, secret=secret)
    held = {name: unquote(value) for name, value in _HELD.findall(key)}
    if "pin-value" in held:
        raise UsageError(
            "the PKCS#11 URI holds the PIN, and every user of this machine sees command lines",
            hint="take pin-value out and pass it by --sign-pin-fd 3 3</path/to/pin; "
            "and change the PIN",
        )
    if secret is None and "pin-source" in held:
        secret = _pin_from(held["pin-source"])
    if not secret:
        # With an empty one the token would count a failed login, and lock itself after a few.
        raise UsageError(
            "the token's PIN was not given",
            hint=f"--ask-sign-pin, --sign-pin-fd 3 3</path/to/pin, or {PIN}",
        )
    return SigningKey(_HELD.sub("", key), held.get("module-path", ""), secret)


def _pin_from(source: str) -> str:
    path = Path(source.removeprefix("file://").removeprefix("file:"))
    _refuse_shared(path, "pin-source")
    try:
        return path.read_text("utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as why:
        raise UsageError(f"pin-source {path}: {why}") from why


def _refuse_shared(path: Path, what: str) -> None:
    """A secret that others can read is no secret; one that others can write is not ours."""
    try:
        found = path.stat()
    except OSError as why:
        raise UsageError(
            f"{what} {path}: {why.strerror}", hint="keys stay where they are: build there"
        ) from why
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{what} {path} is no file")
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
