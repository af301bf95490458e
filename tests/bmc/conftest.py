"""Simulated BMCs for tests: real TLS on loopback, one machine behind each.

    def test_a_change_waits_for_the_boot(simulate: Simulate) -> None:
        bmc = simulate("dell", post_s=0.2)
        ...                                   a client of bmc.address, bmc.ca or bmc.fingerprint,
                                              bmc.user and bmc.password
        assert bmc.machine.pending == {"SriovGlobalEnable": "Enabled"}
        assert len(bmc.log.of("PATCH")) == 1 and bmc.sessions == 0

``simulate(NAME, **settings)``: a persona's name (``dell hpe ...``, see personas/__init__.py), and
any field of ``persona.Manners``, ``certificate=Certificate.SELF_SIGNED``, ``tls=False``,
``system={"SerialNumber": "..."}`` for a machine that is a certain one.
``bmc.fails(Kind.BUSY, "GET", "/Bios", retry_after_s=1, times=2)`` lets requests go wrong;
``bmc.expire()`` ends all sessions; ``bmc.log.writes`` is what would have changed the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.bmc.captures import CAPTURES, OF_CAPTURES
from tests.bmc.simulator import Simulator, made
from tests.bmc.tls import Authority

# Without the captures nothing of them is tried, and test_captures_present.py says so.
collect_ignore = [] if CAPTURES.is_dir() else [each.name for each in OF_CAPTURES]


class Simulate(Protocol):
    """Starts a BMC; it is closed when the test ends."""

    def __call__(self, name: str, **settings: Any) -> Simulator: ...


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The certificates of this run; ``authority.ca`` is what clients trust."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def simulate(authority: Authority) -> Iterator[Simulate]:
    started: list[Simulator] = []

    def start(name: str, **settings: Any) -> Simulator:
        started.append(made(name, authority, **settings))
        return started[-1]

    yield start
    for each in started:
        each.close()
