"""The fleet tier: real SSH on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from tests.fleet.sshd import Keys, Sshd
from toolkit.hosts.host import Host
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.openssh import OpensshTransport
from toolkit.ssh.paramiko import SshTransport
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.transport import Transport


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.make(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def sshd(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One plain server for all tests that only want a node to talk to."""
    with Sshd(tmp_path_factory.mktemp("sshd"), keys=keys) as server:
        yield server


class Kind(StrEnum):
    """The transports that reach nodes over SSH."""

    PARAMIKO = "paramiko"
    OPENSSH = "openssh"


class Site:
    """Opens transports the way an operator's machine would, with a ~/.ssh of its own."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.config = folder / "ssh_config"
        self.config.write_text("")
        self._opened: list[Transport] = []

    def write(self, *lines: str) -> None:
        """The site's ssh_config."""
        self.config.write_text("\n".join(lines) + "\n")

    def open(
        self, host: Host, *, credentials: Credentials | None = None, become: bool = True
    ) -> Transport:
        transport: Transport
        if self.kind is Kind.OPENSSH:
            transport = OpensshTransport(
                host, config_file=str(self.config), credentials=credentials, become=become
            )
        else:
            config = SshConfig.load(self.config)
            transport = SshTransport(host, config=config, credentials=credentials, become=become)
        self._opened.append(transport)
        return transport

    def close(self) -> None:
        for transport in self._opened:
            transport.close()


@pytest.fixture(params=list(Kind))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Every test that asks for it runs over both transports, with one expectation."""
    opened = Site(request.param, tmp_path)
    yield opened
    opened.close()
