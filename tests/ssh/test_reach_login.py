"""By what we log in to a node, in which order, and what is told of what was tried."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from tests.ssh.doors import DOOR, target
from toolkit.errors import LoginError, TransportError
from toolkit.ssh import login, transport_errors
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.login import _public, log_in
from toolkit.ssh.ssh_config import Target


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
    log_in(gate, to, Credentials(password=password))  # type: ignore[arg-type]  # a stand-in


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three keys: of two kinds, and one behind a passphrase."""
    folder = tmp_path_factory.mktemp("keys")
    keys = {"one": paramiko.ECDSAKey.generate(), "two": paramiko.ECDSAKey.generate()}
    for name, key in keys.items():
        key.write_private_key_file(str(folder / name))
        public = f"{key.get_name()} {key.get_base64()} x\n"
        (folder / f"{name}.public").write_text(public)
    keys["one"].write_private_key_file(str(folder / "locked"), password="secret")  # noqa: S106 of nobody
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
    assert str(raised.value) == str(transport_errors.login_refused(DOOR, tried))
    with pytest.raises(LoginError, match="tried nothing"):
        knock(Gate(), target(keys=keys[:1]))


def test_a_node_that_hangs_up(made: Path) -> None:
    keys = (str(made / "one"), str(made / "two"))
    with pytest.raises(TransportError, match="gpu7: the connection was lost while logging in"):
        knock(Gate(hangs_up=1), target(keys=keys))
    with pytest.raises(LoginError) as raised:
        knock(Gate(hangs_up=2), target(keys=(*keys, keys[0])))
    tried = f"{keys[0]}, {keys[1]}, then the node hung up; it may allow fewer tries"
    assert str(raised.value) == str(transport_errors.login_refused(DOOR, tried))


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
    monkeypatch.setattr(paramiko, "Agent", Agent)
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
    *,
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
    assert [names.get(each, each) for each in gate.tried] == tried  # type: ignore[arg-type]  # a stand-in
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


def test_an_agent_that_does_not_answer(agent: type[Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise paramiko.SSHException

    monkeypatch.setattr(paramiko, "Agent", fails)
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
