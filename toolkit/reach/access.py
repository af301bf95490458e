"""How nodes are reached in one run: the transport, its configuration, the secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from toolkit.hosts import Host
from toolkit.reach.credentials import Credentials
from toolkit.reach.openssh import OpensshTransport
from toolkit.reach.ssh import SshTransport
from toolkit.reach.ssh_config import SshConfig
from toolkit.reach.transport import Transport


class Kind(StrEnum):
    """The transports that reach nodes over SSH."""

    PARAMIKO = "paramiko"
    OPENSSH = "openssh"


@dataclass(frozen=True)  # no slots: the configuration is read once, at the first use
class Access:
    """Opens transports, all alike."""

    kind: Kind = Kind.PARAMIKO
    ssh_config: Path | None = None  # None: ~/.ssh/config and the system's
    credentials: Credentials = field(default_factory=Credentials)
    become: bool = True  # sudo where the login is not root

    def open(self, host: Host) -> Transport:
        """The way to ``host``; nothing is sent before its first script.

        :raises UsageError: the configuration cannot be read, or asks for what cannot be.
        """
        if self.kind is Kind.OPENSSH:
            return OpensshTransport(
                host,
                ssh_config=self.ssh_config,
                credentials=self.credentials,
                become=self.become,
            )
        return SshTransport(
            host, config=self._config, credentials=self.credentials, become=self.become
        )

    @cached_property
    def _config(self) -> SshConfig:
        return SshConfig.load(self.ssh_config)
