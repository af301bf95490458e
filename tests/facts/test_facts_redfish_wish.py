"""What a PATCH must carry: the form that the resource shows, and nothing that is not allowed."""

from __future__ import annotations

import json

import pytest

from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import Exposed, Meaning, match
from toolkit.facts.firmware.redfish_bios import parse_bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_values import Wish, raw_for

ON, OFF, AUTO = Wish(Meaning.ON), Wish(Meaning.OFF), Wish(Meaning.AUTO)
Values = tuple[str | tuple[str, str], ...]  # ValueName, or that and ValueDisplayName


def one(name: str, value: Raw, values: Values = (), vendor: str = "", **more: object) -> Exposed:
    """One attribute that is a setting, with the registry's values for it."""
    listed = [(each, "") if isinstance(each, str) else each for each in values]
    kind = {bool: "Boolean", int: "Integer"}.get(type(value), "Enumeration")
    entry = {
        "AttributeName": name,
        "Type": kind,
        "Value": [{"ValueName": each, "ValueDisplayName": shown} for each, shown in listed],
        **more,
    }
    bios = parse_bios(
        json.dumps({"Attributes": {name: value}}),
        registry=json.dumps({"RegistryEntries": {"Attributes": [entry]}}),
        system=json.dumps({"Manufacturer": vendor}),
    )
    found = [each for several in match(bios, shipped()).values() for each in several]
    return found[0]


@pytest.mark.parametrize(
    ("exposed", "wish", "raw"),
    [
        pytest.param(one("MmioAbove4Gb", "Disabled", ("Enabled", "Disabled")), ON, "Enabled",
                     id="plain"),
        pytest.param(one("PCIeACSCTL_1E3C", "Enable", ("Enable", "Disable")), OFF, "Disable",
                     id="without-the-d"),
        pytest.param(one("PcieRelaxedOrdering", "No", ("Yes", "No")), ON, "Yes", id="yes"),
        pytest.param(one("SecureBootEnable_0122", True), OFF, False, id="boolean"),
        pytest.param(one("VTdSupport", 0), ON, 1, id="integer-switch"),
        pytest.param(one("MmioLimit", 8, UpperBound=16), Wish(Meaning.NUMBER, 16), 16,
                     id="the-upper-bound"),
        pytest.param(one("MmioLimit", 8, LowerBound=4), Wish(Meaning.NUMBER, 4), 4,
                     id="the-lower-bound"),
        pytest.param(
            one("MmioLimit", 8, LowerBound=2, ScalarIncrement=4), Wish(Meaning.NUMBER, 10), 10,
            id="two-steps-up",
        ),
        pytest.param(one("MmioLimit", 8, ScalarIncrement=4), Wish(Meaning.NUMBER, 12), 12,
                     id="a-step-from-zero"),
        pytest.param(one("MmioLimit", 8, ScalarIncrement=0), Wish(Meaning.NUMBER, 9), 9,
                     id="no-step"),
        pytest.param(one("MmioLimit", 8, ScalarIncrement=-2), Wish(Meaning.NUMBER, 9), 9,
                     id="a-step-down"),
        pytest.param(
            one("Above4GDecoding_0041", "Disabled", (("0", "Disabled"), ("1", "Enabled"))), ON,
            "Enabled", id="the-display-name-where-the-resource-shows-it",
        ),
        pytest.param(
            one("Above4GDecoding_0041", "1", (("1", "Disabled"), ("2", "Enabled"))), ON, "2",
            id="the-number-where-the-resource-shows-that",
        ),
        pytest.param(
            one("PciSlot1Aspm", "AspmL1Enabled", ("Auto", "Disabled", "AspmL1Enabled")), OFF,
            "Disabled", id="aspm-off",
        ),
        pytest.param(
            one("MinProcIdlePower", "C6", ("C6", "NoCStates")), OFF, "NoCStates", id="own-word",
        ),
        pytest.param(
            one("ProcX2Apic", "Disabled", ("Auto", "ForceEnabled", "Disabled")), ON,
            "ForceEnabled", id="forced",
        ),
        pytest.param(
            one("WorkloadProfile", "I/OThroughput",
                ("I/OThroughput", "GeneralPeakFrequencyCompute"), "HPE"), ON,
            "I/OThroughput", id="what-holds-already-stays",
        ),
        pytest.param(
            one("MemoryMappedIOH", "56TB", ("56TB", "12TB", "512GB")),
            Wish(Meaning.NUMBER, 12 * 2**40), "12TB", id="bytes",
        ),
        pytest.param(
            one("SubNumaCluster", "2-Way", ("2-Way", "Disabled")), Wish(Meaning.NUMBER, 1),
            "Disabled", id="one-cluster-is-none",
        ),
        pytest.param(
            one("NumaMemoryDomainsPerSocket", "Auto",
                ("OneMemoryDomainPerSocket", "FourMemoryDomainsPerSocket")),
            Wish(Meaning.NUMBER, 4), "FourMemoryDomainsPerSocket", id="nps-in-words",
        ),
        pytest.param(
            one("PciSlot1LinkSpeed", "PcieGen1", ("Auto", "PcieGen1")), AUTO, "Auto", id="auto",
        ),
        pytest.param(
            one("ASPMSupport", "Disabled", ("L1", "Enabled", "Disabled")), ON, "Enabled",
            id="a-plain-word-before-a-kind-of-it",
        ),
        pytest.param(one("Sriov", "Enabled"), OFF, "Disabled", id="no-registry-the-other-of-two"),
        pytest.param(
            one("CbsCmnGnbNbIOMMU", "CbsCmnGnbNbIOMMUEnabled"), OFF, "CbsCmnGnbNbIOMMUDisabled",
            id="no-registry-prefixed",
        ),
    ],
)  # fmt: skip
def test_the_value_to_send(exposed: Exposed, wish: Wish, raw: Raw) -> None:
    found = raw_for(exposed.attribute, wish, exposed.row)
    assert found == raw
    assert type(found) is type(raw)


@pytest.mark.parametrize(
    ("exposed", "wish"),
    [
        pytest.param(one("Power_ASPM", "Auto", ("Disabled", "Auto")), ON, id="no-value-means-on"),
        pytest.param(
            one("WorkloadProfile", "Custom",
                ("HighPerformanceCompute(HPC)", "GeneralPeakFrequencyCompute"), "HPE"), ON,
            id="which-of-two-profiles-is-not-ours-to-say",
        ),
        pytest.param(one("SecureBootEnable_0122", True), AUTO, id="no-auto-of-a-boolean"),
        pytest.param(
            one("MmioLimit", 8, UpperBound=16), Wish(Meaning.NUMBER, 32), id="out-of-bounds",
        ),
        pytest.param(one("MmioLimit", 8, LowerBound=4), Wish(Meaning.NUMBER, 3), id="too-low"),
        pytest.param(
            one("MmioLimit", 8, LowerBound=2, ScalarIncrement=4), Wish(Meaning.NUMBER, 9),
            id="between-two-steps",
        ),
        pytest.param(one("MmioLimit", 8), AUTO, id="no-number-means-auto"),
        pytest.param(one("SNC_F300", "Auto"), ON, id="no-registry-no-pair"),
        pytest.param(one("Sriov", "Enabled"), AUTO, id="no-registry-and-neither-of-two"),
        pytest.param(
            one("MemoryMappedIOH", "56TB", ("56TB",)), Wish(Meaning.NUMBER, 2**41), id="no-size",
        ),
    ],
)  # fmt: skip
def test_where_no_value_means_it_none_is_made_up(exposed: Exposed, wish: Wish) -> None:
    assert raw_for(exposed.attribute, wish, exposed.row) is None


def test_every_setting_has_a_row() -> None:
    assert {row.setting for row in shipped().rows if not row.mistaken} == set(BiosRole)
