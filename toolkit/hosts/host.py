"""A host: a name we can reach. The node behind it is what evidence tells of.

Sets of hosts are written as ClusterShell does, left to right:

    gpu[001-128],login1     these, and that one       @rack1    a group of our own inventory
    gpu[1-9]!gpu3           without                   @all @*   all of it
    @rack1&@gpu             in both                   gpu*      names in the inventory
    root@gpu[1-4]:2222  ::1  [::1]:2222  user@[fe80::1%eth0]:22
    vagrant://node[1-4]     machines that Vagrant has made; vagrant:// for all that run

ClusterShell folds and unfolds the names. The algebra is ours: its own parser takes
brackets around an IPv6 address for a range, and its configuration resolves "@all" to
sample nodes that nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from toolkit.errors import UsageError
from toolkit.hosts.addresses import (
    VAGRANT,
    HostAddress,
    machine_names,
    parse_spot,
    split_spot,
    unfold,
)

MANY = 500  # more hosts than this are asked for twice
MOST = 1_000_000  # more than any site has; patterns of patterns would take the memory


class Host(Struct, frozen=True):
    """Where to knock. Empty fields are left to ~/.ssh/config and the client's defaults."""

    name: str  # as the operator wrote it; reports and evidence files use it
    address: str = ""  # "" means the name
    user: str = ""
    port: int = 0  # 0 means the configured one, else 22
    jump: str = ""  # "user@host:port" to go through
    bmc: str = ""  # address of the management controller
    groups: tuple[str, ...] = ()
    key_file: str = ""  # identity file
    away: str = ""  # why nobody need knock: "not created"; behind "is"
    options: tuple[tuple[str, str], ...] = ()  # further ssh_config keywords for this host alone
    # Of fields: where each was said, "hosts.ini:7, ansible_port"; the last of one field counts.
    sources: tuple[tuple[str, str], ...] = ()
    new_keys: str = (
        ""  # the one file of its known keys, which takes its first; "" for no such trust
    )

    def __eq__(self, other: object) -> bool:
        return type(other) is Host and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[object, ...]:
        """All but where it was said."""
        return astuple(replace(self, sources=()))


def one_word(path: Path) -> str:
    """As ssh_config(5) and a host's options take a path with blanks, or with what expands."""
    return f'"{path}"'.replace("%", "%%")


class Machines(Struct, frozen=True):
    """What Vagrant has, by the names in its Vagrantfile."""

    running: Mapping[str, Host] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)  # and why: "not created"


class Inventory(Struct, frozen=True):
    """The hosts and groups that a site keeps in its own files."""

    hosts: Mapping[str, Host] = field(default_factory=dict)  # by name, in the file's order
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names, children included
    mixed: bool = False  # hosts of any kind are in it: who names none does not mean them all
    # Apart, and asked for only where they are named: no group or wildcard of the site means them.
    machines: Callable[[], Machines] = Machines


NOTHING = Inventory()


def select(
    expression: str, inventory: Inventory = NOTHING, *, exclude: str = "", limit: str = ""
) -> tuple[Host, ...]:
    """The hosts that ``expression`` names, each once, in the order written.

    :param exclude: hosts to leave out (``-x``); a name without user or port means any.
    :param limit: keep only what this names, too.
    :raises UsageError: for what cannot be read, for unknown groups, and for an empty set.
    """
    return narrow(_evaluate(expression, inventory), inventory, exclude=exclude, limit=limit)


def narrow(
    hosts: Iterable[Host], inventory: Inventory = NOTHING, *, exclude: str = "", limit: str = ""
) -> tuple[Host, ...]:
    """What is left of ``hosts`` after ``exclude`` and ``limit``, each name once.

    :raises UsageError: likewise, also where nothing is left.
    """
    chosen = list({host.name: host for host in hosts}.values())
    if exclude:
        chosen = _without(chosen, _evaluate(exclude, inventory))
    if limit:
        chosen = _common(chosen, _evaluate(limit, inventory))
    if not chosen:
        raise UsageError(
            "the set of hosts is empty", hint="see what is left with: gdr hosts --hosts ..."
        )
    return tuple(chosen)


def members(expression: str, inventory: Inventory = NOTHING) -> Callable[[str], bool]:
    """Whether a host of some name is one of those that ``expression`` names.

    A part that the expression leaves out, a user or a port, means any.

    :raises UsageError: as ``select`` does.
    """
    named = _index(list(select(expression, inventory)))

    def among(name: str) -> bool:
        try:
            return _among(Host(name), named)
        except UsageError:  # the name of a file of evidence may be anything
            return False

    return among


def refuse_many(hosts: tuple[Host, ...], *, yes: bool) -> None:
    """A slip of the keyboard must not reach a whole site.

    :raises UsageError: for more than ``MANY`` hosts without ``yes``.
    """
    if len(hosts) > MANY and not yes:
        raise UsageError(
            f"{len(hosts)} hosts are more than {MANY}: {fold(h.name for h in hosts)[:200]}",
            hint="add --yes if all of them are meant",
        )


def fold(names: Iterable[str]) -> str:
    """Names in their shortest form, sorted: ``gpu[001-006,008]``."""
    plain: dict[tuple[str, int], list[str]] = {}
    rest: list[str] = []
    for name in dict.fromkeys(names):
        try:
            spot = parse_spot(name)
        except UsageError:  # the name of a file of evidence may be anything
            rest.append(name)
            continue
        if ":" in spot.host:
            rest.append(name)
        else:
            plain.setdefault((spot.user, spot.port), []).append(spot.host)
    folded = [
        f"{user}@" * bool(user) + part + f":{port}" * bool(port)
        for (user, port), hosts in sorted(plain.items())
        for _, part in _terms(str(NodeSet.fromlist(hosts, resolver=RESOLVER_NOGROUP)))
    ]
    return ",".join(folded + sorted(rest))


def _evaluate(expression: str, inventory: Inventory) -> list[Host]:
    chosen: dict[str, Host] = {}
    for operator, term in _terms(expression):
        operand = list(_expand(term, inventory))
        before = list(chosen.values()) if operator != "," else []
        match operator:
            case ",":
                after = operand  # beside those before, which a long list goes on from
            case "!":
                after = _without(before, operand)
            case "&":
                after = _common(before, operand)
            case _:
                after = _without(before, operand) + _without(operand, before)
        if operator != ",":
            chosen = {}
        chosen |= {host.name: host for host in after}
        if len(chosen) > MOST:
            raise UsageError(f"{expression[:80]!r}: more than {MOST} hosts", hint="name fewer")
    return list(chosen.values())


def _terms(expression: str) -> Iterator[tuple[str, str]]:
    """The expression as (operator, term), the first operator being a comma."""
    if not expression.strip(" "):
        raise UsageError(
            "no hosts were named", hint="say --hosts gpu[001-128], @group or demo; or --hosts-file"
        )
    operator, term, depth = ",", "", 0
    for char in expression + ",":
        if char in ",!&^" and depth == 0:
            if not term.strip(" "):
                raise UsageError(
                    f"{expression!r}: nothing stands before {char!r}, or at the end",
                    hint="quote the expression, and join names by single commas",
                )
            yield operator, term.strip(" ")
            operator, term = char, ""
        else:
            depth += (char == "[") - (char == "]")
            term += char
    if depth != 0:
        raise UsageError(
            f"{expression!r}: a bracket is not closed", hint="write gpu[001-128], within quotes"
        )


def _expand(term: str, inventory: Inventory) -> Iterator[Host]:
    if term.startswith("@"):
        yield from _group(term, inventory)
        return
    if term.startswith(VAGRANT):
        found = inventory.machines()
        names = machine_names(term, found.running, found.others)
        for name in names:
            gone = Host(f"{VAGRANT}{name}", away=found.others.get(name, ""))
            yield found.running.get(name, gone)
        return
    spot = split_spot(term)
    for name in [spot.host] if ":" in spot.host else _names(term, spot.host, inventory):
        yield _host(term, replace(spot, host=name), inventory)


def _host(term: str, spot: HostAddress, inventory: Inventory) -> Host:
    """The host at ``spot``: the inventory's, with what the operator wrote going first."""
    name = spot.host
    if ":" in name:
        name = term  # an address is never a pattern, so the term is the name as written
    elif spot.user or spot.port:
        name = f"{spot.user}@" * bool(spot.user) + name + f":{spot.port}" * bool(spot.port)
    known = inventory.hosts.get(spot.host)
    every = ("all",) if inventory.hosts else ()  # Ansible's, which no inventory writes down
    if known is None and spot.host in (*inventory.groups, *every):
        raise UsageError(
            f"{spot.host!r} is a group, not a host", hint=f"write @{spot.host} for its hosts"
        )
    if name == spot.host:
        return known or Host(name)
    base = known or Host(name)
    here = [(part, f"its name, {name}") for part in ("user", "port") if getattr(spot, part)]
    return replace(
        base,
        name=name,
        address=base.address or spot.host,
        user=spot.user or base.user,
        port=spot.port or base.port,
        sources=(*base.sources, *here),
    )


def _group(term: str, inventory: Inventory) -> Iterator[Host]:
    name = term[1:]
    if not inventory.hosts:
        raise UsageError(
            f"{term}: there is no inventory to look groups up in", hint="name it: --inventory FILE"
        )
    if name in ("*", "all"):
        yield from inventory.hosts.values()
        return
    groups = [name] if name in inventory.groups else _names(term, name, NOTHING)
    for group in groups:
        if group not in inventory.groups:
            known = ", ".join(sorted(inventory.groups)) or "none"
            raise UsageError(f"{term}: no group {group!r}", hint=f"groups: {known[:400]}")
        yield from (inventory.hosts[each] for each in inventory.groups[group])


def _names(term: str, pattern: str, inventory: Inventory) -> list[str]:
    """The names that a pattern stands for; wildcards look in the inventory."""
    if "*" not in pattern and "?" not in pattern:
        return unfold(pattern, shown=term)
    found = [name for name in inventory.hosts if fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(
            f"{term!r}: no host of the inventory has such a name",
            hint="wildcards look in the inventory: --inventory FILE",
        )
    return found


def _without(hosts: list[Host], others: list[Host]) -> list[Host]:
    named = _index(others)
    return [host for host in hosts if not _among(host, named)]


def _common(hosts: list[Host], others: list[Host]) -> list[Host]:
    named = _index(others)
    return [host for host in hosts if _among(host, named)]


def _index(hosts: list[Host]) -> dict[str, list[HostAddress]]:
    named: dict[str, list[HostAddress]] = {}
    for host in hosts:
        spot = parse_spot(host.name)
        named.setdefault(spot.host, []).append(spot)
    return named


def _among(host: Host, named: dict[str, list[HostAddress]]) -> bool:
    """Whether one of ``named`` means this host; a part left out there means any."""
    mine = parse_spot(host.name)
    return any(
        each.user in ("", mine.user) and each.port in (0, mine.port)
        for each in named.get(mine.host, ())
    )
