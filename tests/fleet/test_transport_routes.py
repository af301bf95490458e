"""The way to a node: jump hosts, proxy commands, and ways that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Site
from tests.fleet.sshd import Keys, Sshd
from tests.ports import free_port
from toolkit.errors import HostKeyError, TransportError
from toolkit.ssh.limits import Wire
from toolkit.ssh.paramiko import SshTransport

pytestmark = pytest.mark.sshd


def _inner(sshd: Sshd, gate: Sshd) -> list[str]:
    """An ssh_config in which the gate is "gate" and the node "node"."""
    known = gate.folder / "both"
    known.write_text(gate.known_hosts.read_text() + sshd.known_hosts.read_text())
    common = [f"  HostName {sshd.address}", f"  User {sshd.host().user}"]
    common += [f"  IdentityFile {sshd.keys.user}", "  IdentitiesOnly yes"]
    common += [f"  UserKnownHostsFile {known}"]
    return [
        *("Host gate", f"  Port {gate.port}", *common),
        *("Host node", f"  Port {sshd.port}", *common),
    ]


@pytest.fixture
def gate(keys: Keys, tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "gate", keys=keys) as server:
        yield server


def test_a_jump_host_is_gone_through(site: Site, sshd: Sshd, gate: Sshd) -> None:
    site.write(*_inner(sshd, gate), "  ProxyJump gate")
    host = replace(sshd.host("node"), address="", port=0, user="", options=(), key_file="")
    assert site.open(host).run("echo through").stdout == "through\n"
    assert "Accepted publickey" in gate.log


def test_a_jump_named_by_the_host_itself_is_gone_through(
    site: Site, sshd: Sshd, gate: Sshd
) -> None:
    site.write(*_inner(sshd, gate))
    assert site.open(replace(sshd.host(), jump="gate")).run("echo through").stdout == "through\n"
    assert "Accepted publickey" in gate.log


def test_jumps_are_chained(site: Site, sshd: Sshd, gate: Sshd, keys: Keys, tmp_path: Path) -> None:
    with Sshd(tmp_path / "second", keys=keys) as second:
        site.write(*_inner(second, gate))  # "node" is the second gate here
        host = replace(sshd.host(), jump="gate,node")
        assert site.open(host).run("echo through").stdout == "through\n"
        assert "Accepted publickey" in gate.log
        assert "Accepted publickey" in second.log


def test_a_jump_host_s_unknown_key_is_refused(
    site: Site, sshd: Sshd, gate: Sshd, tmp_path: Path
) -> None:
    lines = [line.replace("/both", "/none") for line in _inner(sshd, gate)]
    site.write("StrictHostKeyChecking no", *lines)
    with pytest.raises(HostKeyError, match=r"^gate: the host key is not known"):
        site.open(replace(sshd.host(), jump="gate")).run("true")


def test_a_jump_host_that_cannot_reach_the_node_is_named(
    site: Site, sshd: Sshd, gate: Sshd
) -> None:
    site.write(*_inner(sshd, gate))
    with pytest.raises(TransportError, match=r": gate does not connect to 127\.0\.0\.1:\d+"):
        site.open(replace(sshd.host(port=free_port()), jump="gate")).run("true")


def test_a_proxy_command_is_gone_through(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    used = tmp_path / "used"
    relay = tmp_path / "relay"
    relay.write_text(
        "import socket, sys, threading, os\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        f"open({str(used)!r}, 'w').close()\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n"
    )
    site.write(f"ProxyCommand python3 {relay} %h %p")
    assert site.open(sshd.host()).run("echo through").stdout == "through\n"
    assert used.exists()


def test_a_proxy_command_that_fails_is_quoted(site: Site, sshd: Sshd) -> None:
    site.write("ProxyCommand sh -c 'echo no such gate >&2; exit 1'")
    with pytest.raises(TransportError, match=r"the proxy command .* gave no connection.*no such"):
        site.open(sshd.host()).run("true")


def test_a_refused_port_is_said_to_be_one(site: Site, sshd: Sshd) -> None:
    port = free_port()
    with pytest.raises(TransportError, match=rf"127\.0\.0\.1:{port} refuses connections"):
        site.open(sshd.host(port=port)).run("true")


def test_a_name_without_address_is_said_to_be_one(site: Site, sshd: Sshd) -> None:
    host = replace(sshd.host(), address="no-such-name.invalid")
    with pytest.raises(TransportError, match=r"no address is known for 'no-such-name\.invalid'"):
        site.open(host).run("true")


@pytest.mark.parametrize("site", ["paramiko"], indirect=True)
def test_a_jump_host_that_dies_first_costs_no_thread(site: Site, sshd: Sshd, gate: Sshd) -> None:
    """The node's link ends while there is no way left to say good-bye: pytest sees no traceback."""
    site.write(*_inner(sshd, gate))
    transport = site.open(replace(sshd.host(), jump="gate"))
    assert isinstance(transport, SshTransport)
    assert transport.run("echo before").stdout == "before\n"
    assert transport._connection is not None
    inner = transport._connection.transport
    wire = inner.sock
    assert isinstance(wire, Wire)
    leg = wire.inner
    assert isinstance(leg, paramiko.Channel)
    assert leg.transport is not None
    leg.transport.packetizer.close()  # the jump host is gone, and nobody has noticed
    leg.in_buffer.close()  # the node's link ends
    inner.join(60)
    assert not inner.is_alive()
    assert transport.run("echo again").stdout == "again\n"
