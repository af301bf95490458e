"""What stands between us and a node, as the same sentences for every transport."""

from __future__ import annotations

from msgspec import Struct

from toolkit.errors import HostKeyError, LoginError, TransportError


class Door(Struct, frozen=True):
    """Where a connection goes, as far as messages need to know it."""

    host: str  # our name for it
    address: str
    port: int = 22
    user: str = ""
    key_name: str = ""  # what known_hosts files call it: HostKeyAlias, or the address
    known_hosts: str = "~/.ssh/known_hosts"  # the file that new keys go to
    through: bool = False  # behind a jump host or a proxy command
    proxy: str = ""  # that command

    @property
    def spot(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    @property
    def known_as(self) -> str:
        """The name to look up in known_hosts files; a port other than 22 is part of it."""
        name = self.key_name or self.address
        return name if self.port == 22 or self.key_name else f"[{name}]:{self.port}"


def kind_name(kind: str) -> str:
    """ "ED25519" for "ssh-ed25519": the short word that ssh and ssh-keyscan use."""
    for word in ("ed25519", "ecdsa", "rsa"):
        if word in kind:
            return word.upper()
    return kind


def late(host: str, limit_s: float, doing: str = "") -> TransportError:
    after = f" while {doing}" if doing else ""
    return TransportError(
        f"{host}: no answer within {limit_s:g} s{after}",
        hint="what it had begun may still run; look at its console, or allow more time",
    )


def cut(host: str, doing: str = "") -> TransportError:
    after = f" while {doing}" if doing else ""
    return TransportError(
        f"{host}: the connection was lost{after}",
        hint="what it had begun may still run; look again when the node answers",
    )


def unresolved(door: Door) -> TransportError:
    return TransportError(
        f"{door.host}: no address is known for {door.address!r}",
        hint="mend the name, or give HostName in ~/.ssh/config or ansible_host in the inventory",
    )


def refused(door: Door) -> TransportError:
    return TransportError(
        f"{door.host}: {door.spot} refuses connections",
        hint="see that sshd runs there, and that the port is right",
    )


def unreachable(door: Door, why: str) -> TransportError:
    return TransportError(
        f"{door.host}: {door.spot} cannot be reached: {why}",
        hint="look at routes and firewalls between here and there",
    )


def no_protocol(door: Door, why: str) -> TransportError:
    return TransportError(
        f"{door.host}: {door.spot} does not speak SSH with us: {why}",
        hint="see what answers there: ssh -v; or try --transport openssh",
    )


def jump_failed(door: Door, hop: str, why: str) -> TransportError:
    return TransportError(
        f"{door.host}: {hop} does not connect to {door.spot}: {why}",
        hint=f"see from there that it answers: ssh {hop} nc -zv {door.address} {door.port}",
    )


def proxy_failed(door: Door, said: str) -> TransportError:
    tail = said.strip().split("\n")[-1][:200]
    return TransportError(
        f"{door.host}: the proxy command {door.proxy!r} gave no connection"
        + f": {tail}" * bool(tail),
        hint="run it by hand; it should print the server's SSH banner",
    )


def unknown_key(door: Door, kind: str, fingerprint: str) -> HostKeyError:
    """:param kind: as OpenSSH prints it: "ED25519"; :param fingerprint: "SHA256:..."."""
    return HostKeyError(
        f"{door.host}: the host key is not known ({kind} {fingerprint})",
        hint=f"compare it, then add it: {_adding(door, kind)}",
    )


def changed_key(door: Door, kind: str, fingerprint: str, where: str) -> HostKeyError:
    """:param where: the line that says otherwise: "/home/op/.ssh/known_hosts:7"."""
    file = where.rpartition(":")[0] or door.known_hosts
    return HostKeyError(
        f"{door.host}: the host key has CHANGED: it is now {kind} {fingerprint}, "
        f"which is not the key at {where}",
        hint="somebody may be listening in; only if the node was installed anew: "
        f"ssh-keygen -R '{door.known_as}' -f {file}, then {_adding(door, kind)}",
    )


def revoked_key(door: Door, kind: str, fingerprint: str, where: str) -> HostKeyError:
    return HostKeyError(
        f"{door.host}: the host key {kind} {fingerprint} is marked as revoked at {where}",
        hint="somebody may be listening in; the node needs new host keys",
    )


def no_list(door: Door, file: str, why: str) -> HostKeyError:
    """As ssh has it: without the list of those that are refused, no key is trusted."""
    return HostKeyError(
        f"{door.host}: RevokedHostKeys {file}: cannot be read: {why}",
        hint="mend the file; one in binary form is read by --transport openssh alone",
    )


def signed_key(door: Door, where: str) -> HostKeyError:
    """:param where: the line of the authority."""
    return HostKeyError(
        f"{door.host}: its host key is known by an authority alone (@cert-authority at {where}), "
        "and what an authority signs is not verified here",
        hint="the OpenSSH client does that: --transport openssh; or make the key itself known",
    )


def login_refused(door: Door, tried: str) -> LoginError:
    """:param tried: the means, in the order they were tried, or "" for none."""
    return LoginError(
        f"{door.host}: {door.spot} does not let {door.user} in; tried {tried or 'nothing'}",
        hint=f"try it by hand: ssh -p {door.port} {door.user}@{door.address}; "
        "name user and key in ~/.ssh/config, start an agent, or add --ask-pass",
    )


def _adding(door: Door, kind: str) -> str:
    if door.through:
        return f"ssh {door.host} by hand once (it is behind a jump host)"
    port = "" if door.port == 22 else f"-p {door.port} "
    kind = kind.lower()
    command = f"ssh-keyscan {port}-t {kind} {door.address}"
    if door.key_name and door.key_name != door.address:
        command += f" | sed 's/^[^ ]*/{door.key_name}/'"
    return f"{command} >> {door.known_hosts}"
