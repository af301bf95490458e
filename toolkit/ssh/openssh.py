"""The second transport: the OpenSSH client, for Kerberos, hardware keys and odd setups.

Same results, same sentences. It reads ~/.ssh/config itself; what would weaken the check
of host keys there is overruled, for jump hosts too, and so is what would lend a node anything
of ours: the agent, a display, tickets, ports. It never prompts.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from toolkit.errors import TransportError, UsageError
from toolkit.hosts.addresses import parse_spot
from toolkit.hosts.host import Host
from toolkit.package_data import from_home
from toolkit.ssh import transport_errors
from toolkit.ssh.become import Become, read_marks, refusal
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import Hearing
from toolkit.ssh.local import run_child
from toolkit.ssh.stream import Lines, conclude, decode
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.ssh.transport_errors import Door

_STRICT = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "VerifyHostKeyDNS": "no",
    "NoHostAuthenticationForLocalhost": "no",
    "UpdateHostKeys": "no",
    "LogLevel": "INFO",  # a quieter one hides why it failed
}
# A node, and a jump host, is looked at and changed; nothing that we have becomes its own.
_LEND_NOTHING = {
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ForwardX11Trusted": "no",
    "GSSAPIDelegateCredentials": "no",
    "ClearAllForwardings": "yes",
    "Tunnel": "no",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",  # one that we started would outlive us
    "ControlPath": "none",  # the operator's own checked the host key in its own way
    "ControlPersist": "no",
}
_PLAIN = {"EscapeChar": "none", "RemoteCommand": "none"}
_FAILED = 255  # the client's own status; the script's is told by its end mark
_SAID = 16384  # characters of what it says when it fails; banners stand before them
_RESOLVE_S = 10.0  # ssh -G reads files and runs Match exec
_SENT = re.compile(r"fingerprint for the (\S+) key sent by the remote host is\s+(SHA256:[\w+/]+)")
_OFFENDING = re.compile(r"Offending (?:\S+ )?key in (.+?:\d+)")
_REVOKED = re.compile(
    r"The \S+ host key for .* is marked as revoked|Host key \S+ \S+ revoked by file (.+)"
)
_NO_LIST = re.compile(r"Error checking host key \S+ \S+ in revoked keys file (.+?): (.+)")
_SERVER_KEY = re.compile(r"Server host key: (\S+) (SHA256:[\w+/]+)")
_DENIED = re.compile(r"Permission denied \(([^)]*)\)")


def explain(
    doors: Sequence[Door], said: str, keys: Sequence[str], verbose: Callable[[], str]
) -> TransportError | None:
    """The error that ``said`` stands for; None where it says nothing of the kind.

    :param doors: the hops, the node last.
    :param keys: the key files that were there to try.
    :param verbose: runs ssh again with -v, to learn what it does not say otherwise.
    """
    door = _door(doors, said)
    if no_list := _NO_LIST.search(said):
        return transport_errors.no_list(door, no_list[1], no_list[2].strip())
    if "HAS CHANGED!" in said or "verification failed" in said or "host key is known for" in said:
        return _host_key(door, said, verbose)
    if "Permission denied" in said or "Too many authentication failures" in said:
        return transport_errors.login_refused(door, _tried(said, keys))
    if "open failed" in said or "stdio forwarding failed" in said:
        before = doors[max(list(doors).index(door) - 1, 0)]
        why = re.search(r"open failed: (.*)", said)
        return transport_errors.jump_failed(door, before.host, why[1].strip() if why else "refused")
    for sign, error in _BY_SIGN:
        if re.search(sign, said):
            return error(door, said)
    return None


def _lost(door: Door, said: str) -> TransportError:
    if door.proxy:
        return transport_errors.proxy_failed(door, said.strip().split("\n")[0])
    return transport_errors.cut(door.host, "keys were exchanged")


_BY_SIGN: tuple[tuple[str, Callable[[Door, str], TransportError]], ...] = (
    ("Could not resolve hostname", lambda door, _: transport_errors.unresolved(door)),
    ("Connection refused", lambda door, _: transport_errors.refused(door)),
    ("timed out", lambda door, _: transport_errors.unreachable(door, "no answer")),
    ("No route to host", lambda door, _: transport_errors.unreachable(door, "No route to host")),
    (
        "is unreachable",
        lambda door, _: transport_errors.unreachable(door, "Network is unreachable"),
    ),
    (
        "Unable to negotiate|no matching|[Pp]rotocol (version|major)|invalid format",
        lambda door, said: transport_errors.no_protocol(door, _last(said)),
    ),
    ("Connection (closed|reset)|kex_exchange|Broken pipe|disconnect", _lost),
)


def _door(doors: Sequence[Door], said: str) -> Door:
    """The hop that the message is about: the one it names, else the node."""
    for door in doors[:-1]:
        names = (door.known_as, f"{door.user}@{door.address}:", f"{door.address} port {door.port}")
        if any(name in said for name in names):
            return door
    return doors[-1]


def _host_key(door: Door, said: str, verbose: Callable[[], str]) -> TransportError:
    sent, offending = _SENT.search(said), _OFFENDING.search(said)
    if sent and offending and "HAS CHANGED!" in said:
        return transport_errors.changed_key(door, sent[1], sent[2], offending[1].strip())
    keys = _SERVER_KEY.findall(verbose())
    kind, fingerprint = keys[-1] if keys else ("unknown", "")
    kind = transport_errors.kind_name(kind)
    if revoked := _REVOKED.search(said):
        where = (revoked[1] or door.known_hosts).strip()
        return transport_errors.revoked_key(door, kind, fingerprint, where)
    return transport_errors.unknown_key(door, kind, fingerprint)


def _tried(said: str, keys: Sequence[str]) -> str:
    means = list(keys)
    if os.environ.get("SSH_AUTH_SOCK"):
        means.insert(0, "the agent")
    denied = _DENIED.search(said)
    wants = f"; it takes {denied[1]}" if denied else ""
    return (", ".join(means) or "nothing") + wants


def _last(said: str) -> str:
    return said.strip().split("\n")[-1].strip()[:200]


class _Way(Struct, frozen=True):
    """What ssh makes of its configuration for one host (``ssh -G``)."""

    door: Door
    jump: str  # "a,b"; "" for none
    keys: tuple[str, ...]


class OpensshTransport:
    """Runs scripts through ``ssh``. See ``Transport`` for what it promises."""

    def __init__(
        self,
        host: Host,
        *,
        config_file: str = "",
        credentials: Credentials | None = None,
        become: bool = True,
        wrapped: bool = False,
        hearing: Hearing | None = None,
    ) -> None:
        """:param config_file: as for ``ssh -F``; "" for ~/.ssh/config and the system's.

        :raises UsageError: for a login password, which ssh takes from no one but a terminal.
        """
        given = credentials or Credentials()
        if given.password is not None:
            raise UsageError(
                "the OpenSSH client takes no login password from us",
                hint="use a key or an agent, or leave out --transport openssh",
            )
        self._host = host
        self._hearing = hearing or Hearing(host.name)
        self._become = Become(become, given.become_password, wrapped)
        self._file = ["-F", config_file] if config_file else []

    @property
    def name(self) -> str:
        return self._host.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        lines = Lines(sink, self._hearing)
        way = self._way(self._host)
        hops = [self._way(_host(hop)) for hop in way.jump.split(",") if hop]
        words = self._words(self._host, hops)
        feed = self._become.feed(script)
        command = [*words, "-T", *_place(self._host), self._become.command]
        try:
            ended = run_child(command, feed, limit_s=limit_s, lines=lines)
        except OSError as why:
            raise _no_client(why) from why
        if ended.late:
            begun = read_marks(decode(ended.stderr)).begun
            raise transport_errors.late(
                self.name, limit_s, "the script ran" if begun else "connecting"
            )
        stdout = lines.end()
        told = read_marks(decode(ended.stderr))
        if told.begun or refusal(self.name, told) is not None:
            return conclude(self.name, stdout, ended.stderr)
        doors = [*(hop.door for hop in hops), way.door]
        keys = [key for key in way.keys if os.access(from_home(key), os.F_OK)]
        known = explain(doors, told.noise[-_SAID:], keys, lambda: self._verbose(words))
        if known is None and ended.status == _FAILED:
            known = TransportError(
                f"{self.name}: ssh failed: {told.noise.strip()[-200:] or 'it does not say why'}",
                hint="see more with: ssh -v, and the same options",
            )
        if known is not None:
            raise known
        return conclude(self.name, stdout, ended.stderr)

    def close(self) -> None:
        """Each script has a connection of its own; there is nothing to let go of."""

    def _way(self, host: Host) -> _Way:
        jump = ["-J", host.jump] if host.jump else []
        words = ["ssh", *self._file, *_strict(host), *_own(host), *jump, "-G", *_place(host)]
        try:
            found = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_RESOLVE_S,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as why:
            raise TransportError(
                f"{host.name}: ssh -G does not answer", hint="look at Match exec in ~/.ssh/config"
            ) from why
        except OSError as why:
            raise _no_client(why) from why
        if found.returncode != 0:
            told = decode(found.stderr).strip()[-300:]
            if told.startswith("No user exists for uid "):
                raise UsageError(
                    f"{host.name}: ssh does not run for this user: {told}",
                    hint="give the user a line in passwd, or leave out --transport openssh",
                )
            raise UsageError(
                f"{host.name}: ssh does not accept its configuration: {told}",
                hint="mend the file: ~/.ssh/config, or the one given with --ssh-config",
            )
        return _read_way(host, decode(found.stdout))

    def _words(self, host: Host, hops: list[_Way]) -> list[str]:
        words = ["ssh", *self._file, *_strict(host), *_options(_PLAIN)]
        if hops:
            words += ["-o", f"ProxyCommand={self._proxy([hop.door for hop in hops])}"]
        return [*words, *_own(host)]

    def _proxy(self, doors: list[Door]) -> str:
        """What ProxyJump stands for, with the strict options for every hop."""
        *before, last = doors
        words = ["ssh", *self._file, *_options(_STRICT | _LEND_NOTHING)]
        if before:
            words += ["-o", f"ProxyCommand={self._proxy(before).replace('%', '%%')}"]
        return shlex.join([*words, "-W", "[%h]:%p", *_place(_host(last.host))])

    def _verbose(self, words: list[str]) -> str:
        """What ssh says of the key exchange; asked only after it has failed."""
        again = [*words, "-v", *_place(self._host), "true"]
        lines = Lines(quiet, self._hearing)
        ended = run_child(again, b"", limit_s=_RESOLVE_S, lines=lines)
        return decode(ended.stderr)


def _options(options: Mapping[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _strict(host: Host) -> list[str]:
    """Whose keys count; for a host with a file of its own, a first key is taken into it.

    It goes before all that is said of the host: ssh takes the first value that it finds.
    """
    if not host.new_keys:
        return _options(_STRICT | _LEND_NOTHING)
    own = {"UserKnownHostsFile": f'"{host.new_keys}"', "GlobalKnownHostsFile": "/dev/null"}
    return _options(_STRICT | _LEND_NOTHING | own | {"StrictHostKeyChecking": "accept-new"})


def _own(host: Host) -> list[str]:
    """The host's own fields; ssh takes the first value that it finds."""
    words = [word for key, value in host.options for word in ("-o", f"{key}={value}")]
    if host.key_file:
        words += ["-i", host.key_file]
    return words


def _place(host: Host) -> list[str]:
    words = ["-l", host.user] if host.user else []
    words += ["-p", str(host.port)] if host.port else []
    return [*words, "--", host.address or host.name]


def _host(hop: str) -> Host:
    # ssh -G puts brackets around an address of either kind.
    spot = parse_spot(re.sub(r"\[([0-9.]+)\]", r"\1", hop.removeprefix("ssh://")))
    return Host(hop, address=spot.host, user=spot.user, port=spot.port)


def _read_way(host: Host, text: str) -> _Way:
    """Read ``ssh -G``: one ``keyword value`` a line, keywords in lower case."""
    pairs = [line.partition(" ")[::2] for line in text.split("\n")]
    found = dict(reversed(pairs))
    jump = found.get("proxyjump", "none")
    command = found.get("proxycommand", "none")
    door = Door(
        host=host.name,
        address=found.get("hostname", host.address or host.name),
        port=int(found.get("port", "22")),
        user=found.get("user", host.user),
        key_name=found.get("hostkeyalias", ""),
        known_hosts=found.get("userknownhostsfile", "~/.ssh/known_hosts").split()[0],
        through=(jump, command) != ("none", "none"),
        proxy="" if command == "none" else command,
    )
    keys = tuple(value for key, value in pairs if key == "identityfile")
    return _Way(door, "" if jump == "none" else jump, keys)


def _no_client(why: OSError) -> UsageError:
    return UsageError(
        f"the OpenSSH client cannot be started: {why.strerror}",
        hint="install openssh-client, or leave out --transport openssh",
    )
