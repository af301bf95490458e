"""A node behind a door, as a connection is told of it."""

from __future__ import annotations

import base64

from toolkit.ssh.ssh_config import Target
from toolkit.ssh.transport_errors import Door

DOOR = Door("gpu7", "192.0.2.7", 2222, "ops")
KEY, OTHER = b"key of the node", b"another key"


def target(
    door: Door = DOOR,
    *,
    known: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    configured: bool = False,
    certificates: tuple[str, ...] = (),
    only: bool = False,
    agent: str = "none",
    new_keys: str = "",
    timeout_s: float | None = None,
) -> Target:
    return Target(door, timeout_s, known, keys, configured, certificates, only, agent, new_keys)


def row(name: str, blob: bytes, kind: str = "ssh-ed25519") -> str:
    return f"{name} {kind} {base64.b64encode(blob).decode()}\n"


class Greeted:
    """A transport whose node has shown a key."""

    def __init__(self, blob: bytes = KEY, kind: str = "ssh-ed25519") -> None:
        self.blob, self.kind = blob, kind

    def get_remote_server_key(self) -> Greeted:
        return self

    def get_name(self) -> str:
        return self.kind

    def asbytes(self) -> bytes:
        return self.blob
