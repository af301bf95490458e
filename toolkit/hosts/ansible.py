"""What an Ansible inventory says about hosts, once INI or YAML has been read into groups.

Ansible documents: "How to build your inventory", "Understanding variable precedence". Variables
of a host go over those of its groups, a child group's over its parent's, and ``all`` comes last;
files of ``group_vars`` go over what the inventory says of groups, those of ``host_vars`` over all.
Only variables that say how to reach a host count; the hundreds of others are left alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.addresses import parse_spot
from toolkit.hosts.host import Host, Inventory

_VARIABLES = {  # Ansible's names for one thing, the first that is set counts
    "address": ("ansible_host", "ansible_ssh_host"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "port": ("ansible_port", "ansible_ssh_port"),
    "key_file": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "bmc": ("bmc",),
}
_OPTION = re.compile(r"^\s*(\w+)(?:\s*=\s*|\s+)")  # "Key=value", "Key value"
_BY_SSH = ("", "ssh", "smart", "paramiko", "paramiko_ssh")
_SSH_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_RANGE = re.compile(r"\[(\w+):(\w+)(?::(\d+))?\]")
_MOST = 100_000  # hosts that one pattern may stand for
_DEEPEST = 50  # groups in groups; more is a circle
_NO_CIRCLE = "see them with: ansible-inventory --graph"
_LONGEST = 1024  # characters of a pattern: a name has 253


class VariableValue(Struct, frozen=True):
    """A variable's text, and where it was written: "hosts.ini:7"."""

    text: str
    where: str
    vault: bool = False  # encrypted


class Group(Struct):
    """One group as the file has it. Mutable: a file may come back to a group later.

    The group "all" has every host, with its variables: of two groups that give it one, the later
    line counts, whichever group lies deeper.
    """

    hosts: dict[str, dict[str, VariableValue]] = field(default_factory=dict)  # variables by name
    children: list[str] = field(default_factory=list)
    values: dict[str, VariableValue] = field(default_factory=dict)


Variables = Mapping[str, Mapping[str, VariableValue]]  # of groups or hosts, by their names
_NO_FILES: Variables = {}


def gather(
    groups: dict[str, Group],
    where: str,
    group_files: Variables = _NO_FILES,
    host_files: Variables = _NO_FILES,
) -> Inventory:
    """The inventory that ``groups`` amounts to.

    :param group_files: what files of ``group_vars`` say, by group; ``host_files`` likewise.
    :raises InventoryError: a value makes no sense, or groups contain one another.
    """
    names: dict[str, dict[str, None]] = {}
    layers: dict[str, list[tuple[int, int, str]]] = {}  # of a host: (depth, priority, group)
    for name in groups:
        if name != "all":
            names[name] = dict.fromkeys(_members(groups, name, where, set()))
    for name, depth in _depths(groups, where).items():
        layer = (depth, _priority(groups[name]), name)
        for host in names.get(name, ()):
            layers.setdefault(host, []).append(layer)
    everyone = groups.get("all", Group()).hosts
    hosts = {}
    for host in everyone:
        inside = ["all", *(name for _, _, name in sorted(layers.get(host, [])))]
        values: dict[str, VariableValue] = {}
        for each in inside:
            values |= groups.get(each, Group()).values
        for each in inside if inside[1:] else ["all", "ungrouped"]:
            values |= group_files.get(each, {})
        values |= everyone[host]
        values |= host_files.get(host, {})
        hosts[host] = _host(host, values, tuple(n for n in names if host in names[n]))
    return Inventory(hosts, {name: tuple(members) for name, members in names.items()})


def _priority(group: Group) -> int:
    value = group.values.get("ansible_group_priority")
    return int(value.text) if value and re.fullmatch(r"-?[0-9]{1,9}", value.text) else 1


def unfold_ansible(pattern: str, where: str) -> list[str]:
    """Names of ``node[001:128:2].example`` or ``node[a:c]``; several ranges multiply.

    :raises InventoryError: for a range that is none.
    """
    if len(pattern) > _LONGEST:
        raise InventoryError(f"{where}: a pattern of {len(pattern)} characters", hint="name fewer")
    found = _RANGE.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], unfold_ansible(pattern[found.end() :], where)
    parts = _range(found, where)
    if len(parts) * len(after) > _MOST:
        raise InventoryError(
            f"{where}: {pattern!r} stands for more than {_MOST} hosts",
            hint="name fewer, or several patterns",
        )
    texts = (chr(n) if found[1].isalpha() else f"{n:0{len(found[1])}d}" for n in parts)
    return [before + text + rest for text in texts for rest in after]


def plain_name(name: object, where: str) -> str:
    """A host's name as a program told it.

    :raises InventoryError: it is none.
    """
    try:
        spot = parse_spot(name) if isinstance(name, str) else None
    except UsageError as why:
        raise InventoryError(f"{where}: {why}", hint=why.hint) from why
    if spot is None or spot.user or spot.port:
        raise InventoryError(f"{where}: {name!r} is no name of a host", hint="see who says so")
    return spot.host


def host_names(pattern: str, where: str) -> list[tuple[str, int]]:
    """The (name, port) pairs of one entry; port 0 where none is given.

    :raises InventoryError: for what is not the name of a host.
    """
    pairs = []
    for name in unfold_ansible(pattern, where):
        try:
            spot = parse_spot(name)
        except UsageError as why:
            raise InventoryError(f"{where}: {why}", hint=why.hint) from why
        if spot.user:
            raise InventoryError(f"{where}: {name!r}", hint="give the user as ansible_user=")
        pairs.append((spot.host, spot.port))
    return pairs


def _range(found: re.Match[str], where: str) -> range:
    """The numbers, or the code points of the letters, that ``[first:last:step]`` stands for."""
    first, last, step = found[1], found[2], int(found[3] or 1)
    numbers = re.fullmatch("[0-9]{1,9}", first) and re.fullmatch("[0-9]{1,9}", last)
    letters = re.fullmatch("[a-z]-[a-z]|[A-Z]-[A-Z]", f"{first}-{last}")
    if not (numbers or letters) or step < 1:
        ends = range(0)
    elif numbers:
        ends = range(int(first), int(last) + 1, step)
    else:
        ends = range(ord(first), ord(last) + 1, step)
    if not ends:
        raise InventoryError(
            f"{where}: {found[0]!r} is no range",
            hint="Ansible's ranges look like [001:128] or [a:c]",
        )
    return ends


def _members(
    groups: dict[str, Group], name: str, where: str, seen: set[str], depth: int = 0
) -> Iterator[str]:
    """:param seen: groups that were looked into, each once: many may lead to one."""
    if depth > _DEEPEST:
        raise InventoryError(f"{where}: group {name!r} contains itself", hint=_NO_CIRCLE)
    group = groups.get(name)
    if group is None:
        raise InventoryError(
            f"{where}: group {name!r} is a child of another and has no section",
            hint=f"add [{name}], or remove it from the children",
        )
    seen.add(name)
    yield from group.hosts
    for child in group.children:
        if child not in seen:
            yield from _members(groups, child, where, seen, depth + 1)


def _depths(groups: dict[str, Group], where: str) -> dict[str, int]:
    """How deep each group lies at most: a deeper group's variables go over its parents'."""
    depths = dict.fromkeys((name for name in groups if name != "all"), 1)
    for _ in range(_DEEPEST):
        changed = False
        for name, depth in list(depths.items()):
            for child in groups[name].children:
                if depths.get(child, 0) <= depth:
                    depths[child] = depth + 1
                    changed = True
        if not changed:
            return depths
    raise InventoryError(f"{where}: its groups contain one another", hint=_NO_CIRCLE)


def _host(name: str, values: dict[str, VariableValue], groups: tuple[str, ...]) -> Host:
    found = {
        key: _evaluate(name, next((values[each] for each in names if each in values), None))
        for key, names in _VARIABLES.items()
    }
    jump, key_file, options = _ssh_arguments(name, values)
    if found["port"] and not re.fullmatch(r"[0-9]{1,5}", found["port"]):
        where = _where(values, _VARIABLES["port"])
        raise InventoryError(
            f"{where}: {found['port']!r} is no port",
            hint="ansible_port is a number from 1 to 65535",
        )
    host = Host(
        name,
        address=found["address"] if found["address"] != name else "",
        user=found["user"],
        port=int(found["port"] or 0),
        jump=jump,
        bmc=found["bmc"],
        groups=groups,
        key_file=found["key_file"] or key_file,
        away=_no_way(name, values, found["user"]),
        options=options,
        sources=tuple(_sources(values)),
    )
    _check(host, values)
    return host


def _sources(values: dict[str, VariableValue]) -> Iterator[tuple[str, str]]:
    """Where each field of a host was said; what ssh is to be told may say any of the last."""
    arguments = [f"{values[name].where}, {name}" for name in _SSH_ARGS if name in values]
    for field_ in ("jump", "key_file", "options"):
        yield from ((field_, each) for each in arguments[-1:])
    for field_, names in _VARIABLES.items():
        said = (f"{values[name].where}, {name}" for name in names if name in values)
        yield from ((field_, each) for each in [*said][:1])


def _no_way(host: str, values: dict[str, VariableValue], user: str) -> str:
    """Why we cannot reach it as it says; "" where we can. Root is become by sudo alone."""
    said = {}
    for name in ("ansible_connection", "ansible_become_method", "ansible_become_user"):
        value = values.get(name)
        try:
            said[name] = _evaluate(host, value).removeprefix("ansible.builtin.")
        except InventoryError:
            return f"reached as {name} says, which only Ansible can evaluate"
    connection, method, become_user = said.values()
    if connection == "local":
        return "this very machine by ansible_connection=local, which --transport local judges"
    if connection not in _BY_SSH:
        return f"reached by ansible_connection={connection}, and we have SSH alone"
    if user != "root" and method not in ("", "sudo"):
        return f"root by ansible_become_method={method}, and we have sudo alone"
    if user != "root" and become_user not in ("", "root"):
        return f"changed as ansible_become_user={become_user}, and we need root"
    return ""


def _check(host: Host, values: dict[str, VariableValue]) -> None:
    """These words end up on command lines: let nothing through that is not surely a name."""
    parts = [(f"{host.user}@x" if host.user else "", _VARIABLES["user"])]
    parts += [(host.address, _VARIABLES["address"]), (host.bmc, _VARIABLES["bmc"])]
    parts += [(f"x:{host.port}" if host.port else "", _VARIABLES["port"])]
    parts += [(hop, _SSH_ARGS) for hop in host.jump.split(",")]
    for part, variables in parts:
        try:
            if part:
                parse_spot(part)
        except UsageError as why:
            raise InventoryError(f"{_where(values, variables)}: {why}", hint=why.hint) from why


def _where(values: dict[str, VariableValue], variables: tuple[str, ...]) -> str:
    return next((values[name].where for name in variables if name in values), "inventory")


def _evaluate(host: str, value: VariableValue | None) -> str:
    """A variable's text; of templates only the host's own name is understood."""
    if value is None:
        return ""
    if value.vault:
        raise InventoryError(
            f"{value.where}: it is in a vault, which only Ansible can open",
            hint="say in the clear how a host is reached, and keep secrets in the vault",
        )
    text = re.sub(r"\{\{\s*inventory_hostname\s*\}\}", host, value.text)
    if "{{" in text or "{%" in text:
        raise InventoryError(
            f"{value.where}: a template, which only Ansible can evaluate",
            hint="let it: ansible-inventory --list --yaml --export > plain.yml",
        )
    return text


def _ssh_arguments(
    host: str, values: dict[str, VariableValue]
) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Jump, identity file and options from what Ansible would pass to ssh."""
    jump, key_file, options = "", "", {}
    for value in (values[name] for name in _SSH_ARGS if name in values):
        try:
            words = iter(shlex.split(_evaluate(host, value)))
        except ValueError as why:
            raise InventoryError(f"{value.where}: {why}", hint="a quote is not closed") from why
        for word in words:
            flag = word[:2]
            if flag not in ("-J", "-i", "-o"):
                continue  # -C, -v and the like do not say how to reach the host
            argument = word[2:] or next(words, "")
            if flag == "-J":
                jump = argument
            elif flag == "-i":
                key_file = argument
            else:
                key, _, text = _OPTION.sub(r"\1=", argument, count=1).partition("=")
                options[key] = text
    jump = options.pop("ProxyJump", jump)
    return jump, key_file, tuple(options.items())
