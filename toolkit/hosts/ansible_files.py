"""What Ansible finds beside an inventory's file, and what only Ansible can read.

ansible/ansible (lib/ansible): inventory/manager.py parse_source, which files of a folder count;
plugins/vars/host_group_vars.py and parsing/dataloader.py find_vars_files, which files of
variables; cli/inventory.py, the JSON that ``ansible-inventory --list`` prints.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolkit.errors import InventoryError
from toolkit.hosts.ansible import Group, VariableValue, plain_name
from toolkit.untrusted import Unreadable, read_json

VAULT = "$ANSIBLE_VAULT;"
_PASSED_OVER = re.compile(
    r"\.|(?:host_vars|group_vars|vars_plugins)$"
    r"|.*(?:\.pyc|\.pyo|\.swp|\.bak|~|\.rpm|\.md|\.txt|\.rst|\.orig|\.cfg|\.retry)$"
)
_ENDINGS = ("", ".yml", ".yaml", ".json")
_ASKED_S = 120  # a cloud may have to be asked page by page


def sources(folder: Path) -> Iterator[Path]:
    """The files of a folder that is an inventory, in Ansible's order.

    :raises InventoryError: one of them is not to be trusted.
    """
    for each in sorted(folder.iterdir()):
        if _PASSED_OVER.match(each.name) is None:
            yield from sources(each) if _trusted(each).is_dir() else (each,)


def _trusted(found: Path) -> Path:
    """What was found and not named: no other user may have put it there.

    :raises InventoryError: in a folder that all may write to it is another's, or it is neither a
        file nor a folder.
    """
    beside, own, mode = found.parent.stat(), found.lstat(), found.stat().st_mode
    shared = beside.st_mode & stat.S_ISVTX and beside.st_mode & stat.S_IWOTH
    if shared and own.st_uid not in {os.geteuid(), beside.st_uid}:
        raise InventoryError(
            f"{found}: is user {own.st_uid}'s, in a folder that all may write to",
            hint="keep the inventory where nobody else may write",
        )
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InventoryError(f"{found}: neither a file nor a folder", hint="take it away")
    return found


def vars_files(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Each file with variables of one of these groups or hosts, in the order in which they count.

    :param folder: ``group_vars`` or ``host_vars``.
    """
    if not folder.is_dir():
        return
    _trusted(folder)
    there = {each.name: each for each in folder.iterdir()}
    for name in names:
        found = next((there[name + end] for end in _ENDINGS if name + end in there), None)
        if found is not None:
            yield from ((name, each) for each in _within(found))


def _within(found: Path) -> Iterator[Path]:
    if not _trusted(found).is_dir():
        yield found
        return
    for each in sorted(found.iterdir()):
        if each.name.startswith(".") or each.name.endswith("~"):
            continue
        if each.is_dir():
            yield from _within(each) if not each.suffix else ()
        elif each.suffix in _ENDINGS:
            yield each


def ask_ansible(source: Path, why: str) -> dict[str, Group]:
    """The groups of a source that only Ansible can read, as Ansible tells them.

    :param why: what it is, for the sentence where there is no Ansible: "a program".
    :raises InventoryError: there is none, or it says no.
    """
    program = shutil.which("ansible-inventory")
    if program is None:
        raise InventoryError(
            f"{source}: {why}, which only Ansible can read",
            hint="install ansible-core here; or elsewhere: ansible-inventory --list --yaml --export"
            " > plain.yml",
        )
    words = [program, "--inventory", str(source), "--list"]
    told, said = answer_of(words, source, _BY_HAND)
    if "Unable to parse" in said:  # a warning of its, after which it lists nobody
        raise InventoryError(f"{source}: Ansible cannot read it", hint=_BY_HAND)
    return listed(told, str(source))


_BY_HAND = "try it by hand: ansible-inventory --list"


def answer_of(words: list[str], source: Path, hint: str) -> tuple[str, str]:
    """What a program that can read a source prints of it, and on standard error.

    :raises InventoryError: it says no, or does not answer.
    """
    name = Path(words[0]).name
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASKED_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise InventoryError(f"{source}: {name}: {failed}", hint=hint) from failed
    said = ended.stderr.decode("utf-8", "replace")
    if ended.returncode:
        lines = [line for line in said.split("\n") if line.strip()]
        told = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
        raise InventoryError(f"{source}: {name}: {told.strip()[:300]}", hint=hint)
    return ended.stdout.decode("utf-8", "replace"), said


def listed(text: str, where: str) -> dict[str, Group]:
    """The groups of what ``ansible-inventory --list`` printed; hosts have all their variables.

    :raises InventoryError: it is something else.
    """
    try:
        told = read_json(text)
        hosts = told["_meta"]["hostvars"]
        groups = {
            name: Group(
                {
                    plain_name(host, where): _values(hosts.get(host, {}), where)
                    for host in _texts(each, "hosts")
                },
                [] if name == "all" else _texts(each, "children"),
            )
            for name, each in told.items()
            if name not in ("_meta", "ungrouped")
        }
        rest = {plain_name(host, where): _values(each, where) for host, each in hosts.items()}
    except (Unreadable, AttributeError, KeyError, TypeError) as why:
        raise InventoryError(
            f"{where}: this is not what ansible-inventory --list prints", hint=_BY_HAND
        ) from why
    for group in groups.values():  # in place of a table of variables some hosts have none
        rest.update({host: {} for host in group.hosts if host not in rest})
    groups.setdefault("all", Group()).hosts.update(rest)
    for each in [child for group in groups.values() for child in group.children]:
        groups.setdefault(each, Group())  # one without hosts is named as a child alone
    return groups


def _texts(group: dict[str, object], key: str) -> list[str]:
    """:raises TypeError: it is no list of texts."""
    told = group.get(key, [])
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        raise TypeError(key)
    return told


def _values(variables: dict[str, object], where: str) -> dict[str, VariableValue]:
    plain = {
        name: value["__ansible_unsafe"]
        if isinstance(value, dict) and "__ansible_unsafe" in value
        else value
        for name, value in variables.items()
    }
    return {
        name: VariableValue(str(value), where)
        for name, value in plain.items()
        if isinstance(value, str | int)
    } | {
        name: VariableValue("", where, vault=True)
        for name, value in variables.items()
        if isinstance(value, dict) and "__ansible_vault" in value
    }
