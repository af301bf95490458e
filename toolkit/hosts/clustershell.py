"""Groups that ClusterShell knows: its groups.conf, with the files and commands that this names.

ClusterShell documents "Node groups". Its library reads them, and runs the commands: @rack1 is a
group of its default source, @slurm:gpu one of another, as clush and nodeset call them.
"""

from __future__ import annotations

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
from toolkit.hosts.host import Host, Inventory

_MAIN = re.compile(r"^\[Main\]\s*$", re.MULTILINE)


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
                groups[shown] = tuple(map(str, told))
    except (GroupResolverError, GroupSourceError, NodeSetException) as why:
        raise InventoryError(f"{file}: {why}", hint="see what it has: nodeset -LL") from why
    hosts = dict.fromkeys(host for members in groups.values() for host in members)
    if not hosts:
        raise InventoryError(f"{file}: names no host", hint="see what it has: nodeset -LL")
    known = {
        host: Host(host, groups=tuple(name for name, members in groups.items() if host in members))
        for host in hosts
    }
    return Inventory(known, groups)


def _listed(resolver: GroupResolverConfig, source: str, *, known: bool) -> list[str]:
    """The groups of a source; one that lists none answers for single names, which nobody gave."""
    try:
        return sorted(resolver.grouplist(source))
    except GroupSourceNoUpcall:
        if known:
            raise
        return []
