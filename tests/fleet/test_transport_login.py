"""Whom we trust and who trusts us: host keys, keys, certificates, agents, passwords."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Kind, Site
from tests.fleet.sshd import Keys, Sshd, fingerprint, keygen
from toolkit.errors import HostKeyError, LoginError, UsageError
from toolkit.ssh.credentials import Credentials

pytestmark = pytest.mark.sshd


def test_an_unknown_host_key_is_refused_with_the_command_that_adds_it(
    site: Site, sshd: Sshd, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    with pytest.raises(HostKeyError) as refused:
        site.open(sshd.host(known_hosts=str(known))).run("true")
    assert f"host key is not known (ED25519 {fingerprint(sshd.keys.host)})" in str(refused.value)
    command = refused.value.hint.partition("add it: ")[2]
    assert command == f"ssh-keyscan -p {sshd.port} -t ed25519 127.0.0.1 >> {known}"
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert site.open(sshd.host(known_hosts=str(known))).run("echo in").stdout == "in\n"


def test_a_configuration_cannot_weaken_the_check(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    site.write("StrictHostKeyChecking no", "NoHostAuthenticationForLocalhost yes")
    with pytest.raises(HostKeyError, match="not known"):
        site.open(sshd.host(known_hosts=str(tmp_path / "none"))).run("true")


def test_a_changed_host_key_is_told_apart(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    kind, blob = sshd.keys.user.with_suffix(".pub").read_text().split()[:2]
    known.write_text(f"# a comment\n[127.0.0.1]:{sshd.port} {kind} {blob}\n")
    with pytest.raises(HostKeyError) as refused:
        site.open(sshd.host(known_hosts=str(known))).run("true")
    assert f"CHANGED: it is now ED25519 {fingerprint(sshd.keys.host)}" in str(refused.value)
    assert f"{known}:2" in str(refused.value)
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {known}" in refused.value.hint


def test_a_revoked_host_key_is_refused(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    line = sshd.known_hosts.read_text()
    known.write_text(line + "@revoked * " + line.partition(" ")[2])
    with pytest.raises(HostKeyError, match="marked as revoked"):
        site.open(sshd.host(known_hosts=str(known))).run("true")


def test_hashed_names_are_known(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_hosts.read_text())
    keygen("-H", "-f", str(known))
    assert known.read_text().startswith("|1|")
    assert site.open(sshd.host(known_hosts=str(known))).run("echo in").stdout == "in\n"


def test_a_host_key_alias_is_what_is_looked_up(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("rack1 " + sshd.known_hosts.read_text().partition(" ")[2])
    host = sshd.host(known_hosts=str(known))
    aliased = replace(host, options=(*host.options, ("HostKeyAlias", "rack1")))
    assert site.open(aliased).run("echo in").stdout == "in\n"
    with pytest.raises(HostKeyError):
        site.open(host).run("true")


def test_a_name_known_without_its_port_is_enough(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("127.0.0.* " + sshd.known_hosts.read_text().partition(" ")[2])
    assert site.open(sshd.host(known_hosts=str(known))).run("echo in").stdout == "in\n"


# --- the login ---------------------------------------------------------------------------


def test_a_key_that_the_node_does_not_know_is_refused_by_name(
    site: Site, sshd: Sshd, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    keygen("-t", "ed25519", "-N", "", "-f", str(other))
    with pytest.raises(LoginError) as refused:
        site.open(sshd.host(key_file=str(other))).run("true")
    assert f"does not let {sshd.host().user} in; tried {other}" in str(refused.value)


def test_an_unknown_user_is_refused_by_name(site: Site, sshd: Sshd) -> None:
    with pytest.raises(LoginError, match=r"does not let nobody-here in; tried \S+user_key"):
        site.open(sshd.host(user="nobody-here")).run("true")


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_certificate_opens_the_door(site: Site, sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = tmp_path / "op"
    keygen("-t", kind, *(["-b", "2048"] if kind == "rsa" else []), "-N", "", "-f", str(key))
    sign = ["-s", str(sshd.keys.authority), "-I", "op", "-n", sshd.host().user]
    keygen(*sign, "-V", "+5m", str(key.with_suffix(".pub")))
    assert site.open(sshd.host(key_file=str(key))).run("echo in").stdout == "in\n"


def test_a_certificate_may_lie_elsewhere(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    key, elsewhere = tmp_path / "op", tmp_path / "certs.pub"
    keygen("-t", "ed25519", "-N", "", "-f", str(key))
    sign = ["-s", str(sshd.keys.authority), "-I", "op", "-n", sshd.host().user]
    keygen(*sign, "-V", "+5m", str(key.with_suffix(".pub")))
    (tmp_path / "op-cert.pub").rename(elsewhere)
    site.write(f"CertificateFile {elsewhere}")
    assert site.open(sshd.host(key_file=str(key))).run("echo in").stdout == "in\n"


def test_an_expired_certificate_does_not(site: Site, sshd: Sshd, tmp_path: Path) -> None:
    key = tmp_path / "op"
    keygen("-t", "ed25519", "-N", "", "-f", str(key))
    sign = ["-s", str(sshd.keys.authority), "-I", "op", "-n", sshd.host().user]
    keygen(*sign, "-V", "20200101:20200102", str(key.with_suffix(".pub")))
    with pytest.raises(LoginError):
        site.open(sshd.host(key_file=str(key))).run("true")


@pytest.fixture
def agent(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A running agent that holds the user's key, which is nowhere on disk."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, start_new_session=True
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    while not socket.exists():
        assert process.poll() is None
        threading.Event().wait(0.01)
    subprocess.run(["ssh-add", "-q", str(sshd.keys.user)], check=True)
    yield
    process.kill()
    process.wait()


@pytest.mark.usefixtures("agent")
def test_an_agent_s_key_opens_the_door(site: Site, sshd: Sshd) -> None:
    host = sshd.host()
    options = tuple(each for each in host.options if not each[0].startswith("Identit"))
    agent_only = replace(host, key_file="", options=options)
    assert site.open(agent_only).run("echo in").stdout == "in\n"


@pytest.mark.usefixtures("agent")
def test_identities_only_keeps_the_agent_s_other_keys_out(
    site: Site, sshd: Sshd, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    keygen("-t", "ed25519", "-N", "", "-f", str(other))
    host = replace(sshd.host(key_file=str(other)), options=())
    options = (*sshd.host().options[:2], ("IdentitiesOnly", "yes"))
    with pytest.raises(LoginError):
        site.open(replace(host, options=options)).run("true")


def test_a_key_with_a_passphrase_is_named_as_locked(sshd: Sshd, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    keygen("-t", "ed25519", "-N", "secret", "-f", str(locked))
    with pytest.raises(LoginError, match=r"locked \(locked by a passphrase: ssh-add it"):
        Site(Kind.PARAMIKO, tmp_path).open(sshd.host(key_file=str(locked))).run("true")


def test_a_wrong_password_is_refused_and_not_repeated(keys: Keys, tmp_path: Path) -> None:
    settings = ["PasswordAuthentication yes", "AuthorizedKeysFile none"]
    typed = Credentials(password="-".join(["tiger", "7"]))
    with Sshd(tmp_path / "sshd", keys=keys, settings=settings) as node:
        transport = Site(Kind.PARAMIKO, tmp_path).open(node.host(), credentials=typed)
        with pytest.raises(LoginError, match=r"tried .*user_key, the password") as refused:
            transport.run("true")
        assert typed.password
        assert typed.password not in str(refused.value) + refused.value.hint + repr(transport)


def test_the_openssh_client_is_not_given_a_password(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes no login password"):
        Site(Kind.OPENSSH, tmp_path).open(sshd.host(), credentials=Credentials("x"))
