"""One SSH connection: the deadline, the legs of the way, and the host key."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import paramiko
import pytest
from paramiko.ssh_exception import IncompatiblePeer

from tests.ssh.doors import DOOR, KEY, Greeted, row, target
from toolkit.errors import TransportError
from toolkit.ssh import connection, transport_errors
from toolkit.ssh.connection import (
    Connection,
    Deadline,
    _dial,
    _first_of,
    _offer,
    _Proxy,
    _quiet,
    _through,
    _undialled,
)
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.limits import Wire
from toolkit.ssh.ssh_config import Target
from toolkit.ssh.transport_errors import Door


def test_what_was_opened_is_closed_once_the_time_is_up() -> None:
    watch = Deadline(60)
    closed: list[str] = []
    watch.guard(lambda: closed.append("first"))
    watch.guard(lambda: closed.append("second"))
    assert (watch.limit_s, watch.doing, watch.expired) == (60, "connecting", False)
    assert 59 < watch.left_s <= 60
    watch._expire()
    assert closed == ["second", "first"]
    assert watch.expired
    watch.guard(lambda: closed.append("late"))
    assert closed == ["second", "first", "late"]


def test_its_timer_runs_while_the_block_does() -> None:
    with Deadline(60) as watch:
        assert watch._timer.is_alive()
        assert watch._timer.daemon
    watch._timer.join(60)
    assert not watch._timer.is_alive()
    assert not watch.expired


def test_time_that_is_up_is_so_without_a_timer() -> None:
    watch = Deadline(0)
    assert watch.expired
    assert watch.left_s == 0.01


def test_a_proxy_command_is_both_ends_of_a_socket() -> None:
    # It outlives its input, or it may have ended by itself before it is killed.
    proxy = _Proxy("sh -c 'echo odd >&2; cat; sleep 60'")
    proxy.sock.sendall(b"hello")
    proxy.sock.settimeout(10)
    assert proxy.sock.recv(5) == b"hello"
    assert proxy.said() == "odd\n"
    assert os.getsid(proxy._process.pid) == proxy._process.pid
    proxy.close()
    assert proxy._process.returncode == -9
    assert proxy.sock.fileno() == -1
    assert proxy.said() == ""
    proxy.close()


def test_a_proxy_command_that_has_ended_gives_its_socket_back() -> None:
    proxy = _Proxy("true")
    proxy.sock.settimeout(10)
    assert proxy.sock.recv(1) == b""
    proxy.close()
    assert proxy._process.returncode == 0


def test_a_connection_begins_by_its_proxy_command() -> None:
    door = Door("gpu7", "192.0.2.7", proxy="cat", through=True)
    on = Connection()
    with Deadline(60) as watch:
        sock = on._first(target(door), watch)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        on.close()
        assert sock.fileno() == -1


def test_a_connection_begins_by_the_first_address_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Deadline(60) as watch:
        here = server.getsockname()
        asked: list[tuple[object, ...]] = []
        rows = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", here),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1)),
        ]

        def found(*words: object, **more: object) -> object:
            asked.append((*words, more))
            return rows

        monkeypatch.setattr(socket, "getaddrinfo", found)
        on = Connection()
        sock = on._first(target(timeout_s=7.0), watch)
        assert sock.getpeername() == here
        assert sock.gettimeout() == 7
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert asked == [("192.0.2.7", 2222, {"type": socket.SOCK_STREAM})]
        on.close()
        assert sock.fileno() == -1
        rows[1] = rows[0]
        with pytest.raises(TransportError, match=r"gpu7: 192.0.2.7:2222 refuses connections"):
            _dial(target(), watch)


@pytest.mark.parametrize("why", [socket.gaierror(-2, "Name"), UnicodeError("label too long")])
def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise why

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    with pytest.raises(TransportError) as raised, Deadline(60) as watch:
        _dial(target(), watch)
    assert str(raised.value) == str(transport_errors.unresolved(DOOR))


@pytest.mark.parametrize(
    ("why", "timeout_s", "error"),
    [
        (ConnectionRefusedError(111, "x"), None, transport_errors.refused(DOOR)),
        (TimeoutError(), 7.5, transport_errors.unreachable(DOOR, "no answer within 7.5 s")),
        (TimeoutError(), None, transport_errors.unreachable(DOOR, "no answer")),
        (
            OSError(113, "No route to host"),
            7,
            transport_errors.unreachable(DOOR, "No route to host"),
        ),
        (OSError(), None, transport_errors.unreachable(DOOR, "no address")),
        (None, None, transport_errors.unreachable(DOOR, "no address")),
    ],
)
def test_why_nothing_answers(
    why: OSError | None, timeout_s: float | None, error: TransportError
) -> None:
    assert str(_undialled(DOOR, why, timeout_s)) == str(error)


class Leg:
    def __init__(self, why: Exception | None = None) -> None:
        self.why, self.closed = why, 0

    def close(self) -> None:
        self.closed += 1
        if self.why:
            raise self.why


class Inner:
    def __init__(self, leg: Leg | Exception) -> None:
        self.leg, self.asked = leg, list[tuple[object, ...]]()

    def open_channel(self, *words: object) -> Leg:
        self.asked.append(words)
        if isinstance(self.leg, Exception):
            raise self.leg
        return self.leg


@pytest.mark.parametrize("why", [None, OSError(), EOFError(), paramiko.SSHException()])
def test_a_leg_behind_a_hop_that_is_gone_closes_in_silence(why: Exception | None) -> None:
    inner, leg = Inner(Leg(why)), None
    leg = _through(inner, target(), "hop")  # type: ignore[arg-type]  # a stand-in
    assert inner.asked == [("direct-tcpip", ("192.0.2.7", 2222), ("127.0.0.1", 0))]
    leg.close()
    assert inner.leg.closed == 1  # type: ignore[union-attr]  # a stand-in


def test_another_failure_of_a_leg_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        _quiet(Leg(ZeroDivisionError())).close()  # type: ignore[arg-type]  # a stand-in


@pytest.mark.parametrize(("said", "why"), [("Connect failed", "Connect failed"), ("", "refused")])
def test_a_hop_that_does_not_connect(said: str, why: str) -> None:
    inner = Inner(paramiko.ChannelException(2, said))
    with pytest.raises(TransportError) as raised:
        _through(inner, target(), "hop")  # type: ignore[arg-type]  # a stand-in
    assert str(raised.value) == str(transport_errors.jump_failed(DOOR, "hop", why))


@pytest.mark.parametrize(
    ("why", "proxy", "error"),
    [
        (IncompatiblePeer("no kex"), "", transport_errors.no_protocol(DOOR, "no kex")),
        (
            paramiko.SSHException("Error reading SSH protocol banner: protocol version 1"),
            "",
            transport_errors.no_protocol(
                DOOR, "Error reading SSH protocol banner: protocol version 1"
            ),
        ),
        (EOFError(), "", transport_errors.cut("gpu7", "keys were exchanged")),
        (
            OSError(),
            "cat",
            transport_errors.proxy_failed(Door("gpu7", "x", proxy="cat"), "its words"),
        ),
    ],
)
def test_why_nothing_greets(why: Exception, proxy: str, error: TransportError) -> None:
    class Said:
        def said(self) -> str:
            return "its words"

    on = Connection()
    door = Door("gpu7", "192.0.2.7", 2222, "ops", proxy=proxy)
    if proxy:
        assert "lost while keys" in str(on._ungreeted(target(door), why))
        on._proxy = Said()  # type: ignore[assignment]  # a stand-in
    assert str(on._ungreeted(target(door), why)) == str(error)


def test_what_broke_is_closed_all_the_same() -> None:
    on, order = Connection(), list[int]()

    def closer(number: int, why: Exception | None = None) -> Callable[[], None]:
        def close() -> None:
            order.append(number)
            if why:
                raise why

        return close

    whys = (None, OSError(), EOFError(), paramiko.SSHException())
    for number, why in enumerate(whys):
        on._keep(closer(number, why))
    on.close()
    on.close()
    assert order == [3, 2, 1, 0]


def test_a_connection_that_was_not_made_is_lost() -> None:
    on = Connection()
    assert not on.alive
    with pytest.raises(EOFError):
        _ = on.transport


def test_what_is_wanted_and_offered_comes_first() -> None:
    assert _first_of(("c", "x", "b"), ("a", "b", "c")) == ("c", "b", "a")


def test_nothing_of_cbc_sha1_or_md5_is_offered() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.closing(paramiko.Transport(ours)) as transport:
        _offer(transport, ("ssh-ed25519",))
        options = transport.get_security_options()
        offered = (*options.kex, *options.ciphers, *options.digests, *options.key_types)
    assert "aes256-ctr" in offered
    assert "hmac-sha2-256" in offered
    assert [each for each in offered if re.search("cbc|sha1|md5|3des|arcfour|dss", each)] == []


class Opened(Greeted):
    """What Paramiko would be, for legs that are never dialled."""

    made: ClassVar[list[Opened]] = []

    def __init__(self, sock: Wire) -> None:
        super().__init__()
        self.sock = sock
        self.options = self
        self.kex = self.ciphers = self.key_types = ("z", "aes128-ctr", "curve25519-sha256")
        self.digests = ("hmac-sha2-256",)
        self.auth_timeout = self.keepalive = 0.0
        self.banner_timeout = self.handshake_timeout = self.started = 0.0
        self.closed = False
        Opened.made.append(self)

    def get_security_options(self) -> Opened:
        return self

    def start_client(self, timeout: float) -> None:
        self.started = timeout

    def set_keepalive(self, seconds: float) -> None:
        self.keepalive = seconds

    def is_active(self) -> bool:
        return True

    def open_channel(self, *words: object) -> Leg:
        return Leg()

    def close(self) -> None:
        self.closed = True


def test_hop_by_hop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = tmp_path / "known"
    known.write_text(row("192.0.2.7", KEY) + row("192.0.2.1", KEY))
    hop = target(Door("hop", "192.0.2.1", 22, "jo"), known=(str(known),))
    node = Target(DOOR, None, (str(known),), (), False, (), False, "none", jumps=(hop,))
    doing: list[str] = []
    given: list[str | None] = []
    monkeypatch.setattr(Opened, "made", [])
    monkeypatch.setattr(paramiko, "Transport", Opened)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    on = Connection()
    first = socket.socket()

    def dial(to: Target, watch: Deadline) -> socket.socket:
        assert to is hop
        doing.append(watch.doing)
        return first

    def enter(inner: Opened, to: Target, credentials: Credentials) -> None:
        doing.append(watch.doing)
        given.append(credentials.password)
        assert 0 < inner.auth_timeout <= 60

    monkeypatch.setattr(connection, "_dial", dial)
    monkeypatch.setattr(connection, "log_in", enter)
    with Deadline(60) as watch:
        on.open(node, Credentials(password="pw"), watch)  # noqa: S106 of nobody
    assert doing == ["connecting to hop", "logging in to hop", "logging in"]
    assert given == [None, "pw"]
    outer, inner = Opened.made
    assert outer.sock.inner is first
    assert isinstance(inner.sock.inner, Leg)
    assert on.alive
    assert on.transport is inner  # type: ignore[comparison-overlap]  # a stand-in
    assert (outer.keepalive, inner.keepalive) == (0, 30)
    assert inner.kex[0] == "curve25519-sha256"
    assert inner.ciphers[0] == "aes128-ctr"
    for each in (inner.started, inner.banner_timeout, inner.handshake_timeout):
        assert 0 < each <= 60
    on.close()
    assert outer.closed
    assert inner.closed
    assert first.fileno() == -1
