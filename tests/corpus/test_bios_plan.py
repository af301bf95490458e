"""Plans for real BIOSes: what would be sent, in how many starts, and what follows."""

from __future__ import annotations

import pytest

from tests.corpus.bios_captures import CAPTURES, bios_of
from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.compat.bios import shipped
from toolkit.facts.firmware.bios_setting import match
from toolkit.features.bios.plan import BiosPlan, plan_bios
from toolkit.features.bios.plan_wishes import BiosWish, BlockKind, read_asked
from toolkit.want import Role


def planned(name: str, asked: str, role: Role = Role.BARE_METAL) -> BiosPlan:
    bios = bios_of(name)
    wishes = read_asked(asked).on(wanted(role))
    return plan_bios(bios, match(bios, shipped()), wishes)


def sent(plan: BiosPlan) -> list[dict[str, object]]:
    return [{each.name: each.after for each in group} for group in plan.passes]


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        pytest.param("dell", [], id="dell"),
        pytest.param("hpe", [{"AccessControlService": "Disabled"}], id="hpe"),
        pytest.param("lenovo", [{"Processors_PCIeACSCTL": "Disabled"}], id="lenovo"),
    ],
)
def test_the_profile_sends_what_bare_metal_lacks(
    name: str, passes: list[dict[str, object]]
) -> None:
    plan = planned(name, "profile")
    assert sent(plan) == passes
    assert not plan.stopped


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_what_holds_already_is_never_sent(name: str) -> None:
    bios = bios_of(name)
    words = {
        each.name: each.current
        for each in bios.attributes.values()
        if isinstance(each.current, str) and each.allowed and not each.changing
    }
    plan = plan_bios(bios, {}, [BiosWish(word, attribute=name) for name, word in words.items()])
    assert plan.passes == ()
    assert plan.content + len(plan.blocked) == len(words) > 9


def test_a_profile_of_dell_s_opens_what_it_has_closed() -> None:
    plan = planned("dell", "power-profile=Custom,raw:PcieAspmL1=Enabled")
    assert sent(plan) == [{"SysProfile": "Custom"}, {"PcieAspmL1": "Enabled"}]
    (blocked,) = planned("dell", "raw:PcieAspmL1=Enabled").blocked
    assert (blocked.block, blocked.reason) == (
        BlockKind.READ_ONLY,
        "PcieAspmL1 is read-only while SysProfile is PerfOptimized",
    )


def test_virtualization_off_takes_two_others_with_it() -> None:
    told = {
        (each.name, each.text)
        for each in planned("dell", "raw:ProcVirtualization=Disabled").effects
    }
    assert {
        ("KernelDmaProtection", "becomes read-only"),
        ("ProcX2Apic", "becomes read-only"),
    } <= told


def test_hpe_s_profile_for_computing_turns_the_iommu_off_and_says_so() -> None:
    plan = planned("hpe", "raw:WorkloadProfile=HighPerformanceCompute(HPC)")
    assert ("ProcAmdIoVt", "Enabled -> Disabled") in {(e.name, e.text) for e in plan.effects}
