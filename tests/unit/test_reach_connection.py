"""One SSH connection: the deadline, the ways in, the host key, and by what we log in."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.ssh_exception import IncompatiblePeer

from toolkit.errors import HostKeyError, LoginError, TransportError
from toolkit.reach import connection, login, trouble
from toolkit.reach.connection import (
    Connection,
    Watch,
    _dial,
    _first_of,
    _known_types,
    _Proxy,
    _quiet,
    _through,
    _undialled,
    _verify,
)
from toolkit.reach.credentials import Credentials
from toolkit.reach.knownhosts import fingerprint
from toolkit.reach.login import _public, log_in
from toolkit.reach.ssh_config import Target
from toolkit.reach.trouble import Door

DOOR = Door("gpu7", "192.0.2.7", 2222, "ops")
KEY, OTHER = b"key of the node", b"another key"


def target(
    door: Door = DOOR,
    *,
    known: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    configured: bool = False,
    certificates: tuple[str, ...] = (),
    only: bool = False,
    agent: str = "none",
    new_keys: str = "",
    timeout_s: float | None = None,
) -> Target:
    return Target(
        door, timeout_s, known, keys, configured, certificates, only, agent, new_keys
    )


def row(name: str, blob: bytes, kind: str = "ssh-ed25519") -> str:
    return f"{name} {kind} {base64.b64encode(blob).decode()}\n"


# --- the deadline


def test_what_was_opened_is_closed_once_the_time_is_up() -> None:
    watch = Watch(60)
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
    with Watch(60) as watch:
        assert watch._timer.is_alive()
        assert watch._timer.daemon
    watch._timer.join(5)
    assert not watch._timer.is_alive()
    assert not watch.expired


def test_time_that_is_up_is_so_without_a_timer() -> None:
    watch = Watch(0)
    assert watch.expired
    assert watch.left_s == 0.01


# --- the first leg


def test_a_proxy_command_is_both_ends_of_a_socket() -> None:
    proxy = _Proxy("sh -c 'echo odd >&2; cat'")
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
    with Watch(60) as watch:
        sock = on._first(target(door), watch)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        on.close()
        assert sock.fileno() == -1


def test_a_connection_begins_by_the_first_address_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Watch(60) as watch:
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

        monkeypatch.setattr(connection.socket, "getaddrinfo", found)
        on = Connection()
        sock = on._first(target(timeout_s=7.0), watch)
        assert sock.getpeername() == here
        assert sock.gettimeout() == 7
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert asked == [("192.0.2.7", 2222, {"type": socket.SOCK_STREAM})]
        on.close()
        assert sock.fileno() == -1
        with pytest.raises(TransportError, match="gpu7: 192.0.2.7:2222 refuses connections"):
            rows[1] = rows[0]
            _dial(target(), watch)


@pytest.mark.parametrize("why", [socket.gaierror(-2, "Name"), UnicodeError("label too long")])
def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise why

    monkeypatch.setattr(connection.socket, "getaddrinfo", fails)
    with pytest.raises(TransportError) as raised, Watch(60) as watch:
        _dial(target(), watch)
    assert str(raised.value) == str(trouble.unresolved(DOOR))


@pytest.mark.parametrize(
    ("why", "timeout_s", "error"),
    [
        (ConnectionRefusedError(111, "x"), None, trouble.refused(DOOR)),
        (TimeoutError(), 7.5, trouble.unreachable(DOOR, "no answer within 7.5 s")),
        (TimeoutError(), None, trouble.unreachable(DOOR, "no answer")),
        (OSError(113, "No route to host"), 7, trouble.unreachable(DOOR, "No route to host")),
        (OSError(), None, trouble.unreachable(DOOR, "no address")),
        (None, None, trouble.unreachable(DOOR, "no address")),
    ],
)
def test_why_nothing_answers(
    why: OSError | None, timeout_s: float | None, error: TransportError
) -> None:
    assert str(_undialled(DOOR, why, timeout_s)) == str(error)


# --- further legs


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
    leg = _through(inner, target(), "hop")  # type: ignore[arg-type]
    assert inner.asked == [("direct-tcpip", ("192.0.2.7", 2222), ("127.0.0.1", 0))]
    leg.close()
    assert inner.leg.closed == 1  # type: ignore[union-attr]


def test_another_failure_of_a_leg_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        _quiet(Leg(ZeroDivisionError())).close()  # type: ignore[arg-type]


@pytest.mark.parametrize(("said", "why"), [("Connect failed", "Connect failed"), ("", "refused")])
def test_a_hop_that_does_not_connect(said: str, why: str) -> None:
    inner = Inner(paramiko.ChannelException(2, said))
    with pytest.raises(TransportError) as raised:
        _through(inner, target(), "hop")  # type: ignore[arg-type]
    assert str(raised.value) == str(trouble.jump_failed(DOOR, "hop", why))


@pytest.mark.parametrize(
    ("why", "proxy", "error"),
    [
        (IncompatiblePeer("no kex"), "", trouble.no_protocol(DOOR, "no kex")),
        (
            paramiko.SSHException("Error reading SSH protocol banner: protocol version 1"),
            "",
            trouble.no_protocol(DOOR, "Error reading SSH protocol banner: protocol version 1"),
        ),
        (EOFError(), "", trouble.cut("gpu7", "keys were exchanged")),
        (OSError(), "cat", trouble.proxy_failed(Door("gpu7", "x", proxy="cat"), "its words")),
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
        on._proxy = Said()  # type: ignore[assignment]
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


# --- the host key


class Greeted:
    """A transport whose node has shown a key."""

    def __init__(self, blob: bytes = KEY, kind: str = "ssh-ed25519") -> None:
        self.blob, self.kind = blob, kind

    def get_remote_server_key(self) -> Greeted:
        return self

    def get_name(self) -> str:
        return self.kind

    def asbytes(self) -> bytes:
        return self.blob


NAME = "[192.0.2.7]:2222"


@pytest.mark.parametrize(
    "text",
    [
        row(NAME, KEY),
        row(NAME, OTHER) + row(NAME, KEY),
        row("192.0.2.7", KEY),
        f"@revoked {row(NAME, OTHER)}{row(NAME, KEY)}",
        f"@revoked {row('192.0.2.7', OTHER)}{row('192.0.2.7', KEY)}",
    ],
)
def test_a_host_key_that_is_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "known").write_text(text)
    _verify(Greeted(), target(known=(str(tmp_path / "known"),)))  # type: ignore[arg-type]


FINGER = fingerprint(KEY)


@pytest.mark.parametrize(
    ("text", "door", "error"),
    [
        ("", DOOR, "unknown"),
        (row("other", KEY), DOOR, "unknown"),
        (row(NAME, OTHER), DOOR, "changed"),
        (row(NAME, OTHER) + row("192.0.2.7", KEY), DOOR, "changed"),
        (row(NAME, OTHER, "ssh-rsa"), DOOR, "unknown"),
        (row(NAME, OTHER, "ssh-rsa") + row("192.0.2.7", KEY), DOOR, "unknown"),
        (f"@revoked {row(NAME, OTHER)}", DOOR, "unknown"),
        (f"@revoked {row(NAME, KEY)}", DOOR, "revoked"),
        (f"{row(NAME, KEY)}@revoked {row(NAME, KEY)}", DOOR, "revoked"),
        (f"@revoked {row('192.0.2.7', KEY)}", DOOR, "unknown"),
        (row("192.0.2.7", OTHER), DOOR, "unknown"),
        (
            row("192.0.2.7", KEY),
            Door("gpu7", "192.0.2.7", 2222, "ops", key_name="farm"),
            "unknown",
        ),
    ],
)
def test_a_host_key_that_is_refused(tmp_path: Path, text: str, door: Door, error: str) -> None:
    file = tmp_path / "known"
    file.write_text(text)
    where = f"{file}:{1 + text.startswith(NAME) * text.count('@revoked')}"
    errors = {
        "unknown": trouble.unknown_key(door, "ED25519", FINGER),
        "changed": trouble.changed_key(door, "ED25519", FINGER, f"{file}:1"),
        "revoked": trouble.revoked_key(door, "ED25519", FINGER, where),
    }
    with pytest.raises(HostKeyError) as raised:
        _verify(Greeted(), target(door, known=(str(file),)))  # type: ignore[arg-type]
    assert (str(raised.value), raised.value.hint) == (str(errors[error]), errors[error].hint)


def test_a_first_key_is_taken_where_that_was_asked_for(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    _verify(Greeted(), target(known=(own,), new_keys=own))  # type: ignore[arg-type]
    assert Path(own).read_text() == row(NAME, KEY)
    with pytest.raises(HostKeyError, match="CHANGED"):
        _verify(Greeted(OTHER), target(known=(own,), new_keys=own))  # type: ignore[arg-type]
    with pytest.raises(HostKeyError, match="not known"):
        _verify(Greeted(OTHER, "ssh-rsa"), target(known=(own,), new_keys=own))  # type: ignore[arg-type]
    assert Path(own).read_text() == row(NAME, KEY)


def test_the_kinds_of_key_that_are_known_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text(row(NAME, KEY) + row(NAME, OTHER) + row("other", KEY, "ssh-dss"))
    assert _known_types(target(known=(str(file),))) == ("ssh-ed25519",)
    file.write_text(row(NAME, KEY, "ssh-rsa") + row(NAME, OTHER))
    found = _known_types(target(known=(str(file),)))
    assert found == ("ssh-rsa", "ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256")


# --- the login


class Gate:
    """A node that lets some in, and notes who knocks."""

    def __init__(self, *takes: bytes | str, hangs_up: int = 99, halves: bool = False) -> None:
        self.takes, self.hangs_up, self.halves = takes, hangs_up, halves
        self.tried: list[bytes | str] = []
        self.users: set[str] = set()
        self.inside = False

    def _knock(self, user: str, what: bytes | str) -> None:
        self.tried.append(what)
        self.users.add(user)
        if what not in self.takes:
            raise paramiko.AuthenticationException
        self.inside = not (self.halves and len(self.tried) == 1)

    def auth_publickey(self, user: str, key: paramiko.PKey) -> None:
        blob = key.public_blob.key_blob if key.public_blob else key.asbytes()
        self._knock(user, blob)

    def auth_password(self, user: str, password: str) -> None:
        self._knock(user, password)

    def is_authenticated(self) -> bool:
        return self.inside

    def is_active(self) -> bool:
        return len(self.tried) < self.hangs_up


def knock(gate: Gate, to: Target, password: str | None = None) -> None:
    log_in(gate, to, Credentials(password=password))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three keys: of two kinds, and one behind a passphrase."""
    folder = tmp_path_factory.mktemp("keys")
    keys = {"one": paramiko.ECDSAKey.generate(), "two": paramiko.ECDSAKey.generate()}
    for name, key in keys.items():
        key.write_private_key_file(str(folder / name))
        public = f"{key.get_name()} {key.get_base64()} x\n"
        (folder / f"{name}.public").write_text(public)
    keys["one"].write_private_key_file(str(folder / "locked"), password="secret")
    return folder


def blob(made: Path, name: str) -> bytes:
    return base64.b64decode((made / f"{name}.public").read_text().split()[1])


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    login._load.cache_clear()
    yield
    login._load.cache_clear()


def test_keys_are_tried_in_their_order(made: Path) -> None:
    one, two = str(made / "one"), str(made / "two")
    gate = Gate(blob(made, "two"))
    knock(gate, target(keys=(one, two)))
    assert gate.tried == [blob(made, "one"), blob(made, "two")]
    assert gate.users == {"ops"}
    gate = Gate(blob(made, "one"))
    knock(gate, target(keys=(one, two)))
    assert gate.tried == [blob(made, "one")]


def test_a_key_that_is_the_first_of_two_things(made: Path) -> None:
    files = (str(made / "one"), str(made / "two"))
    gate = Gate(blob(made, "one"), blob(made, "two"), halves=True)
    knock(gate, target(keys=files))
    assert gate.tried == [blob(made, "one"), blob(made, "two")]


@pytest.mark.parametrize(
    ("configured", "password", "tried"),
    [
        (False, None, ["key"]),
        (True, None, ["key"]),
        (False, "pw", ["pw"]),
        (True, "pw", ["key", "pw"]),
        (False, "", [""]),
    ],
)
def test_with_a_password_only_what_was_configured_is_tried_before_it(
    made: Path, configured: bool, password: str | None, tried: list[str]
) -> None:
    gate = Gate("pw", "")
    to = target(keys=(str(made / "one"),), configured=configured)
    if password is None:
        with pytest.raises(LoginError, match=f"tried {made}/one$"):
            knock(gate, to)
    else:
        knock(gate, to, password)
    told = ["key" if each == blob(made, "one") else each for each in gate.tried]
    assert told == tried


def test_what_cannot_be_loaded_is_told(made: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_text("text\n")
    (tmp_path / "file").touch()
    keys = (f"{tmp_path}/none", f"{tmp_path}/file/x", str(made / "locked"), str(odd))
    with pytest.raises(LoginError) as raised:
        knock(Gate(), target(keys=keys, configured=True), "pw")
    tried = (
        f"{tmp_path}/none (not there), {tmp_path}/file/x (Not a directory), "
        f"{made}/locked (locked by a passphrase: ssh-add it to an agent), "
        f"{odd} (not a private key that we can read), the password"
    )
    assert str(raised.value) == str(trouble.login_refused(DOOR, tried))
    with pytest.raises(LoginError, match="tried nothing"):
        knock(Gate(), target(keys=keys[:1]))


def test_a_node_that_hangs_up(made: Path) -> None:
    keys = (str(made / "one"), str(made / "two"))
    with pytest.raises(TransportError, match="gpu7: the connection was lost while logging in"):
        knock(Gate(hangs_up=1), target(keys=keys))
    with pytest.raises(LoginError) as raised:
        knock(Gate(hangs_up=2), target(keys=(*keys, keys[0])))
    tried = f"{keys[0]}, {keys[1]}, then the node hung up; it may allow fewer tries"
    assert str(raised.value) == str(trouble.login_refused(DOOR, tried))


def certificate(made: Path, name: str) -> str:
    """As much of one as is looked at: its kind, and the key within."""
    key = paramiko.ECDSAKey.from_private_key_file(str(made / name))
    message = paramiko.Message()
    message.add_string(f"{key.get_name()}-cert-v01@openssh.com")
    message.add_string(b"nonce")
    data = message.asbytes() + blob(made, name)[4 + len(key.get_name()) :]
    return f"{key.get_name()}-cert-v01@openssh.com {base64.b64encode(data).decode()} x\n"


def test_a_certificate_comes_before_its_bare_key(made: Path, tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_bytes((made / "one").read_bytes())
    (tmp_path / "one-cert.pub").write_text(certificate(made, "one"))
    (tmp_path / "c1").write_text(certificate(made, "one"))
    (tmp_path / "c2").write_text(certificate(made, "two"))
    (tmp_path / "odd").write_text("odd\n")
    several = tuple(str(tmp_path / each) for each in ("c2", "c1", "odd", "none"))
    with pytest.raises(LoginError) as raised:
        knock(Gate(), target(keys=(str(one),), certificates=several))
    assert str(raised.value).endswith(f"tried {tmp_path}/c1, {one}-cert.pub, {one}")
    gate = Gate(blob(made, "one"))
    knock(gate, target(keys=(str(one),), certificates=several))
    assert len(gate.tried) == 3
    assert gate.tried[2] == blob(made, "one")


class Agent:
    """A running agent with some keys."""

    keys: tuple[paramiko.PKey, ...] = ()
    closed = 0

    def get_keys(self) -> tuple[paramiko.PKey, ...]:
        return self.keys

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def agent(made: Path, monkeypatch: pytest.MonkeyPatch) -> type[Agent]:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setattr(login.paramiko, "Agent", Agent)
    names = ("one", "two")
    keys = tuple(paramiko.ECDSAKey.from_private_key_file(str(made / each)) for each in names)
    monkeypatch.setattr(Agent, "keys", keys)
    monkeypatch.setattr(Agent, "closed", 0)
    return Agent


@pytest.mark.parametrize(
    ("only", "password", "configured", "tried"),
    [
        (False, None, False, ["two", "one", "two"]),
        (True, None, False, ["two", "two"]),
        (False, "pw", False, ["two", "pw"]),
        (False, "pw", True, ["two", "two", "pw"]),
    ],
)
def test_keys_of_the_agent_come_first(
    agent: type[Agent],
    made: Path,
    only: bool,
    password: str | None,
    configured: bool,
    tried: list[str],
) -> None:
    gate = Gate()
    to = target(keys=(str(made / "two"),), only=only, agent="", configured=configured)
    with pytest.raises(LoginError) as raised:
        knock(gate, to, password)
    names = {blob(made, each): each for each in ("one", "two")}
    assert [names.get(each, each) for each in gate.tried] == tried  # type: ignore[arg-type]
    assert agent.closed == 1
    assert "tried agent (ecdsa-sha2-nistp256, configured)" in str(raised.value)
    assert ("agent (ecdsa-sha2-nistp256)" in str(raised.value)) is ("one" in tried)


@pytest.mark.parametrize(
    ("named", "used"),
    [("", True), ("SSH_AUTH_SOCK", True), ("/agent", True), ("none", False), ("/other", False)],
)
def test_the_agent_that_is_meant(agent: type[Agent], named: str, used: bool) -> None:
    gate = Gate()
    with pytest.raises(LoginError):
        knock(gate, target(agent=named))
    assert len(gate.tried) == 2 * used
    assert agent.closed == used


def test_an_agent_that_does_not_answer(
    agent: type[Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise paramiko.SSHException

    monkeypatch.setattr(login.paramiko, "Agent", fails)
    with pytest.raises(LoginError, match="tried nothing"):
        knock(Gate(), target(agent=""))
    assert agent.closed == 0


def test_the_public_key_that_belongs_to_a_file(made: Path, tmp_path: Path) -> None:
    assert _public(str(made / "one")) == blob(made, "one")
    assert _public(f"{tmp_path}/none") == b""
    assert _public(str(made / "locked")) == b""
    (tmp_path / "key.pub").write_text((made / "two.public").read_text())
    assert _public(f"{tmp_path}/key") == blob(made, "two")
    (tmp_path / "odd.pub").write_text("odd")
    assert _public(f"{tmp_path}/odd") == b""


# --- all of it


class Opened(Greeted):
    """What Paramiko would be, for legs that are never dialled."""

    made: list[Opened] = []

    def __init__(self, sock: object) -> None:
        super().__init__()
        self.sock = sock
        self.options = self
        self.kex = self.ciphers = self.key_types = ("z", "aes128-ctr", "curve25519-sha256")
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
    monkeypatch.setattr(connection.paramiko, "Transport", Opened)
    monkeypatch.setattr(connection.socket, "getaddrinfo", lambda *_, **__: [])
    on = Connection()
    first = socket.socket()

    def dial(to: Target, watch: Watch) -> socket.socket:
        assert to is hop
        doing.append(watch.doing)
        return first

    def enter(inner: Opened, to: Target, credentials: Credentials) -> None:
        doing.append(watch.doing)
        given.append(credentials.password)
        assert 0 < inner.auth_timeout <= 60

    monkeypatch.setattr(connection, "_dial", dial)
    monkeypatch.setattr(connection, "log_in", enter)
    with Watch(60) as watch:
        on.open(node, Credentials(password="pw"), watch)
    assert doing == ["connecting to hop", "logging in to hop", "logging in"]
    assert given == [None, "pw"]
    outer, inner = Opened.made
    assert outer.sock is first
    assert isinstance(inner.sock, Leg)
    assert on.alive
    assert on.transport is inner  # type: ignore[comparison-overlap]
    assert (outer.keepalive, inner.keepalive) == (0, 30)
    assert inner.kex[0] == "curve25519-sha256"
    assert inner.ciphers[0] == "aes128-ctr"
    for each in (inner.started, inner.banner_timeout, inner.handshake_timeout):
        assert 0 < each <= 60
    on.close()
    assert outer.closed
    assert inner.closed
    assert first.fileno() == -1
