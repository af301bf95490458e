"""Host keys that nobody has known before: asked for, and written down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from toolkit.errors import HostKeyError, NewKey, Outcome, Unwritten, UsageError
from toolkit.hosts.host import Host
from toolkit.ssh.known_hosts import add_key, known_keys
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_hosts

if TYPE_CHECKING:
    from toolkit.ssh.paramiko import SshTransport


def scan(fleet: Fleet) -> list[Outcome[NewKey | None]]:
    """The key of each host that has none among those known, or of a jump host before it.

    A key that is known otherwise, or revoked, is the host's error: it is no new one.

    :returns: None for a host whose key is known.
    :raises UsageError: hosts are not reached by our own SSH client.
    """
    if fleet.access.transport != "paramiko":
        raise UsageError(
            f"--scan-keys asks by our own SSH client, not by {fleet.access.transport}",
            hint="leave --transport out",
        )

    def ask(host: Host) -> NewKey | None:
        try:
            cast("SshTransport", fleet.connect(host)).greet()
        except HostKeyError as why:
            if why.key is None:
                raise
            return why.key
        return None

    return on_hosts(fleet, "asking for keys", ask)


def add_keys(keys: Iterable[NewKey]) -> None:
    """Write them down, each once, where no key of that name has been written meanwhile.

    :raises Unwritten: a file cannot be written; what came before it stands.
    """
    for key in dict.fromkeys(keys):
        try:
            if not known_keys((key.file,), key.name):
                add_key(key.file, key.name, key.kind, key.blob)
        except OSError as why:
            raise Unwritten(key.file, why) from why
