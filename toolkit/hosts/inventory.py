"""Hosts and groups that a site keeps in files: lists of hosts, Ansible inventories."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.ansible import Group, VariableValue, gather, host_names, plain_name
from toolkit.hosts.ansible_files import VAULT, answer_of, ask_ansible, sources, vars_files
from toolkit.hosts.clustershell import is_clustershell, read_clustershell
from toolkit.hosts.host import MOST, NOTHING, Host, Inventory, select
from toolkit.safe_file import others_may_write
from toolkit.untrusted import Unreadable, read_host_text, read_json, read_yaml_nodes

if TYPE_CHECKING:
    import yaml

_YAML = (".yml", ".yaml", ".json")
_SECTION = re.compile(r"\[([^]:]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)")
_KUBECONFIG = re.compile(r"^kind:\s*[\"']?Config\b", re.MULTILINE)
_PLUGIN = re.compile(r"^[\"']?plugin[\"']?\s*:\s*[\"']?\w", re.MULTILINE)
_MERGE = "tag:yaml.org,2002:merge"
_VAULTS = ("!vault", "!vault-encrypted")
_NULLS = ("", "~", "null", "Null", "NULL")


def read_host_file(file: Path, inventory: Inventory = NOTHING) -> tuple[Host, ...]:
    """The hosts of a file: a set of hosts a line, comments behind "#".

    :raises InventoryError: the file cannot be read, or one line of it, with its number.
    """
    hosts: dict[str, Host] = {}
    for number, raw in enumerate(read_host_text(file).split("\n"), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        try:
            hosts.update((host.name, host) for host in select(line, inventory))
            if len(hosts) > MOST:
                raise UsageError(f"more than {MOST} hosts", hint="name fewer")
        except UsageError as why:
            raise InventoryError(f"{file}:{number}: {why}", hint=why.hint) from why
    if not hosts:
        raise InventoryError(f"{file}: names no host", hint="one host or set of hosts a line")
    return tuple(hosts.values())


def read_inventory(source: Path) -> Inventory:
    """Read an Ansible inventory, with ``group_vars`` and ``host_vars`` beside it.

    :param source: a file, INI or YAML by its suffix or else by its looks, or a folder of such
        files. A program, and the configuration of a plugin, is asked for by ansible-inventory.
        Or ClusterShell's groups.conf, what ``kubectl get nodes -o json`` printed, or a
        kubeconfig, whose cluster is asked for that.
    :raises InventoryError: it cannot be read, with file and line.
    """
    try:
        return _read(source)
    except OSError as why:
        raise InventoryError(
            f"{why.filename or source}: cannot be read: {why.strerror}",
            hint="name what can be read",
        ) from why


def _read(source: Path) -> Inventory:
    text = "" if source.is_dir() else read_host_text(source)
    if is_clustershell(source, text):
        return read_clustershell(source)
    if _KUBECONFIG.search(text) and "\nclusters:" in f"\n{text}":
        text = _ask_kubectl(source)
    if (nodes := _nodes_of(text)) is not None:
        return read_kubernetes(nodes, str(source))
    groups: dict[str, Group] = {}
    for file in sources(source) if source.is_dir() else (source,):
        for name, read in _groups(file).items():
            _merge(groups.setdefault(name, Group()), read)
    hosts = dict.fromkeys(host for group in groups.values() for host in group.hosts)
    if not hosts:
        raise InventoryError(f"{source}: names no host", hint="name an inventory that has some")
    beside = source if source.is_dir() else source.parent
    of_groups = _beside(beside / "group_vars", ["all", "ungrouped", *groups])
    return gather(groups, str(source), of_groups, _beside(beside / "host_vars", hosts))


def _ask_kubectl(kubeconfig: Path) -> str:
    """What ``kubectl get nodes -o json`` prints of the cluster that its current context names.

    :raises InventoryError: there is no kubectl, it says no, or others may write the file, which
        names programs that kubectl runs to log in.
    """
    hint = f"try it by hand: kubectl --kubeconfig {kubeconfig} get nodes"
    if why := others_may_write(kubeconfig):
        raise InventoryError(f"nobody is asked: {why}", hint="chmod go-w FILE")
    if (program := shutil.which("kubectl")) is None:
        raise InventoryError(
            f"{kubeconfig}: a kubeconfig, and there is no kubectl",
            hint="install it here; or elsewhere: kubectl get nodes -o json > nodes.json",
        )
    words = [program, "--kubeconfig", str(kubeconfig), "--request-timeout=60s"]
    return answer_of([*words, "get", "nodes", "-o", "json"], kubeconfig, hint)[0]


def _nodes_of(text: str) -> list[Any] | None:
    """The items of a list of the Kubernetes API; None where this is none. Any: they are JSON."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        told = read_json(text)
    except Unreadable:
        return None
    items = told.get("items") if told.get("kind") in ("List", "NodeList") else None
    return items if isinstance(items, list) else None


def read_kubernetes(items: list[Any], file: str) -> Inventory:
    """The nodes of what ``kubectl get nodes -o json`` printed, and each label as a group.

    A label is a group by its key, and by KEY=VALUE; a node is reached at its InternalIP.

    :raises InventoryError: they are something else than nodes.
    """
    hosts: dict[str, Host] = {}
    groups: dict[str, list[str]] = {}
    try:
        for item in items:
            name = plain_name(item["metadata"]["name"], file)
            told = item["status"]["addresses"]
            own = (each["address"] for each in told if each["type"] == "InternalIP")
            address = plain_name(next(own, name), file)  # the first is that of its first family
            source = (("address", f"{file}, InternalIP"),)
            if name in hosts:
                raise InventoryError(
                    f"{file}: names {name} twice", hint="give the list of one cluster"
                )
            hosts[name] = Host(name, address=address if address != name else "", sources=source)
            for key, value in (item["metadata"].get("labels") or {}).items():
                for group in {key, f"{key}={value}"}:
                    groups.setdefault(group, []).append(name)
    except (AttributeError, KeyError, TypeError) as why:
        hint = "as it is printed by: kubectl get nodes -o json"
        raise InventoryError(f"{file}: these are no nodes of Kubernetes", hint=hint) from why
    if not hosts:
        raise InventoryError(
            f"{file}: names no host", hint="kubectl get nodes -o json, with -l KEY"
        )
    return Inventory(hosts, {group: tuple(names) for group, names in groups.items()})


def _groups(file: Path) -> dict[str, Group]:
    text = read_host_text(file)
    if os.access(file, os.X_OK) and text.startswith("#!"):
        return ask_ansible(file, "a program")
    if file.suffix in _YAML or _looks_like_yaml(text):
        if _PLUGIN.search(text):
            return ask_ansible(file, "the configuration of a plugin")
        return read_yaml(text, str(file))
    return read_ini(text, str(file))


def _merge(group: Group, more: Group) -> None:
    for host, values in more.hosts.items():
        group.hosts.setdefault(host, {}).update(values)
    group.children += more.children
    group.values |= more.values


def _beside(folder: Path, names: Iterable[str]) -> dict[str, dict[str, VariableValue]]:
    """The variables of these groups or hosts that files of ``folder`` have.

    :raises InventoryError: a file is a vault, or cannot be read.
    """
    found: dict[str, dict[str, VariableValue]] = {}
    for name, file in vars_files(folder, dict.fromkeys(names)):
        text = read_host_text(file)
        if text.startswith(VAULT):
            raise InventoryError(
                f"{file}: a vault, which only Ansible can open",
                hint="say how hosts are reached in a clear file beside it; the rest may stay there",
            )
        found.setdefault(name, {}).update(_values(_root(text, str(file)), str(file)))
    return found


def _looks_like_yaml(text: str) -> bool:
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith(("---", "{")) or (first.endswith(":") and "[" not in first)


def read_ini(text: str, file: str) -> dict[str, Group]:
    """The groups of an inventory; hosts above the first section are in "all" alone.

    :raises InventoryError: at the first line that cannot be read, with its number.
    """
    groups: dict[str, Group] = {"all": Group()}
    name, kind = "all", "hosts"
    for number, raw in enumerate(text.split("\n"), start=1):
        line, where = raw.strip(), f"{file}:{number}"
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and (section := _SECTION.fullmatch(line)):
            name, kind = section[1].strip(), section[2] or "hosts"
            if kind not in ("hosts", "children", "vars"):
                hint = "sections are [group], [group:children] and [group:vars]"
                raise InventoryError(f"{where}: {line!r} is no section", hint=hint)
            groups.setdefault(name, Group())
        elif kind == "vars":
            key, value = _variable(line, where)
            groups[name].values[key] = value
        elif kind == "children":
            words = _words(line, where)
            if len(words) != 1:
                raise InventoryError(
                    f"{where}: {line!r}: one group a line is a child",
                    hint="write each child on a line of its own",
                )
            groups[name].children.append(words[0])
        else:
            _add_hosts(groups, name, line, where)
    return groups


def _add_hosts(groups: dict[str, Group], name: str, line: str, where: str) -> None:
    pattern, *rest = _words(line, where)
    values: dict[str, VariableValue] = {}
    for word in rest:
        key, equals, text = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", key):
            raise InventoryError(
                f"{where}: {word!r} is not a variable", hint="write name=value, without blanks"
            )
        values[key] = VariableValue(text, where)
    _add_named(groups, name, pattern, values, where)


def _add_named(
    groups: dict[str, Group],
    group: str,
    pattern: str,
    values: dict[str, VariableValue],
    where: str,
) -> None:
    for host, port in host_names(pattern, where):
        own = {"ansible_port": VariableValue(str(port), where)} if port else {}
        groups[group].hosts.setdefault(host, {})
        groups["all"].hosts.setdefault(host, {}).update(own | values)


def _variable(line: str, where: str) -> tuple[str, VariableValue]:
    found = _VARIABLE.fullmatch(line)
    if found is None:
        raise InventoryError(f"{where}: {line!r} is not a variable", hint="write name = value")
    text = found[2]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return found[1], VariableValue(text, where)


def _words(line: str, where: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as why:
        raise InventoryError(f"{where}: {line!r}: {why}", hint="a quote is not closed") from why


def read_yaml(text: str, file: str) -> dict[str, Group]:
    """The groups of an inventory.

    :raises InventoryError: for what is not YAML, and for a shape that Ansible does not
        document, with the line.
    """
    groups: dict[str, Group] = {"all": Group()}
    for name, node, where in _pairs(_root(text, file), file):
        if name == "_meta":
            raise InventoryError(
                f"{where}: this is the JSON of ansible-inventory --list",
                hint="let it write YAML: ansible-inventory --list --yaml > hosts.yml",
            )
        _add_group(groups, name, node, file)
    return groups


def _root(text: str, file: str) -> yaml.Node | None:
    try:
        return read_yaml_nodes(text)
    except Unreadable as why:
        line = f":{why.line}" if why.line else ""
        raise InventoryError(
            f"{file}{line}: {why}", hint="see what Ansible reads: ansible-inventory --list --yaml"
        ) from why


def _add_group(groups: dict[str, Group], name: str, node: yaml.Node, file: str) -> None:
    group = groups.setdefault(name, Group())
    for key, value, where in _pairs(node, file):
        if key == "hosts":
            for pattern, values, at in _pairs(value, file):
                _add_named(groups, name, pattern, _values(values, file), at)
        elif key == "vars":
            group.values.update(_values(value, file))
        elif key == "children":
            for child, inner, _ in _pairs(value, file):
                if name != "all":  # everything is a child of "all"
                    group.children.append(child)
                _add_group(groups, child, inner, file)
        else:
            raise InventoryError(
                f"{where}: {key!r} in group {name!r}", hint="groups have hosts, vars and children"
            )


def _values(node: yaml.Node | None, file: str) -> dict[str, VariableValue]:
    """The plain variables, and which are in a vault; lists and tables say nothing of the way."""
    import yaml  # noqa: PLC0415 9 ms for who has it in another form

    return {
        key: VariableValue(value.value, where, vault=value.tag in _VAULTS)
        for key, value, where in _pairs(node, file)
        if isinstance(value, yaml.ScalarNode)
        and (value.tag in (*_VAULTS, "!unsafe") or not re.match("!(?!!)", value.tag))
    }


def _pairs(node: yaml.Node | None, file: str) -> Iterator[tuple[str, yaml.Node, str]]:
    """The entries of a mapping: key, value, "FILE:LINE". Nothing stands for an empty one."""
    import yaml  # noqa: PLC0415 likewise

    if node is None or (isinstance(node, yaml.ScalarNode) and node.value in _NULLS):
        return
    if not isinstance(node, yaml.MappingNode):
        raise InventoryError(
            f"{file}:{node.start_mark.line + 1}: a mapping is expected here",
            hint="write 'gpu01:' with a colon, not '- gpu01'",
        )
    for key, value in node.value:
        where = f"{file}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise InventoryError(
                f"{where}: a name is expected here", hint="write hosts and groups as keys: NAME:"
            )
        if key.tag == _MERGE:
            raise InventoryError(
                f"{where}: '<<' takes another mapping in, which we do not", hint="write it out"
            )
        yield key.value, value, where
