"""Host keys that nobody has known: whom they are asked of, and which are written down."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import HostKeyError, NewKey, Unwritten, UsageError
from toolkit.hosts.host import Host
from toolkit.ssh.known_hosts import known_keys
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.host_keys import add_keys, scan

KEY = NewKey("known_hosts", "gpu2", "ssh-ed25519", b"\0\0\0\x0bssh-ed25519", "gpu2")


def test_each_host_is_greeted_and_a_key_that_is_new_is_no_error() -> None:
    def greet(host: Host) -> None:
        why = HostKeyError(f"{host.name}: its host key is not as it was")
        why.key = KEY if host.name == "gpu2" else None
        if host.name != "gpu1":
            raise why

    def connect(host: Host) -> Any:
        return SimpleNamespace(greet=lambda: greet(host))

    hosts = (Host("gpu1"), Host("gpu2"), Host("gpu3"))
    found = scan(Fleet(hosts, connect, Access(transport="paramiko")))
    assert [(each.host, each.value) for each in found[:2]] == [("gpu1", None), ("gpu2", KEY)]
    assert isinstance(found[2].error, HostKeyError)


def test_only_our_own_client_is_asked_for_keys() -> None:
    with pytest.raises(UsageError, match="by our own SSH client, not by openssh"):
        scan(Fleet((Host("gpu1"),), lambda _: pytest.fail("asked"), Access(transport="openssh")))


def test_a_key_is_written_once_and_not_over_one_of_its_name(tmp_path: Path) -> None:
    file = str(tmp_path / "known_hosts")
    first = NewKey(file, "gpu2", "ssh-ed25519", KEY.blob, "gpu2")
    add_keys([first, first, NewKey(file, "gpu2", "ssh-ed25519", b"\0\0\0\x0bother", "gpu2")])
    assert Path(file).read_text().count("gpu2") == 1
    assert known_keys((file,), "gpu2")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Unwritten):
        add_keys([NewKey(str(tmp_path / "folder"), "a", "ssh-ed25519", KEY.blob, "a")])
