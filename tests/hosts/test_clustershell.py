"""Groups of ClusterShell as an inventory, read by its own library."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import InventoryError
from toolkit.hosts.host import Inventory, select
from toolkit.hosts.inventory import read_inventory

CONF = "[Main]\ndefault: racks\nautodir: {0}/groups.d\n[lab]\nmap: echo lab[1-2]\nlist: echo {1}\n"
RACKS = "racks:\n  r1: 'gpu[01-03]'\n  r2: 'gpu04'\n  all: '@r1,@r2'\nroles:\n  login: 'login1'\n"


def site(folder: Path, conf: str = CONF, groups: str = RACKS) -> Path:
    (folder / "groups.d").mkdir()
    (folder / "groups.d/site.yaml").write_text(groups)
    (folder / "groups.conf").write_text(conf.format(folder, "one two"))
    return folder / "groups.conf"


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return read_inventory(site(tmp_path))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("@r1", ["gpu01", "gpu02", "gpu03"]),
        ("@all!@r1", ["gpu04", "lab1", "lab2", "login1"]),
        ("@roles:login", ["login1"]),
        ("@lab:one", ["lab1", "lab2"]),
        ("gpu*&@r2", ["gpu04"]),
    ],
)
def test_a_group_is_named_as_clush_names_it(
    expression: str, names: list[str], inventory: Inventory
) -> None:
    assert sorted(host.name for host in select(expression, inventory)) == names


def test_a_host_has_its_groups(inventory: Inventory) -> None:
    assert inventory.hosts["gpu04"].groups == ("all", "r2")


@pytest.mark.parametrize(
    ("conf", "groups", "why"),
    [
        ("[Main]\ndefault: none\n", RACKS, "none"),
        ("[Main]\ndefault: lab\n[lab]\nmap: false\nlist: echo one\n", RACKS, "groups.conf: "),
        ("[Main]\ndefault: lab\n[lab]\nmap: echo x\n", RACKS, "groups.conf: "),
        ("[Main]\ndefault: racks\nautodir: {0}/groups.d\n", "racks: {}\n", "names no host"),
        ("[Main]\ndefault: racks\nautodir: {0}/groups.d\n", "racks:\n  a: '@a'\n", "groups.conf: "),
        ("[Main]\ndefault: racks\nrubbish\n", RACKS, "groups.conf: "),
        (
            "[Main]\ndefault: lab\n[lab]\nmap: echo -- -oX=y\nlist: echo one\n",
            RACKS,
            "groups.conf: ",
        ),
    ],
    ids=[
        "no-such-source",
        "a-command-fails",
        "lists-nothing",
        "empty",
        "a-circle",
        "no-ini",
        "no-name",
    ],
)
def test_what_it_cannot_tell_is_one_sentence(
    conf: str, groups: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(InventoryError, match=why):
        read_inventory(site(tmp_path, conf, groups))


def test_a_group_main_of_an_ini_inventory_is_no_sign_of_it(tmp_path: Path) -> None:
    (tmp_path / "h.conf").write_text("[Main]\ngpu01\n")
    assert read_inventory(tmp_path / "h.conf").groups == {"Main": ("gpu01",)}
