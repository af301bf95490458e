"""Which attribute is which setting: what deceives a matcher on real BIOSes, a row each."""

from __future__ import annotations

import json

import pytest

from tests.unit.bios_personas import AMI, DGX, X13, Row, bios_of, exposed, names, settings, switch
from toolkit.compat.bios import BiosRole, read
from toolkit.facts.firmware.bios_setting import match
from toolkit.facts.firmware.redfish_bios import parse_bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_values import Meaning


def test_a_supermicro_exposes_thirteen_settings_and_none_by_mistake() -> None:
    assert set(BiosRole) - settings(bios_of(X13, "Supermicro")) == {
        BiosRole.ATS,
        BiosRole.RELAXED_ORDERING,
        BiosRole.TEN_BIT_TAG,
        BiosRole.LINK_SPEED,
        BiosRole.POWER_PROFILE,
        BiosRole.X2APIC,
    }


def test_a_dgx_exposes_eleven_settings() -> None:
    assert set(BiosRole) - settings(bios_of(DGX, "NVIDIA")) == {
        BiosRole.ABOVE_4G,
        BiosRole.MMIO_WINDOW,
        BiosRole.RESIZABLE_BAR,
        BiosRole.ACS,
        BiosRole.ATS,
        BiosRole.ASPM,
        BiosRole.LINK_SPEED,
        BiosRole.X2APIC,
    }


def test_control_iommu_is_dma_protection_and_not_the_iommu() -> None:
    bios = bios_of(DGX, "NVIDIA")
    assert names(bios, BiosRole.IOMMU) == ["VTdSupport"]
    assert "ControlIommu" in names(bios, BiosRole.DMA_PROTECTION)


def test_relaxed_ordering_of_the_processors_dma_engine_is_not_that_of_pcie() -> None:
    assert names(bios_of(DGX, "NVIDIA"), BiosRole.RELAXED_ORDERING) == [
        "PcieRelaxedOrdering",
        "PcieRootPortRO",
    ]
    assert names(bios_of(X13, "Supermicro"), BiosRole.RELAXED_ORDERING) == []


def test_without_a_menu_an_ambiguous_name_is_no_setting() -> None:
    bare = bios_of((Row("RelaxedOrdering_1DD1", "No"),), registry=False)
    assert settings(bare) == set()


def test_in_a_menu_of_pcie_the_same_name_is_the_setting() -> None:
    row = Row("RelaxedOrdering_00AB", "Yes", "Relaxed Ordering", "./PCIe Configuration")
    assert names(bios_of((row,)), BiosRole.RELAXED_ORDERING) == ["RelaxedOrdering_00AB"]


def test_hyper_threading_disable_enabled_means_on() -> None:
    (smt,) = exposed(bios_of(DGX, "NVIDIA"), BiosRole.SMT)
    assert (smt.name, smt.value.meaning) == ("ProcessorHyperThreadingDisable", Meaning.ON)


def test_without_its_display_name_hyper_threading_disable_is_not_guessed_at() -> None:
    assert names(bios_of(DGX, "NVIDIA", registry=False), BiosRole.SMT) == []


def test_two_spellings_of_one_switch_mean_the_same() -> None:
    first, second = exposed(bios_of(DGX, "NVIDIA"), BiosRole.SR_IOV)
    assert (str(first.value), str(second.value)) == ("Enable", "Enabled")
    assert first.value.same(second.value)


def test_a_misspelt_port_is_found_beside_the_others() -> None:
    ports = tuple(
        Row(name, "GEN5") for name in ("Socket0Pcie1axPCIespeed", "Socket0Pcie2MaxPCIespeed")
    )
    found = exposed(bios_of(ports, "NVIDIA"), BiosRole.LINK_SPEED)
    assert [each.scope for each in found] == ["socket 0 PCIe 1", "socket 0 PCIe 2"]
    assert {each.value.number for each in found} == {5}


def test_link_degradation_is_no_link_speed() -> None:
    assert names(bios_of(X13), BiosRole.LINK_SPEED) == []


def test_what_a_bmc_does_not_tell_is_empty() -> None:
    bios = parse_bios("{}")
    assert (bios.vendor, bios.model, bios.version, bios.attributes) == ("", "", "", {})
    assert not bios.locked


def test_what_only_the_registry_lists_is_not_exposed() -> None:
    row = Row("ProcAts", "Enabled", "Address Translation Services (ATS)", unserved=True)
    bios = bios_of((row,), "Dell Inc.")
    assert settings(bios) == set()
    assert list(bios.unserved) == ["ProcAts"]


def test_opaque_ids_are_told_by_their_display_names() -> None:
    bios = bios_of(AMI, "GIGABYTE")
    assert names(bios, BiosRole.ABOVE_4G) == ["PCIS006"]
    (sriov,) = exposed(bios, BiosRole.SR_IOV)
    assert sriov.value.meaning is Meaning.OFF  # "PCIS007Disabled"
    assert settings(bios_of(AMI, "GIGABYTE", registry=False)) == set()


@pytest.mark.parametrize(
    ("vendor", "found"),
    [
        pytest.param("Dell Inc.", ["ProcVirtualization"], id="one-switch-on-a-dell"),
        pytest.param("HPE", ["IntelProcVtd"], id="vt-x-alone-on-an-hpe"),
        pytest.param("", ["IntelProcVtd"], id="nobody-knows-whose"),
    ],
)
def test_virtualization_is_the_iommu_on_one_vendor_alone(vendor: str, found: list[str]) -> None:
    rows = (switch("ProcVirtualization", "Enabled"), switch("IntelProcVtd", "Enabled"))
    both = rows if vendor != "Dell Inc." else rows[:1]
    assert names(bios_of(both, vendor), BiosRole.IOMMU) == found


def test_where_a_dell_has_a_switch_for_the_iommu_the_other_is_not_it() -> None:
    rows = (switch("ProcVirtualization", "Enabled"), switch("IommuSupport", "Disabled"))
    assert names(bios_of(rows, "Dell Inc."), BiosRole.IOMMU) == ["IommuSupport"]


def test_one_switch_of_a_lenovo_is_two_settings() -> None:
    name = "DevicesandIOPorts_PCI64BitResourceAllocation"
    bios = bios_of((Row(name, "Auto"),), "Lenovo")
    assert settings(bios) == {BiosRole.ABOVE_4G, BiosRole.MMIO_WINDOW}


def test_a_number_with_a_display_name_means_what_that_says() -> None:
    entry = {
        "AttributeName": "Sriov",
        "Value": [
            {"ValueName": "1", "ValueDisplayName": "Disabled"},
            {"ValueName": "2", "ValueDisplayName": "Enabled"},
        ],
    }
    registry = {"RegistryEntries": {"Attributes": [entry]}}
    bios = parse_bios('{"Attributes": {"Sriov": "1"}}', json.dumps(registry))
    (sriov,) = exposed(bios, BiosRole.SR_IOV)
    assert (sriov.value.raw, sriov.value.meaning) == ("1", Meaning.OFF)


def test_a_choice_without_any_name_is_none() -> None:
    entry = {"AttributeName": "A", "Value": [{}, {"ValueName": "1"}, {"ValueDisplayName": "On"}]}
    registry = {"RegistryEntries": {"Attributes": [entry]}}
    bios = parse_bios('{"Attributes": {"A": "1"}}', json.dumps(registry))
    assert [each.value for each in bios.attributes["A"].allowed] == ["1", "On"]


def test_of_two_entries_with_one_name_the_first_counts() -> None:
    entries = [{"AttributeName": "A", "DisplayName": each} for each in ("first", "second")]
    registry = {"RegistryEntries": {"Attributes": entries}}
    bios = parse_bios('{"Attributes": {"A": "x"}}', json.dumps(registry))
    assert bios.attributes["A"].display_name == "first"


@pytest.mark.parametrize(
    ("kind", "default", "typed"),
    [("Boolean", "0", False), ("Boolean", "1", True), ("Integer", "5", 5), ("Integer", 5, 5),
     ("Enumeration", "1", "1"), ("Boolean", "x", "x"), ("Boolean", "TRUE", True),
     ("Integer", "x", "x"), ("Integer", "9" * 19, int("9" * 19)), ("Integer", "9" * 20, "9" * 20),
     ("Odd", "0", "0")],
)  # fmt: skip
def test_a_default_is_typed_as_the_resource_is(kind: str, default: Raw, typed: Raw) -> None:
    entry = {"AttributeName": "A", "Type": kind, "DefaultValue": default}
    registry = {"RegistryEntries": {"Attributes": [entry]}}
    found = parse_bios('{"Attributes": {"A": ""}}', json.dumps(registry)).attributes["A"].default
    assert found == typed
    assert type(found) is type(typed)


@pytest.mark.parametrize(
    ("display", "claimed"),
    [
        pytest.param("Relaxed Ordering", True, id="the-same"),
        pytest.param("Memory Frequency", False, id="another"),
        pytest.param("", True, id="none-told"),
    ],
)
def test_where_a_row_has_a_name_and_a_display_name_both_must_fit(
    display: str, claimed: bool
) -> None:
    rows = read(
        """
        [[bios]]
        id = "ours"
        setting = "relaxed-ordering"
        names = ["PCIS008"]
        display = ["Relaxed Ordering"]
        source = "a site's own board"
        confidence = "H"
        [[vendors]]
        id = "ami"
        names = ["ami"]
        source = "test"
        confidence = "H"
        """
    )
    bios = bios_of((Row("PCIS008", "Enabled", display),))
    assert bool(match(bios, rows)[BiosRole.RELAXED_ORDERING]) is claimed


def test_an_adapters_own_settings_are_not_the_machines() -> None:
    row = Row("X_SRIOV", "Enabled", "SR-IOV", "./MellanoxNetworkAdapter-A0--Slot15")
    assert settings(bios_of((row,), "Lenovo")) == set()


@pytest.mark.parametrize(
    ("name", "value", "setting", "meaning", "number"),
    [
        pytest.param("VTdSupport", 1, BiosRole.IOMMU, Meaning.ON, None, id="intel-board"),
        pytest.param(
            "CbsDfCmnDramNps", "CbsDfCmnDramNpsNPS4", BiosRole.NUMA_CLUSTERING, Meaning.NUMBER, 4,
            id="cbs-prefixed",
        ),
        pytest.param(
            "NumaNodesPerSocket", "1", BiosRole.NUMA_CLUSTERING, Meaning.NUMBER, 1, id="nps-one",
        ),
        pytest.param(
            "acs_control_gpu3_state", "acs_control_gpu3_state_disabled", BiosRole.ACS, Meaning.OFF,
            None, id="cisco-prefixed",
        ),
        pytest.param(
            "MinProcIdlePower", "NoCStates", BiosRole.C_STATES, Meaning.OFF, None, id="no-c-states",
        ),
        pytest.param(
            "MemoryMappedIOH", "56TB", BiosRole.MMIO_WINDOW, Meaning.NUMBER, 56 * 2**40, id="56-tb",
        ),
        pytest.param(
            "PciSlot1Aspm", "AspmL1Enabled", BiosRole.ASPM, Meaning.ON, None, id="aspm-l1",
        ),
        pytest.param("ProcX2Apic", "ForceEnabled", BiosRole.X2APIC, Meaning.ON, None, id="forced"),
        pytest.param(
            "Memory_SocketInterleave", "Non_NUMA", BiosRole.NUMA_CLUSTERING, Meaning.OFF, None,
            id="own-words",
        ),
    ],
)  # fmt: skip
def test_a_value_means_the_same_whoever_wrote_it(
    name: str, value: str | int, setting: BiosRole, meaning: Meaning, number: int | None
) -> None:
    (found,) = exposed(bios_of((Row(name, value),), registry=False), setting)
    assert (found.value.meaning, found.value.number) == (meaning, number)
    assert found.value.raw == value
