"""Groups that ClusterShell knows: its groups.conf, with the files and commands that this names.

ClusterShell documents "Node groups". Its library reads them, and runs the commands: @rack1 is a
group of its default source, @slurm:gpu one of another, as clush and nodeset call them.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from ClusterShell.NodeSet import NodeSet, NodeSetException
from ClusterShell.NodeUtils import (
    GroupResolverConfig,
    GroupResolverError,
    GroupSourceError,
    GroupSourceNoUpcall,
)

from toolkit.errors import InventoryError
from toolkit.hosts.ansible import plain_name
from toolkit.hosts.host import MOST, Host, Inventory

_MAIN = re.compile(
    r"^\[Main\]\s*$(?:\n(?!\[).*)*?\n(?:default|confdir|groupsdir|autodir)\s*[:=]", re.MULTILINE
)
_BY_HAND = "see what it has: nodeset -LL"


def is_clustershell(file: Path, text: str) -> bool:
    """Whether this is a groups.conf, by its suffix and its first section."""
    return file.suffix == ".conf" and _MAIN.search(text) is not None


def read_clustershell(file: Path) -> Inventory:
    """The hosts of all groups of all sources.

    :raises InventoryError: a source does not answer, or what it says names no hosts.
    """
    groups: dict[str, tuple[str, ...]] = {}
    try:
        resolver = GroupResolverConfig([str(file)])
        default = resolver.default_source_name
        for source in resolver.sources():
            for name in _listed(resolver, source, known=source == default):
                shown = name if source == default else f"{source}:{name}"
                told = NodeSet(f"@{source}:{name}", resolver=resolver)
                if len(told) > MOST:
                    problem = f"{file}: a group of more than {MOST} hosts"
                    raise InventoryError(problem, hint=_BY_HAND)
                groups[shown] = tuple(plain_name(str(each), str(file)) for each in told)
    except (GroupResolverError, GroupSourceError, NodeSetException, configparser.Error) as why:
        raise InventoryError(f"{file}: {why}", hint=_BY_HAND) from why
    of_host: dict[str, list[str]] = {}
    for name, members in groups.items():
        for host in members:
            of_host.setdefault(host, []).append(name)
    if not of_host:
        raise InventoryError(f"{file}: names no host", hint=_BY_HAND)
    return Inventory({host: Host(host, groups=tuple(of_host[host])) for host in of_host}, groups)


def _listed(resolver: GroupResolverConfig, source: str, *, known: bool) -> list[str]:
    """The groups of a source; one that lists none answers for single names, which nobody gave."""
    try:
        return sorted(resolver.grouplist(source))
    except GroupSourceNoUpcall:
        if known:
            raise
        return []
