"""The simulator's own promises: what it takes, what it refuses, what a boot brings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.persona import Etag
from tests.bmc.personas import CHANGES
from tests.bmc.plain import Plain, plain, said


def changed(client: Plain, attributes: Any) -> int:
    """A change as a careful client makes it; its status."""
    manners = client.bmc.manners
    headers = {} if manners.etag is Etag.NONE else {"If_Match": client.etag()}
    when = "OnReset" if "OnReset" in manners.apply_times else ""
    return client.patch(attributes, when, **headers).status_code


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_is_in_force_after_the_boot_and_not_before(name: str, simulate: Simulate) -> None:
    bmc = simulate(name, post_s=600)
    wanted, before = CHANGES[name], dict(bmc.machine.active)
    with plain(bmc) as client:
        assert changed(client, wanted) in {200, 202, 204}
        assert bmc.machine.pending == wanted
        assert client.get(bmc.persona.bios)["Attributes"] == before
        assert client.reset("ForceRestart") == 204
        assert client.get(bmc.persona.bios)["Attributes"] == before
        bmc.machine.end_boot()
        assert client.get(bmc.persona.bios)["Attributes"] == before | wanted
        assert bmc.machine.pending == {}


@pytest.mark.parametrize(
    ("name", "wanted", "why"),
    [
        pytest.param("dell", {"NoSuch": "Enabled"}, "PropertyUnknown", id="unknown"),
        pytest.param("dell", {"SystemModelName": "x"}, "PropertyNotWritable", id="read-only"),
        pytest.param("dell", {"PcieAspmL1": "Enabled"}, "PropertyNotWritable", id="by-a-rule"),
        pytest.param("dell", {"SysProfile": "Purple"}, "PropertyValueNotInList", id="bad-value"),
        pytest.param(
            *("dell", {"AcPwrRcvryUserDelay": 601}, "PropertyValueOutOfRange"), id="out-of-range"
        ),
        pytest.param(
            *("dell", {"AcPwrRcvryUserDelay": "200"}, "PropertyValueTypeError"), id="no-number"
        ),
        pytest.param("grace", {"EGM": "true"}, "PropertyValueTypeError", id="no-boolean"),
        pytest.param("grace", {"ActiveCores": True}, "PropertyValueTypeError", id="boolean"),
        pytest.param("hpe", {"SecureBootStatus": "Enabled"}, "PropertyNotWritable", id="hpe"),
        pytest.param(
            *("supermicro", {"PCIeRemoteP2PRelaxedOrdering_0026": "Enable"}, "PropertyUnknown"),
            id="in-the-registry-alone",
        ),
    ],
)
def test_what_the_registry_does_not_allow_is_refused(
    name: str, wanted: dict[str, Any], why: str, simulate: Simulate
) -> None:
    bmc = simulate(name)
    with plain(bmc) as client:
        refused = client.patch(wanted)
    assert (refused.status_code, said(refused)) == (400, [why])
    assert bmc.machine.pending == {}


def test_one_wrong_value_refuses_them_all(simulate: Simulate) -> None:
    bmc = simulate("hpe")
    with plain(bmc) as client:
        refused = client.patch({"Sriov": "Disabled", "AccessControlService": "Off"})
    assert refused.status_code == 400
    assert bmc.machine.pending == {}


def test_an_apply_time_that_is_not_offered_is_refused(simulate: Simulate) -> None:
    for name, when in (("hpe", "OnReset"), ("lenovo", "Immediate")):
        with plain(simulate(name)) as client:
            assert client.patch(CHANGES[name], when).status_code == 400


def test_a_rule_of_the_registry_changes_other_values_at_the_boot(simulate: Simulate) -> None:
    bmc = simulate("dell", post_s=0)
    with plain(bmc) as client:
        client.patch({"ProcVirtualization": "Disabled"}, "OnReset")
        client.reset("ForceRestart")
        assert client.get(bmc.persona.bios)["Attributes"]["ProcX2Apic"] == "Disabled"
        assert said(client.patch({"ProcX2Apic": "Enabled"})) == ["PropertyNotWritable"]


def test_one_value_unlocks_another_by_a_boot_or_at_once(simulate: Simulate) -> None:
    both = {"SysProfile": "Custom", "PcieAspmL1": "Enabled"}
    strict, lenient = simulate("dell", post_s=0), simulate("dell", unlocks_together=True)
    with plain(lenient) as client:
        assert client.patch(both).status_code == 200
    with plain(strict) as client:
        assert client.patch(both).status_code == 400
        client.patch({"SysProfile": "Custom"}, "OnReset")
        client.reset("ForceRestart")
        assert client.patch({"PcieAspmL1": "Enabled"}, "OnReset").status_code == 202


def test_the_registry_tells_read_only_state_as_it_is_now(simulate: Simulate) -> None:
    bmc = simulate("dell")

    def read_only() -> dict[str, bool]:
        with plain(bmc) as client:
            listed = client.get(bmc.persona.registry)["RegistryEntries"]["Attributes"]
            return {each["AttributeName"]: each["ReadOnly"] for each in listed}

    assert read_only()["PcieAspmL1"]
    bmc.machine.active["SysProfile"] = "Custom"
    assert not read_only()["PcieAspmL1"]


def test_lockdown_refuses_every_change_and_says_so(simulate: Simulate) -> None:
    bmc = simulate("dell", lockdown=True)
    with plain(bmc) as client:
        assert client.patch(CHANGES["dell"]).status_code == 403
        listed = client.get(bmc.persona.registry)["RegistryEntries"]["Attributes"]
    assert all(each["ReadOnly"] for each in listed)
    assert bmc.machine.pending == {}


@pytest.mark.parametrize(
    ("mode", "header", "status"),
    [
        pytest.param(Etag.OFFERED, "", 200, id="none-given"),
        pytest.param(Etag.OFFERED, "right", 200, id="right"),
        pytest.param(Etag.OFFERED, 'W/"0"', 412, id="stale"),
        pytest.param(Etag.REQUIRED_428, "", 428, id="missing-428"),
        pytest.param(Etag.REQUIRED_412, "", 412, id="missing-412"),
        pytest.param(Etag.REQUIRED_428, "right", 200, id="required-and-right"),
        pytest.param(Etag.REQUIRED_428, 'W/"0"', 412, id="required-and-stale"),
    ],
)
def test_if_match(mode: Etag, header: str, status: int, simulate: Simulate) -> None:
    bmc = simulate("hpe", etag=mode)
    with plain(bmc) as client:
        value = client.etag() if header == "right" else header
        headers = {"If_Match": value} if value else {}
        assert client.patch(CHANGES["hpe"], **headers).status_code == status
        assert bool(bmc.machine.pending) is (status == 200)


def test_the_etag_of_what_waits_changes_with_it(simulate: Simulate) -> None:
    with plain(simulate("hpe")) as client:
        before = client.etag()
        client.patch(CHANGES["hpe"])
        assert client.etag() != before


def test_a_value_that_a_boot_does_not_take_over_is_told_of(simulate: Simulate) -> None:
    bmc = simulate("hpe", post_s=0, drops=("AccessControlService",))
    with plain(bmc) as client:
        client.patch(CHANGES["hpe"] | {"Sriov": "Disabled"})
        client.reset("ForceRestart")
        told = client.get(bmc.persona.bios)["@Redfish.Settings"]["Messages"]
    assert [each["MessageId"] for each in told] == ["Base.1.8.PropertyNotUpdated"]
    assert bmc.machine.active["AccessControlService"] == "Enabled"
    assert bmc.machine.active["Sriov"] == "Disabled"
