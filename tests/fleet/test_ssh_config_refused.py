"""What the OpenSSH client refuses in ssh_config is refused by both transports, with a sentence."""

from __future__ import annotations

import subprocess

import pytest

from tests.fleet.conftest import Site
from toolkit.errors import UsageError
from toolkit.hosts.host import Host
from toolkit.ssh.ssh_config import SshConfig
from toolkit.ssh.ssh_config_tokens import COMMANDS, problem, split_words

pytestmark = pytest.mark.sshd

BAD = [
    "Foo bar",
    "Host gpu*\n  Foo bar",
    "Port",
    "Port 0",
    "Port 65536",
    "Port many",
    "User a b",
    'IdentityFile "/a',
    "ForwardX11 maybe",
    "StrictHostKeyChecking perhaps",
    "ConnectTimeout soon",
    "ConnectionAttempts few",
    "Host",
    "Match",
    "Include",
    "ProxyCommand",
    "ProxyCommand nc '%h",
    "= yes",
    "IgnoreUnknown Bar\nFoo bar",
    "ControlPersist perhaps",
]
GOOD = [
    "IgnoreUnknown Foo*\nFoo bar",
    "Port 22 # the usual",
    "User=ops",
    'User "ops"',
    "ForwardAgent /run/agent",
    "Protocol 2",
    "ProxyCommand nc '%h' %p | cat",
    "ConnectTimeout 1m30",
    "PubkeyAuthentication unbound",
    "SendEnv LANG LC_*",
    "UserKnownHostsFile /a /b",
    'IdentityFile "/a b"',
    "IdentityFile '/a b'",
    "IdentityFile /a\\ b",
    "ControlPersist 10m",
    "   ",
    "#Foo",
]


def refused(site: Site) -> bool:
    words = ["ssh", "-G", "-F", str(site.config), "gpu7"]
    return subprocess.run(words, capture_output=True, check=False, timeout=30).returncode != 0


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_ssh_refuses_is_refused(site: Site, text: str) -> None:
    site.write(text)
    assert refused(site)
    with pytest.raises(UsageError) as raised:
        site.open(Host("gpu7", address="127.0.0.1", port=1), become=False).run("true\n", limit_s=9)
    assert str(site.config) in str(raised.value) or site.kind == "openssh"
    assert raised.value.hint


@pytest.mark.parametrize("text", GOOD)
def test_a_file_that_ssh_takes_is_taken(site: Site, text: str) -> None:
    site.write(text)
    assert not refused(site)
    target = SshConfig.load(site.config).target(Host("gpu7"))
    assert target.door.host == "gpu7"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o646])
def test_a_users_own_file_that_others_may_write_to(
    site: Site, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr("toolkit.ssh.ssh_config.USER_FILE", str(site.config))
    site.config.chmod(mode)
    if mode & 0o022:
        with pytest.raises(UsageError, match="others may write to it"):
            SshConfig.load()
    else:
        SshConfig.load()


def test_no_line_is_refused_that_ssh_takes(site: Site) -> None:
    """Lines of each keyword that this client knows; what ssh checks beyond them is its own."""
    shown = subprocess.run(["ssh", "-G", "x"], capture_output=True, check=True, text=True).stdout
    keys = sorted({line.partition(" ")[0] for line in shown.split("\n") if line})
    assert len(keys) > 50
    for key in keys:
        for value in ("", "yes", "maybe", "yes more", "10", "'yes'", '"yes'):
            words = (value,) if key in COMMANDS and value[:1] != '"' else split_words(value)
            site.write(f"{key} {value}")
            if problem(key, words):
                assert refused(site), f"{key} {value}"
