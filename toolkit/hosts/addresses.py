"""Where to knock, as text: ``user@host:port``, ``[v6]:port``, and ranges of names.

Only what is surely a name, an address, a user or a port is let through: these words
end up on the command lines of ssh and in hints that operators paste into a shell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from ipaddress import IPv6Address
from math import prod

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from msgspec import Struct

from toolkit.errors import UsageError

VAGRANT = "vagrant://"  # before the name of a machine that Vagrant made
_MOST = 100_000  # names one pattern may stand for; a typing slip would eat the memory
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_USER = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.@+-]{0,100}[A-Za-z0-9_.+-])?")
_PATTERN = re.compile(r"[A-Za-z0-9_.-]*(?:\[[0-9,/-]+\][A-Za-z0-9_.-]*)*")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,18}))?)?")


class HostAddress(Struct, frozen=True):
    """The parts of ``user@host:port``; what was left out is "" or 0."""

    host: str  # "gpu01", an IPv6 address without its brackets, or "vagrant://gpu01"
    user: str = ""
    port: int = 0


def is_name(text: str) -> bool:
    """Whether it is surely the name of a host, without a user or a port."""
    return _NAME.fullmatch(text) is not None


def parse_spot(text: str) -> HostAddress:
    """Read one ``user@host:port``, ``[v6]:port`` or bare IPv6 address.

    :raises UsageError: for anything that is not surely a name, an address, a user or a port.
    """
    spot = split_spot(text)
    if ":" not in spot.host and not _NAME.fullmatch(spot.host):
        raise _refused(text)
    return spot


def split_spot(text: str) -> HostAddress:
    """Split ``user@host:port``; the host may still be a pattern."""
    if text.startswith(VAGRANT):
        if not _NAME.fullmatch(text.removeprefix(VAGRANT)):
            raise _refused(text)
        return HostAddress(text)  # Vagrant knows its user and port
    user, at, rest = text.rpartition("@")
    if (at and not _USER.fullmatch(user)) or any(c.isspace() for c in text):
        raise _refused(text)
    bracketed = re.fullmatch(r"\[([^][]*:[^][]*)\](?::(\d+))?", rest)
    if bracketed:
        return HostAddress(_ipv6(text, bracketed[1]), user, _port(text, bracketed[2]))
    if rest.count(":") > 1:
        return HostAddress(_ipv6(text, rest), user)
    host, colon, port = rest.partition(":")
    if not host or host.startswith("-"):
        raise _refused(text)
    return HostAddress(host, user, _port(text, port) if colon else 0)


def unfold(pattern: str, *, shown: str = "") -> list[str]:
    """The names that a pattern of ranges stands for, as ClusterShell reads it.

    :param shown: what errors quote; the pattern unless given.
    :raises UsageError: for a hostile name, a bad range, or more names than memory should hold.
    """
    shown = shown or pattern
    if not _PATTERN.fullmatch(pattern):
        raise _refused(shown)
    if _size(shown, pattern) > _MOST:
        raise UsageError(f"{shown!r} stands for more than {_MOST} hosts", hint="name fewer")
    try:
        names = [str(each) for each in NodeSet(pattern, resolver=RESOLVER_NOGROUP)]
    except NodeSetException as why:
        raise UsageError(f"{shown!r}: {why}", hint="ranges look like gpu[001-128,130]") from why
    for name in names:
        if not _NAME.fullmatch(name):
            raise _refused(shown)
    return names


def machine_names(term: str, running: Collection[str], others: Mapping[str, str]) -> list[str]:
    """The machines of Vagrant that ``vagrant://NAME`` stands for; all that run for no name.

    One that is named in full is meant though it does not run: a host out of reach.

    :param running: the names of those that can be reached.
    :param others: why not, for the name of each that there is beside them: "not created".
    :raises UsageError: for a name that there is not, and where a wildcard finds none that runs.
    """
    pattern = term.removeprefix(VAGRANT) or "*"
    if "*" not in pattern and "?" not in pattern:
        names = unfold(pattern, shown=term)
    else:
        names = [name for name in running if fnmatchcase(name, pattern)]
    if not names:
        states = "; ".join(f"{name} is {state}" for name, state in others.items())
        raise UsageError(
            f"{term}: no such machine runs" + f": {states[:300]}" * bool(states),
            hint="start one: vagrant up",
        )
    for name in names:
        if name not in running and name not in others:
            known = ", ".join(sorted((*running, *others)))
            raise UsageError(
                f"{VAGRANT}{name}: the Vagrantfile has no such machine",
                hint=f"it has: {known[:300] or 'none'}",
            )
    return names


def _size(term: str, pattern: str) -> int:
    sizes = []
    for ranges in re.findall(r"\[([^]]*)\]", pattern):
        total = 0
        for each in ranges.split(","):
            found = _RANGE.fullmatch(each)
            if found is None or found[3] == "0":
                raise UsageError(f"{term!r}: {each!r} is no range", hint="write gpu[001-128,130]")
            first, last, step = (int(part or 0) for part in found.groups())
            total += max(last - first, 0) // (step or 1) + 1
        sizes.append(total)
    return prod(sizes)


def _ipv6(text: str, address: str) -> str:
    try:
        scope = IPv6Address(address).scope_id
    except ValueError as why:
        raise _refused(text) from why
    if scope is not None and not _NAME.fullmatch(scope):
        raise _refused(text)
    return address


def _port(text: str, port: str | None) -> int:
    if port is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r}: {port!r} is no port", hint="ports go from 1 to 65535")
    return int(port)


def _refused(text: str) -> UsageError:
    shown = text.encode("ascii", "backslashreplace").decode()
    hint = "names have letters, digits, '.', '_' and '-' inside; options go before their values"
    if "/" in text and "://" not in text:
        hint = "a file with one host a line goes to --hosts-file, an inventory to --inventory"
    return UsageError(f"{shown!r} is not the name of a host", hint=hint)
