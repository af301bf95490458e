"""Keys of the nodes and of their one client, kept with the state."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def client_key_file(state: Path) -> Path:
    return state / "client_key"


def known_hosts_file(state: Path) -> Path:
    return state / "known_hosts"


def make_key(path: Path) -> None:
    """A new ed25519 key at ``path`` (mode 0600) and PATH.pub, unless it is there."""
    if path.exists():
        return
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    public_file(path).write_bytes(public + b"\n")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private)
    beside.rename(path)


def public_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def write_known_hosts(state: Path) -> None:
    """One line a node. Ports differ from run to run, so that names stand there as aliases."""
    lines = [
        f"{place.name} {public_file(place / 'host_key').read_text('utf-8')}"
        for place in sorted((state / "nodes").iterdir())
        if not place.name.startswith(".")
    ]
    beside = state / f".known_hosts.{os.getpid()}"
    beside.write_text("".join(lines))
    beside.rename(known_hosts_file(state))
