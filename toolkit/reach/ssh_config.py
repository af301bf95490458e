"""What ~/.ssh/config says about a host, for transports that do not read it themselves.

Paramiko's SSHConfig evaluates Host and Match blocks. Added here are what it lacks:
Include, comments behind values, words in quotes, several files, and the meaning of the
keywords we act on (ssh_config(5)). StrictHostKeyChecking is not one of them: an unknown
host key is refused whatever the file says.
"""

from __future__ import annotations

import getpass
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import paramiko

from toolkit.errors import UsageError
from toolkit.hosts import Host
from toolkit.reach.trouble import Door
from toolkit.spots import parse_spot

USER_FILE, SYSTEM_FILE = "~/.ssh/config", "/etc/ssh/ssh_config"
DEFAULT_KEYS = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_SETTING = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_LISTS = ("userknownhostsfile", "globalknownhostsfile", "include")
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_BETWEEN = "\x1f"  # joins the words of a list; no file name has it
_DEEPEST = 8  # jumps, and files that include files (ssh allows 16)


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go, as whom, with what and through what: all that was configured."""

    door: Door
    timeout_s: float | None  # for the TCP connection alone
    known_hosts: tuple[str, ...]
    key_files: tuple[str, ...]
    keys_configured: bool  # False: key_files are the defaults, which need not exist
    certificates: tuple[str, ...]
    identities_only: bool
    agent: str  # "" for $SSH_AUTH_SOCK, "none", or a socket's path
    jumps: tuple[Target, ...] = ()  # the first is the one to connect to directly


@dataclass(frozen=True, slots=True)
class SshConfig:
    """The lines of the configuration, read once, asked for each host."""

    lines: tuple[str, ...] = ()

    @classmethod
    def load(cls, file: Path | None = None) -> SshConfig:
        """Read ``file`` alone (as ``ssh -F`` does), or the user's and the system's.

        :raises UsageError: ``file`` cannot be read; any of them includes too deeply.
        """
        if file is not None:
            if not file.is_file():
                raise UsageError(f"{file}: no such ssh_config file", hint="see --ssh-config")
            return cls(tuple(_read(file, 0)))
        lines = [*_read(Path(USER_FILE).expanduser(), 0), "host *", *_read(Path(SYSTEM_FILE), 0)]
        return cls(tuple(lines))

    def target(self, host: Host, *, depth: int = 0) -> Target:
        """All that is configured for one host; what the operator wrote goes first.

        :raises UsageError: a value makes no sense, or jumps lead in a circle.
        """
        found = self._lookup(host)
        alias = host.address or host.name
        user = found.text("user") or getpass.getuser()
        address = found.text("hostname", alias)
        jumps = self._jumps(found.text("proxyjump"), depth)
        command = "" if jumps else found.text("proxycommand")
        expand = _Expander(alias, address, user)
        known = found.files("userknownhostsfile", KNOWN_HOSTS, expand)
        door = Door(
            host=host.name,
            address=address,
            port=found.number("port", 22),
            user=user,
            key_name=found.text("hostkeyalias"),
            known_hosts=known[0] if known else KNOWN_HOSTS[0],
            through=bool(jumps or command),
            proxy=command,
        )
        identities = [each for each in found.texts("identityfile") if each.lower() != "none"]
        return Target(
            door=door,
            timeout_s=found.number("connecttimeout", 0) or None,
            known_hosts=known + found.files("globalknownhostsfile", SYSTEM_KNOWN_HOSTS, expand),
            key_files=tuple(map(expand, identities or DEFAULT_KEYS)),
            keys_configured=bool(identities),
            certificates=tuple(map(expand, found.texts("certificatefile"))),
            identities_only=found.text("identitiesonly", "no").lower() == "yes",
            agent=expand(found.text("identityagent")),
            jumps=jumps,
        )

    def _lookup(self, host: Host) -> _Found:
        """The host's own fields first: in ssh_config the first value found counts."""
        own = [f"{key} {value}" for key, value in host.options]
        own += [f"User {host.user}"] * bool(host.user)
        own += [f"Port {host.port}"] * bool(host.port)
        own += [f"ProxyJump {host.jump}"] * bool(host.jump)
        own += [f'IdentityFile "{host.key_file}"'] * bool(host.key_file)
        lines = (*map(_normal, own), *self.lines)
        try:
            return _Found(dict(_config(lines).lookup(host.address or host.name)))
        except (paramiko.SSHException, ValueError, KeyError) as why:
            raise UsageError(
                f"{host.name}: the ssh configuration cannot be read: {why}",
                hint="the OpenSSH client may understand it: --transport openssh",
            ) from why

    def _jumps(self, text: str, depth: int) -> tuple[Target, ...]:
        if text.lower() in ("", "none"):
            return ()
        if depth >= _DEEPEST:
            raise UsageError(f"ProxyJump {text}: more than {_DEEPEST} jumps, or a circle")
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


@dataclass(frozen=True, slots=True)
class _Found:
    """A lookup's answer; keywords in lower case."""

    values: dict[str, str | list[str] | None]

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        return value if isinstance(value, str) else default

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key) or []
        return [value] if isinstance(value, str) else value

    def number(self, key: str, default: int) -> int:
        value = self.text(key) or str(default)
        if not re.fullmatch(r"[0-9]{1,9}", value):
            raise UsageError(f"ssh_config: {key} {value!r} is no number")
        return int(value)

    def files(self, key: str, default: tuple[str, ...], expand: _Expander) -> tuple[str, ...]:
        words = self.text(key).split(_BETWEEN) if self.text(key) else default
        return tuple(expand(word) for word in words if word.lower() != "none")


@dataclass(frozen=True, slots=True)
class _Expander:
    """Replaces ~, %-tokens and ${VARIABLES} in file names (ssh_config(5), TOKENS)."""

    alias: str
    address: str
    user: str

    def __call__(self, text: str) -> str:
        tokens = {"d": str(Path.home()), "u": getpass.getuser(), "%": "%"}
        tokens |= {"h": self.address, "n": self.alias, "r": self.user}
        text = re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)
        text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
        return str(Path(text).expanduser()) if text.startswith("~") else text


@lru_cache(maxsize=64)
def _config(lines: tuple[str, ...]) -> paramiko.SSHConfig:
    return paramiko.SSHConfig.from_text("\n".join(lines))


def _read(file: Path, depth: int) -> Iterator[str]:
    """The lines of a file and of those it includes, in a form that Paramiko reads."""
    if depth > _DEEPEST:
        raise UsageError(f"{file}: included too deeply, or in a circle")
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return
    except OSError as why:
        raise UsageError(f"{file}: cannot be read: {why.strerror}") from why
    block = "host *"
    for line in map(_normal, text.split("\n")):
        key, _, value = line.partition(" ")
        if key in ("host", "match"):
            block = line
        if key == "include":
            yield from _included(file, value, block, depth)
        elif key:
            yield line


def _included(file: Path, patterns: str, block: str, depth: int) -> Iterator[str]:
    """The lines of the files that one Include names, then the block it stood in again."""
    base = Path("/etc/ssh") if file.is_relative_to("/etc/ssh") else Path("~/.ssh").expanduser()
    for pattern in patterns.split(_BETWEEN):
        for name in sorted(glob.glob(str(base / Path(pattern).expanduser()))):  # noqa: PTH207 Path.glob refuses absolute patterns
            for line in _read(Path(name), depth + 1):
                starts_block = line.startswith(("host ", "match "))
                if starts_block and block not in ("host *", "match all"):
                    raise UsageError(
                        f"{file}: {block!r} includes {name}, which has blocks of its own",
                        hint="include it above the first Host; or try --transport openssh",
                    )
                yield line
    yield block


def _normal(line: str) -> str:
    """``keyword value`` with quotes and comments taken away; "" for nothing."""
    found = _SETTING.fullmatch(line.rstrip())
    if found is None or line.lstrip().startswith("#"):
        return ""
    key, value = found[1].lower(), found[2]
    if key in _COMMANDS:
        return f"{key} {value}"
    words: list[str] = []
    for quoted, plain in _WORD.findall(value):
        if plain.startswith("#"):
            break
        words.append(quoted or plain)
    return f"{key} " + (_BETWEEN if key in _LISTS else " ").join(words)
