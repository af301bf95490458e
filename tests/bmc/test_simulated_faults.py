"""What goes wrong between a BMC and its client, as the simulator lets it go wrong."""

from __future__ import annotations

import threading
import time

import pytest
import requests

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.plain import plain

WANTED = {"AccessControlService": "Disabled"}


def test_busy_says_when_to_come_back_and_then_answers(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(Kind.BUSY, "GET", "/bios", times=2, retry_after_s=3)
        answers = [client.ask("GET", bmc.persona.bios) for _ in range(3)]
    assert [each.status_code for each in answers] == [503, 503, 200]
    assert answers[0].headers["Retry-After"] == "3"


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        pytest.param(Kind.DROP, False, id="before"),
        pytest.param(Kind.DROP_AFTER, True, id="after"),
        pytest.param(Kind.CUT, True, id="in-the-answer"),
    ],
)
def test_a_connection_dies_during_a_change(kind: Kind, done: bool, simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(kind, "PATCH")
        with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
            client.patch(WANTED)
        assert (bmc.machine.pending == WANTED) is done
    assert len(bmc.log.of("PATCH")) == 1


@pytest.mark.parametrize(
    ("kind", "status", "begins"),
    [
        pytest.param(Kind.HTML, 200, "<!DOCTYPE html>", id="html"),
        pytest.param(Kind.GARBAGE, 200, '{"Name": "half', id="garbage"),
        pytest.param(Kind.LIST, 200, "[1", id="list"),
        pytest.param(Kind.STATUS, 500, "", id="status"),
        pytest.param(Kind.REDIRECT, 302, "", id="redirect"),
    ],
)
def test_an_answer_to_another_question(
    kind: Kind, status: int, begins: str, simulate: Simulate
) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(kind, "PATCH", location="https://127.0.0.1:1/")
        answer = client.patch(WANTED)
    assert (answer.status_code, answer.text[: len(begins)]) == (status, begins)
    assert bmc.machine.pending == {}


def test_a_hanging_bmc_says_nothing_until_it_is_closed(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(Kind.HANG, "GET", "/bios")
        with pytest.raises(requests.exceptions.ReadTimeout):
            client.ask("GET", bmc.persona.bios, wait_s=0.3)


def test_a_slow_answer_comes_in_the_end(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(Kind.SLOW, "GET", "/bios", slow_s=0.5)
        begin = time.monotonic()
        assert client.get(bmc.persona.bios)["Attributes"] == bmc.machine.active
    assert time.monotonic() - begin > 0.4


def test_an_answer_without_an_end_is_for_the_client_to_cut(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        bmc.fails(Kind.HUGE, "GET", "/bios")
        request = requests.Request("GET", bmc.url + bmc.persona.bios)
        answer = client.session.send(
            client.session.prepare_request(request), stream=True, timeout=20, verify=str(bmc.ca)
        )
        with answer:
            read = sum(len(next(answer.iter_content(65536))) for _ in range(20))
    assert read > 1_000_000


def test_each_answer_takes_its_time(simulate: Simulate) -> None:
    bmc = simulate("hpe", latency_s=0.1)
    with plain(bmc) as client:
        begin = time.monotonic()
        client.get(bmc.persona.bios)
    assert time.monotonic() - begin >= 0.1


def test_connections_are_counted_and_those_beyond_a_limit_dropped(simulate: Simulate) -> None:
    bmc = simulate("hpe", connections=1)
    free = simulate("hpe")
    for each, fails in ((bmc, True), (free, False)):
        with plain(each) as first, plain(each, login=False) as second:
            first.get(each.persona.bios)
            try:
                second.ask("GET", "/redfish/v1")
                assert not fails
            except requests.ConnectionError:
                assert fails
        assert each.log.most_connections == 2


def test_a_simulator_leaves_no_thread_behind(simulate: Simulate) -> None:
    before = threading.active_count()
    bmc = simulate("hpe")
    with plain(bmc, login=False) as client:
        client.ask("GET", "/redfish/v1")  # whose connection stays open
        bmc.close()
    end = time.monotonic() + 20
    while threading.active_count() > before:
        assert time.monotonic() < end
        time.sleep(0.01)
