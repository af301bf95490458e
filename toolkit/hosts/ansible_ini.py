"""Ansible's INI inventories: sections of hosts, of children, of variables."""

from __future__ import annotations

import re
import shlex

from toolkit.errors import InventoryError
from toolkit.hosts.ansible import Group, Value, host_names

_SECTION = re.compile(r"\[([^]:]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)")


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
            _add_hosts(groups[name], line, where)
    return groups


def _add_hosts(group: Group, line: str, where: str) -> None:
    pattern, *rest = _words(line, where)
    values: dict[str, Value] = {}
    for word in rest:
        key, equals, text = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", key):
            raise InventoryError(
                f"{where}: {word!r} is not a variable", hint="write name=value, without blanks"
            )
        values[key] = Value(text, where)
    for name, port in host_names(pattern, where):
        own = {"ansible_port": Value(str(port), where)} if port else {}
        group.hosts.setdefault(name, {}).update(own | values)


def _variable(line: str, where: str) -> tuple[str, Value]:
    found = _VARIABLE.fullmatch(line)
    if found is None:
        raise InventoryError(f"{where}: {line!r} is not a variable", hint="write name = value")
    text = found[2]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return found[1], Value(text, where)


def _words(line: str, where: str) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as why:
        raise InventoryError(f"{where}: {line!r}: {why}", hint="a quote is not closed") from why
    if not words:
        raise InventoryError(
            f"{where}: {line!r} names nothing", hint="a line begins with a host's or a group's name"
        )
    return words
