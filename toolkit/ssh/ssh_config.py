"""What ~/.ssh/config says about a host, for transports that do not read it themselves.

StrictHostKeyChecking is not among the keywords that count: an unknown host key is
refused whatever the file says.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.hosts.addresses import parse_spot
from toolkit.hosts.host import Host
from toolkit.package_data import from_home
from toolkit.ssh.ssh_config_file import (
    ConfigLine,
    HostConfig,
    look_up,
    parse_setting,
    read_settings,
)
from toolkit.ssh.transport_errors import Door

USER_FILE, SYSTEM_FILE = "~/.ssh/config", "/etc/ssh/ssh_config"
DEFAULT_KEYS = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_DEEPEST = 8  # jumps behind jumps


class Target(Struct, frozen=True):
    """Where to go, as whom, with what and through what: all that was configured."""

    door: Door
    timeout_s: float | None  # for the TCP connection alone
    known_hosts: tuple[str, ...]
    key_files: tuple[str, ...]
    keys_configured: bool  # False: key_files are the defaults, which need not exist
    certificates: tuple[str, ...]
    identities_only: bool
    agent: str  # "" for $SSH_AUTH_SOCK, "none", or a socket's path
    new_keys: str = ""  # as in Host
    revoked: str = ""  # RevokedHostKeys: a file of keys that are refused for any host
    jumps: tuple[Target, ...] = ()  # the first is the one to connect to directly


class SshConfig(Struct, frozen=True):
    """The settings of the configuration, read once, asked for each host."""

    settings: tuple[ConfigLine, ...] = ()

    @classmethod
    def load(cls, file: Path | None = None) -> SshConfig:
        """Read ``file`` alone (as ``ssh -F`` does), or the user's and the system's.

        :raises UsageError: ``file`` is not there; one of them cannot be read or evaluated.
        """
        if file is None:
            # Nothing is to be had of a home that may not be entered: root's, for another user.
            own = [from_home(USER_FILE)] * os.access(from_home("~"), os.X_OK)
            files = [*own, Path(SYSTEM_FILE)]
            for each in own:
                _refuse_others(each)
        elif str(file).lower() == "none":  # as ssh -F has it
            files = []
        elif file.is_file():
            files = [file]
        else:
            raise UsageError(f"{file}: no such ssh_config file", hint="see --ssh-config")
        return cls(tuple(setting for each in files for setting in read_settings(each)))

    def target(self, host: Host, *, depth: int = 0) -> Target:
        """All that is configured for one host; what the operator wrote goes first.

        :raises UsageError: a hop is no host, or jumps lead in a circle.
        """
        found = look_up(self.settings, _own(host), host.address or host.name)
        jumps = self._jumps(found.expand(found.text("proxyjump")), depth)
        command = "" if jumps else found.expand(found.text("proxycommand"))
        command = "" if command.lower() == "none" else command
        known = _files(found, "userknownhostsfile", KNOWN_HOSTS)
        known += _files(found, "globalknownhostsfile", SYSTEM_KNOWN_HOSTS)
        known = (host.new_keys,) if host.new_keys else known
        door = Door(
            host=host.name,
            address=found.address,
            port=int(found.text("port", "22")),
            user=found.user,
            key_name=found.text("hostkeyalias"),
            known_hosts=known[0] if known else KNOWN_HOSTS[0],
            through=bool(jumps or command),
            proxy=command,
        )
        return Target(
            door=door,
            timeout_s=found.seconds("connecttimeout") or None,
            known_hosts=known,
            key_files=_files(found, "identityfile", DEFAULT_KEYS),
            keys_configured="identityfile" in found.values,
            certificates=_files(found, "certificatefile", ()),
            identities_only=found.text("identitiesonly", "no").lower() == "yes",
            agent=found.expand(found.text("identityagent")),
            new_keys=host.new_keys,
            revoked=next(iter(_files(found, "revokedhostkeys", ())), ""),
            jumps=jumps,
        )

    def where(self, host: Host) -> dict[str, str]:
        """The line that says each keyword that counts, as "FILE:LINE"; "" for the host's own."""
        return look_up(self.settings, _own(host), host.address or host.name).where

    def _jumps(self, text: str, depth: int) -> tuple[Target, ...]:
        if text.lower() in ("", "none"):
            return ()
        if depth >= _DEEPEST:
            raise UsageError(
                f"ProxyJump {text}: more than {_DEEPEST} jumps, or a circle",
                hint="see it with ssh -G HOST, and mend ssh_config",
            )
        hops: list[Target] = []
        for hop in text.split(","):
            spot = parse_spot(hop.strip().removeprefix("ssh://"))
            host = Host(hop.strip(), address=spot.host, user=spot.user, port=spot.port)
            # Only the first hop's own jumps count: the others are reached through it.
            if hops:
                host = Host(host.name, host.address, host.user, host.port, jump="none")
            hop_target = self.target(host, depth=depth + 1)
            hops += [*hop_target.jumps, hop_target]
        return tuple(hops)


def _refuse_others(file: Path) -> None:
    """As ssh does: what others may write to could send us anywhere.

    :raises UsageError: they may.
    """
    try:
        found = file.stat()
    except OSError:
        return  # not there, or said where it is read
    if found.st_uid not in (0, os.getuid()) or found.st_mode & 0o022:
        raise UsageError(
            f"{file}: others may write to it, and ssh does not read it then",
            hint=f"chmod go-w {file}, and see whose it is",
        )


def _own(host: Host) -> list[ConfigLine]:
    """The host's own fields: in ssh_config the first value found counts."""
    fields = {
        "user": host.user,
        "port": str(host.port or ""),
        "proxyjump": host.jump,
        "identityfile": host.key_file,
    }
    own = [ConfigLine(key, (value,), None) for key, value in fields.items() if value]
    try:
        parsed = [parse_setting(f"{key} {value}") for key, value in host.options]
    except ValueError as why:
        raise UsageError(
            f"{host.name}: an option of its own: {why}", hint="mend it in the inventory"
        ) from why
    return own + [ConfigLine(key, words, None) for key, words in parsed if words]


def _files(found: HostConfig, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    words = found.values.get(key, default)
    return tuple(found.expand(word) for word in words if word.lower() != "none")
