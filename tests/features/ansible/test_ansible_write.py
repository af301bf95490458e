"""The inventory that Ansible gets: every way to a host, and no name that means something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from toolkit.errors import UsageError
from toolkit.features.ansible.io import Manners, aliases, inventory
from toolkit.hosts.host import Host
from toolkit.hosts.inventory import read_inventory

HOSTS = (
    Host("gpu001", groups=("rack1", "rack-2")),
    Host("gpu002", address="10.0.0.2", user="ops", port=2222, groups=("rack1",)),
    Host("gpu003", user="root", key_file="/home/op/my key"),
    Host("gpu004", jump="ops@gate:2200,gate2", options=(("IdentityAgent", "none"),)),
)
# Each would be a pattern, a group, a number or a truth to Ansible or to YAML.
HOSTILE = (
    *("root@gpu1:2222", "::1", "fe80::1%eth0", "vagrant://node1", "localhost", "all", "ungrouped"),
    *("no", "null", "0x10", "1e3", "007", "12:30", "~", "rack1", "a_b", "a:b", "-", "127.0.0.1"),
)


def written(*hosts: Host, manners: Manners | None = None) -> str:
    named = aliases([host.name for host in hosts], {g for host in hosts for g in host.groups})
    return inventory(hosts, named, manners or Manners(), {"gdr_profile": "peermem"})


def entries(text: str) -> dict[str, dict[str, str | int | bool]]:
    found: dict[str, dict[str, str | int | bool]] = yaml.safe_load(text)["all"]["hosts"]
    return found


def test_the_way_to_each_host_is_carried_over() -> None:
    found = entries(written(*HOSTS))
    strict = "-o StrictHostKeyChecking=yes -o ServerAliveInterval=15"
    assert found["gpu001"] == {
        "gdr_name": "gpu001", "ansible_become": True, "ansible_ssh_common_args": strict
    }  # fmt: skip
    assert found["gpu002"]["ansible_host"] == "10.0.0.2"
    assert (found["gpu002"]["ansible_user"], found["gpu002"]["ansible_port"]) == ("ops", 2222)
    assert found["gpu003"]["ansible_ssh_private_key_file"] == "/home/op/my key"
    assert found["gpu003"]["ansible_become"] is False, "root needs no sudo"
    jump = f"{strict} -o ProxyJump=ops@gate:2200,gate2 -o IdentityAgent=none"
    assert found["gpu004"]["ansible_ssh_common_args"] == jump


def test_we_read_back_what_we_have_written(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yml"
    file.write_text(written(*HOSTS))
    found = read_inventory(file)
    for host in HOSTS:
        back = found.hosts[host.name]
        for field in ("address", "user", "port", "jump", "key_file"):
            assert getattr(back, field) == getattr(host, field), f"{host.name}: {field}"
    assert found.groups["rack1"] == ("gpu001", "gpu002")
    assert "rack-2" not in found.groups, "Ansible takes no such name for a group"


def test_a_site_configuration_and_its_manners_are_named() -> None:
    text = written(HOSTS[0], manners=Manners(become=False, ssh_config="/etc/my site/config"))
    found = entries(text)["gpu001"]
    assert str(found["ansible_ssh_common_args"]).startswith("-F '/etc/my site/config' -o Strict")
    assert found["ansible_become"] is False
    local = entries(written(Host("here"), manners=Manners(local=True)))["here"]
    assert local == {"gdr_name": "here", "ansible_connection": "local", "ansible_become": True}


def test_hostile_names_get_names_of_which_none_means_anything_else() -> None:
    named = aliases(HOSTILE, {"rack1"})
    assert list(named) == list(HOSTILE)
    assert len(set(named.values())) == len(HOSTILE)
    assert not set(named.values()) & {"all", "ungrouped", "localhost", "127.0.0.1", "rack1", "-"}
    found = entries(inventory([Host(name) for name in HOSTILE], named))
    assert set(found) == set(named.values()), "YAML made something else of a name"
    for name, alias in named.items():
        assert "/" not in alias
        assert ":" not in alias
        assert found[alias]["gdr_name"] == name
        assert found[alias].get("ansible_host", name) == name


def test_the_hosts_that_have_a_bundle_are_a_group() -> None:
    text = inventory(HOSTS, aliases(host.name for host in HOSTS), busy=("gpu002",))
    assert yaml.safe_load(text)["all"]["children"]["gdr_bundles"] == {"hosts": {"gpu002": None}}


def test_a_group_whose_name_means_something_else_to_ansible_is_left_out() -> None:
    text = written(Host("gpu1", groups=("all", "rack1", "gdr_bundles", "localhost")))
    assert set(yaml.safe_load(text)["all"]["children"]) == {"gdr_bundles", "rack1"}
    assert yaml.safe_load(text)["all"]["children"]["gdr_bundles"] == {"hosts": {}}
    bare = inventory([Host("gpu1")], {"gpu1": "gpu1"})
    assert yaml.safe_load(bare)["all"]["vars"] == {}


def test_a_value_that_ansible_would_evaluate_is_refused() -> None:
    with pytest.raises(UsageError, match=r"gpu1: Ansible would take '.*' for a template"):
        written(Host("gpu1", key_file="/keys/{{ name }}"))


def test_a_machine_that_is_away_is_named() -> None:
    with pytest.raises(UsageError, match="vagrant://node1 is not created"):
        written(Host("vagrant://node1", away="not created"))
