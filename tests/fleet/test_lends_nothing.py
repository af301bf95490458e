"""Nothing of the operator's becomes a node's, whatever ssh_config and the inventory ask for."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Site
from tests.fleet.sshd import Keys, Sshd
from tests.ports import free_port
from toolkit.hosts.host import Host

pytestmark = pytest.mark.sshd

SAYS = """f() {
    echo "agent ${SSH_AUTH_SOCK:-none}"
    echo "display ${DISPLAY:-none}"
    echo "tunnels $(ls /sys/class/net | grep -c '^tun')"
    grep -q ":$1 .* 0A " /proc/net/tcp && echo "a port of theirs is open"
    :
}
f PORT
"""


class Lending:
    """Options that lend all there is, and what shows that they did not."""

    def __init__(self, folder: Path) -> None:
        self.ran, self.master = folder / "ran", folder / "master"
        self.local, self.remote, self.dynamic = free_port(), free_port(), free_port()
        self.options = {
            "ForwardAgent": "yes",
            "ForwardX11": "yes",
            "ForwardX11Trusted": "yes",
            "GSSAPIAuthentication": "yes",
            "GSSAPIDelegateCredentials": "yes",
            "LocalForward": f"{self.local} 127.0.0.1:{self.local}",
            "RemoteForward": f"{self.remote} 127.0.0.1:{self.local}",
            "DynamicForward": str(self.dynamic),
            "Tunnel": "yes",
            "PermitLocalCommand": "yes",
            "LocalCommand": f"touch {self.ran}",
            "ControlMaster": "auto",
            "ControlPath": str(self.master),
            "ControlPersist": "60",
        }

    @property
    def lines(self) -> list[str]:
        return [f"  {key} {value}" for key, value in self.options.items()]

    @property
    def script(self) -> str:
        return SAYS.replace("PORT", f"{self.remote:04X}")

    def check(self, said: str) -> None:
        assert said == "agent none\ndisplay none\ntunnels 0\n"
        assert not self.ran.exists()
        assert not self.master.exists()
        for port in (self.local, self.dynamic):
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))


def _host(sshd: Sshd) -> Host:
    """One that may know of the agent."""
    host = sshd.host()
    options = tuple(each for each in host.options if each[0] != "IdentityAgent")
    return replace(host, options=options)


@pytest.fixture
def lending(tmp_path: Path) -> Lending:
    return Lending(tmp_path)


@pytest.fixture(autouse=True)
def agent(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An agent and a display that could be lent."""
    words = ["ssh-agent", "-D", "-a", str(tmp_path / "agent")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as running:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        monkeypatch.setenv("DISPLAY", ":77")
        yield
        running.kill()


def test_nothing_is_lent_that_ssh_config_lends(site: Site, sshd: Sshd, lending: Lending) -> None:
    site.write("Host *", *lending.lines)
    lending.check(site.open(_host(sshd), become=False).run(lending.script, limit_s=30).stdout)


def test_nothing_is_lent_that_the_inventory_lends(site: Site, sshd: Sshd, lending: Lending) -> None:
    host = _host(sshd)
    host = replace(host, options=(*host.options, *lending.options.items()))
    lending.check(site.open(host, become=False).run(lending.script, limit_s=30).stdout)


def test_nothing_is_lent_to_a_jump_host(
    site: Site, sshd: Sshd, keys: Keys, lending: Lending, tmp_path: Path
) -> None:
    with Sshd(tmp_path / "gate", keys=keys) as gate:
        known = tmp_path / "known"
        known.write_text(gate.known_hosts.read_text() + sshd.known_hosts.read_text())
        way = ("IdentitiesOnly yes", f"IdentityFile {keys.user}", f"UserKnownHostsFile {known}")
        site.write("Host *", *lending.lines, *way)
        host = Host("gpu7", address="127.0.0.1", port=sshd.port, jump=f"127.0.0.1:{gate.port}")
        lending.check(site.open(host, become=False).run(lending.script, limit_s=30).stdout)
        assert "Accepted publickey" in gate.log


def test_the_operators_own_connection_is_not_used(
    site: Site, keys: Keys, lending: Lending, tmp_path: Path
) -> None:
    """Whoever opened it may have looked at no host key at all."""
    with Sshd(tmp_path / "own", keys=keys) as own:
        unknown = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        words = ["ssh", "-F", "none", *unknown, "-i", str(keys.user), "-M", "-S"]
        words += [str(lending.master), "-p", str(own.port), "-f", "-N", "127.0.0.1"]
        subprocess.run(words, check=True, timeout=30, stderr=subprocess.DEVNULL)
        try:
            # The client may know that it is in before the server's monitor has written so.
            own.await_log("Accepted publickey", 1)
            site.write("Host *", f"  ControlPath {lending.master}", "  ControlMaster auto")
            assert site.open(own.host(), become=False).run("echo in\n").stdout == "in\n"
            own.await_log("Accepted publickey", 2)
        finally:
            end = ["ssh", "-F", "none", "-S", str(lending.master), "-O", "exit", "127.0.0.1"]
            subprocess.run(end, check=True, timeout=30, stderr=subprocess.DEVNULL)
