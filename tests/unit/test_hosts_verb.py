"""``hosts``: each that is meant, and how it would be reached."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from toolkit.cli import main
from toolkit.errors import (
    ExitCode,
    HostKeyError,
    NewKey,
    Outcome,
    ToolkitError,
    TransportError,
)
from toolkit.ssh.ssh_config_file import is_ssh_config
from toolkit.verbs.cli import hosts as verb

ROOT = Path(__file__).parents[2]
INVENTORY = "[train]\ngpu001 ansible_host=192.0.2.1 ansible_user=root ansible_port=2222\ngpu002\n"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "hosts.ini"
    file.write_text(INVENTORY)
    return str(file)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["gdr", "hosts", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_each_host_has_its_row(
    inventory: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--inventory", inventory, "--hosts", "@train")
    assert run(monkeypatch, *words) == ExitCode.OK
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "address", "user", "port", "groups"],
        ["gpu001", "192.0.2.1", "root", "2222", "train"],
        ["gpu002", "gpu002", "-", "-", "train"],
    ]
    assert run(monkeypatch, *words, "--json") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["hosts"]] == ["gpu001", "gpu002"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="none-named"),
        pytest.param(("--hosts", "gpu001", "--limit", "gpu002"), id="none-kept"),
        pytest.param(("--hosts", "gpu001", "--explain", "--scan-keys"), id="asked-and-not-asked"),
        pytest.param(("--hosts", "gpu[001-002]", "--exclude", "gpu[001-009]"), id="all-left-out"),
    ],
)
def test_no_host_is_no_table(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *words) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert [line[:7] for line in told.err.splitlines()] == ["error: ", " next: "]


def explained(out: str) -> dict[str, dict[str, tuple[str, str]]]:
    """By host and what: value and source."""
    told = json.loads(out)
    jsonschema.validate(told, json.loads((ROOT / "docs/hosts.schema.json").read_text()))
    return {
        host["name"]: {row["what"]: (row["value"], row["source"]) for row in host["explained"]}
        for host in told["hosts"]
    }


def test_each_thing_that_holds_is_told_with_the_place_that_says_so(
    inventory: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Inventory, group_vars, ssh_config, the site's file, an option, the name, a default."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/train.yml").write_text(
        "---\nansible_port: 2200\nansible_ssh_common_args: -o ConnectTimeout=5\n"
    )
    (tmp_path / "config").write_text(
        "Host gpu002\n  ProxyJump ops@bastion\n  IdentityFile /k/two\n  User admin\n"
        "  HostName gpu2.example\n"
    )
    (tmp_path / "site.toml").write_text(
        '[expect]\nrate = 400\n[[group]]\nhosts = "gpu001"\nprofile = "dmabuf"\n'
        'expect = { rate = 200 }\n[[waivers]]\ncheck = "rdma.mtu"\nreason = "x"\n'
        'until = 2020-01-31\nhosts = "gpu002"\n[[waivers]]\ncheck = "rdma.mtu"\nreason = "y"\n'
        'until = 2999-01-31\nhosts = "gpu001"\n'
    )
    words = ("--inventory", "hosts.ini", "--ssh-config", "config", "--site", "site.toml")
    more = ("--explain", "--key", "/k/all", "--no-become", "--json")
    assert run(monkeypatch, *words, "--hosts", "gpu[001-002],root@login1", *more) == ExitCode.OK
    told = explained(capsys.readouterr().out)
    assert told["gpu001"] == {
        "address": ("192.0.2.1", "hosts.ini:2, ansible_host"),
        "port": ("2222", "hosts.ini:2, ansible_port"),
        "user": ("root", "hosts.ini:2, ansible_user"),
        "jump": ("none", "default"),
        "key": ("/k/all", "--key"),
        "become": ("never", "--no-become"),
        "profile": ("dmabuf", "site.toml, group 1"),
        "expect": ("rate 200 Gb/s", "site.toml, group 1"),
        "waived": ("rdma.mtu until 2999-01-31: y", "site.toml, for gpu001"),
    }
    assert told["gpu002"] == {
        "address": ("gpu2.example", "config:5"),
        "port": ("2200", "group_vars/train.yml:2, ansible_port"),
        "user": ("admin", "config:4"),
        "jump": ("ops@bastion:22", "config:2"),
        "key": ("/k/all, /k/two", "--key; config:3"),
        "become": ("never", "--no-become"),
        "profile": ("auto", "default"),
        "expect": ("rate 400 Gb/s", "site.toml"),
        "waived": ("rdma.mtu until 2020-01-31, which is over: x", "site.toml, for gpu002"),
    }
    assert told["root@login1"]["user"] == ("root", "its name, root@login1")


def test_hosts_of_which_the_same_holds_are_told_of_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "config").write_text("Host gpu4\n  HostName 192.0.2.4\n")
    monkeypatch.chdir(tmp_path)
    assert (
        run(monkeypatch, "--hosts", "gpu[1-4]", "--ssh-config", "config", "--explain")
        == ExitCode.OK
    )
    lines = capsys.readouterr().out.splitlines()
    assert [each for each in lines if each and not each.startswith(" ")] == ["gpu[1-3]", "gpu4"]
    assert lines[1] == "  address   the name itself  (its name)"
    assert "  address   192.0.2.4  (config:2)" in lines


@pytest.fixture
def aliases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh_config with nodes, in itself and in a file that it includes, and others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rack2").write_text("Host gpu03\n")
    (tmp_path / "config").write_text(
        "ServerAliveInterval 30\nhost gpu01 gpu02 !gpu09 gpu1?\n  HostName %h.example\n"
        f"Include {tmp_path}/rack2\nHost code.example user@odd\n  User git\nHost *\n  User ops\n"
    )
    return tmp_path / "config"


def test_the_host_lines_of_an_ssh_config_name_hosts(
    aliases: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are reached as that file says, without naming it twice."""
    words = ("--inventory", "config", "--explain", "--json", "--hosts")
    assert run(monkeypatch, *words, "gpu*") == ExitCode.OK
    told = explained(capsys.readouterr().out)
    assert list(told) == ["gpu01", "gpu02", "gpu03"]
    assert told["gpu02"]["address"] == ("gpu02.example", "config:3")
    assert told["gpu03"]["user"] == ("ops", "config:8")
    assert run(monkeypatch, *words, "@all!gpu*") == ExitCode.OK
    assert list(explained(capsys.readouterr().out)) == ["code.example"]


def test_who_names_none_of_them_does_not_mean_all(
    aliases: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--inventory", "config") == ExitCode.USAGE
    told = capsys.readouterr()
    assert (told.out, "is an ssh_config, which has others as well" in told.err) == ("", True)


@pytest.mark.parametrize(
    "text", ["[all]\nhost gpu01=1\n", "host ansible_host=192.0.2.1\n", "gpu01\ngpu02\n"]
)
def test_an_inventory_of_ansible_is_no_ssh_config(text: str) -> None:
    assert not is_ssh_config(text)


BLOB = b"\0\0\0\x0bssh-ed25519"
OWN = NewKey("known", "gpu2", "ssh-ed25519", BLOB, "gpu2")
BEHIND = NewKey("known", "bastion", "ssh-ed25519", BLOB, "bastion")


Found = dict[str, NewKey | ToolkitError | None]  # by host
Scan = Callable[..., tuple[int, str, list[NewKey]]]


@pytest.fixture
def scan_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Scan:
    """Where hosts have such keys: the exit code, what is printed, and what is written down."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def scan(found: Found, *words: str) -> tuple[int, str, list[NewKey]]:
        added: list[NewKey] = []
        outcomes: list[Outcome[NewKey | None]] = [
            Outcome(host, error=each) if isinstance(each, ToolkitError) else Outcome(host, each)
            for host, each in found.items()
        ]
        monkeypatch.setattr(verb, "scan", lambda _: outcomes)
        monkeypatch.setattr(verb, "add_keys", added.extend)
        code = run(monkeypatch, "--hosts", ",".join(found), "--scan-keys", *words)
        return code, capsys.readouterr().out, added

    return scan


AFTER = "behind bastion, whose key comes first"
CHANGED, AWAY = HostKeyError("gpu4: changed"), TransportError("gpu5: no route")


@pytest.mark.parametrize(
    ("found", "words", "code", "states"),
    [
        ({"gpu1": None}, "--yes", ExitCode.OK, {"known": ""}),
        ({"gpu1": None, "gpu2": OWN}, "", ExitCode.PENDING, {"known": "", "new": ""}),
        ({"gpu1": None, "gpu2": OWN}, "--yes", ExitCode.OK, {"known": "", "added": ""}),
        ({"gpu3": BEHIND}, "--yes", ExitCode.PENDING, {"behind": AFTER}),
        ({"gpu4": CHANGED}, "--yes", ExitCode.UNREACHABLE, {"refused": "gpu4: changed"}),
        ({"gpu5": AWAY}, "--yes", ExitCode.UNREACHABLE, {"out of reach": "gpu5: no route"}),
    ],
    ids=["known", "new", "written", "behind", "changed", "away"],
)
def test_a_key_is_told_and_written_by_what_it_is(
    found: Found, words: str, code: ExitCode, states: dict[str, str], scan_keys: Scan
) -> None:
    ended, out, added = scan_keys(found, "--json", *words.split())
    assert ended == code
    told = json.loads(out)
    jsonschema.validate(told, json.loads((ROOT / "docs/hosts.schema.json").read_text()))
    assert {each["key"]["state"]: each["key"]["message"] for each in told["hosts"]} == states
    new = [each for each in found.values() if isinstance(each, NewKey)]
    assert added == (new if words else [])


def test_a_new_key_is_one_row_with_the_hosts_that_have_it(scan_keys: Scan) -> None:
    other = NewKey("known", "gpu9", OWN.kind, BLOB, "gpu9")
    found: Found = {"gpu1": None, "gpu2": OWN, "gpu9": other, "gpu3": BEHIND, "gpu5": AWAY}
    code, out, _ = scan_keys(found)
    assert code == ExitCode.UNREACHABLE
    head, row, *rest = out.splitlines()
    assert head.split() == ["kind", "fingerprint", "new", "key", "of"]
    kind, fingerprint, hosts = row.split()
    assert (kind, fingerprint[:7], hosts) == ("ED25519", "SHA256:", "bastion,gpu[2,9]")
    assert rest[:3] == ["", f"gpu3: {AFTER}", ""]
    assert rest[3].split() == ["error", "gpu5"]
    assert rest[-1] == "known: gpu1"
    assert scan_keys({"gpu1": None}) == (ExitCode.OK, "known: gpu1\n", [])
    assert len(scan_keys({"gpu2": OWN})[1].splitlines()) == 2, "and nothing that is empty"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "answer", "written"),
    [((), "y\n", True), ((), "n\n", False), (("--json",), "y\n", False)],
)
def test_who_has_read_the_list_is_asked_before_it_is_written(
    words: tuple[str, ...],
    answer: str,
    written: bool,
    scan_keys: Scan,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody at a terminal reads a document before he would be asked."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", Terminal())
    assert scan_keys({"gpu2": OWN}, *words)[2] == ([OWN] if written else [])


def test_where_nobody_can_be_asked_keys_are_listed_and_stay_open(
    scan_keys: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sys.stdin", "sys.stderr"):
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        monkeypatch.setattr("sys.stderr", Terminal())
        monkeypatch.setattr(name, io.StringIO("y\n"))
        code, _, written = scan_keys({"gpu2": OWN})
        assert (code, written) == (ExitCode.PENDING, [])
