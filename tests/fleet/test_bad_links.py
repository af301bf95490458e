"""Links that break, stall or never speak: an error in time, never an invented result."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from tests.fleet.conftest import Site
from tests.fleet.links import Mute, Relay
from tests.fleet.sshd import Keys, Sshd, many
from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.ssh.limits import GATHERED
from toolkit.ssh.pool import run_all

pytestmark = pytest.mark.sshd

SCRIPT = "f() { echo begun; echo aside >&2; echo done; }\nf\n"


def _by(relay: Relay | Mute, sshd: Sshd) -> Host:
    """The node behind ``relay``, with its host key known there."""
    known = sshd.folder / f"known_hosts.{relay.port}"
    line = sshd.known_hosts.read_text().partition(" ")[2]
    known.write_text(f"[127.0.0.1]:{relay.port} {line}")
    return sshd.host(port=relay.port, known_hosts=str(known))


def test_a_connection_cut_at_any_byte_is_an_error_and_never_a_result(
    site: Site, sshd: Sshd
) -> None:
    with Relay(sshd.port) as whole:
        assert site.open(_by(whole, sshd)).run(SCRIPT).stdout == "begun\ndone\n"
        site.close()
        total = whole.relayed
    # The very last bytes come after the end mark: by then the result is certain.
    results, errors = 0, []
    for limit in [0, 1, 20, *range(30, total + 1, max(total // 25, 1))]:
        with Relay(sshd.port, limit=limit) as link:
            transport = site.open(_by(link, sshd))
            try:
                assert transport.run(SCRIPT, limit_s=60).stdout == "begun\ndone\n"
                results += 1
            except TransportError as why:
                errors.append(why)
            finally:
                transport.close()
    assert results < 5
    assert [why for why in errors if not why.hint or "\n" in str(why)] == []


def test_evidence_cut_midway_is_kept_as_incomplete(site: Site, sshd: Sshd) -> None:
    with Relay(sshd.port) as whole:
        complete = collect(site.open(_by(whole, sshd)))
        site.close()
        total = whole.relayed
    with Relay(sshd.port, limit=total - GATHERED - 3000) as link:
        part = collect(site.open(_by(link, sshd)), limit_s=60)
    assert not part.complete
    assert part.frames
    assert set(part.frames) < set(complete.frames)


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"], ids=["silent", "banner"])
def test_a_host_that_accepts_and_never_answers_is_given_up(
    site: Site, sshd: Sshd, greeting: bytes
) -> None:
    with (
        Mute(greeting) as mute,
        pytest.raises(TransportError, match=r"no answer within 1 s while connecting"),
    ):
        site.open(_by(mute, sshd)).run("true", limit_s=1)


def test_a_link_that_stalls_at_any_byte_is_given_up(site: Site, sshd: Sshd) -> None:
    with Relay(sshd.port) as whole:
        site.open(_by(whole, sshd)).run(SCRIPT)
        site.close()
        total = whole.relayed

    def stalled(limit: int) -> None:
        with Relay(sshd.port, limit=limit, stall=True) as link:
            transport = site.open(_by(link, sshd))
            with pytest.raises(TransportError, match=r"no answer within 1 s"):
                transport.run(SCRIPT, limit_s=1)
            transport.close()

    with ThreadPoolExecutor() as pool:  # the waiting is all that it costs
        list(pool.map(stalled, (30, total // 3, total // 2, total * 2 // 3, total - 400)))


def test_something_that_is_not_ssh_is_said_not_to_be(site: Site, sshd: Sshd) -> None:
    with Mute(b"SSH-1.5-ancient\r\n") as mute, pytest.raises(TransportError) as why:
        site.open(_by(mute, sshd)).run("true", limit_s=60)
    assert "does not speak SSH with us" in str(why.value)


def test_one_bad_host_costs_the_others_nothing(keys: Keys, site: Site) -> None:
    with many(4, site.folder / "many") as servers, Mute() as mute:
        hosts = [server.host() for server in servers]
        hosts[1] = replace(_by(mute, servers[1]), name="mute")

        def work(host: Host) -> str:
            transport = site.open(host)
            try:
                # Long for those that answer: the machine may be busy with others' work.
                return transport.run("echo fine", limit_s=3 if host.name == "mute" else 60).stdout
            finally:
                transport.close()

        outcomes: list[Outcome[str]] = run_all(hosts, work)
    assert [outcome.value for outcome in outcomes] == ["fine\n", None, "fine\n", "fine\n"]
    assert outcomes[1].host == "mute"
    assert "no answer within 3 s" in str(outcomes[1].error)


def test_a_fleet_is_probed_and_no_thread_is_left(site: Site) -> None:
    before = set(threading.enumerate())
    with many(8, site.folder / "many") as servers:

        def work(host: Host) -> Evidence:
            transport = site.open(host)
            try:
                return collect(transport)
            finally:
                transport.close()

        outcomes = run_all([server.host() for server in servers], work)
    assert [outcome.get().complete for outcome in outcomes] == [True] * 8
    end = time.monotonic() + 60  # Paramiko's threads see their closed sockets a moment later
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.02)
    assert not set(threading.enumerate()) - before


def test_nothing_but_our_sentences_reaches_the_terminal(
    sshd: Sshd, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    with Relay(sshd.port, limit=900) as link, pytest.raises(TransportError):
        site.open(_by(link, sshd)).run("true", limit_s=60)
    assert capfd.readouterr() == ("", "")
