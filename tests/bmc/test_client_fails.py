"""A BMC that goes wrong: one sentence and a hint, no session left, no password shown."""

from __future__ import annotations

import contextlib
import gc
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.bmc.client import bmc_on, by_key
from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.simulator import Simulator
from tests.bmc.tls import Certificate
from toolkit.errors import BmcCertificate, BmcError, BmcLogin, BmcRefused, BmcSilent
from toolkit.evidence import State
from toolkit.redfish.access import BmcTrust, Login
from toolkit.redfish.client import Bmc
from toolkit.redfish.http import BmcLimits
from toolkit.redfish.reader import failed
from toolkit.redfish.registry import RegistryCache

HASTY = BmcLimits(connect_s=10, answer_s=3, total_s=10)


def read(bmc: Simulator, **told: Any) -> None:
    with bmc_on(bmc, **told) as ours:
        ours.read(RegistryCache())


def refused(bmc: Simulator, **told: Any) -> BmcError:
    with pytest.raises(BmcError) as why:
        read(bmc, **told)
    assert why.value.hint
    assert "\n" not in str(why.value)
    assert bmc.password not in f"{why.value}{why.value.hint}{why.getrepr(showlocals=False)}"
    assert bmc.sessions == 0
    return why.value


def test_a_wrong_password_is_tried_once(simulate: Simulate) -> None:
    bmc = simulate("dell")
    why = refused(bmc, password="wrong")  # noqa: S106 a wrong one
    assert isinstance(why, BmcLogin)
    assert "refuses the user or the password" in str(why)
    assert len(bmc.log.of("POST")) == 1
    assert not [each for each in bmc.log.entries if "authorization" in each.asked.headers]


def test_a_certificate_of_nobody_we_know_shows_its_fingerprint(simulate: Simulate) -> None:
    bmc = simulate("dell", certificate=Certificate.SELF_SIGNED)
    why = refused(bmc)
    assert isinstance(why, BmcCertificate)
    assert bmc.fingerprint in str(why)
    assert bmc.log.entries == ()


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Certificate.EXPIRED, "expired"), (Certificate.OTHER_NAME, "not valid for")],
)
def test_what_is_wrong_with_a_certificate_is_told(
    simulate: Simulate, kind: Certificate, words: str
) -> None:
    why = refused(simulate("hpe", certificate=kind))
    assert isinstance(why, BmcCertificate)
    assert words in str(why)


def test_another_certificate_than_the_pinned_hears_no_word(simulate: Simulate) -> None:
    bmc = simulate("dell")
    why = refused(bmc, trust=BmcTrust(pins=("0" * 64,)))
    assert isinstance(why, BmcCertificate)
    assert "not the one that was pinned" in str(why)
    assert bmc.log.entries == ()


def test_plain_http_where_tls_is_due(simulate: Simulate) -> None:
    assert "TLS cannot be agreed on" in str(refused(simulate("dell", tls=False)))


@pytest.mark.parametrize("path", ["/redfish/v1", "/Systems", "/Bios"])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind.HTML, "answers HTML"),
        (Kind.GARBAGE, "no JSON|that we understand"),
        (Kind.LIST, "is no resource|that we understand"),
        (Kind.CUT, "hung up"),
        (Kind.DROP, "hung up"),
    ],
)
def test_an_answer_that_is_none(simulate: Simulate, kind: Kind, words: str, path: str) -> None:
    bmc = simulate("dell")
    bmc.fails(kind, "GET", path, times=99)
    why = refused(bmc)
    assert re.search(words, str(why))


def test_a_bmc_that_says_nothing_is_left_in_time(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.HANG, "GET", "/Bios", times=99)
    begun = time.monotonic()
    why = refused_but_open(bmc, limits=HASTY)
    assert isinstance(why, BmcSilent)
    assert time.monotonic() - begun < 15


def test_a_bmc_that_drips_is_left_in_time(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.SLOW, "GET", "/Bios", slow_s=40)  # each word comes in time
    begun = time.monotonic()
    why = refused_but_open(bmc, limits=BmcLimits(5, 30, 5))
    assert "not done within 5 s" in str(why)
    assert time.monotonic() - begun < 30


def refused_but_open(bmc: Simulator, **told: Any) -> BmcError:
    """As refused, for a BMC whose logout may have to wait for the simulator to stop hanging."""
    with pytest.raises(BmcError) as why:
        read(bmc, **told)
    assert why.value.hint
    assert bmc.sessions == 0
    return why.value


def test_an_answer_without_end_does_not_fill_the_memory(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.HUGE, "GET", "/Bios")
    assert "answers more than" in str(refused(bmc))


@pytest.mark.parametrize("there", ["https://elsewhere.invalid/redfish/v1", "http://127.0.0.1/x"])
def test_a_redirect_that_leads_away_is_not_followed(simulate: Simulate, there: str) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.REDIRECT, "GET", "/Bios", location=there)
    assert "sends us elsewhere" in str(refused(bmc))


def test_whatever_a_bmc_calls_itself_only_it_is_asked(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        there = ours.http.request("GET", "https://elsewhere.invalid/redfish/v1/Systems?x=1")
    assert there.status_code == 200
    assert bmc.log.of("GET", "/redfish/v1/Systems?x=1")


def test_neither_proxies_nor_a_netrc_count(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmc = simulate("dell")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password other\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    read(bmc)
    assert not [each for each in bmc.log.entries if "authorization" in each.asked.headers]


def test_a_redirect_within_the_bmc_is_followed(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.REDIRECT, "GET", "/redfish/v1", location="/redfish/v1/")
    read(bmc)


def test_a_redirect_in_a_ring_ends(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.REDIRECT, "GET", "/Systems", location="/redfish/v1/Systems", times=99)
    assert "sends us elsewhere" in str(refused(bmc))


def test_a_busy_bmc_is_asked_again_when_it_says(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.BUSY, "GET", "/Systems", retry_after_s=1)
    begun = time.monotonic()
    read(bmc)
    assert time.monotonic() - begun >= 1


def test_a_bmc_that_stays_busy_is_told_of(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.BUSY, "GET", "/Systems", retry_after_s=600)
    assert "is busy, and asks to come again in 600 s" in str(refused(bmc))


def test_one_lost_connection_costs_a_read_nothing(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.DROP, "GET", "/Bios")
    read(bmc)
    assert bmc.sessions == 0


def test_all_sessions_taken_is_no_wrong_password(simulate: Simulate) -> None:
    bmc = simulate("dell", session_limit=0)
    why = refused(bmc)
    assert not isinstance(why, BmcLogin)
    assert len(bmc.log.of("POST")) == 1


def test_nobody_at_the_address(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.close()
    assert "refuses the connection" in str(refused(bmc))


@pytest.fixture
def resetting() -> Iterator[str]:
    """Where a port is answered, and the connection reset before a word of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            with contextlib.suppress(OSError):  # the end of the test
                while True:
                    taken, _ = server.accept()
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    taken.close()

        thread = threading.Thread(target=reset)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_connection_that_is_reset_before_tls_is_one_sentence(resetting: str) -> None:
    with (
        pytest.raises(BmcError) as why,
        Bmc(resetting, Login("u", "p"), BmcTrust(insecure=True), limits=HASTY),
    ):
        pass
    assert "\n" not in str(why.value)
    assert why.value.hint
    del why
    gc.collect()  # a socket that was left open is an error of this test


def test_a_name_that_nobody_knows() -> None:
    with (
        pytest.raises(BmcError, match=r"^gpu1-bmc\.invalid: no such name$") as why,
        Bmc("gpu1-bmc.invalid", Login("u", "p"), BmcTrust(), limits=HASTY),
    ):
        pass
    assert "--bmc-map" in why.value.hint


def test_an_error_within_the_block_logs_out(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with pytest.raises(ZeroDivisionError), bmc_on(bmc):
        raise ZeroDivisionError
    assert bmc.sessions == 0


@pytest.mark.parametrize("fails", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_within_the_block_logs_out(
    simulate: Simulate, fails: Callable[[], BaseException]
) -> None:
    bmc = simulate("dell")
    with pytest.raises((KeyboardInterrupt, SystemExit)), bmc_on(bmc):
        raise fails()
    assert bmc.sessions == 0


def test_an_answer_that_nobody_took_in_does_not_hold_up_the_logout(simulate: Simulate) -> None:
    """Ctrl-C between an answer's head and its body: that connection never comes back."""
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        held = requests.Session.request(
            ours.http, "GET", f"{ours.base}/redfish/v1/", stream=True, verify=str(bmc.ca), timeout=5
        )
        leaves = threading.Thread(target=ours.leave, daemon=True)
        leaves.start()
        leaves.join(20)
        assert not leaves.is_alive()
    assert (held.status_code, bmc.sessions) == (200, 0)


def test_why_it_could_not_be_read_stands_in_the_evidence() -> None:
    silent = BmcSilent("10.0.0.7: no answer in time to /x", hint="h")
    frame = by_key(failed("10.0.0.7", silent))["bmc"]
    assert (frame.state, frame.text) == (State.TIMEOUT, "10.0.0.7: no answer in time to /x\n")
    states = [failed("a", each("x"))[0].state for each in (BmcLogin, BmcError, BmcRefused)]
    assert states == [State.DENIED, State.FAILED, State.FAILED]
