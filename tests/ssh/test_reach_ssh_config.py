"""What ~/.ssh/config means for a host, held against ``ssh -G`` where that is installed."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.errors import UsageError
from toolkit.hosts.host import Host
from toolkit.ssh import ssh_config
from toolkit.ssh.ssh_config import SshConfig, Target
from toolkit.ssh.ssh_config_file import ConfigLine


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own: nothing of the user's takes part."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def target(home: Path, text: str, host: Host | str = "gpu1") -> Target:
    file = home / "config"
    file.write_text(text)
    return SshConfig.load(file).target(Host(host) if isinstance(host, str) else host)


def test_without_a_file_the_defaults_hold(home: Path) -> None:
    found = SshConfig(()).target(Host("gpu1"))
    assert (found.door.address, found.door.port, found.door.user) == (
        "gpu1",
        22,
        getpass.getuser(),
    )
    assert found.known_hosts[0] == f"{home}/.ssh/known_hosts"
    assert f"{home}/.ssh/id_ed25519" in found.key_files
    assert not found.keys_configured


def test_a_home_that_may_not_be_entered_has_no_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(file: Path) -> Iterator[ConfigLine]:
        yield ConfigLine("read", (str(file),), None)

    monkeypatch.setattr(ssh_config, "read_settings", read)
    system = "/etc/ssh/ssh_config"
    assert [each.words for each in SshConfig.load().settings] == [
        (f"{home}/.ssh/config",),
        (system,),
    ]
    monkeypatch.setattr("os.access", lambda path, _: path != home)
    assert [each.words for each in SshConfig.load().settings] == [(system,)]


@pytest.mark.parametrize(
    ("text", "address", "user", "port"),
    [
        pytest.param("Host gpu*\n User a\n Port 23\n", "gpu1", "a", 23, id="host"),
        pytest.param("Host gpu* !gpu1\n User a\nHost *\n User b\n", "gpu1", "b", 22, id="negated"),
        pytest.param("User a\nHost gpu1\n User b\n", "gpu1", "a", 22, id="first-counts"),
        pytest.param("Match host gpu1\n User a\n", "gpu1", "a", 22, id="match-host"),
        pytest.param("Match originalhost cpu1\n User a\n", "gpu1", "me", 22, id="match-other"),
        pytest.param("Match all\n User a\n", "gpu1", "a", 22, id="match-all"),
        pytest.param("HostName %h.example.org\n", "gpu1.example.org", "me", 22, id="hostname"),
        pytest.param("User=a\nPort = 23\n", "gpu1", "a", 23, id="equals-signs"),
        pytest.param('User "a"  # why\n# Port 9\nPort 23 # so\n', "gpu1", "a", 23, id="comments"),
        pytest.param("HOST gpu1\n\tuser a\n  PORT 23\n", "gpu1", "a", 23, id="any-case"),
        pytest.param('"Port" 23\n', "gpu1", "me", 23, id="keyword-in-quotes"),
        pytest.param("IgnoreUnknown f*\nFoo\nFoo x\nPort 23\n", "gpu1", "me", 23, id="ignored"),
        pytest.param("Match host\n User a\n", "gpu1", "me", 22, id="criterion-without-word"),
        pytest.param("Match !FINAL Host gpu1\n User a\n", "gpu1", "a", 22, id="criteria-any-case"),
    ],
)
def test_blocks_are_evaluated(home: Path, text: str, address: str, user: str, port: int) -> None:
    found = target(home, text).door
    assert (found.address, found.port) == (address, port)
    assert found.user == (getpass.getuser() if user == "me" else user)


def test_what_the_operator_wrote_goes_first(home: Path) -> None:
    text = "User a\nPort 23\nMatch user root\n IdentityFile ~/root_key\n"
    host = Host("root@gpu1:24", address="gpu1", user="root", port=24, key_file="~/other key")
    found = target(home, text, host)
    assert (found.door.user, found.door.port) == ("root", 24)
    assert found.key_files == (f"{home}/other key", f"{home}/root_key")


def test_file_names_are_expanded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    text = (
        "User ops\nIdentityFile ~/.ssh/%r@%h\nCertificateFile %d/c-%u\nIdentitiesOnly yes\n"
        'UserKnownHostsFile ${KEYS}/a "~/b c" none\nGlobalKnownHostsFile none\n'
        "HostKeyAlias rack1\nConnectTimeout 7\nIdentityAgent none\n"
    )
    found = target(home, text)
    assert found.key_files == (f"{home}/.ssh/ops@gpu1",)
    assert found.certificates == (f"{home}/c-{getpass.getuser()}",)
    assert found.known_hosts == ("/keys/a", f"{home}/b c")
    assert (found.identities_only, found.agent, found.timeout_s) == (True, "none", 7)
    assert found.door.known_as == "rack1"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("ConnectTimeout none\n", None), ("ConnectTimeout 1M30\n", 90)],
)
def test_without_a_time_a_connection_is_waited_for_as_long_as_the_kernel_does(
    home: Path, text: str, seconds: float | None
) -> None:
    assert target(home, text).timeout_s == seconds


def test_a_word_that_stands_for_nothing_is_read_in_any_case(home: Path) -> None:
    found = target(home, "ProxyJump NONE\nProxyCommand None\nIdentitiesOnly YES\n")
    assert (found.jumps, found.door.proxy, found.door.through) == ((), "", False)
    assert found.identities_only
    assert SshConfig.load(Path("None")).settings == ()


def test_the_file_that_a_new_key_goes_to_is_the_first_of_the_known_ones(home: Path) -> None:
    nobody = target(home, "UserKnownHostsFile none\nGlobalKnownHostsFile None\n")
    assert (nobody.known_hosts, nobody.door.known_hosts) == ((), "~/.ssh/known_hosts")
    own = target(home, "UserKnownHostsFile /a\n", Host("gpu1", new_keys="/new"))
    assert (own.known_hosts, own.door.known_hosts) == (("/new",), "/new")


def test_a_key_that_is_named_twice_is_tried_once(home: Path) -> None:
    text = "IdentityFile /a\nIdentityFile /a\nMatch final\n IdentityFile /b\n"
    assert target(home, text).key_files == ("/a", "/b")
    file = home / "config"
    where = SshConfig.load(file).where(Host("gpu1"))["identityfile"]
    assert where == f"{file}:1, {file}:2, {file}:4"


@pytest.mark.parametrize("host", [Host("gpu1"), Host("vagrant://n", address="gpu1")])
def test_a_line_counts_by_the_name_that_ssh_would_be_given(home: Path, host: Host) -> None:
    target(home, "Host gpu1\n Port 23\n")
    assert SshConfig.load(home / "config").where(host) == {"port": f"{home}/config:2"}


@pytest.mark.parametrize(
    ("owner", "mode", "read"),
    [(0, 0o644, True), (os.getuid(), 0o600, True), (os.getuid(), 0o620, False),
     (os.getuid(), 0o602, False), (os.getuid() + 4711, 0o600, False)],
)  # fmt: skip
def test_the_users_file_is_not_read_where_others_may_have_written_it(
    owner: int, mode: int, *, read: bool
) -> None:
    found = SimpleNamespace(stat=lambda: SimpleNamespace(st_uid=owner, st_mode=0o100000 | mode))
    with nullcontext() if read else pytest.raises(UsageError, match="others may write to it"):
        ssh_config._refuse_others(found)  # type: ignore[arg-type] # all that it asks


def test_included_files_count_where_they_stand(home: Path) -> None:
    (home / ".ssh/site.d").mkdir()
    (home / ".ssh/site.d/1").write_text("Host cpu*\n User c\nHost gpu*\n User a\n")
    for number in (2, 9, 5, 3, 7):
        (home / f".ssh/site.d/{number}").write_text(f"Host gpu1\n Port 2{number + 1}\n")
    (home / ".ssh/plain").write_text("Foo x\nIdentityFile ~/k\n")
    text = (
        "IgnoreUnknown f*\nInclude site.d/* none-such\nUser b\n"
        "Host gpu1\n Include plain\n HostName here\n"
    )
    found = target(home, text)
    assert (found.door.user, found.door.port, found.door.address) == ("a", 23, "here")
    assert found.key_files == (f"{home}/k",)
    assert target(home, text, "other").door.user == "b"


def test_an_include_counts_only_where_its_block_does(home: Path) -> None:
    (home / ".ssh/blocks").write_text("Port 23\nHost *1\n User a\n")
    text = "Host gpu*\n Include blocks\n HostName here\n"
    doors = [target(home, text, name).door for name in ("gpu1", "gpu2", "cpu1")]
    assert [(door.user == "a", door.port, door.address) for door in doors] == [
        (True, 23, "here"),
        (False, 23, "here"),
        (False, 22, "cpu1"),
    ]


@pytest.mark.parametrize(
    ("criteria", "holds"),
    [
        pytest.param("host gpu1", True, id="host"),
        pytest.param("host=gpu1", True, id="host-by-equals-sign"),
        pytest.param("!host gpu1", False, id="not-host"),
        pytest.param('host "cpu*,gpu?"', True, id="list-in-quotes"),
        pytest.param("host *,!gpu1", False, id="negated-in-list"),
        pytest.param("user ops host gpu1", True, id="both"),
        pytest.param("user root host gpu1", False, id="one-of-both"),
        pytest.param('exec "test %n = gpu1"', True, id="exec"),
        pytest.param("exec false", False, id="exec-fails"),
        pytest.param("final host gpu1", True, id="final"),
        pytest.param("canonical", False, id="canonical"),
        pytest.param("!canonical all", True, id="not-canonical"),
    ],
)
@pytest.mark.sshd
def test_match_holds_as_for_openssh(home: Path, criteria: str, holds: bool) -> None:
    text = f"User ops\nMatch {criteria}\n Port 23\n"
    assert (target(home, text).door.port == 23) is holds
    words = ["ssh", "-F", str(home / "config"), "-G", "gpu1"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert ("port 23\n" in said) is holds


def test_the_users_file_goes_before_the_system_s(home: Path) -> None:
    (home / ".ssh/config").write_text("User mine\n")
    assert SshConfig.load().target(Host("gpu1")).door.user == "mine"


def test_includes_in_a_circle_are_refused(home: Path) -> None:
    (home / ".ssh/loop").write_text("Include loop\n")
    with pytest.raises(UsageError, match="in a circle"):
        target(home, "Include loop\n")
    for number in range(1, 16):
        (home / f".ssh/{number}").write_text(f"Include {number + 1}\n")
    (home / ".ssh/16").write_text("Port 23\nInclude 17\n")
    assert target(home, "Include 1\n").door.port == 23
    (home / ".ssh/17").touch()
    with pytest.raises(UsageError, match="too deeply"):
        target(home, "Include 1\n")


def test_a_command_of_match_runs_only_where_all_before_it_holds(home: Path) -> None:
    target(home, f'Match user nobody-else exec "touch {home}/ran"\n User a\n')
    assert not (home / "ran").exists()
    target(home, f'Match host gpu1 exec "touch {home}/ran"\n User a\n')
    assert (home / "ran").exists()


def test_jumps_are_resolved_in_order(home: Path) -> None:
    text = (
        "Host gpu*\n ProxyJump first,ops@second:2200\n"
        "Host first\n HostName 10.0.0.1\n ProxyJump zero\nHost second\n ProxyJump never\n"
    )
    hops = [hop.door for hop in target(home, text).jumps]
    assert [(door.host, door.address, door.port) for door in hops] == [
        ("zero", "zero", 22),
        ("first", "10.0.0.1", 22),
        ("ops@second:2200", "second", 2200),
    ]
    assert hops[2].user == "ops"
    found = target(home, 'Host gpu1\n ProxyJump "ssh://ops@gate:2200, inner "\n')
    hops = [hop.door for hop in found.jumps]
    assert [(door.host, door.address, door.port) for door in hops] == [
        ("ssh://ops@gate:2200", "gate", 2200),
        ("inner", "inner", 22),
    ]
    assert found.door.through


def test_a_jump_of_the_host_s_own_goes_over_the_file(home: Path) -> None:
    found = target(home, "ProxyCommand nc %h %p\n", Host("gpu1", jump="[::1]:2200"))
    assert [hop.door.spot for hop in found.jumps] == ["[::1]:2200"]
    assert found.door.proxy == ""


@pytest.mark.parametrize("text", ["Host *\n ProxyJump gpu2\n", "Host gpu1\n ProxyJump gpu1\n"])
def test_jumps_in_a_circle_are_refused(home: Path, text: str) -> None:
    with pytest.raises(UsageError, match="circle"):
        target(home, text)


def test_eight_jumps_are_no_circle(home: Path) -> None:
    chain = [f"Host h{n}\n ProxyJump h{n + 1}\n" for n in range(9)]
    assert len(target(home, "".join(chain[:8]), "h0").jumps) == 8
    with pytest.raises(UsageError, match="more than 8 jumps"):
        target(home, "".join(chain), "h0")


def test_a_proxy_command_is_kept_word_for_word(home: Path) -> None:
    found = target(home, "ProxyCommand sh -c 'nc \"$0\" %p # not a comment' %h \t\nPort 23\n")
    assert found.door.proxy == "sh -c 'nc \"$0\" 23 # not a comment' gpu1"
    assert found.door.through
    assert target(home, "ProxyCommand none\n").door.proxy == ""


@pytest.mark.parametrize(
    "text",
    [
        "Port x\n",
        "ConnectTimeout soon\n",
        "Match tagged gpu\n User a\n",
        "CanonicalizeHostname yes\n",
        "CanonicalizeHostname Always\n",
        "ProxyJump a;b\n",
    ],
)
def test_what_makes_no_sense_is_refused(home: Path, text: str) -> None:
    with pytest.raises(UsageError):
        target(home, text)


def test_a_file_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="no such ssh_config"):
        SshConfig.load(home / "none")


@pytest.mark.sshd
def test_openssh_understands_the_same(home: Path) -> None:
    (home / "more").write_text("Host gpu1\n User included\n Port 2201\n")
    text = (
        f"Include {home}/more\nHost gpu*\n HostName %h.example.org\n Port 9\n"
        "Match host gpu1.example.org\n HostKeyAlias rack1\n ConnectTimeout 7\n"
        "Host *\n User nobody\nHost gpu*\n ProxyJump a,b@c:22\n"
    )
    found = target(home, text)
    words = ["ssh", "-F", str(home / "config"), "-G", "gpu1"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    ssh = dict(line.partition(" ")[::2] for line in said.split("\n"))
    assert ssh["hostname"] == found.door.address
    assert ssh["user"] == found.door.user
    assert int(ssh["port"]) == found.door.port
    assert ssh["hostkeyalias"] == found.door.key_name
    assert float(ssh["connecttimeout"]) == found.timeout_s
    assert ssh["proxyjump"] == ",".join(hop.door.host for hop in found.jumps)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Foo bar", "bad configuration option: foo"),
        ("Port", "port: its value is missing"),
        ("Port 70000", "port: bad value '70000'"),
        ("User a b", "user: more than one value: 'b'"),
        ("ForwardX11 maybe", "forwardx11: bad value 'maybe'"),
        ("IdentityFile '/a", "identityfile: a quote is not closed"),
    ],
)
def test_a_line_that_ssh_refuses_is_refused(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "config"
    file.write_text(f"Host other\n  {line}\n")
    with pytest.raises(UsageError) as raised:
        SshConfig.load(file)
    assert str(raised.value) == f"{file}:2: {says}"
    assert raised.value.hint


def test_an_option_of_the_inventory_that_ssh_refuses_is_refused() -> None:
    with pytest.raises(UsageError, match="gpu7: an option of its own: bad configuration option"):
        SshConfig().target(Host("gpu7", options=(("Foo", "bar"),)))
