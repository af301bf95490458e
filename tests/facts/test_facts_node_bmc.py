"""A node's BMC, from saved evidence: what was read, and what was not."""

from __future__ import annotations

import json

import pytest

from toolkit.compat.bios import BiosRole
from toolkit.errors import NoEvidence, NotCollected, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.firmware.redfish_bmc import (
    BmcRead,
    SecureBootState,
    Trust,
    parse_lockdown,
)
from toolkit.facts.node.node import Node

BIOS = {"Attributes": {"SriovGlobalEnable": "Enabled", "PcieAspmL1": "Enabled"}}


def ok(key: str, served: object) -> Frame:
    return Frame(key, State.OK, "/redfish/v1", json.dumps(served, indent=1) + "\n")


def node(*frames: Frame) -> Node:
    """A node whose evidence went through a file, as that of a ticket does."""
    evidence = Evidence({}, complete=True).plus(frames)
    return Node(Evidence.parse(evidence.dump()))


BMC = Frame(
    "bmc",
    State.OK,
    "https://bmc07",
    "address bmc07\nverified pinned\nvendor Dell Inc.\nmodel PowerEdge R750\nbios 1.8.2\n"
    "bmc 6.00.30.00\nregistry-id BiosAttributeRegistry.v1_0_3\n",
)


def test_the_bmc_tells_who_it_is_and_how_it_was_verified() -> None:
    assert node(BMC).bmc == BmcRead(
        "bmc07", Trust.PINNED, "Dell Inc.", "PowerEdge R750", "1.8.2", "6.00.30.00",
        "BiosAttributeRegistry.v1_0_3",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["address bmc07\n", "address bmc07\nverified maybe\n", "\n"])
def test_a_bmc_that_nobody_verified_is_not_believed(text: str) -> None:
    with pytest.raises(Unparsable, match="bmc: cannot read: 'verified"):
        _ = node(Frame("bmc", State.OK, "https://bmc07", text)).bmc


def test_without_a_bmc_nothing_is_known_and_that_is_told_from_a_refusal() -> None:
    bare = node()
    assert not bare.has_bmc
    with pytest.raises(NotCollected):
        _ = bare.bmc
    with pytest.raises(NotCollected):
        _ = bare.bios_settings


def test_a_bmc_that_could_not_be_read_says_why_in_its_own_words() -> None:
    why = "bmc07: the certificate is not the pinned one"
    refused = node(Frame("bmc", State.FAILED, "https://bmc07", why + "\n", 4))
    assert refused.has_bmc
    with pytest.raises(NoEvidence, match=why):
        _ = refused.bmc


def test_a_bmc_that_could_not_be_read_and_does_not_say_why_is_no_health_either() -> None:
    with pytest.raises(NoEvidence, match="no answer in time"):
        _ = node(Frame("bmc", State.TIMEOUT, "https://bmc07")).bmc
    with pytest.raises(NoEvidence, match="bmc07"):
        _ = node(Frame("bmc", State.FAILED, "https://bmc07", "\n", 4)).bmc


def test_current_and_pending_values_are_told_side_by_side() -> None:
    found = node(
        ok("bmc-bios", BIOS), ok("bmc-bios-pending", {"Attributes": {"PcieAspmL1": "Disabled"}})
    )
    (aspm,) = found.bios_settings[BiosRole.ASPM]
    assert (str(aspm.value), str(aspm.pending), str(aspm.next)) == (
        "Enabled",
        "Disabled",
        "Disabled",
    )
    (sriov,) = found.bios_settings[BiosRole.SR_IOV]
    assert (sriov.pending, str(sriov.next)) == (None, "Enabled")
    assert found.bios_settings[BiosRole.ACS] == ()


def test_a_pending_resource_that_nothing_offers_is_no_trouble() -> None:
    absent = Frame("bmc-bios-pending", State.ABSENT, "no @Redfish.Settings")
    found = node(ok("bmc-bios", BIOS), absent)
    assert not found.bios.pending_known
    assert found.bios.changing == ()


def test_what_the_registry_lists_and_the_bios_hides_is_told() -> None:
    entry = {"AttributeName": "ProcAts", "DisplayName": "Address Translation Services (ATS)"}
    registry = {"RegistryEntries": {"Attributes": [entry]}}
    found = node(ok("bmc-bios", BIOS), ok("bmc-bios-registry", registry))
    assert found.bios_hidden == {BiosRole.ATS: ("ProcAts",)}


def test_a_bios_cites_all_that_it_rests_on() -> None:
    found = node(ok("bmc-bios", BIOS), ok("bmc-system", {"Manufacturer": "Dell Inc."}))
    assert found.bios.vendor == "Dell Inc."
    assert set(found.cited) == {"bmc-bios", "bmc-system"}


@pytest.mark.parametrize(
    ("served", "state"),
    [
        pytest.param(
            {"SecureBootCurrentBoot": "Disabled", "SecureBootEnable": True},
            SecureBootState(False, True), id="on-from-the-next-boot",
        ),
        pytest.param({"SecureBootMode": "SetupMode"}, SecureBootState(None, None, "SetupMode"),
                     id="not-told"),
    ],
)  # fmt: skip
def test_secure_boot(served: object, state: SecureBootState) -> None:
    assert node(ok("bmc-secureboot", served)).bmc_secure_boot == state


def test_the_machine_of_the_bmc_is_told_for_comparison() -> None:
    served = {"SerialNumber": " F54P1G3 ", "UUID": "4C4C4544-0046", "Model": None, "SKU": 7}
    machine = node(ok("bmc-system", served)).bmc_machine
    assert (machine.serial, machine.uuid, machine.model, machine.sku) == (
        "F54P1G3",
        "4c4c4544-0046",
        "",
        "",
    )


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("", ""),
        ('{"SystemLockdown": "Disabled", "Other": "Off"}', ""),
        ('{"SystemLockdown": "Enabled", "Other": "Off"}', "lockdown is on (SystemLockdown)"),
        ('{"A": "On", "B": "enabled"}', "lockdown is on (A, B)"),
    ],
)
def test_the_lockdown_that_is_on_is_named(told: str, says: str) -> None:
    assert parse_lockdown(told) == (f"the BMC's {says}" if says else "")
