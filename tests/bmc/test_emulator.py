"""sushy-emulator with libvirt's test driver: a server that is not ours, over real TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import sushy
from sushy.auth import BasicAuth

from tests.bmc.bysushy import system_of
from tests.bmc.client import by_key
from tests.bmc.emulator import Emulator, emulator
from tests.bmc.tls import Authority
from toolkit.errors import BmcLogin
from toolkit.redfish.access import BmcTrust, Login
from toolkit.redfish.client import Bmc
from toolkit.redfish.http import BmcLimits
from toolkit.redfish.registry import RegistryCache

pytestmark = pytest.mark.bmc


@pytest.fixture(scope="module")
def running(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulator(tmp_path_factory.mktemp("emulator"), authority) as started:
        yield started


def _root(it: Emulator) -> Any:
    auth = BasicAuth(username=it.user, password=it.password)
    return sushy.Sushy(f"{it.url}/redfish/v1/", auth=auth, verify=str(it.ca))


def test_sushy_reads_changes_and_reads_again(running: Emulator) -> None:
    bios = system_of(_root(running)).bios
    before = dict(bios.attributes)
    assert before["ProcTurboMode"] == "Enabled"
    bios.set_attribute("ProcTurboMode", "Disabled")
    again = system_of(_root(running)).bios
    assert again.attributes == before | {"ProcTurboMode": "Disabled"}
    again.reset_bios()
    assert system_of(_root(running)).bios.attributes == before


def _ours(it: Emulator, password: str = "") -> Bmc:
    login = Login(it.user, password or it.password)
    limits = BmcLimits(connect_s=20, answer_s=60, total_s=120)
    return Bmc(it.address, login, BmcTrust(ca=str(it.ca)), limits=limits)


def test_our_client_reads_what_sushy_reads(running: Emulator) -> None:
    with _ours(running) as ours:
        frames = by_key(ours.read(RegistryCache()))
    theirs = system_of(_root(running)).bios
    assert json.loads(frames["bmc-bios"].text)["Attributes"] == theirs.attributes
    waiting = json.loads(frames["bmc-bios-pending"].text)["Attributes"]
    assert waiting == theirs.pending_attributes
    registry = json.loads(frames["bmc-bios-registry"].text)["RegistryEntries"]["Attributes"]
    assert "ProcTurboMode" in {each["AttributeName"] for each in registry}


def test_our_client_changes_what_sushy_then_reads(running: Emulator) -> None:
    with _ours(running) as ours:
        answer = ours.change({"ProcTurboMode": "Disabled"}, "OnReset")
        assert (answer.status, answer.job, answer.apply_time) == (204, "", "")
        ours.reset("ForceRestart")
        assert ours.power() == "On"
    bios = system_of(_root(running)).bios
    assert bios.attributes["ProcTurboMode"] == "Disabled"
    bios.reset_bios()


def test_our_client_is_refused_with_a_wrong_password(running: Emulator) -> None:
    with pytest.raises(BmcLogin), _ours(running, "wrong") as ours:
        ours.power()


def test_sushy_finds_its_registry(running: Emulator) -> None:
    registry = system_of(_root(running)).bios.get_attribute_registry()
    assert "ProcTurboMode" in {each.name for each in registry.registry_entries.attributes}


@pytest.mark.parametrize(
    ("user", "password", "status"),
    [
        pytest.param("", "", 401, id="nobody"),
        pytest.param("operator", "wrong", 401, id="wrong"),
        pytest.param("right", "right", 200, id="right"),
    ],
)
def test_it_asks_who_is_there(user: str, password: str, status: int, running: Emulator) -> None:
    known = (running.user, running.password)
    auth = known if user == "right" else (user, password) if user else None
    systems = f"{running.url}/redfish/v1/Systems"
    answer = requests.get(systems, auth=auth, verify=str(running.ca), timeout=60)
    assert answer.status_code == status


def test_its_certificate_is_signed_by_our_authority_alone(running: Emulator) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{running.url}/redfish/v1", timeout=60)
