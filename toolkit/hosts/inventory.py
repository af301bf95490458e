"""Hosts and groups that a site keeps in files: lists of hosts, Ansible inventories."""

from __future__ import annotations

import os
from pathlib import Path

from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.ansible import gather
from toolkit.hosts.ansible_ini import read_ini
from toolkit.hosts.ansible_yaml import read_yaml
from toolkit.hosts.host import MOST, NOTHING, Host, Inventory, select
from toolkit.untrusted import read_file

_YAML = (".yml", ".yaml", ".json")


def read_host_file(file: Path, inventory: Inventory = NOTHING) -> tuple[Host, ...]:
    """The hosts of a file: a set of hosts a line, comments behind "#".

    :raises InventoryError: the file cannot be read, or one line of it, with its number.
    """
    hosts: dict[str, Host] = {}
    for number, raw in enumerate(_text(file).split("\n"), start=1):
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


def read_inventory(file: Path) -> Inventory:
    """Read an Ansible inventory, INI or YAML, by its suffix or else by its looks.

    :raises InventoryError: it cannot be read, with file and line.
    """
    if file.is_dir():
        raise InventoryError(
            f"{file}: a directory", hint="name one file; or ansible-inventory --list --yaml > FILE"
        )
    text = _text(file)
    if text.startswith("#!") and os.access(file, os.X_OK):
        raise InventoryError(
            f"{file}: a program, which is not run",
            hint=f"let Ansible run it: ansible-inventory -i {file} --list --yaml > plain.yml",
        )
    reader = read_yaml if file.suffix in _YAML or _looks_like_yaml(text) else read_ini
    return gather(reader(text, str(file)), str(file))


def _looks_like_yaml(text: str) -> bool:
    lines = (line.strip() for line in text.split("\n"))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith(("---", "{")) or (first.endswith(":") and "[" not in first)


def _text(file: Path) -> str:
    try:
        return read_file(file)
    except UnicodeDecodeError as why:
        raise InventoryError(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from why
    except OSError as why:
        raise InventoryError(
            f"{file}: cannot be read: {why.strerror}", hint="name a file that can be read"
        ) from why
