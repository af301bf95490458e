"""Hosts as testinfra's users name them: each way honoured, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.errors import TransportError, UsageError
from toolkit.suites.opened import access_of, containers
from toolkit.verbs.access import Access

PLAIN = Access()


def access(hosts: str, **said: str) -> Access:
    return replace(PLAIN, hosts=hosts, **said)


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("gpu[01-02,04],gpu07", {}, access("gpu[01-02,04],gpu07")),
        ("vagrant://node1", {}, access("vagrant://node1")),
        ("ssh://gpu01", {}, access("gpu01", transport="openssh")),
        ("safe-ssh://gpu01", {}, access("gpu01", transport="openssh")),
        ("paramiko://root@gpu01:2222,paramiko://gpu[02,03]", {},
         access("root@gpu01:2222,gpu[02,03]")),
        ("ssh://gpu01?ssh_config=c&ssh_identity_file=k&sudo=true&sudo_user=root", {},
         access("gpu01", transport="openssh", ssh_config="c", key="k")),
        ("ssh://gpu01?sudo=false", {}, replace(access("gpu01", transport="openssh"), become=False)),
        ("root@gpu01:2222,ops@gpu02", {}, access("root@gpu01:2222,ops@gpu02")),
        ("local://", {}, access("localhost", transport="local")),
        ("gpu01,gpu02", {"connection": "ssh", "ssh_config": "c", "ssh_identity_file": "k"},
         access("gpu01,gpu02", transport="openssh", ssh_config="c", key="k")),
        ("ssh://[fe80::1]:22", {}, access("[fe80::1]:22", transport="openssh")),
    ],
)  # fmt: skip
def test_a_way_is_taken_as_testinfra_means_it(
    text: str, options: dict[str, object], found: Access
) -> None:
    assert access_of(text, options, PLAIN) == found


def test_a_name_of_an_inventory_is_a_group_or_a_host(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("[gpu]\nn1\n")
    options = {"ansible_inventory": str(file)}
    for name, hosts in (("gpu", "@gpu"), ("n1", "n1"), ("all", "@all")):
        found = access_of(f"ansible://{name}", options, PLAIN)
        assert (found.hosts, found.inventory) == (hosts, str(file))
    assert access_of(f"ansible://n1?ansible_inventory={file}", {}, PLAIN).inventory == str(file)


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("winrm://gpu01", {}, "no way to reach a host"),
        ("ssh://root:secret@gpu01", {}, "a password there is not read"),
        ("winrm://root:secret@gpu01", {}, "a password there is not read"),
        ("ssh://a,root:secret@gpu01", {}, "a password there is not read"),
        ("ssh://root:se,secret@gpu01", {}, "a password there is not read"),
        ("ssh://root:se?secret@gpu01", {}, "a password there is not read"),
        ("root:secret@gpu01", {}, "a password there is not read"),
        ("ssh://a?ssh_config=x,ssh://b", {}, "ssh_config is not the same for all hosts"),
        ("podman://a", {"ssh_config": "x"}, "--ssh-config is for SSH"),
        ("ssh://gpu01?timeout=3", {}, "timeout is not honoured"),
        ("ssh://gpu01?sudo_user=ops", {}, "sudo_user ops: the suites need root"),
        ("ssh://gpu01,local://", {}, "names several ways: local, ssh"),
        ("ssh://gpu01,gpu02", {}, "no way to reach a host"),
        ("ansible://gpu", {}, "without an inventory"),
        ("gpu01", {"sudo_user": "ops"}, "sudo_user ops: the suites need root"),
        ("gpu01", {"ssh_extra_args": "-v"}, "--ssh-extra-args is not honoured"),
        ("gpu01", {"force_ansible": True}, "--force-ansible is not honoured"),
        ("gpu01", {"nagios": True}, "--nagios is not honoured"),
        ("gpu01", {"connection": "salt"}, "no way to reach a host"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    text: str, options: dict[str, object], why: str
) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        access_of(text, options, PLAIN)
    assert refused.value.hint
    assert "secret" not in str(refused.value)


def test_a_container_is_asked_by_testinfras_own_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that runs what ``podman exec`` is given; a real one is in tests/kube."""
    program = tmp_path / "podman"
    program.write_text('#!/bin/sh\n[ "$1 $2" = "exec train" ] || exit 125\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fleet = containers(access_of("podman://train,podman://gone", {}, PLAIN))
    assert fleet is not None
    train, gone = map(fleet.connect, fleet.hosts)
    heard: list[str] = []
    ended = train.run("echo 'a b'; echo c >&2; exit 3", sink=heard.append)
    assert (ended.exit, ended.stdout, ended.stderr, heard[0]) == (3, "a b\n", "c\n", "a b")
    with pytest.raises(TransportError, match="podman://gone: "):
        gone.run("true")


def test_others_are_left_to_our_own_transports() -> None:
    assert containers(access_of("ssh://gpu01", {}, PLAIN)) is None
