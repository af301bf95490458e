"""Servers of tests that run side by side are told ports that none of them has."""

from __future__ import annotations

import socket

import pytest

from tests.ports import free_port

HERE = "127.0.0.1"


def test_no_port_is_drawn_twice_by_a_worker_or_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for worker in ("gw0", "gw1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        drawn.append({free_port(HERE) for _ in range(20)})
    assert [len(each) for each in drawn] == [20, 20]
    assert max(drawn[0]) < min(drawn[1])


def test_what_is_taken_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HERE, 0)) as taken:
        monkeypatch.setattr("secrets.SystemRandom.sample", lambda *_: [taken.getsockname()[1]])
        with pytest.raises(AssertionError, match="no free ports"):
            free_port(HERE)
