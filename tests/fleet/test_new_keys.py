"""A host with a file of keys of its own: its first key is taken, any other is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Site
from tests.fleet.sshd import Sshd
from toolkit.errors import HostKeyError
from toolkit.hosts.host import Host

pytestmark = pytest.mark.sshd


def machine(sshd: Sshd, keys: Path) -> Host:
    """The server as a machine that Vagrant made: nobody has seen its key before."""
    host = sshd.host()
    known = tuple(each for each in host.options if "knownhosts" not in each[0].lower())
    return replace(host, options=known, new_keys=str(keys))


def test_the_first_key_is_taken_into_that_file_alone(
    site: Site, sshd: Sshd, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    assert site.open(machine(sshd, keys)).run("echo in\n").stdout == "in\n"
    assert site.open(machine(sshd, keys)).run("echo again\n").stdout == "again\n"
    assert "ssh-" in keys.read_text()
    assert [path.name for path in tmp_path.rglob("*known_hosts*")] == []


def swap_key(file: Path) -> None:
    """Another key of the same kind under the same name."""
    names, kind, blob = file.read_text().splitlines()[0].split()
    file.write_text(f"{names} {kind} {blob[:-8]}AAAAAAAA\n")


def test_another_key_is_refused_as_everywhere(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "keys"
    site.open(machine(sshd, known)).run("true\n")
    swap_key(known)
    with pytest.raises(HostKeyError, match="the host key has CHANGED"):
        site.open(machine(sshd, known)).run("true\n")


def test_a_host_without_such_a_file_is_refused_while_its_key_is_unknown(
    site: Site, sshd: Sshd, tmp_path: Path
) -> None:
    host = replace(machine(sshd, tmp_path / "keys"), new_keys="")
    site.write(f"UserKnownHostsFile {tmp_path}/none", "StrictHostKeyChecking no")
    with pytest.raises(HostKeyError, match="is not known"):
        site.open(host).run("true\n")


def test_what_is_known_elsewhere_does_not_count(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    """An address of a private network was another machine's yesterday."""
    stale = tmp_path / "stale"
    keys = tmp_path / "keys"
    site.open(machine(sshd, stale)).run("true\n")
    swap_key(stale)
    site.write(f"UserKnownHostsFile {stale}")
    assert site.open(machine(sshd, keys)).run("echo in\n").stdout == "in\n"
