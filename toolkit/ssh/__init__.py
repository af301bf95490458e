"""Transports: Paramiko, OpenSSH, this machine; login, host keys, become, the pool of hosts."""

from __future__ import annotations

from importlib import import_module


class _Late:
    """Paramiko, imported once something of it is used: a node is dialled before, and greets.

    Its import takes 30 ms, with that of what it encrypts by: as long as a server takes to greet.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(import_module("paramiko"), name)


late = _Late()
