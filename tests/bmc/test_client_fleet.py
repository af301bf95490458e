"""The BMCs of a fleet: joined to what nodes say, and none spoils another's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.simulator import Simulator
from tests.evidence.build import node
from tests.replay import ReplayTransport
from toolkit.errors import UsageError
from toolkit.evidence import Evidence, State
from toolkit.facts.text.scrub import Scrubber
from toolkit.hosts.host import Host
from toolkit.redfish.access import BmcAccess, BmcPlace, BmcTrust, Login
from toolkit.redfish.fleet import BmcFleet, open_bmcs
from toolkit.redfish.reader import Reader
from toolkit.redfish.resource import Resource
from toolkit.ssh.pool import Interrupted, run_all
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.doctor import gather


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def access(*bmcs: Simulator, limit_s: float = 20) -> BmcAccess:
    """How to get at them; all are alike in user, password and authority."""
    one = bmcs[0]
    return BmcAccess(Login(one.user, one.password), BmcTrust(ca=str(one.ca)), {}, limit_s)


def hosts(*bmcs: Simulator) -> tuple[Host, ...]:
    return tuple(Host(f"gpu{n}", bmc=each.address) for n, each in enumerate(bmcs, start=1))


def fleet(members: tuple[Host, ...], bmcs: BmcFleet) -> Fleet:
    said = node()
    return Fleet(members, lambda host: ReplayTransport(host.name, said), Access(), bmcs=bmcs)


def gathered(members: tuple[Host, ...], bmcs: BmcFleet) -> dict[str, Evidence]:
    found = gather(fleet(members, bmcs))
    assert all(isinstance(each, Evidence) for each in found.values())
    return {name: each for name, each in found.items() if isinstance(each, Evidence)}


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_a_bmc_says_stands_beside_what_its_node_says(simulate: Simulate) -> None:
    dell, hpe = simulate("dell"), simulate("hpe")
    members = (*hosts(dell, hpe), Host("gpu3"))
    with open_bmcs(access(dell), members) as bmcs:
        found = gathered(members, bmcs)
    assert "model PowerEdge R750" in found["gpu1"].text("bmc")
    assert "vendor HPE" in found["gpu2"].text("bmc")
    assert "bmc" not in found["gpu3"].frames
    assert all(each.complete and "kernel-release" in each.frames for each in found.values())


def test_one_bad_bmc_spoils_no_other(simulate: Simulate) -> None:
    good, html, dead, mute = (simulate("dell") for _ in range(4))
    html.fails(Kind.HTML, times=99)
    dead.close()
    mute.fails(Kind.HANG, "GET", "/Bios", times=99)
    members = hosts(good, html, dead, mute)
    with open_bmcs(access(good, limit_s=10), members) as bmcs:
        found = gathered(members, bmcs)
    states = [found[host.name].frame("bmc").state for host in members]
    assert states == [State.OK, State.FAILED, State.FAILED, State.TIMEOUT]
    assert "answers HTML" in found["gpu2"].frame("bmc").text
    assert all("bmc-bios" not in found[name].frames for name in ("gpu2", "gpu3", "gpu4"))
    assert (good.sessions, mute.sessions) == (0, 0)


def test_a_wrong_password_is_told_of_each_and_tried_once(simulate: Simulate) -> None:
    bmc = simulate("dell")
    wrong = BmcAccess(Login(bmc.user, "wrong"), BmcTrust(ca=str(bmc.ca)))
    with open_bmcs(wrong, hosts(bmc)) as bmcs:
        frame = gathered(hosts(bmc), bmcs)["gpu1"].frame("bmc")
    assert (frame.state, len(bmc.log.of("POST"))) == (State.DENIED, 1)
    assert "refuses the user or the password" in frame.text


def test_a_bmc_costs_few_requests_and_fewer_once_its_registry_is_known(
    simulate: Simulate,
) -> None:
    bmc = simulate("dell")
    with open_bmcs(access(bmc), hosts(bmc)) as bmcs:
        gathered(hosts(bmc), bmcs)
        first = len(bmc.log.entries)
        gathered(hosts(bmc), bmcs)
    assert first <= 13  # with the two by which this maker tells of lockdown
    assert len(bmc.log.entries) - first <= 10
    assert bmc.log.most_connections == 1


@pytest.mark.parametrize("code", [404, 500])
def test_bmcs_that_give_no_registry_do_not_queue_for_it(simulate: Simulate, code: int) -> None:
    """Equal machines wait for the first of them alone; one by one they would take six times it."""
    many = [simulate("dell", latency_s=0.2) for _ in range(6)]
    for each in many:
        each.fails(Kind.STATUS, "GET", "/Registries", code=code, times=99)
    busy, most, lock = 0, 0, threading.Lock()
    real = Reader._fetched

    def fetched(reader: Reader, bios: Resource) -> str:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        try:
            return real(reader, bios)
        finally:
            with lock:
                busy -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "_fetched", fetched)
        with open_bmcs(access(*many), hosts(*many)) as bmcs:
            found = gathered(hosts(*many), bmcs)
    told = {each.frame("bmc-bios-registry").state for each in found.values()}
    assert told == {State.ABSENT if code == 404 else State.FAILED}
    assert most > 1


def test_two_hosts_behind_one_bmc_ask_it_one_after_the_other(simulate: Simulate) -> None:
    bmc = simulate("dell", latency_s=0.02)
    members = hosts(bmc, bmc)
    with open_bmcs(access(bmc), members) as bmcs:
        found = gathered(members, bmcs)
    assert [found[each.name].frame("bmc").state for each in members] == [State.OK, State.OK]
    doors = [each.asked.method for each in bmc.log.entries if each.asked.login]
    assert doors == ["POST", "DELETE", "POST", "DELETE"]


def test_the_map_goes_over_the_inventory(simulate: Simulate) -> None:
    bmc = simulate("dell")
    places = {"gpu1": BmcPlace(bmc.address, bmc.fingerprint)}
    told = BmcAccess(Login(bmc.user, bmc.password), BmcTrust(), places, 20)
    with open_bmcs(told, (Host("gpu1", bmc="127.0.0.1:9"),)) as bmcs:
        assert b"pinned" in bmcs.frames(Host("gpu1"))[0].text.encode()


def test_no_bmc_at_all_is_a_slip() -> None:
    with (
        pytest.raises(UsageError, match="no BMC is given for any of these hosts"),
        open_bmcs(BmcAccess(Login("u", "p")), (Host("gpu1"),)),
    ):
        pass


def test_after_ctrl_c_no_session_is_left(simulate: Simulate) -> None:
    busy = [simulate("dell"), simulate("hpe")]
    for each in busy:
        each.fails(Kind.HANG, "GET", "ios", times=99)
    members = hosts(*busy)

    def interrupt() -> None:
        until(lambda: sum(each.sessions for each in busy) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with open_bmcs(access(*busy, limit_s=600), members) as bmcs, pytest.raises(Interrupted):
        run_all(members, bmcs.frames)
    assert [each.sessions for each in busy] == [0, 0]


_READER = """
import sys
from toolkit.redfish.fleet import open_bmcs
from toolkit.redfish.access import BmcAccess
from toolkit.hosts.host import Host
from toolkit.redfish.access import Login, BmcTrust
address, ca, user, password = sys.argv[1:]
host = Host("gpu1", bmc=address)
with open_bmcs(BmcAccess(Login(user, password), BmcTrust(ca=ca), {}, 600), (host,)) as bmcs:
    bmcs.frames(host)
"""


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_ended_leaves_no_session(
    simulate: Simulate, ends: signal.Signals
) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.HANG, "GET", "/Bios", times=99)
    words = [bmc.address, str(bmc.ca), bmc.user, bmc.password]
    with subprocess.Popen(
        [sys.executable, "-c", _READER, *words],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    ) as process:
        until(lambda: bmc.sessions == 1)
        process.send_signal(ends)
        process.wait(60)
    assert process.returncode != 0
    assert bmc.sessions == 0


def test_what_identifies_a_machine_is_scrubbed_from_what_its_bmc_says(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with open_bmcs(access(bmc), hosts(bmc)) as bmcs:
        evidence = gathered(hosts(bmc), bmcs)["gpu1"]
    hidden = Scrubber(("gpu1",)).scrub(evidence)
    assert Evidence.parse(hidden.dump()) == hidden
