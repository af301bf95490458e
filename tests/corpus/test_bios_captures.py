"""Real BIOSes: every setting is found where it is, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.corpus.bios_captures import COUNTS, TRUTH, bios_of, texts
from tests.corpus.known import CORPUS, REDFISH
from toolkit.compat.bios import BiosRole, shipped
from toolkit.facts.firmware.bios_setting import Exposed, Meaning, hidden, match
from toolkit.facts.firmware.redfish_bios import parse_bios

CELLS = [
    pytest.param(name, setting, id=f"{name.rpartition('/')[2]}-{setting}")
    for name in TRUTH
    for setting in BiosRole
]


def found(name: str, setting: BiosRole) -> tuple[Exposed, ...]:
    return match(bios_of(name), shipped())[setting]


@pytest.mark.parametrize(("name", "setting"), CELLS)
def test_the_truth_table(name: str, setting: BiosRole) -> None:
    names = sorted(each.name for each in found(name, setting))
    assert names == sorted(TRUTH[name].get(setting, []))


def test_captures_that_no_table_names_are_told(
    record_property: Callable[[str, object], None],
) -> None:
    """They may come at any time; what is to be found in them has then to be read by hand."""
    there = [f"redfish/{path.name}" for path in REDFISH.iterdir() if path.is_dir()]
    there += [f"redfishbios/{path.name}" for path in (CORPUS / "redfishbios").iterdir()]
    ours = {name if "/" in name else f"redfish/{name}" for name in TRUTH}
    assert ours <= set(there)
    for name in sorted(set(there) - ours):
        record_property("kind", name)


@pytest.mark.parametrize("name", COUNTS)
def test_as_many_settings_as_were_counted_by_hand(name: str) -> None:
    assert sum(map(bool, match(bios_of(name), shipped()).values())) == COUNTS[name]


@pytest.mark.parametrize(
    ("name", "setting", "attribute", "meaning", "number"),
    [
        ("dell", BiosRole.MMIO_WINDOW, "MemoryMappedIOH", Meaning.NUMBER, 56 * 2**40),
        ("dell", BiosRole.POWER_PROFILE, "SysProfile", Meaning.ON, None),
        ("hpe", BiosRole.X2APIC, "ProcX2Apic", Meaning.ON, None),
        ("hpe", BiosRole.LINK_SPEED, "MaxPcieSpeed", Meaning.AUTO, None),
        ("hpe", BiosRole.POWER_PROFILE, "WorkloadProfile", Meaning.OFF, None),
        ("lenovo", BiosRole.ABOVE_4G, "DevicesandIOPorts_PCI64BitResourceAllocation",
         Meaning.AUTO, None),
        ("lenovo", BiosRole.ACS, "Processors_P2PRequestRedirect", Meaning.OFF, None),
        ("nvidia_gb200", BiosRole.LINK_SPEED, "Socket0Pcie0MaxPCIespeed", Meaning.NUMBER, 5),
        ("nvidia_gb200", BiosRole.ACS, "Socket1Pcie9AdvertiseACS", Meaning.ON, None),
        ("redfishbios/smc_acs_disabled_above4g_on.txt", BiosRole.IOMMU,
         "IntelVTforDirectedI_O_VT_d__1E32", Meaning.ON, None),
        ("redfishbios/smc_acs_disabled_above4g_on.txt", BiosRole.MMIO_WINDOW, "MMIOHighBase_0045",
         Meaning.NUMBER, 4 * 2**40),
    ],
)  # fmt: skip
def test_what_real_values_mean(
    name: str, setting: BiosRole, attribute: str, meaning: Meaning, number: int | None
) -> None:
    (one,) = [each for each in found(name, setting) if each.name == attribute]
    assert (one.value.meaning, one.value.number) == (meaning, number)


def test_a_dell_hides_ats_and_an_amds_limit() -> None:
    assert hidden(bios_of("dell"), shipped()) == {
        BiosRole.ATS: ("ProcAts",),
        BiosRole.MMIO_WINDOW: ("MmioLimit",),
    }


@pytest.mark.parametrize(
    ("name", "vendor", "model", "version"),
    [
        ("dell", "Dell Inc.", "PowerEdge R750", "1.8.2"),
        ("hpe", "HPE", "ProLiant DL385 Gen10 Plus v2", "A42 v2.60 (08/11/2022)"),
        ("lenovo", "Lenovo", "ThinkSystem SR670 V2", "U8E122J"),
        ("nvidia_gb200", "NVIDIA", "", ""),  # its system tells nothing, its registry the owner
    ],
)
def test_whose_bios_it_is(name: str, vendor: str, model: str, version: str) -> None:
    bios = bios_of(name)
    assert (bios.vendor, bios.model, bios.version) == (vendor, model, version)
    assert bios.registry
    assert bios.pending_known
    assert bios.changing == ()


def test_the_largest_registry_is_read_and_matched_in_a_third_of_a_second() -> None:
    given = texts("dell")
    taken = []
    for _ in range(5):  # the least of five, in time of the processor: other work only adds
        start = time.process_time()
        match(parse_bios(**given), shipped())
        taken.append(time.process_time() - start)
    assert min(taken) < 0.3
