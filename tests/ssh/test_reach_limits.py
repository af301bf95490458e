"""Many hosts at once find descriptors, or nothing is begun."""

from __future__ import annotations

import resource
import socket
from typing import cast

import pytest

from toolkit.errors import FloodError, UsageError
from toolkit.ssh.limits import GATHERED, Hearing, Wire, make_room


class Limit:
    """In place of the kernel's, which a process may lower and not raise again."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def get(self, which: int) -> tuple[int, int]:
        assert which == resource.RLIMIT_NOFILE
        return self.now

    def set(self, which: int, now: tuple[int, int]) -> None:
        assert which == resource.RLIMIT_NOFILE
        self.now = now


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Limit:
    found = Limit(*request.param)
    monkeypatch.setattr(resource, "getrlimit", found.get)
    monkeypatch.setattr(resource, "setrlimit", found.set)
    return found


@pytest.mark.parametrize("limit", [(1024, 524288)], indirect=True)
def test_a_low_soft_limit_is_raised_as_far_as_is_needed(limit: Limit) -> None:
    make_room(64, "paramiko")
    assert limit.now == (1024, 524288)
    make_room(1000, "paramiko")
    assert limit.now == (2064, 524288)


@pytest.mark.parametrize("limit", [(1024, 4096)], indirect=True)
def test_more_than_the_hard_limit_is_refused_before_anything_is_begun(limit: Limit) -> None:
    with pytest.raises(UsageError, match="2000 hosts at once need 10064 open files") as refused:
        make_room(2000, "openssh")
    assert refused.value.hint.startswith("--fanout 806, ")
    assert limit.now == (1024, 4096)


@pytest.mark.parametrize("limit", [(1024, 2064)], indirect=True)
def test_the_hard_limit_itself_may_be_needed(limit: Limit) -> None:
    make_room(1000, "paramiko")
    assert limit.now == (2064, 2064)
    make_room(1000, "paramiko")
    with pytest.raises(UsageError, match="1001 hosts at once need 2066 open files"):
        make_room(1001, "paramiko")


@pytest.mark.parametrize("limit", [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)], indirect=True)
def test_without_limits_nothing_is_changed(limit: Limit) -> None:
    make_room(100_000, "paramiko")
    assert limit.now[0] == resource.RLIM_INFINITY


class Endless:
    """A server that sends whatever it is asked for."""

    def __init__(self) -> None:
        self.sent = 0

    def recv(self, size: int) -> bytes:
        self.sent += size
        return bytes(size)


def wire(far: Endless) -> Wire:
    return Wire(cast("socket.socket", far), "gpu7")


def test_a_greeting_without_end_is_not_read_to_its_end() -> None:
    far = Endless()
    near = wire(far)
    for _ in range(64):
        near.recv(4096)
    with pytest.raises(FloodError, match="gpu7: says more than 256 KiB before any login"):
        near.recv(4096)
    near.greeted = True
    assert len(near.recv(4096)) == 4096


def test_a_packet_of_any_size_is_not_waited_for() -> None:
    far = Endless()
    near = wire(far)
    near.greeted = True
    assert len(near.recv(1 << 20)) == 1 << 20
    with pytest.raises(FloodError, match="that it sends a packet of 64 MiB"):
        near.recv(64 << 20)
    assert far.sent == 1 << 20
    assert near.why is not None


def test_all_that_one_run_may_hear_is_heard_and_not_a_byte_more() -> None:
    hearing = Hearing("gpu1", 10)
    hearing.take(160)
    with pytest.raises(FloodError):
        hearing.take(1)


def test_while_much_is_waited_for_a_little_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is there, or no longer waited for, all of it is read at once."""
    monkeypatch.setattr("toolkit.ssh.limits._LONGEST_S", 600)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    with far, near:
        near.settimeout(60)
        one = Wire(near, "gpu7")
        far.sendall(b"before")
        assert one.recv(6) == b"before"
        waiting = [True]
        one.awaited = lambda: waiting[0]
        far.sendall(b"a" * 6)
        near.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(6)
        near.settimeout(60)
        far.sendall(b"b" * GATHERED)
        assert one.recv(9) == b"aaaaaabbb"
        assert one.recv(GATHERED) == b"b" * (GATHERED - 3)
        waiting[0] = False
        far.sendall(b"c")
        assert one.recv(6) == b"c"
