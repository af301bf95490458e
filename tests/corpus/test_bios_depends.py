"""Real registries: what a change would change, lock and unlock besides."""

from __future__ import annotations

import pytest

from tests.corpus.bios_captures import bios_of
from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import Meaning, match
from toolkit.facts.firmware.redfish_depends import (
    Effects,
    Opener,
    can_set,
    effects,
    holds,
    next_values,
    openers,
    same,
)
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Property
from toolkit.facts.firmware.redfish_values import Wish, raw_for

WITH_DEPENDENCIES = ("dell", "hpe", "lenovo")


def after(name: str, **changes: Raw) -> tuple[dict[str, Raw], Effects]:
    made = effects(bios_of(name), changes)
    return {each.attribute: each.after for each in made.changed}, made


@pytest.mark.parametrize("name", WITH_DEPENDENCIES)
def test_a_machine_at_rest_agrees_with_its_registry(name: str) -> None:
    bios = bios_of(name)
    values = next_values(bios)
    assert [
        each
        for each in bios.dependencies
        if each.property is Property.VALUE
        and each.attribute in values
        and holds(bios, each, values)
        and not same(bios, each.attribute, values[each.attribute], each.value)
    ] == []
    nothing = effects(bios, {})
    assert (nothing.changed, nothing.locked, nothing.unlocked) == ((), (), ())


def test_without_vt_x_a_dell_has_neither_dma_protection_nor_x2apic() -> None:
    _, made = after("dell", ProcVirtualization="Disabled")
    assert {"KernelDmaProtection", "ProcX2Apic"} <= set(made.locked)


def test_interleaved_nodes_overrule_sub_numa_clusters_on_a_dell() -> None:
    _, made = after("dell", NodeInterleave="Enabled", SubNumaCluster="2-Way")
    assert [(each.attribute, each.after) for each in made.overruled] == [
        ("SubNumaCluster", "Disabled")
    ]


def test_aspm_of_a_dell_opens_with_the_custom_profile() -> None:
    bios = bios_of("dell")
    assert not can_set(bios, "PcieAspmL1")
    assert openers(bios, "PcieAspmL1") == (Opener("SysProfile", "Custom"),)
    assert {"PcieAspmL1", "ProcCStates"} <= set(effects(bios, {"SysProfile": "Custom"}).unlocked)


def test_the_profile_for_hpc_turns_the_iommu_of_an_hpe_off_and_locks_it() -> None:
    changed, made = after("hpe", WorkloadProfile="HighPerformanceCompute(HPC)")
    assert changed["ProcAmdIoVt"] == "Disabled"
    assert changed["Sriov"] == "Disabled"
    assert {"ProcAmdIoVt", "Sriov", "AmdDmaRemapping"} <= set(made.locked)


def test_x2apic_of_an_hpe_opens_first_with_the_profile_that_changes_nothing_else() -> None:
    bios = bios_of("hpe")
    assert not can_set(bios, "ProcX2Apic")
    assert openers(bios, "ProcX2Apic")[0] == Opener("WorkloadProfile", "Custom")


def test_c_states_of_a_lenovo_open_with_the_custom_mode() -> None:
    found = openers(bios_of("lenovo"), "Processors_CStates")
    assert found == (Opener("OperatingModes_ChooseOperatingMode", "CustomMode"),)


def test_secure_boot_of_an_hpe_is_never_open() -> None:
    bios = bios_of("hpe")
    assert not can_set(bios, "SecureBootStatus")
    assert openers(bios, "SecureBootStatus") == ()


@pytest.mark.parametrize(
    ("name", "setting", "attribute", "wish", "raw"),
    [
        ("dell", BiosRole.ABOVE_4G, "MmioAbove4Gb", Wish(Meaning.OFF), "Disabled"),
        ("dell", BiosRole.MMIO_WINDOW, "MemoryMappedIOH", Wish(Meaning.NUMBER, 12 * 2**40), "12TB"),
        ("dell", BiosRole.NUMA_CLUSTERING, "SubNumaCluster", Wish(Meaning.NUMBER, 2), "2-Way"),
        ("hpe", BiosRole.ACS, "AccessControlService", Wish(Meaning.OFF), "Disabled"),
        ("hpe", BiosRole.ASPM, "PciSlot1Aspm", Wish(Meaning.ON), "AspmL1Enabled"),
        ("hpe", BiosRole.LINK_SPEED, "PciSlot1LinkSpeed", Wish(Meaning.NUMBER, 3), "PcieGen3"),
        ("lenovo", BiosRole.ACS, "Processors_PCIeACSCTL", Wish(Meaning.OFF), "Disabled"),
        ("lenovo", BiosRole.ACS, "Processors_P2PRequestRedirect", Wish(Meaning.ON), True),
        ("nvidia_gb200", BiosRole.ACS, "Socket0Pcie0AdvertiseACS", Wish(Meaning.OFF), False),
        ("nvidia_gb200", BiosRole.PAYLOAD, "Socket0Pcie0MaxPayloadSize",
         Wish(Meaning.NUMBER, 128), "128B"),
        ("redfishbios/smc_acs_disabled_above4g_on.txt", BiosRole.ACS, "PCIeACSCTL_1E3C",
         Wish(Meaning.ON), "Enable"),
    ],
)  # fmt: skip
def test_what_a_patch_would_carry(
    name: str, setting: BiosRole, attribute: str, wish: Wish, raw: Raw
) -> None:
    found = match(bios_of(name), shipped())[setting]
    (one,) = [each for each in found if each.name == attribute]
    assert raw_for(one.attribute, wish, one.row) == raw
