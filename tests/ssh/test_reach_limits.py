"""Many hosts at once find descriptors, or nothing is begun."""

from __future__ import annotations

import resource

import pytest

from toolkit.errors import UsageError
from toolkit.ssh.limits import make_room


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


@pytest.mark.parametrize("limit", [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)], indirect=True)
def test_without_limits_nothing_is_changed(limit: Limit) -> None:
    make_room(100_000, "paramiko")
    assert limit.now[0] == resource.RLIM_INFINITY
