"""A rack of slow BMCs, read side by side."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.personas import PERSONAS
from toolkit.evidence import State
from toolkit.hosts.host import Host
from toolkit.redfish.access import BmcAccess, BmcTrust, Login
from toolkit.redfish.fleet import open_bmcs
from toolkit.ssh.pool import run_all

LATENCY_S = 0.4
MANY = 64


def test_64_slow_bmcs_are_read_side_by_side(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They take 6 s on two busy processors; one after the other, their answers alone take 320 s."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = itertools.islice(itertools.cycle(sorted(PERSONAS)), MANY)
    bmcs = [simulate(name, latency_s=LATENCY_S) for name in names]
    hosts = tuple(Host(f"gpu{n}", bmc=each.address) for n, each in enumerate(bmcs))
    access = BmcAccess(Login(bmcs[0].user, bmcs[0].password), BmcTrust(ca=str(bmcs[0].ca)), {}, 60)
    begin = time.monotonic()
    with open_bmcs(access, hosts) as opened:
        outcomes = run_all(hosts, opened.frames)
    took = time.monotonic() - begin
    assert [each.get()[0].state for each in outcomes] == [State.OK] * MANY
    waited = LATENCY_S * sum(len(each.log.entries) for each in bmcs)
    assert took < waited / 4
    assert {each.log.most_connections for each in bmcs} == {1}
    assert sum(each.sessions for each in bmcs) == 0
