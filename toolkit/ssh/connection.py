"""One SSH connection: TCP, jumps or a proxy command, the host key, the login.

Told to try little (see the timings in docs): curve25519, AES-GCM, the kinds of host key
that are known already, no compression; that halves Paramiko's share of the time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, cast

from toolkit.errors import FloodError, NewKey, TransportError
from toolkit.package_data import from_home
from toolkit.ssh import transport_errors
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.known_hosts import (
    KnownKey,
    add_key,
    authorities,
    fingerprint,
    known_keys,
    revoked_in,
)
from toolkit.ssh.limits import GREETING, Wire
from toolkit.ssh.login import log_in
from toolkit.ssh.ssh_config import Target
from toolkit.ssh.stream import decode
from toolkit.ssh.transport_errors import Door, kind_name

if TYPE_CHECKING:
    import paramiko
else:
    from toolkit.ssh import late as paramiko

# Its threads log tracebacks of what we report in one sentence.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

_KEX = ("curve25519-sha256@libssh.org", "curve25519-sha256")
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr")
# CBC, which OpenSSH's client has not offered since 7.6; SHA-1 and MD5, in MACs and key exchange.
_WEAK = re.compile(r"-cbc|-sha1\b|-md5\b|-ripemd")
_KEEPALIVE_S = 30  # a build may be silent for longer than a firewall remembers us


class Deadline:
    """Closes what was opened once the time is up: the one deadline of a run."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.doing = "connecting"
        self._fired = False
        self._end = time.monotonic() + limit_s
        self._closers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit_s, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    @property
    def left_s(self) -> float:
        return max(self._end - time.monotonic(), 0.01)

    @property
    def expired(self) -> bool:
        """Paramiko's own waits end by the same clock, and may do so before our timer does."""
        return self._fired or time.monotonic() >= self._end

    def guard(self, close: Callable[[], None]) -> None:
        """Have ``close`` called, from another thread, when the time is up."""
        with self._lock:
            self._closers.append(close)
            fired = self._fired
        if fired:
            close()

    def _expire(self) -> None:
        with self._lock:
            self._fired = True
            closers = list(self._closers)
        for close in reversed(closers):
            close()


class Connection:
    """A way to one node, logged in, with everything that it consists of."""

    def __init__(self) -> None:
        self._closers: list[Callable[[], None]] = []
        self._transport: paramiko.Transport | None = None
        self._proxy: _Proxy | None = None
        self._wires: list[Wire] = []

    @property
    def flooded(self) -> FloodError | None:
        """Why we hung up, where one of the servers on the way said too much."""
        return next((wire.why for wire in self._wires if wire.why is not None), None)

    @property
    def alive(self) -> bool:
        return self._transport is not None and self._transport.is_active()

    @property
    def transport(self) -> paramiko.Transport:
        if self._transport is None:
            raise EOFError  # open() failed; whoever asks has lost the connection
        return self._transport

    def open(
        self, target: Target, credentials: Credentials, watch: Deadline, *, login: bool = True
    ) -> None:
        """Connect and log in, hop by hop.

        :param login: whether at the last hop, too; else its key is compared, and that is all.
        :raises TransportError: which hop failed, and how.
        :raises OSError, EOFError, paramiko.SSHException: the connection broke.
        """
        inner: paramiko.Transport | None = None
        before = ""
        for hop in (*target.jumps, target):
            watch.doing = "connecting" if hop is target else f"connecting to {hop.door.host}"
            sock = _through(inner, hop, before) if inner is not None else self._first(hop, watch)
            before = hop.door.host
            inner = self._greet(sock, hop, watch)
            _verify(inner, hop)
            if hop is target and not login:
                return
            watch.doing = "logging in" if hop is target else f"logging in to {hop.door.host}"
            inner.auth_timeout = watch.left_s
            # The node's password is not the jump host's to see.
            log_in(inner, hop, credentials if hop is target else Credentials())
        self._transport = inner
        self.transport.set_keepalive(_KEEPALIVE_S)

    def close(self) -> None:
        """Close all of it, the innermost first. May be called from any thread, and twice."""
        while self._closers:
            # A link that is broken already cannot be told good-bye.
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._closers.pop()()

    def gather(self, awaited: Callable[[], bool] | None) -> None:
        """While it is so, wait for much of what the node says before any of it is looked at."""
        for wire in self._wires:
            wire.awaited = awaited

    def _keep(self, close: Callable[[], None]) -> None:
        self._closers.append(close)

    def _first(self, hop: Target, watch: Deadline) -> socket.socket:
        if hop.door.proxy:
            self._proxy = _Proxy(hop.door.proxy)
            self._keep(self._proxy.close)
            return self._proxy.sock
        sock = _dial(hop, watch)
        self._keep(sock.close)
        return sock

    def _greet(
        self, sock: socket.socket | paramiko.Channel, hop: Target, watch: Deadline
    ) -> paramiko.Transport:
        """Agree on keys and ciphers, with no more choice than needed."""
        wire = Wire(sock, hop.door.host)
        self._wires.append(wire)
        transport = paramiko.Transport(cast("socket.socket", wire))
        self._keep(transport.close)
        _offer(transport, _known_types(hop))
        transport.banner_timeout = transport.handshake_timeout = watch.left_s
        try:
            transport.start_client(timeout=watch.left_s)
        except (paramiko.SSHException, EOFError, OSError) as why:
            raise wire.why or self._ungreeted(hop, why) from why
        wire.greeted = True
        return transport

    def _ungreeted(self, hop: Target, why: BaseException) -> TransportError:
        unlike = isinstance(why, paramiko.ssh_exception.IncompatiblePeer)
        if unlike or "protocol version" in str(why):
            return transport_errors.no_protocol(hop.door, str(why))
        if hop.door.proxy and self._proxy is not None:
            return transport_errors.proxy_failed(hop.door, self._proxy.said())
        return transport_errors.cut(hop.door.host, "keys were exchanged")


class _Proxy:
    """A ProxyCommand; its two ends are one socket, which Paramiko reads like any other."""

    def __init__(self, command: str) -> None:
        self.sock, theirs = socket.socketpair()
        # A file: nobody reads along, and a full pipe would stop it.
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 closed by close()
        with theirs:
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr,
                start_new_session=True,  # ours to kill, and no terminal to prompt on
            )

    def said(self) -> str:
        if self._stderr.closed:  # the watch may have been here
            return ""
        self._stderr.seek(0)
        return decode(self._stderr.read(GREETING))

    def close(self) -> None:
        self.sock.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()


def _dial(hop: Target, watch: Deadline) -> socket.socket:
    """A TCP connection to the first address that answers."""
    door = hop.door
    try:
        found = socket.getaddrinfo(door.address, door.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as why:
        raise transport_errors.unresolved(door) from why
    last: OSError | None = None
    for family, kind, protocol, _, address in found:
        limit_s = min(watch.left_s, hop.timeout_s or watch.left_s)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(limit_s)
            sock.connect(address)
        except OSError as why:
            sock.close()
            last = why
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise _undialled(door, last, hop.timeout_s)


def _undialled(door: Door, why: OSError | None, timeout_s: float | None) -> TransportError:
    if isinstance(why, ConnectionRefusedError):
        return transport_errors.refused(door)
    if isinstance(why, TimeoutError):
        return transport_errors.unreachable(
            door, f"no answer within {timeout_s:g} s" if timeout_s else "no answer"
        )
    return transport_errors.unreachable(door, (why.strerror if why else "") or "no address")


def _through(inner: paramiko.Transport, hop: Target, before: str) -> paramiko.Channel:
    """A channel from the hop before to this one."""
    door = hop.door
    try:
        leg = inner.open_channel("direct-tcpip", (door.address, door.port), ("127.0.0.1", 0))
    except paramiko.ChannelException as why:
        raise transport_errors.jump_failed(door, before, why.text or "refused") from why
    return _quiet(leg)


def _quiet(leg: paramiko.Channel) -> paramiko.Channel:
    """Let closing ``leg`` succeed although the jump host is gone.

    Paramiko's reading thread closes it when the far end is lost, and says good-bye through
    the jump host. Where that is lost too the thread would die of it: a traceback on the
    operator's terminal, and whoever waits for an answer is not woken.
    """
    say_goodbye = leg.close

    def close() -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            say_goodbye()

    leg.close = close  # type: ignore[method-assign]  # Paramiko makes the channel itself
    return leg


def _verify(transport: paramiko.Transport, hop: Target) -> None:
    """Compare the node's host key with those that are known, in the order of OpenSSH's client.

    :raises HostKeyError: it is not among them, or is revoked.
    """
    door = hop.door
    key = transport.get_remote_server_key()
    kind, blob = kind_name(key.get_name()), key.asbytes()
    if hop.revoked and (where := _revoked_in(hop, blob)):
        raise transport_errors.revoked_key(door, kind, fingerprint(blob), where)
    known = known_keys(hop.known_hosts, door.known_as)
    if _is_among(known, blob, door):
        return
    signers = authorities(hop.known_hosts, door.known_as)
    others = [each for each in known if not each.revoked]
    if not others and door.known_as != door.address and not door.key_name:
        # As ssh does: a key known for the name counts on its other ports, too.
        if _is_among(known_keys(hop.known_hosts, door.address), blob, door):
            return
        signers += authorities(hop.known_hosts, door.address)
    if signers:
        raise transport_errors.signed_key(door, signers[0].where)
    for each in others:
        if kind_name(each.kind) == kind:
            raise transport_errors.changed_key(door, kind, fingerprint(blob), each.where)
    if hop.new_keys and not others:
        add_key(hop.new_keys, door.known_as, key.get_name(), blob)
        return
    error = transport_errors.unknown_key(door, kind, fingerprint(blob))
    if not others:
        file = str(from_home(door.known_hosts))
        error.key = NewKey(file, door.known_as, key.get_name(), blob, door.host)
    raise error


def _is_among(known: Sequence[KnownKey], blob: bytes, door: Door) -> bool:
    """:raises HostKeyError: it is, and one of the lines revokes it."""
    mine = [each for each in known if each.blob == blob]
    for each in mine:
        if each.revoked:
            kind = kind_name(each.kind)
            raise transport_errors.revoked_key(door, kind, fingerprint(blob), each.where)
    return bool(mine)


def _revoked_in(hop: Target, blob: bytes) -> str:
    """As ssh does: without the list, nobody is trusted."""
    try:
        return revoked_in(hop.revoked, blob)
    except (OSError, ValueError) as why:
        said = why.strerror if isinstance(why, OSError) else None
        raise transport_errors.no_list(hop.door, hop.revoked, said or str(why)) from why


def _known_types(hop: Target) -> tuple[str, ...]:
    """The algorithms of the host keys that are known, so that one of those is asked for."""
    known = known_keys(hop.known_hosts, hop.door.known_as)
    kinds = [each.kind for each in known if not each.revoked]
    rsa = ("rsa-sha2-512", "rsa-sha2-256") if "ssh-rsa" in kinds else ()
    return (*dict.fromkeys(kinds), *rsa)


def _offer(transport: paramiko.Transport, key_types: Sequence[str]) -> None:
    """What is agreed on at best, and nothing that a site's rules may forbid (docs/fips.md)."""
    options = transport.get_security_options()
    options.kex = _first_of(_KEX, _strong(options.kex))
    options.ciphers = _first_of(_CIPHERS, _strong(options.ciphers))
    options.digests = _strong(options.digests)
    options.key_types = _first_of(key_types, options.key_types)


def _strong(offered: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in offered if not _WEAK.search(each))


def _first_of(wanted: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """What is wanted and offered, then the rest of what is offered."""
    chosen = [each for each in wanted if each in offered]
    return (*chosen, *(each for each in offered if each not in chosen))
