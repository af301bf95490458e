"""What is sent to a BMC for what was asked, and what is refused with which words."""

from __future__ import annotations

from types import SimpleNamespace as Told
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.biosing import CHOICES, CURRENT, bios, plan_wishes, planned
from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.compat.bios import BiosRole
from toolkit.facts.firmware.redfish_bios import Attribute
from toolkit.facts.firmware.redfish_registry import AttributeChoice, AttributeEntry
from toolkit.facts.firmware.redfish_values import Meaning
from toolkit.features.bios.plan import BiosPlan, Effect
from toolkit.features.bios.plan_reading import BiosOutcome, back, before_of, joined, read_before
from toolkit.features.bios.plan_wishes import (
    BiosRequest,
    BiosWish,
    BlockKind,
    allowed,
    read_asked,
    satisfied,
)
from toolkit.redfish.client import Raw
from toolkit.want import Role


def sent(plan: BiosPlan) -> list[dict[str, object]]:
    return [{each.name: each.after for each in group} for group in plan.passes]


def test_a_setting_is_sent_in_the_vendor_s_name_and_word() -> None:
    plan = planned(bios(), "dma-protection=off")
    assert sent(plan) == [{"KernelDmaProtection": "Disabled"}]
    assert [str(each) for each in plan.edits] == ["KernelDmaProtection: Enabled -> Disabled"]
    assert plan.resets == 1


def test_what_is_as_asked_already_is_not_sent() -> None:
    plan = planned(bios(), "above-4g=on,sr-iov=enabled")
    assert not plan.pending
    assert plan.content == 2


@pytest.mark.parametrize(("number", "there"), [("1", False), ("2", True)])
def test_a_mere_number_means_what_the_registry_shows_for_it(number: str, there: bool) -> None:
    """As the doctor reads it: a 1 that is shown as Disabled is not on."""
    choices = (AttributeChoice("1", "Disabled"), AttributeChoice("2", "Enabled"))
    found = Attribute("Above4GDecoding_0041", number, entry=AttributeEntry("", choices=choices))
    wish = BiosWish("on", BiosRole.ABOVE_4G, will_do=frozenset({Meaning.ON, Meaning.AUTO}))
    assert satisfied(found, found.current, wish) is there


def test_what_only_a_reset_opens_waits_for_a_pass_of_its_own() -> None:
    plan = planned(bios(), "power-profile=Custom,aspm=off")
    assert sent(plan) == [{"SysProfile": "Custom"}, {"PcieAspmL1": "Disabled"}]
    assert plan.resets == 2


def test_what_follows_by_itself_is_not_sent_beside_its_cause() -> None:
    plan = planned(bios(), "iommu=off,dma-protection=off")
    assert sent(plan) == [{"ProcVirtualization": "Disabled"}]
    assert not plan.blocked


def test_what_follows_unasked_is_named() -> None:
    told = {each.name: each.text for each in planned(bios(), "iommu=off").effects}
    assert told["KernelDmaProtection"] in {"Enabled -> Disabled", "becomes read-only"}
    plan = planned(bios(), "power-profile=PerfOptimized")
    assert ("PcieAspmL1", "Enabled -> Disabled") in [(e.name, e.text) for e in plan.effects]


def test_two_wishes_that_a_rule_sets_against_each_other_are_refused() -> None:
    plan = planned(
        bios(SubNumaCluster="Disabled"), "raw:NodeInterleave=Enabled,raw:SubNumaCluster=2-Way"
    )
    assert [each.block for each in plan.blocked] == [BlockKind.CONTRARY]
    assert plan.blocked[0].reason == "another change makes SubNumaCluster Disabled"
    assert sent(plan) == [{"NodeInterleave": "Enabled"}]


def test_a_read_only_attribute_names_what_closes_it() -> None:
    (blocked,) = planned(bios(), "aspm=off").blocked
    assert blocked.block is BlockKind.READ_ONLY
    assert blocked.reason == "PcieAspmL1 is read-only while SysProfile is PerfPerWattOptimizedDapc"
    assert "Custom" in blocked.hint


def test_a_lockdown_blocks_all_and_says_so() -> None:
    (blocked,) = planned(bios(closed=frozenset(CURRENT)), "dma-protection=off").blocked
    assert blocked.block is BlockKind.LOCKED
    assert blocked.reason == "every attribute is read-only at once, as under a lockdown"
    for of in (bios(), bios(closed=frozenset(CURRENT))):
        told = plan_wishes(of, *read_asked("dma-protection=off").wishes, lockdown="it is locked")
        assert (told.passes, told.blocked[0].reason) == ((), "it is locked")
    there = plan_wishes(bios(), *read_asked("above-4g=on").wishes, lockdown="it is locked")
    assert (there.passes, there.blocked, there.content) == ((), (), 1)


def test_what_is_pending_as_asked_is_owed_a_reset_and_not_sent_again() -> None:
    plan = planned(bios({"KernelDmaProtection": "Disabled"}), "dma-protection=off")
    assert plan.passes == ()
    assert [each.name for each in plan.owed] == ["KernelDmaProtection"]
    assert plan.pending
    assert plan.resets == 1


def test_what_others_have_pending_against_the_wish_is_taken_back() -> None:
    plan = planned(bios({"MmioAbove4Gb": "Disabled"}), "above-4g=on")
    assert sent(plan) == [{"MmioAbove4Gb": "Enabled"}]
    assert plan.edits[0].pending == "Disabled"


def test_what_others_have_pending_besides_is_named() -> None:
    plan = planned(bios({"SriovGlobalEnable": "Disabled"}), "dma-protection=off")
    assert [str(each) for each in plan.strangers] == [
        "SriovGlobalEnable: Enabled (pending Disabled) -> Disabled"
    ]


def test_an_absent_setting_is_not_exposed_and_never_a_failure_of_the_profile() -> None:
    assert planned(bios(), "acs=off").blocked[0].block is BlockKind.NOT_EXPOSED
    assert [each.wish for each in planned(bios(), "profile").blocked] == ["aspm=off"]


def test_the_profile_asks_for_what_the_role_wants() -> None:
    of = bios(MmioAbove4Gb="Disabled")
    assert sent(planned(of, "profile")) == [
        {"MmioAbove4Gb": "Enabled", "KernelDmaProtection": "Disabled"}
    ]
    assert sent(planned(of, "profile", Role.VM_HOST)) == [{"MmioAbove4Gb": "Enabled"}]
    assert sent(planned(of, "profile", None)) == [{"MmioAbove4Gb": "Enabled"}]
    assert not planned(of, "profile", Role.VM).pending


def test_a_named_wish_goes_before_that_of_the_profile() -> None:
    plan = planned(bios(), "profile,dma-protection=on")
    assert not plan.pending
    assert not planned(bios(), "profile,raw:KernelDmaProtection=Enabled").pending
    off = bios(KernelDmaProtection="Disabled")
    assert sent(planned(off, "raw:KernelDmaProtection=Enabled,profile")) == [
        {"KernelDmaProtection": "Enabled"}
    ]


def test_the_site_s_file_goes_before_the_role() -> None:
    found = {
        str(k): v.word for k, v in wanted(Role.BARE_METAL, {"acs": "on", "smt": "off"}).items()
    }
    assert (found["acs"], found["smt"]) == ("on", "off")
    site = wanted(Role.BARE_METAL, {"secure-boot": "on"})
    assert BiosRole.SECURE_BOOT in site
    asked = {each.setting for each in BiosRequest(profile=True).on(site)}
    assert asked == {*site} - {BiosRole.SECURE_BOOT}, "it is changed by hand alone"


def test_a_value_that_is_none_names_those_that_are() -> None:
    (blocked,) = planned(bios(), "power-profile=Fast").blocked
    assert blocked.block is BlockKind.NO_VALUE
    assert blocked.reason == "SysProfile takes PerfPerWattOptimizedDapc, PerfOptimized, Custom"


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        pytest.param(0, 10, "a whole number from 0 to 10", id="both"),
        pytest.param(None, 10, "a whole number to 10", id="one"),
        pytest.param(None, None, "a whole number", id="neither"),
    ],
)
def test_of_a_number_the_ends_that_are_told_are_named(
    lower: int | None, upper: int | None, said: str
) -> None:
    assert allowed(Attribute("A", 5, entry=AttributeEntry("A", lower=lower, upper=upper))) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(True, "true, false"), (5, "a whole number"), ("On", "not told by its registry")],
)
def test_without_a_registry_the_value_tells_what_is_taken(value: Raw, said: str) -> None:
    assert allowed(Attribute("A", value)) == said


def test_an_attribute_nobody_has_comes_with_those_that_are_near() -> None:
    (blocked,) = planned(bios(), "raw:PcieAspmL2=Disabled").blocked
    assert blocked.hint == "is it PcieAspmL1?"
    (far,) = planned(bios(), "raw:Zyx=1").blocked
    assert far.hint == "bios --verbose lists those that there are"


def test_what_is_read_only_and_says_not_why_is_left_to_the_screens() -> None:
    of = bios(closed=frozenset({"KernelDmaProtection"}))
    (blocked,) = planned(of, "dma-protection=off").blocked
    assert (blocked.block, blocked.reason, blocked.hint) == (
        BlockKind.READ_ONLY, "KernelDmaProtection is read-only",
        "in the BIOS's own screens, if anywhere",
    )  # fmt: skip


def test_a_plan_is_within_itself_and_not_within_less() -> None:
    more, less = planned(bios(), "dma-protection=off,sr-iov=off"), planned(bios(), "sr-iov=off")
    assert less.within(more)
    assert not more.within(less)
    assert planned(bios({"KernelDmaProtection": "Disabled"}), "dma-protection=off").within(
        planned(bios(), "dma-protection=off")
    )


def test_what_others_made_pending_since_is_not_within_what_was_agreed() -> None:
    agreed = planned(bios(), "dma-protection=off")
    now = planned(bios({"SriovGlobalEnable": "Disabled"}), "dma-protection=off")
    assert not now.within(agreed)
    assert now.within(now)


def test_what_was_kept_brings_back_every_first_value() -> None:
    first = planned(bios(), "power-profile=Custom,aspm=off")
    kept = [read_before(before_of("Dell R750", group).dump()) for group in first.passes]
    after = bios(SysProfile="Custom", PcieAspmL1="Disabled", closed=frozenset())
    plan = plan_wishes(after, *back(joined(kept)))
    assert {each.name: each.after for each in plan.edits} == {
        "SysProfile": "PerfPerWattOptimizedDapc",
        "PcieAspmL1": "Enabled",
    }


def test_what_is_pending_already_brings_it_back_by_the_reset_that_is_owed() -> None:
    kept = before_of("m", planned(bios(), "iommu=off").edits)
    since = bios({"ProcVirtualization": "Enabled"}, ProcVirtualization="Disabled")
    plan = plan_wishes(since, *back(kept))
    assert ([each.name for each in plan.owed], plan.blocked) == (["ProcVirtualization"], ())


def test_what_was_pending_is_what_it_goes_back_to_and_what_only_closed_is_not_kept() -> None:
    edits = planned(bios({"MmioAbove4Gb": "Disabled"}), "above-4g=on").edits
    effects = [Effect("A", "becomes read-only"), Effect("B", "x -> y", "x", "y")]
    kept = before_of("m", edits, effects)
    assert [(each.name, each.back) for each in kept.attributes] == [
        ("MmioAbove4Gb", "Disabled"), ("B", "x"),
    ]  # fmt: skip
    nothing = replace(kept, attributes=(replace(kept.attributes[0], before=None, pending=None),))
    assert back(nothing) == ()


def test_of_a_journal_that_was_cut_what_can_be_read_is_taken() -> None:
    rows = '[["A", "x", null, "y"], ["B", "x", null], "abcd", 3]'
    kept = read_before(f'{{"machine": "m", "attributes": {rows}}}')
    assert (kept.machine, [each.name for each in kept.attributes]) == ("m", ["A"])
    assert read_before('{"attributes": 3}').attributes == ()
    with pytest.raises(ValueError, match="no object"):
        read_before("[1]")


def test_what_two_passes_changed_twice_goes_back_to_before_the_first() -> None:
    one = before_of("m", planned(bios(), "power-profile=Custom").edits)
    two = before_of("m", planned(bios(SysProfile="Custom"), "power-profile=PerfOptimized").edits)
    (kept,) = joined([one, two]).attributes
    assert (kept.before, kept.after) == ("PerfPerWattOptimizedDapc", "PerfOptimized")


def test_an_attribute_by_its_own_name_takes_the_very_word() -> None:
    CHOICES["ProcX2Apic"] = ("Enabled", "ForceEnabled", "Disabled")
    of = bios(ProcX2Apic="Enabled", closed=frozenset())
    assert sent(planned(of, "raw:ProcX2Apic=ForceEnabled")) == [{"ProcX2Apic": "ForceEnabled"}]
    assert not planned(bios(ProcX2Apic="ForceEnabled"), "x2apic=on").pending


def test_an_exact_value_is_sent_as_it_is() -> None:
    of = bios(Quiet=False)
    plan = plan_wishes(of, BiosWish("true", attribute="Quiet", exact=True))
    assert sent(plan) == [{"Quiet": True}]


def test_what_a_reset_owed_already_opens_waits_for_it() -> None:
    plan = planned(bios({"SysProfile": "Custom"}), "power-profile=Custom,aspm=off")
    assert sent(plan) == [{}, {"PcieAspmL1": "Disabled"}]
    assert plan.resets == 2


def test_an_undo_leaves_what_other_hands_have_changed_since() -> None:
    kept = before_of("m", planned(bios(), "iommu=off,sr-iov=off").edits)
    since = bios(ProcVirtualization="Disabled", SriovGlobalEnable="Enabled")
    plan = plan_wishes(since, *back(kept))
    assert sent(plan) == [{"ProcVirtualization": "Enabled"}]
    other = bios(ProcVirtualization="Disabled", SysProfile="PerfOptimized")
    profile = before_of("m", planned(bios(), "power-profile=Custom").edits)
    (left,) = plan_wishes(other, *back(profile)).blocked
    assert (left.block, left.stops) == (BlockKind.CHANGED, False)


def test_half_of_what_was_named_together_is_not_sent() -> None:
    assert planned(bios(), "dma-protection=off,power-profile=Fast").stopped
    assert not planned(bios(), "dma-protection=off,acs=off").stopped
    assert not planned(bios(), "profile").stopped


@pytest.mark.parametrize(
    ("changed", "agreed"),
    [
        ({}, True),
        ({"missed": ("x",)}, False),
        ({"busy": "others reset it"}, False),
        ({"after": Told(plan=Told(pending=("x",), blocked=("a",)))}, False),
        ({"after": Told(plan=Told(pending=(), blocked=("a", "b")))}, False),
        ({"after": Told(plan=Told(pending=(), blocked=()))}, True),
    ],
)
def test_all_is_done_where_nothing_is_left_but_what_could_not_be(
    changed: dict[str, Any], agreed: bool
) -> None:
    plan: Any = Told(plan=Told(pending=(), blocked=("a",)))
    assert BiosOutcome(**{"before": plan, "after": plan, **changed}).as_agreed is agreed
