"""Ansible's YAML inventories, read as nodes: each error knows its line, no tag is run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from toolkit.errors import InventoryError
from toolkit.hosts.ansible import Group, Value, host_names
from toolkit.untrusted import Unreadable, read_yaml_nodes

_NULLS = ("", "~", "null", "Null", "NULL")


def read_yaml(text: str, file: str) -> dict[str, Group]:
    """The groups of an inventory.

    :raises InventoryError: for what is not YAML, and for a shape that Ansible does not
        document, with the line.
    """
    try:
        root = read_yaml_nodes(text)
    except Unreadable as why:
        line = f":{why.line}" if why.line else ""
        raise InventoryError(
            f"{file}{line}: {why}", hint="see what Ansible reads: ansible-inventory --list --yaml"
        ) from why
    groups: dict[str, Group] = {"all": Group()}
    for name, node, where in _pairs(root, file):
        if name == "_meta":
            raise InventoryError(
                f"{where}: this is the JSON of ansible-inventory --list",
                hint="let it write YAML: ansible-inventory --list --yaml > hosts.yml",
            )
        _add_group(groups, name, node, file)
    return groups


def _add_group(groups: dict[str, Group], name: str, node: yaml.Node, file: str) -> None:
    group = groups.setdefault(name, Group())
    for key, value, where in _pairs(node, file):
        if key == "hosts":
            for pattern, values, at in _pairs(value, file):
                found = _values(values, file)
                for host, port in host_names(pattern, at):
                    own = {"ansible_port": Value(str(port), at)} if port else {}
                    group.hosts.setdefault(host, {}).update(own | found)
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


def _values(node: yaml.Node, file: str) -> dict[str, Value]:
    """The plain variables; lists, tables and vault texts say nothing about the way."""
    return {
        key: Value(value.value, where)
        for key, value, where in _pairs(node, file)
        if isinstance(value, yaml.ScalarNode) and not re.match("!(?!!)", value.tag)
    }


def _pairs(node: yaml.Node | None, file: str) -> Iterator[tuple[str, yaml.Node, str]]:
    """The entries of a mapping: key, value, "FILE:LINE". Nothing stands for an empty one."""
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
        yield key.value, value, where
