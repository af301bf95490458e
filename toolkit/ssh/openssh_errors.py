"""What the OpenSSH client says when it fails, in our own sentences.

Its messages are English in every locale: ssh is not translated. Sources: sshconnect.c,
sshconnect2.c, ssh.c and misc.c of OpenSSH 8.0 to 9.9.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from toolkit.errors import TransportError
from toolkit.ssh import transport_errors
from toolkit.ssh.transport_errors import Door

_SENT = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[\w+/]+)")
_OFFENDING = re.compile(r"Offending (?:\S+ )?key in (.+?:\d+)")
_REVOKED = re.compile(
    r"The \S+ host key for .* is marked as revoked|Host key \S+ \S+ revoked by file (.+)"
)
_NO_LIST = re.compile(r"Error checking host key \S+ \S+ in revoked keys file (.+?): (.+)")
_SERVER_KEY = re.compile(r"Server host key: (\S+) (SHA256:[\w+/]+)")
_DENIED = re.compile(r"Permission denied \(([^)]*)\)")


def explain(
    doors: Sequence[Door], said: str, keys: Sequence[str], verbose: Callable[[], str]
) -> TransportError | None:
    """The error that ``said`` stands for; None where it says nothing of the kind.

    :param doors: the hops, the node last.
    :param keys: the key files that were there to try.
    :param verbose: runs ssh again with -v, to learn what it does not say otherwise.
    """
    door = _door(doors, said)
    if no_list := _NO_LIST.search(said):
        return transport_errors.no_list(door, no_list[1], no_list[2].strip())
    if "HAS CHANGED!" in said or "verification failed" in said or "host key is known for" in said:
        return _host_key(door, said, verbose)
    if "Permission denied" in said or "Too many authentication failures" in said:
        return transport_errors.login_refused(door, _tried(said, keys))
    if "open failed" in said or "stdio forwarding failed" in said:
        before = doors[max(list(doors).index(door) - 1, 0)]
        why = re.search(r"open failed: (.*)", said)
        return transport_errors.jump_failed(door, before.host, why[1].strip() if why else "refused")
    for sign, error in _PLAIN:
        if re.search(sign, said):
            return error(door, said)
    return None


def _lost(door: Door, said: str) -> TransportError:
    if door.proxy:
        return transport_errors.proxy_failed(door, said.strip().split("\n")[0])
    return transport_errors.cut(door.host, "keys were exchanged")


_PLAIN: tuple[tuple[str, Callable[[Door, str], TransportError]], ...] = (
    ("Could not resolve hostname", lambda door, _: transport_errors.unresolved(door)),
    ("Connection refused", lambda door, _: transport_errors.refused(door)),
    ("timed out", lambda door, _: transport_errors.unreachable(door, "no answer")),
    ("No route to host", lambda door, _: transport_errors.unreachable(door, "No route to host")),
    (
        "is unreachable",
        lambda door, _: transport_errors.unreachable(door, "Network is unreachable"),
    ),
    (
        "Unable to negotiate|no matching|[Pp]rotocol (version|major)|invalid format",
        lambda door, said: transport_errors.no_protocol(door, _last(said)),
    ),
    ("Connection (closed|reset)|kex_exchange|Broken pipe|disconnect", _lost),
)


def _door(doors: Sequence[Door], said: str) -> Door:
    """The hop that the message is about: the one it names, else the node."""
    for door in doors[:-1]:
        names = (door.known_as, f"{door.user}@{door.address}:", f"{door.address} port {door.port}")
        if any(name in said for name in names):
            return door
    return doors[-1]


def _host_key(door: Door, said: str, verbose: Callable[[], str]) -> TransportError:
    sent, offending = _SENT.search(said), _OFFENDING.search(said)
    if sent and offending and "HAS CHANGED!" in said:
        return transport_errors.changed_key(door, sent[1], sent[2], offending[1].strip())
    keys = _SERVER_KEY.findall(verbose())
    kind, fingerprint = keys[-1] if keys else ("unknown", "")
    kind = transport_errors.kind_name(kind)
    if revoked := _REVOKED.search(said):
        where = (revoked[1] or door.known_hosts).strip()
        return transport_errors.revoked_key(door, kind, fingerprint, where)
    return transport_errors.unknown_key(door, kind, fingerprint)


def _tried(said: str, keys: Sequence[str]) -> str:
    means = list(keys)
    if os.environ.get("SSH_AUTH_SOCK"):
        means.insert(0, "the agent")
    denied = _DENIED.search(said)
    wants = f"; it takes {denied[1]}" if denied else ""
    return (", ".join(means) or "nothing") + wants


def _last(said: str) -> str:
    return said.strip().split("\n")[-1].strip()[:200]
