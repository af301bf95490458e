"""Host keys that are known already, from known_hosts files.

Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. Names may be hashed (``|1|salt|hash``),
patterns, or negated; ``@revoked`` lines count. ``@cert-authority`` lines do not: Paramiko
cannot verify host certificates, so such a host is unknown here and needs the OpenSSH client.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from toolkit.reach.patterns import listed


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line that names a key."""

    names: tuple[str, ...]  # patterns, lower case; or one hashed name
    kind: str  # "ssh-ed25519"
    blob: bytes  # the public key as it goes over the wire
    revoked: bool
    where: str  # "FILE:LINE"

    def names_host(self, name: str) -> bool:
        """Whether this line is about ``name``, a lower-case name or ``[name]:port``."""
        if self.names[0].startswith("|1|"):
            return _hashed(self.names[0], name)
        return listed(self.names, name)


def known_keys(files: tuple[str, ...], name: str) -> list[KnownKey]:
    """The lines about ``name``, in the order of ``files``; a missing file has none."""
    return [key for file in files for key in _lines(file) if key.names_host(name.lower())]


def add_key(file: str, name: str, kind: str, blob: bytes) -> None:
    """Write down that ``name`` has this key.

    :raises OSError: the file cannot be written.
    """
    with Path(file).open("a", encoding="ascii") as known:
        known.write(f"{name} {kind} {base64.b64encode(blob).decode()}\n")


def fingerprint(blob: bytes) -> str:
    """``SHA256:...`` as ssh prints it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


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
    """One line; None for comments, certificate authorities, and what ssh would skip too."""
    words = line.split()
    revoked = bool(words) and words[0] == "@revoked"
    if revoked:
        words = words[1:]
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(tuple(words[0].split(",")), words[1], blob, revoked, where)


def _hashed(entry: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in entry[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
