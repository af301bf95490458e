"""What stands between us and a node: one sentence and one way out, for every transport."""

from __future__ import annotations

import pytest

from toolkit.errors import ToolkitError
from toolkit.ssh import transport_errors
from toolkit.ssh.openssh import explain
from toolkit.ssh.transport_errors import Door, kind_name

NODE = Door("gpu7", "192.0.2.7", 22, "ops")
PORT = Door("gpu7", "192.0.2.7", 2222, "ops")
SIX = Door("gpu7", "2001:db8::7", 2222, "ops")
HOP = Door("hop", "198.51.100.1", 2200, "jo")
ALIAS = Door("gpu7", "192.0.2.7", 2222, "ops", key_name="farm")
BEHIND = Door("gpu7", "192.0.2.7", 22, "ops", through=True)
PROXY = Door("gpu7", "192.0.2.7", 22, "ops", through=True, proxy="nc %h %p")
SENT = (
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
    "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:abc+/1.\n"
    "Offending ECDSA key in /home/jo/my hosts:7\n"
)
SERVER_KEY = "debug1: Server host key: ssh-ed25519 SHA256:old\n"
SERVER_KEY += "debug1: Server host key: ssh-rsa SHA256:xyz\n"


@pytest.mark.parametrize(
    ("door", "spot", "known"),
    [
        (NODE, "192.0.2.7:22", "192.0.2.7"),
        (PORT, "192.0.2.7:2222", "[192.0.2.7]:2222"),
        (SIX, "[2001:db8::7]:2222", "[2001:db8::7]:2222"),
        (ALIAS, "192.0.2.7:2222", "farm"),
    ],
)
def test_how_a_door_is_written_and_looked_up(door: Door, spot: str, known: str) -> None:
    assert (door.spot, door.known_as) == (spot, known)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("ssh-ed25519", "ED25519"),
        ("ecdsa-sha2-nistp256", "ECDSA"),
        ("rsa-sha2-512", "RSA"),
        ("ssh-dss", "ssh-dss"),
    ],
)
def test_the_word_for_a_kind_of_key(kind: str, word: str) -> None:
    assert kind_name(kind) == word


SENTENCES = [
    pytest.param(
        transport_errors.late("gpu7", 2.5), "gpu7: no answer within 2.5 s", "may still", id="late"
    ),
    pytest.param(
        transport_errors.late("gpu7", 60, "connecting"),
        "gpu7: no answer within 60 s while connecting",
        "console",
        id="late-while",
    ),
    pytest.param(
        transport_errors.cut("gpu7"), "gpu7: the connection was lost", "look again", id="cut"
    ),
    pytest.param(
        transport_errors.cut("gpu7", "logging in"),
        "gpu7: the connection was lost while logging in",
        "look again",
        id="cut-while",
    ),
    pytest.param(
        transport_errors.unresolved(NODE),
        "gpu7: no address is known for '192.0.2.7'",
        "HostName",
        id="unresolved",
    ),
    pytest.param(
        transport_errors.refused(SIX),
        "gpu7: [2001:db8::7]:2222 refuses connections",
        "that sshd runs",
        id="refused",
    ),
    pytest.param(
        transport_errors.unreachable(NODE, "no answer"),
        "gpu7: 192.0.2.7:22 cannot be reached: no answer",
        "firewalls",
        id="unreachable",
    ),
    pytest.param(
        transport_errors.no_protocol(NODE, "odd"),
        "gpu7: 192.0.2.7:22 does not speak SSH with us: odd",
        "ssh -v",
        id="no-protocol",
    ),
    pytest.param(
        transport_errors.jump_failed(PORT, "hop", "refused"),
        "gpu7: hop does not connect to 192.0.2.7:2222: refused",
        "ssh hop nc -zv 192.0.2.7 2222",
        id="jump",
    ),
    pytest.param(
        transport_errors.proxy_failed(PROXY, "first\nlast " + "x" * 300 + "\n"),
        f"gpu7: the proxy command 'nc %h %p' gave no connection: last {'x' * 195}",
        "SSH banner",
        id="proxy",
    ),
    pytest.param(
        transport_errors.proxy_failed(PROXY, " \n"),
        "gpu7: the proxy command 'nc %h %p' gave no connection",
        "SSH banner",
        id="silent-proxy",
    ),
    pytest.param(
        transport_errors.unknown_key(NODE, "ED25519", "SHA256:a"),
        "gpu7: the host key is not known (ED25519 SHA256:a)",
        "add it: ssh-keyscan -t ed25519 192.0.2.7 >> ~/.ssh/known_hosts",
        id="unknown-key",
    ),
    pytest.param(
        transport_errors.unknown_key(ALIAS, "RSA", "SHA256:a"),
        "gpu7: the host key is not known (RSA SHA256:a)",
        "ssh-keyscan -p 2222 -t rsa 192.0.2.7 | sed 's/^[^ ]*/farm/' >> ~/.ssh/known_hosts",
        id="unknown-key-of-an-alias",
    ),
    pytest.param(
        transport_errors.unknown_key(
            Door("gpu7", "192.0.2.7", key_name="192.0.2.7", known_hosts="/k"), "RSA", "SHA256:a"
        ),
        "gpu7: the host key is not known (RSA SHA256:a)",
        "ssh-keyscan -t rsa 192.0.2.7 >> /k",
        id="unknown-key-of-an-alias-that-is-none",
    ),
    pytest.param(
        transport_errors.unknown_key(BEHIND, "RSA", "SHA256:a"),
        "gpu7: the host key is not known (RSA SHA256:a)",
        "ssh gpu7 by hand once",
        id="unknown-key-behind-a-jump",
    ),
    pytest.param(
        transport_errors.changed_key(PORT, "RSA", "SHA256:a", "/k/hosts:7"),
        "gpu7: the host key has CHANGED: it is now RSA SHA256:a, which is not the key at "
        "/k/hosts:7",
        "ssh-keygen -R '[192.0.2.7]:2222' -f /k/hosts, then ssh-keyscan -p 2222 -t rsa",
        id="changed-key",
    ),
    pytest.param(
        transport_errors.changed_key(NODE, "RSA", "SHA256:a", "somewhere"),
        "gpu7: the host key has CHANGED: it is now RSA SHA256:a, which is not the key at somewhere",
        "-f ~/.ssh/known_hosts, then",
        id="changed-key-nowhere",
    ),
    pytest.param(
        transport_errors.revoked_key(NODE, "RSA", "SHA256:a", "/k:1"),
        "gpu7: the host key RSA SHA256:a is marked as revoked at /k:1",
        "new host keys",
        id="revoked-key",
    ),
    pytest.param(
        transport_errors.login_refused(PORT, "a, b"),
        "gpu7: 192.0.2.7:2222 does not let ops in; tried a, b",
        "ssh -p 2222 ops@192.0.2.7;",
        id="login",
    ),
    pytest.param(
        transport_errors.login_refused(NODE, ""),
        "gpu7: 192.0.2.7:22 does not let ops in; tried nothing",
        "--ask-pass",
        id="login-by-nothing",
    ),
]


@pytest.mark.parametrize(("error", "says", "hint"), SENTENCES)
def test_each_trouble_has_its_sentence_and_a_way_out(
    error: ToolkitError, says: str, hint: str
) -> None:
    assert str(error) == says
    assert hint in error.hint


SAID = [
    (
        "ssh: Could not resolve hostname gpu7: Name or service not known",
        transport_errors.unresolved(NODE),
    ),
    ("ssh: connect to host 192.0.2.7 port 22: Connection refused", transport_errors.refused(NODE)),
    (
        "ssh: connect to host 192.0.2.7 port 22: Connection timed out",
        transport_errors.unreachable(NODE, "no answer"),
    ),
    ("ssh: connect: No route to host", transport_errors.unreachable(NODE, "No route to host")),
    (
        "ssh: connect: Network is unreachable",
        transport_errors.unreachable(NODE, "Network is unreachable"),
    ),
    (
        "Unable to negotiate with 192.0.2.7 port 22: no matching cipher found. Their offer: x\n",
        transport_errors.no_protocol(
            NODE,
            "Unable to negotiate with 192.0.2.7 port 22: no matching cipher found. Their offer: x",
        ),
    ),
    (
        "noise\nBad remote protocol version identification: " + "x" * 300 + "\n",
        transport_errors.no_protocol(
            NODE, ("Bad remote protocol version identification: " + "x" * 300)[:200]
        ),
    ),
    ("Connection closed by 192.0.2.7 port 22", transport_errors.cut("gpu7", "keys were exchanged")),
    ("kex_exchange_identification: read", transport_errors.cut("gpu7", "keys were exchanged")),
    (
        "channel 0: open failed: administratively prohibited: no \nstdio forwarding failed",
        transport_errors.jump_failed(NODE, "hop", "administratively prohibited: no"),
    ),
    ("stdio forwarding failed", transport_errors.jump_failed(NODE, "hop", "refused")),
    (
        "Permission denied (publickey,password).",
        transport_errors.login_refused(NODE, "k1, k2; it takes publickey,password"),
    ),
    (
        "Received disconnect: Too many authentication failures",
        transport_errors.login_refused(NODE, "k1, k2"),
    ),
    (
        "jo@198.51.100.1: Permission denied (publickey).",
        transport_errors.login_refused(HOP, "k1, k2; it takes publickey"),
    ),
    ("connect to host 198.51.100.1 port 2200: Connection refused", transport_errors.refused(HOP)),
    (SENT, transport_errors.changed_key(NODE, "ED25519", "SHA256:abc+/1", "/home/jo/my hosts:7")),
    ("Host key verification failed.", transport_errors.unknown_key(NODE, "RSA", "SHA256:xyz")),
    (
        "No ED25519 host key is known for [198.51.100.1]:2200 and",
        transport_errors.unknown_key(HOP, "RSA", "SHA256:xyz"),
    ),
    (
        "The ED25519 host key for gpu7 is marked as revoked.\nHost key verification failed.",
        transport_errors.revoked_key(NODE, "RSA", "SHA256:xyz", "~/.ssh/known_hosts"),
    ),
]


@pytest.mark.parametrize(("said", "error"), SAID)
def test_what_the_client_says_means_the_same_as_from_us(
    said: str, error: ToolkitError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    found = explain([HOP, NODE], said, ["k1", "k2"], lambda: SERVER_KEY)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found is not None
    assert found.hint == error.hint


def test_the_client_says_nothing_of_the_kind() -> None:
    assert explain([NODE], "Warning: Permanently added\n", [], str) is None


def test_what_was_tried_begins_with_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    found = explain([NODE], "Permission denied", ["k1"], str)
    assert str(found) == str(transport_errors.login_refused(NODE, "the agent, k1"))
    monkeypatch.delenv("SSH_AUTH_SOCK")
    found = explain([NODE], "Permission denied (x)", [], str)
    assert str(found) == str(transport_errors.login_refused(NODE, "nothing; it takes x"))


def test_a_key_that_the_client_does_not_show_is_unknown() -> None:
    found = explain([NODE], "Host key verification failed.", [], str)
    assert str(found) == str(transport_errors.unknown_key(NODE, "unknown", ""))


def test_a_connection_lost_behind_a_proxy_command_is_the_commands() -> None:
    found = explain([PROXY], f"nc: {'x' * 300}\nConnection closed by UNKNOWN", [], str)
    assert str(found).endswith(f" gave no connection: nc: {'x' * 196}")


def test_the_only_door_is_its_own_hop() -> None:
    found = explain([NODE], "stdio forwarding failed", [], str)
    assert str(found) == str(transport_errors.jump_failed(NODE, "gpu7", "refused"))
