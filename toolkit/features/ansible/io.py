"""The hosts of a run as an Ansible inventory in YAML: for a controller that has no toolkit.

What is known of the way to a host is carried over as Ansible's own variables; passwords never are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import yaml
from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.hosts.host import Host

_TEMPLATE = re.compile(r"\{[{%#]")  # Ansible would evaluate it
_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BUSY = "gdr_bundles"  # the group of hosts that have a bundle: a canary has to have something to do
# Names that mean something else to Ansible.
_TAKEN = frozenset({BUSY, "all", "ungrouped", "localhost", "127.0.0.1"})
# Unknown host keys are refused, as by our own transports; and who dies silently is noticed.
_STRICT = ("-o", "StrictHostKeyChecking=yes", "-o", "ServerAliveInterval=15")


class Manners(Struct, frozen=True):
    """How all hosts of a run are reached."""

    become: bool = True  # by sudo, where not logged in as root
    local: bool = False  # the one node is this machine
    ssh_config: str = ""  # absolute; "" for that of the user who runs Ansible


def aliases(names: Iterable[str], groups: Iterable[str] = ()) -> dict[str, str]:
    """Ansible's name by our name of each host: it names a folder, and stands in patterns.

    Most are as they are. ``root@gpu1:2222`` and ``::1`` would be read as patterns there, and a host
    named as a group would be one.
    """
    taken, found = {*_TAKEN, *groups}, {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip("._-") or "node"
        alias, number = plain, 1
        while alias in taken:
            number += 1
            alias = f"{plain}-{number}"
        taken.add(alias)
        found[name] = alias
    return found


def inventory(
    hosts: Sequence[Host],
    named: Mapping[str, str],
    manners: Manners = Manners(),  # noqa: B008 it is frozen, which ruff cannot see of this kind
    values: Mapping[str, str] | None = None,
    busy: Iterable[str] = (),
) -> str:
    """The inventory's text.

    :param named: from ``aliases``.
    :param values: variables of all hosts.
    :param busy: our names of the hosts that have a bundle.
    :raises UsageError: a value that Ansible would take for a template.
    """
    groups: dict[str, list[str]] = {BUSY: [named[name] for name in busy]}
    for host in hosts:
        for group in filter(_GROUP.fullmatch, host.groups):
            if group not in _TAKEN:
                groups.setdefault(group, []).append(named[host.name])
    entries = {named[host.name]: _values(host, named[host.name], manners) for host in hosts}
    members = {name: {"hosts": dict.fromkeys(of)} for name, of in groups.items()}
    document = {"all": {"vars": dict(values or {}), "hosts": entries, "children": members}}
    return "# Written by playbook; read by ansible-playbook -i.\n" + yaml.dump(
        document, Dumper=_Plain, sort_keys=True, default_flow_style=False, allow_unicode=False
    )


class _Plain(yaml.SafeDumper):
    """Two groups with equal hosts are written out, without anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 yaml's own signature
        return True


def _values(host: Host, alias: str, manners: Manners) -> dict[str, str | int | bool]:
    if host.away:
        raise UsageError(f"{host.name} is {host.away}", hint="leave it out: --exclude")
    found: dict[str, str | int | bool] = {"gdr_name": host.name}
    if manners.local:
        return found | {"ansible_connection": "local", "ansible_become": manners.become}
    address = host.address or (host.name if alias != host.name else "")
    own = {"ansible_host": address, "ansible_user": host.user}
    own |= {"ansible_ssh_private_key_file": host.key_file}
    found |= {key: value for key, value in own.items() if value}
    if host.port:
        found["ansible_port"] = host.port
    found["ansible_become"] = manners.become and host.user != "root"
    found["ansible_ssh_common_args"] = shlex.join(_words(host, manners))
    for value in found.values():
        if isinstance(value, str) and _TEMPLATE.search(value):
            raise UsageError(
                f"{host.name}: Ansible would take {value!r} for a template",
                hint="leave out what stands within {{ }}",
            )
    return found


def _words(host: Host, manners: Manners) -> list[str]:
    words = ["-F", manners.ssh_config] if manners.ssh_config else []
    words += _STRICT
    words += ["-o", f"ProxyJump={host.jump}"] if host.jump else []
    return [*words, *(word for key, value in host.options for word in ("-o", f"{key}={value}"))]
