"""What the OpenSSH client is told, and what becomes of what it says: by a client of our own."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from toolkit.errors import HostKeyError, LoginError, TransportError, UsageError
from toolkit.hosts.host import Host
from toolkit.ssh import openssh
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.local import ChildEnd
from toolkit.ssh.openssh import OpensshTransport, _host, _read_way

# Notes its words, one a line and calls parted by "=="; runs the remote command itself.
CLIENT = """#!/bin/sh
{ printf '%s\\n' "$@"; echo ==; } >>"$SSH_FAKE/calls"
resolve=; verbose=; last=; host=
for each; do
    [ "$each" = -G ] && resolve=1
    [ "$each" = -v ] && verbose=1
    if [ "$last" = -- ]; then host=$each; break; fi
    last=$each
done
if [ "$resolve" ]; then
    if [ -e "$SSH_FAKE/bad" ]; then cat "$SSH_FAKE/bad" >&2; exit 255; fi
    [ -e "$SSH_FAKE/hangs" ] && exec sleep 30
    cat "$SSH_FAKE/way.$host" 2>/dev/null
    exit 0
fi
if [ "$verbose" ]; then cat "$SSH_FAKE/verbose" >&2; exit 255; fi
if [ -e "$SSH_FAKE/said" ]; then cat "$SSH_FAKE/said" >&2; exit "$(cat "$SSH_FAKE/status")"; fi
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""
WAY = """hostname 192.0.2.7
user ops
port 2222
identityfile {home}/key
identityfile {home}/none
userknownhostsfile /k/hosts /k/hosts2
"""


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def way(self, text: str, host: str = "gpu7") -> None:
        (self.folder / f"way.{host}").write_text(text)

    def says(self, said: str, status: int = 255) -> None:
        (self.folder / "said").write_text(said)
        (self.folder / "status").write_text(str(status))

    @property
    def calls(self) -> list[list[str]]:
        whole = (self.folder / "calls").read_text()
        return [call.split("\n")[:-1] for call in whole.split("==\n")[:-1]]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    client = tmp_path / "bin/ssh"
    client.parent.mkdir()
    client.write_text(CLIENT)
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_FAKE", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return Fake(tmp_path)


def options(words: list[str]) -> dict[str, str]:
    """What -o says; ssh takes the first value."""
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "-o"]
    found: dict[str, str] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        found.setdefault(key, value)
    return found


STRICT = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "VerifyHostKeyDNS": "no",
    "NoHostAuthenticationForLocalhost": "no",
    "UpdateHostKeys": "no",
    "LogLevel": "INFO",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ForwardX11Trusted": "no",
    "GSSAPIDelegateCredentials": "no",
    "ClearAllForwardings": "yes",
    "Tunnel": "no",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",
    "ControlPath": "none",
    "ControlPersist": "no",
}
PLAIN = {"EscapeChar": "none", "RemoteCommand": "none"}


def test_a_script_runs_and_its_words_come_back(fake: Fake) -> None:
    lines: list[str] = []
    host = Host("gpu7", address="192.0.2.7", user="ops", port=2200, key_file="/k")
    transport = OpensshTransport(host, become=False)
    assert transport.name == "gpu7"
    result = transport.run("echo out; echo err >&2; exit 3\n", sink=lines.append)
    transport.close()
    assert (result.exit, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert lines == ["out"]
    asked, ran = fake.calls
    place = ["-l", "ops", "-p", "2200", "--", "192.0.2.7"]
    assert asked[-len(place) - 1 :] == ["-G", *place]
    assert options(asked) == STRICT
    assert asked[-len(place) - 3 : -len(place) - 1] == ["-i", "/k"]
    assert options(ran) == STRICT | PLAIN
    assert ran[-len(place) - 1 : -1] == place
    assert "-T" in ran
    assert ran[ran.index("-i") : ran.index("-i") + 2] == ["-i", "/k"]


def test_the_hosts_fields_come_before_the_files(fake: Fake) -> None:
    host = Host("gpu7", options=(("Ciphers", "aes128-ctr"),), jump="a,b")
    OpensshTransport(host, config_file="/cfg", become=False).run("true\n")
    asked, ran = fake.calls
    for words in (asked, ran):
        assert words[:2] == ["-F", "/cfg"]
        assert options(words)["Ciphers"] == "aes128-ctr"
        assert "-l" not in words
        assert "-p" not in words
    assert asked[asked.index("-J") + 1] == "a,b"
    assert "-J" not in ran


def test_nothing_that_an_inventory_says_lends_a_node_what_is_ours(fake: Fake) -> None:
    theirs = dict.fromkeys((*STRICT, *PLAIN), "/theirs")
    host = Host("gpu7", options=tuple(theirs.items()), jump="hop1")
    OpensshTransport(host, become=False).run("true\n")
    asked, ran = fake.calls
    assert options(asked) == STRICT | dict.fromkeys(PLAIN, "/theirs")
    assert options(ran) == STRICT | PLAIN


def test_a_host_with_a_file_of_its_own_takes_a_first_key(fake: Fake) -> None:
    OpensshTransport(Host("gpu7", new_keys="/a b/k"), become=False).run("true\n")
    own = {"UserKnownHostsFile": '"/a b/k"', "GlobalKnownHostsFile": "/dev/null"}
    assert options(fake.calls[0]) == STRICT | own | {"StrictHostKeyChecking": "accept-new"}


def test_every_hop_is_held_to_the_same_keys(fake: Fake) -> None:
    fake.way("proxyjump jo@hop1:2200,ssh://hop2\n")
    OpensshTransport(Host("gpu7"), config_file="/cfg", become=False).run("true\n")
    *asked, ran = fake.calls
    assert [each[-1] for each in asked] == ["gpu7", "hop1", "hop2"]
    assert asked[1][-6:] == ["-l", "jo", "-p", "2200", "--", "hop1"]
    outer = shlex.split(options(ran)["ProxyCommand"])
    assert outer[:3] == ["ssh", "-F", "/cfg"]
    assert outer[-4:] == ["-W", "[%h]:%p", "--", "hop2"]
    inner = options(outer).pop("ProxyCommand")
    assert options(outer) == STRICT | {"ProxyCommand": inner}
    first = shlex.split(inner)
    assert first[-8:] == ["-W", "[%%h]:%%p", "-l", "jo", "-p", "2200", "--", "hop1"]
    assert options(first) == STRICT


def test_no_login_password_is_given_to_it() -> None:
    with pytest.raises(UsageError, match="no login password"):
        OpensshTransport(Host("gpu7"), credentials=Credentials(password=""))
    OpensshTransport(Host("gpu7"), credentials=Credentials(become_password="x"))  # noqa: S106 of nobody


def test_the_way_to_root_is_the_scripts(fake: Fake) -> None:
    given = Credentials(become_password="secret")  # noqa: S106 of nobody
    (fake.folder / "bin/sudo").write_text("#!/bin/sh\nexit 1\n")
    (fake.folder / "bin/sudo").chmod(0o755)
    fake.says("", 0)
    with pytest.raises(TransportError):
        OpensshTransport(Host("gpu7"), credentials=given).run("true\n")
    [asked] = [each for each in fake.calls if "-T" in each]
    assert "sudo -S" in asked[-1]
    assert "secret" not in " ".join(asked)


def test_a_client_that_is_not_there(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake.folder))
    with pytest.raises(UsageError, match="cannot be started: No such file") as raised:
        OpensshTransport(Host("gpu7")).run("true\n")
    assert "install openssh-client" in raised.value.hint


def test_a_client_that_goes_between_both_calls(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(openssh, "run_child", gone)
    with pytest.raises(UsageError, match="cannot be started: No such file"):
        OpensshTransport(Host("gpu7")).run("true\n")


def test_a_configuration_that_it_does_not_accept(fake: Fake) -> None:
    (fake.folder / "bad").write_text("x" * 400 + "/cfg: line 3: Bad configuration option: foo\n")
    with pytest.raises(UsageError) as raised:
        OpensshTransport(Host("gpu7")).run("true\n")
    tail = ("x" * 400 + "/cfg: line 3: Bad configuration option: foo")[-300:]
    assert str(raised.value) == f"gpu7: ssh does not accept its configuration: {tail}"


def test_a_user_without_a_line_in_passwd_is_not_sent_to_the_file(fake: Fake) -> None:
    (fake.folder / "bad").write_text("No user exists for uid 54321\r\n")
    with pytest.raises(UsageError) as raised:
        OpensshTransport(Host("gpu7")).run("true\n")
    why = "gpu7: ssh does not run for this user: No user exists for uid 54321"
    assert str(raised.value) == why
    hint = "give the user a line in passwd, or leave out --transport openssh"
    assert raised.value.hint == hint


def test_a_match_that_never_ends(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh, "_RESOLVE_S", 0.05)
    (fake.folder / "hangs").touch()
    with pytest.raises(TransportError, match="gpu7: ssh -G does not answer"):
        OpensshTransport(Host("gpu7")).run("true\n")


@pytest.mark.parametrize(
    ("said", "doing"), [(b"gdr-begin\n", "the script ran"), (b"motd\n", "connecting")]
)
def test_time_that_is_up(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, said: bytes, doing: str
) -> None:
    given: dict[str, object] = {}

    def late(*_: object, **more: object) -> ChildEnd:
        given.update(more)
        return ChildEnd(True, None, said)

    monkeypatch.setattr(openssh, "run_child", late)
    with pytest.raises(TransportError, match=f"gpu7: no answer within 7 s while {doing}"):
        OpensshTransport(Host("gpu7"), become=False).run("true\n", limit_s=7)
    assert given["limit_s"] == 7


@pytest.mark.parametrize(
    ("said", "kind", "says"),
    [
        (
            "Permission denied (publickey).",
            LoginError,
            "let ops in; tried {home}/key; it takes pub",
        ),
        ("Host key verification failed.", HostKeyError, "not known (RSA SHA256:xyz)"),
        ("odd words\n", TransportError, "gpu7: ssh failed: odd words"),
        ("x" * 300, TransportError, "gpu7: ssh failed: " + "x" * 200),
        ("\n", TransportError, "gpu7: ssh failed: it does not say why"),
    ],
)
def test_why_it_failed(fake: Fake, said: str, kind: type[Exception], says: str) -> None:
    fake.way(WAY.format(home=fake.folder))
    (fake.folder / "key").touch()
    (fake.folder / "verbose").write_text("debug1: Server host key: ssh-rsa SHA256:xyz\n")
    fake.says(said)
    with pytest.raises(kind) as raised:
        OpensshTransport(Host("gpu7"), become=False).run("true\n")
    assert says.format(home=fake.folder) in str(raised.value)
    if kind is TransportError:
        assert str(raised.value).endswith(says[-20:])
    if kind is HostKeyError:
        assert fake.calls[-1][-4:] == ["-v", "--", "gpu7", "true"]
        assert ">> /k/hosts" in raised.value.hint  # type: ignore[attr-defined]  # a stand-in


def test_an_end_without_a_beginning_is_no_success(fake: Fake) -> None:
    fake.says("motd\n", 0)
    with pytest.raises(TransportError, match="gpu7"):
        OpensshTransport(Host("gpu7"), become=False).run("true\n")


@pytest.mark.parametrize(
    ("text", "jump", "through", "proxy"),
    [
        ("", "", False, ""),
        ("proxyjump none\nproxycommand none\n", "", False, ""),
        ("proxyjump a,b\n", "a,b", True, ""),
        ("proxycommand nc %h\n", "", True, "nc %h"),
    ],
)
def test_what_it_makes_of_its_configuration(
    text: str, jump: str, through: bool, proxy: str
) -> None:
    way = _read_way(Host("gpu7", address="192.0.2.7", user="jo"), text)
    door = way.door
    assert (way.jump, door.through, door.proxy) == (jump, through, proxy)
    assert (door.host, door.address, door.port, door.user) == ("gpu7", "192.0.2.7", 22, "jo")
    assert (door.key_name, door.known_hosts, way.keys) == ("", "~/.ssh/known_hosts", ())


def test_its_first_value_counts() -> None:
    text = "hostname h1\nhostname h2\nport 23\nuser u\nhostkeyalias al\nidentityfile a b\n"
    text += "identityfile c\nuserknownhostsfile k1 k2\n"
    way = _read_way(Host("gpu7"), text)
    door = way.door
    assert (door.address, door.port, door.user, door.key_name) == ("h1", 23, "u", "al")
    assert (door.known_hosts, way.keys) == ("k1", ("a b", "c"))
    assert _read_way(Host("gpu7"), "").door.address == "gpu7"


def test_a_hop_is_a_host() -> None:
    assert _host("ssh://jo@hop:2200") == Host(
        "ssh://jo@hop:2200", address="hop", user="jo", port=2200
    )


def test_a_hop_is_an_address_as_ssh_prints_it() -> None:
    host = _host("jo@[192.0.2.1]:2200")
    assert (host.address, host.user, host.port) == ("192.0.2.1", "jo", 2200)
    assert _host("[fe80::1]:22").address == "fe80::1"


def test_the_client_asks_nobody(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}
    run = subprocess.run

    def noted(words: list[str], **more: object) -> object:
        seen.update(more)
        return run(words, **more)  # type: ignore[call-overload]  # a stand-in

    monkeypatch.setattr(subprocess, "run", noted)
    OpensshTransport(Host("gpu7"), become=False).run("true\n")
    assert seen["stdin"] is subprocess.DEVNULL
    assert seen["start_new_session"] is True
