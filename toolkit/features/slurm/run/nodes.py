"""Slurm as the one who knows the hosts: its nodes by name, its groups, whose each node is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import TransportError, UsageError
from toolkit.facts.slurm import SlurmConfig, SlurmNode, parse_config, parse_nodes, parse_nodesets
from toolkit.features.slurm.io import Slurm
from toolkit.features.slurm.plan import unsure
from toolkit.hosts.addresses import parse_spot
from toolkit.hosts.host import NOTHING, Host, Inventory, fold, select
from toolkit.progress import Progress

_FRESH_S = 2.0  # how old what slurmctld said may be: it is asked once for all who wait
_PING_S = 5.0  # what slurmctld's ping may take on a node that somebody has just resumed
_POLL_S = 0.5


class SlurmHeld(TransportError):
    """The node is drained by others, or down: it was left alone."""


class Site(Struct):
    """One Slurm cluster, as seen from here."""

    commands: Slurm
    config: SlurmConfig
    nodes: dict[str, SlurmNode]  # as they were first seen
    nodesets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    carries: bool = False  # nodes are reached by srun, in jobs of ours
    watched: str = ""  # the host list of the run; "" for all nodes
    _seen: dict[str, SlurmNode] = field(default_factory=dict)
    _at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, name: str) -> SlurmNode:
        """The node as it is now: asked before anything is done to it.

        :raises SlurmError: slurmctld does not answer.
        """
        return _only(parse_nodes(self.commands.nodes(name)), name)

    def glance(self, name: str, since: float = float("-inf")) -> SlurmNode:
        """The node as it was a moment ago; see ``glances``."""
        return _only(self.glances(since).values(), name)

    def settled(self, node: SlurmNode, within_s: float | None = None) -> SlurmNode:
        """The same node; where it was resumed a moment ago, as it is once slurmd has answered.

        :raises SlurmError: likewise.
        """
        end = time.monotonic() + (_PING_S if within_s is None else within_s)
        while unsure(node) and time.monotonic() < end:
            time.sleep(_POLL_S)
            node = self.glance(node.name, time.monotonic())
        return node

    def glances(self, since: float = float("-inf")) -> dict[str, SlurmNode]:
        """The nodes of the run as they were a moment ago, for all who wait, by one question.

        :param since: nothing older than this, by the monotonic clock.
        :raises SlurmError: likewise.
        """
        with self._lock:
            if self._at < max(since, time.monotonic() - _FRESH_S):
                asked = time.monotonic()
                found = parse_nodes(self.commands.nodes(self.watched))
                self._seen = {node.name: node for node in found}
                self._at = asked
            return self._seen


def _only(nodes: Iterable[SlurmNode], name: str) -> SlurmNode:
    for node in nodes:
        if node.name == name:
            return node
    raise SlurmHeld(f"{name}: Slurm has no such node any more", hint="look: sinfo -N")


def node_name(host: Host) -> str:
    """The name that Slurm knows a host by: the operator may have put a user or port to it."""
    return parse_spot(host.name).host


def open_site(progress: Progress, commands: Slurm | None = None, *, carries: bool = False) -> Site:
    """Ask Slurm for its nodes.

    :param carries: they are reached by srun.
    :raises UsageError: Slurm's commands are not here.
    :raises SlurmError: slurmctld does not answer.
    """
    commands = commands or Slurm()
    progress.begin("asking Slurm", 1)
    try:
        config = parse_config(commands.config())
        nodes = {node.name: node for node in parse_nodes(commands.nodes())}
        sets = parse_nodesets(commands.config_file(config.file)) if config.file else {}
    finally:
        progress.finish()
    # Who is in each node set: those named, or those that have its feature.
    found: dict[str, tuple[str, ...]] = {}
    for name, (listed, feature) in sets.items():
        if listed and listed.upper() != "ALL":
            chosen = {each.name for each in select(listed)}
        else:
            chosen = set(nodes if listed else ())
        chosen |= {each.name for each in nodes.values() if feature in each.features}
        found[name] = tuple(each for each in nodes if each in chosen)
    return Site(commands, config, nodes, found, carries)


def inventory_of(site: Site, own: Inventory = NOTHING) -> Inventory:
    """Slurm's nodes as hosts, and its partitions, features, node sets and states as groups.

    "@gpu" is the partition, feature or node set of that name where only one of them has it;
    "@partition:gpu", "@feature:h100", "@nodeset:rack1" and "@state:idle" say which is meant.

    :param own: the site's own inventory: what it says of a host goes before what Slurm says.
    """
    hosts = {name: _host(node, own.hosts.get(name)) for name, node in site.nodes.items()}
    groups: dict[str, list[str]] = {}
    for node in site.nodes.values():
        for kind, names in (
            ("partition", node.partitions),
            ("feature", sorted(node.features)),
            ("state", sorted(each.lower() for each in node.states)),
        ):
            for name in names:
                groups.setdefault(f"{kind}:{name}", []).append(node.name)
    known = {name: tuple(members) for name, members in groups.items()}
    known |= {f"nodeset:{name}": members for name, members in site.nodesets.items()}
    known |= _short(known)
    for name, members in own.groups.items():  # of the site's own file, those that Slurm has
        known.setdefault(name, tuple(each for each in members if each in hosts))
    return Inventory(hosts, known)


def _short(groups: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Names without their kind, where only one kind has them; a state is always said in full."""
    found: dict[str, list[str]] = {}
    for full in groups:
        kind, _, name = full.partition(":")
        if kind != "state":
            found.setdefault(name, []).append(full)
    return {name: groups[full[0]] for name, full in found.items() if len(full) == 1}


def _host(node: SlurmNode, own: Host | None) -> Host:
    """NodeAddr is where it is reached, unless the site's own inventory knows better."""
    address = node.address if node.address != node.name else ""
    if own is None:
        source = (("address", "Slurm, NodeAddr"),)
        return Host(node.name, address=address, groups=node.partitions, sources=source)
    return replace(own, address=own.address or address)


def refuse_strangers(hosts: Iterable[Host], site: Site) -> None:
    """Every host must be a node of Slurm's.

    :raises UsageError: one is not.
    """
    strangers = [host.name for host in hosts if node_name(host) not in site.nodes]
    if strangers:
        raise UsageError(
            f"Slurm has no node {fold(strangers)[:200]}",
            hint="see its nodes: sinfo -N; or leave out --via slurm",
        )
