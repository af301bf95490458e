"""The simulator's sessions, power and certificates."""

from __future__ import annotations

import time

import pytest
import requests

from tests.bmc.conftest import Simulate
from tests.bmc.plain import SESSIONS, plain
from tests.bmc.tls import Certificate


def test_a_wrong_password_is_refused_and_many_shut_the_right_one_out(simulate: Simulate) -> None:
    bmc = simulate("hpe", bad_logins=2)
    with plain(bmc, login=False) as client:
        assert [client.login("wrong").status_code for _ in range(2)] == [401, 401]
        assert client.login().status_code == 401
    assert bmc.logins == 0


def test_nobody_reads_without_a_session_but_the_root(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc, login=False) as client:
        assert client.ask("GET", "/redfish/v1").status_code == 200
        assert client.ask("GET", bmc.persona.bios).status_code == 401
        assert client.ask("GET", bmc.persona.bios, X_Auth_Token="no").status_code == 401  # noqa: S106 # nobody's


def test_sessions_have_a_limit(simulate: Simulate) -> None:
    bmc = simulate("hpe", session_limit=1)
    with plain(bmc), plain(bmc, login=False) as second:
        assert second.login().status_code == 503
    with plain(bmc):
        assert bmc.sessions == 1


def test_an_idle_session_ends(simulate: Simulate) -> None:
    bmc = simulate("hpe", session_timeout_s=0.05)
    with plain(bmc, login=False) as client:
        token = client.login().headers["X-Auth-Token"]
        time.sleep(0.1)
        assert client.ask("GET", bmc.persona.bios, X_Auth_Token=token).status_code == 401


def test_basic_authentication_takes_a_session_a_request_where_the_maker_has_it_so(
    simulate: Simulate,
) -> None:
    for name, left in (("hpe", 2), ("dell", 0)):
        bmc = simulate(name)
        with plain(bmc, login=False) as client:
            client.session.auth = (bmc.user, bmc.password)
            assert [client.get(bmc.persona.bios) and 200 for _ in range(2)] == [200, 200]
        assert bmc.sessions == left


def test_a_closed_session_lets_in_no_more(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with plain(bmc, login=False) as client:
        made = client.login()
        token = made.headers["X-Auth-Token"]
        assert client.ask("DELETE", made.headers["Location"], X_Auth_Token=token).status_code == 204
        assert client.ask("GET", SESSIONS, X_Auth_Token=token).status_code == 401


def test_a_bmc_without_sessions_says_so_only_in_its_root(simulate: Simulate) -> None:
    bmc = simulate("dell", session_service=False)
    with plain(bmc, login=False) as client:
        root = client.get("/redfish/v1")
        assert {"SessionService", "Links"}.isdisjoint(root)
        assert client.login().status_code == 401
        client.session.auth = (bmc.user, bmc.password)
        assert client.login().status_code == 404
        assert client.ask("GET", bmc.persona.bios).status_code == 200


def test_power(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=0)
    with plain(bmc) as client:
        assert client.reset("On") == 409
        assert client.reset("GracefulShutdown") == 204
        assert client.get(bmc.persona.system)["PowerState"] == "Off"
        assert client.reset("GracefulRestart") == 409
        assert client.reset("On") == 204
        assert client.get(bmc.persona.system)["PowerState"] == "On"
        assert client.reset("FullPowerCycle") == 400
    assert bmc.machine.boots == 1


def test_a_machine_that_is_off_takes_over_what_waits_when_it_is_switched_on(
    simulate: Simulate,
) -> None:
    bmc = simulate("hpe", post_s=0)
    with plain(bmc) as client:
        client.reset("ForceOff")
        client.patch({"AccessControlService": "Disabled"})
        assert bmc.machine.active["AccessControlService"] == "Enabled"
        client.reset("On")
    assert bmc.machine.active["AccessControlService"] == "Disabled"


def test_a_deaf_machine_accepts_a_graceful_restart_and_stays_as_it_is(simulate: Simulate) -> None:
    bmc = simulate("hpe", deaf=True, post_s=0)
    with plain(bmc) as client:
        assert client.reset("GracefulRestart") == 204
        assert bmc.machine.boots == 0
        assert client.reset("ForceRestart") == 204
    assert bmc.machine.boots == 1


def test_a_bmc_may_be_gone_while_its_machine_boots(simulate: Simulate) -> None:
    bmc = simulate("hpe", vanishes=True, post_s=600)
    with plain(bmc, login=False) as client:
        client.session.headers["X-Auth-Token"] = client.login().headers["X-Auth-Token"]
        client.reset("ForceRestart")
        with pytest.raises(requests.ConnectionError):
            client.ask("GET", bmc.persona.system)
        bmc.machine.end_boot()
        assert client.ask("GET", bmc.persona.system).status_code == 200


@pytest.mark.parametrize("kind", [each for each in Certificate if each is not Certificate.GOOD])
def test_a_certificate_that_should_not_be_trusted_is_not(
    kind: Certificate, simulate: Simulate
) -> None:
    bmc = simulate("dell", certificate=kind)
    with plain(bmc, login=False) as client, pytest.raises(requests.exceptions.SSLError):
        client.ask("GET", "/redfish/v1")
    assert bmc.log.entries == ()


def test_a_bmc_without_tls_is_no_tls_server(simulate: Simulate) -> None:
    bmc = simulate("dell", tls=False)
    with plain(bmc, login=False) as client, pytest.raises(requests.exceptions.SSLError):
        client.ask("GET", "/redfish/v1")
    assert requests.get(f"http://{bmc.address}/redfish/v1", timeout=20).status_code == 200


def test_a_machine_may_be_a_certain_one(simulate: Simulate) -> None:
    bmc = simulate("dell", system={"SerialNumber": "X1"})
    with plain(bmc) as client:
        assert client.get(bmc.persona.system)["SerialNumber"] == "X1"
    with plain(simulate("dell")) as client:
        assert client.get(bmc.persona.system)["SerialNumber"] != "X1"
