"""Host keys that are known already, from known_hosts files.

Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. Names may be hashed (``|1|salt|hash``),
patterns, or negated; ``@revoked`` lines count, and so does a file of RevokedHostKeys. Paramiko
cannot verify what an authority of a ``@cert-authority`` line has signed: such a host needs the
OpenSSH client, and is told so.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from toolkit.ssh.ssh_config_tokens import listed

_MARKS = _REVOKED, _AUTHORITY = "@revoked", "@cert-authority"
_KRL = b"SSHKRL\n\0"  # PROTOCOL.krl


class KnownKey(Struct, frozen=True):
    """One line that names a key."""

    names: tuple[str, ...]  # patterns, lower case; or one hashed name
    kind: str  # "ssh-ed25519"
    blob: bytes  # the public key as it goes over the wire
    revoked: bool
    where: str  # "FILE:LINE"
    authority: bool = False  # the key is not a host's: it signs those of hosts

    def names_host(self, name: str) -> bool:
        """Whether this line is about ``name``, a lower-case name or ``[name]:port``."""
        if self.names[0].startswith("|1|"):
            return _hashed(self.names[0], name)
        return listed(self.names, name)


def known_keys(files: tuple[str, ...], name: str) -> list[KnownKey]:
    """The lines about ``name``, in the order of ``files``; a missing file has none."""
    return [key for key in _named(files, name) if not key.authority]


def authorities(files: tuple[str, ...], name: str) -> list[KnownKey]:
    """The lines of those who may sign the keys of ``name``."""
    return [key for key in _named(files, name) if key.authority]


def revoked_in(file: str, blob: bytes) -> str:
    """Where a file of RevokedHostKeys has this key, as "FILE:LINE"; "" where it has not.

    :raises ValueError: it holds what is no key, or is a list in OpenSSH's binary form.
    :raises OSError: it cannot be read.
    """
    data = Path(file).read_bytes()
    if data.startswith(_KRL):
        raise ValueError("it is a key revocation list in binary form")
    found = ""
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise ValueError(f"line {number} is no key")
        # binascii.Error is a ValueError
        if base64.b64decode(words[1], validate=True) == blob and not found:
            found = f"{file}:{number}"
    return found


def add_key(file: str, name: str, kind: str, blob: bytes) -> None:
    """Write down that ``name`` has this key.

    :raises OSError: the file cannot be written.
    """
    Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{name} {kind} {base64.b64encode(blob).decode()}\n".encode()
    with open(file, "a+b", opener=lambda at, flags: os.open(at, flags, 0o600)) as known:
        if known.tell():
            known.seek(-1, os.SEEK_END)
            line = line if known.read(1) == b"\n" else b"\n" + line  # its last line may have no end
        known.write(line)


def fingerprint(blob: bytes) -> str:
    """``SHA256:...`` as ssh prints it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def _named(files: tuple[str, ...], name: str) -> list[KnownKey]:
    return [key for file in files for key in _lines(file) if key.names_host(name.lower())]


def _lines(file: str) -> tuple[KnownKey, ...]:
    try:
        stat = Path(file).stat()
        return _parsed(file, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return ()  # as ssh does: without the file its hosts are unknown, which is refused


@lru_cache(maxsize=64)
def _parsed(file: str, _mtime_ns: int, _size: int) -> tuple[KnownKey, ...]:
    text = Path(file).read_text("utf-8", "surrogateescape")
    numbered = enumerate(text.split("\n"), start=1)
    keys = (_parse(line, f"{file}:{number}") for number, line in numbered)
    return tuple(key for key in keys if key is not None)


def _parse(line: str, where: str) -> KnownKey | None:
    """One line; None for comments, and what ssh would skip too."""
    words = line.split()
    mark = words.pop(0) if words and words[0] in _MARKS else ""
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    names = tuple(words[0].split(","))
    return KnownKey(names, words[1], blob, mark == _REVOKED, where, mark == _AUTHORITY)


def _hashed(entry: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in entry[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
