"""What else a change changes and locks: registries as Dell, HPE and Lenovo write them."""

from __future__ import annotations

import json

import pytest

from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.facts.firmware.redfish_depends import (
    Opener,
    can_set,
    closed,
    effects,
    locked_by,
    next_values,
    openers,
)
from toolkit.facts.firmware.redfish_json import Raw

Given = tuple[str, str, str] | tuple[str, str, str, str]  # attribute, relation, value, term


def rule(to: str, what: str, value: Raw, *given: Given, about: str = "") -> dict[str, object]:
    """One dependency; ``about`` is DependencyFor, where it names another attribute."""
    conditions = []
    for name, relation, wanted, *term in given:
        one = {
            "MapFromAttribute": name,
            "MapFromProperty": "CurrentValue",
            "MapFromCondition": relation,
            "MapFromValue": wanted,
        }
        conditions.append({**one, "MapTerms": term[0]} if term else one)
    inner = {
        "MapFrom": conditions, "MapToAttribute": to, "MapToProperty": what, "MapToValue": value,
    }  # fmt: skip
    return {"Type": "Map", "DependencyFor": about or to, "Dependency": inner}


def bios_of(
    values: dict[str, Raw],
    *rules: dict[str, object],
    read_only: tuple[str, ...] = (),
    immutable: tuple[str, ...] = (),
    choices: dict[str, list[str]] | None = None,
    pending: dict[str, Raw] | None = None,
) -> Bios:
    entries = [
        {
            "AttributeName": name,
            "Type": "Enumeration",
            "ReadOnly": name in read_only,
            "Immutable": name in immutable,
            "Value": [{"ValueName": each} for each in (choices or {}).get(name, [])],
        }
        for name in values
    ]
    known = {"RegistryEntries": {"Attributes": entries, "Dependencies": list(rules)}}
    return parse_bios(
        json.dumps({"Attributes": values}),
        registry=json.dumps(known),
        pending=json.dumps({"Attributes": pending}) if pending else "",
    )


def changed(bios: Bios, **changes: Raw) -> dict[str, Raw]:
    return {each.attribute: each.after for each in effects(bios, changes).changed}


VT: dict[str, Raw] = {
    "ProcVirtualization": "Enabled",
    "ProcX2Apic": "Enabled",
    "KernelDmaProtection": "Disabled",
}
OFF = ("ProcVirtualization", "EQU", "Disabled")
DELL = (
    rule("ProcX2Apic", "CurrentValue", "Disabled", OFF),
    rule("ProcX2Apic", "ReadOnly", True, OFF),
    rule("KernelDmaProtection", "CurrentValue", "Disabled", OFF),
    rule("KernelDmaProtection", "ReadOnly", True, OFF),
)


def test_what_is_forced_is_told_and_what_is_so_already_is_not() -> None:
    after = effects(bios_of(VT, *DELL), {"ProcVirtualization": "Disabled"})
    assert [(each.attribute, each.before, each.after) for each in after.changed] == [
        ("ProcX2Apic", "Enabled", "Disabled")
    ]
    assert after.locked == ("ProcX2Apic", "KernelDmaProtection")
    assert after.values["ProcX2Apic"] == "Disabled"


def test_a_wish_that_a_dependency_overrules_is_told() -> None:
    after = effects(bios_of(VT, *DELL), {"ProcVirtualization": "Disabled", "ProcX2Apic": "Enabled"})
    assert [(each.attribute, each.before, each.after) for each in after.overruled] == [
        ("ProcX2Apic", "Enabled", "Disabled")
    ]
    assert after.changed == ()


def test_a_wish_against_what_holds_already_is_overruled_too() -> None:
    values: dict[str, Raw] = {"NodeInterleave": "Enabled", "SubNumaCluster": "Disabled"}
    one = rule("SubNumaCluster", "CurrentValue", "Disabled", ("NodeInterleave", "EQU", "Enabled"))
    after = effects(bios_of(values, one), {"SubNumaCluster": "2-Way"})
    assert [each.after for each in after.overruled] == ["Disabled"]


def test_what_an_operator_changed_since_is_not_changed_back() -> None:
    values: dict[str, Raw] = {"SysProfile": "PerfOptimized", "ProcCStates": "Enabled", "Other": "a"}
    one = rule("ProcCStates", "CurrentValue", "Disabled", ("SysProfile", "EQU", "PerfOptimized"))
    assert changed(bios_of(values, one), Other="b") == {}


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        pytest.param(("A", "EQU", "1"), ("B", "EQU", "1"), True, id="no-term-is-or"),
        pytest.param(("A", "EQU", "1"), ("B", "EQU", "1", "AND"), False, id="and-at-the-second"),
        pytest.param(("A", "EQU", "1", "AND"), ("B", "EQU", "1"), False, id="and-at-the-first"),
        pytest.param(("A", "EQU", "1", "OR"), ("B", "EQU", "1"), True, id="or-at-the-first"),
    ],
)
def test_terms_join_whichever_of_two_conditions_has_them(
    first: Given, second: Given, holds: bool
) -> None:
    bios = bios_of({"A": "1", "B": "0", "C": "x"}, rule("C", "ReadOnly", True, first, second))
    assert bool(locked_by(bios, "C")) is holds


def test_what_is_set_stands_in_map_to_attribute() -> None:
    one = rule("Tpm", "CurrentValue", "Visible", ("Core", "EQU", "Enabled"), about="Core")
    assert changed(bios_of({"Core": "Disabled", "Tpm": "Hidden"}, one), Core="Enabled") == {
        "Tpm": "Visible"
    }


def test_consequences_have_consequences() -> None:
    chain = (
        rule("B", "CurrentValue", "on", ("A", "EQU", "on")),
        rule("C", "CurrentValue", "on", ("B", "EQU", "on")),
    )
    assert changed(bios_of({"A": "off", "B": "off", "C": "off"}, *chain), A="on") == {
        "B": "on",
        "C": "on",
    }


def test_of_two_that_may_not_be_one_the_other_gives_way() -> None:
    both = (("Real", "EQU", "1"), ("Virtual", "EQU", "1", "AND"))
    rules = (
        rule("Virtual", "CurrentValue", "2", *both, about="Real"),
        rule("Real", "CurrentValue", "2", *both, about="Virtual"),
    )
    assert changed(bios_of({"Real": "1", "Virtual": "2"}, *rules), Virtual="1") == {"Real": "2"}
    assert changed(bios_of({"Real": "2", "Virtual": "1"}, *rules), Real="1") == {"Virtual": "2"}


def test_dependencies_that_chase_one_another_are_told_as_unsettled() -> None:
    ring = (
        rule("B", "CurrentValue", "on", ("C", "EQU", "off"), ("A", "EQU", "on", "AND")),
        rule("B", "CurrentValue", "off", ("C", "EQU", "on"), ("A", "EQU", "on", "AND")),
        rule("C", "CurrentValue", "on", ("B", "EQU", "on"), ("A", "EQU", "on", "AND")),
        rule("C", "CurrentValue", "off", ("B", "EQU", "off"), ("A", "EQU", "on", "AND")),
    )
    assert not effects(bios_of({"A": "off", "B": "off", "C": "off"}, *ring), {"A": "on"}).settled


PROFILE = rule("PcieAspmL1", "ReadOnly", True, ("SysProfile", "NEQ", "Custom"))
ASPM: dict[str, Raw] = {"SysProfile": "PerfOptimized", "PcieAspmL1": "Enabled"}


def test_a_profile_unlocks_what_it_locked() -> None:
    bios = bios_of(ASPM, PROFILE, read_only=("PcieAspmL1",), choices={"SysProfile": ["Custom"]})
    assert not can_set(bios, "PcieAspmL1")
    assert openers(bios, "PcieAspmL1") == (Opener("SysProfile", "Custom"),)
    assert effects(bios, {"SysProfile": "Custom"}).unlocked == ("PcieAspmL1",)


def test_the_change_that_changes_least_else_is_offered_first() -> None:
    values: dict[str, Raw] = {"P": "Saving", "X": "off", "Y": "a"}
    rules = (
        rule("X", "ReadOnly", True, ("P", "EQU", "Saving")),
        rule("Y", "CurrentValue", "b", ("P", "EQU", "Peak")),
    )
    choices = {"P": ["Saving", "Peak", "Custom"]}
    bios = bios_of(values, *rules, choices=choices)
    assert openers(bios, "X") == (Opener("P", "Custom"), Opener("P", "Peak"))


def test_a_lock_that_the_pending_values_end_is_open() -> None:
    bios = bios_of(ASPM, PROFILE, read_only=("PcieAspmL1",), pending={"SysProfile": "Custom"})
    assert can_set(bios, "PcieAspmL1")


def test_under_lockdown_nothing_can_be_set_and_nothing_opens_it() -> None:
    bios = bios_of(
        ASPM, PROFILE, read_only=("PcieAspmL1", "SysProfile"), choices={"SysProfile": ["Custom"]}
    )
    assert bios.locked
    assert not can_set(bios, "SysProfile")
    assert openers(bios, "PcieAspmL1") == ()


def test_under_lockdown_what_the_pending_values_would_open_is_closed() -> None:
    bios = bios_of(ASPM, PROFILE, read_only=tuple(ASPM), pending={"SysProfile": "Custom"})
    assert not can_set(bios, "PcieAspmL1")
    assert closed(bios, next_values(bios)) == {"SysProfile": (), "PcieAspmL1": ()}


def test_what_is_closed_says_what_closes_it_and_hardware_has_no_reason() -> None:
    bios = bios_of({**ASPM, "Cores": 64}, PROFILE, immutable=("Cores",))
    assert closed(bios, next_values(bios)) == {
        "PcieAspmL1": bios.dependencies,
        "Cores": (),
    }
    assert not can_set(bios, "Cores")


def test_what_is_the_hardwares_stays_closed_when_a_profile_would_open_it() -> None:
    bios = bios_of(ASPM, PROFILE, immutable=("PcieAspmL1",))
    custom = {**ASPM, "SysProfile": "Custom"}
    assert closed(bios, custom) == {"PcieAspmL1": ()}
    assert not can_set(bios, "PcieAspmL1", custom)


def test_a_change_that_is_overruled_opens_nothing() -> None:
    values: dict[str, Raw] = {"Core": "on", "P": "Saving", "X": "off"}
    rules = (
        rule("P", "CurrentValue", "Peak", ("Core", "EQU", "on")),
        rule("X", "ReadOnly", True, ("P", "EQU", "Saving")),
    )
    bios = bios_of(values, *rules, choices={"P": ["Saving", "Peak", "Custom"]})
    assert openers(bios, "X") == (Opener("P", "Peak"),)


def test_a_condition_on_what_is_not_served_is_not_known_to_hold() -> None:
    one = rule("SecureBoot", "ReadOnly", True, ("ForceInt10", "NEQ", "Enabled"))
    assert can_set(bios_of({"SecureBoot": "Disabled"}, one), "SecureBoot")


def test_nothing_is_known_of_an_attribute_that_is_not_there() -> None:
    assert not can_set(bios_of({"A": "1"}), "B")


@pytest.mark.parametrize(
    ("conditions", "inner"),
    [
        ([("A", "EQU", "1"), ("A", "LIKE", "1")], {}),
        ([("A", "EQU", "1"), ("", "EQU", "1")], {}),
        ([("A", "EQU", "1")], {"MapToProperty": "Odd"}),
        ([], {}),
    ],
)
def test_a_dependency_with_a_part_beyond_us_does_not_count(
    conditions: list[Given], inner: dict[str, str]
) -> None:
    one = rule("B", "ReadOnly", True, *conditions)
    one["Dependency"] |= inner  # type: ignore[operator] # a dictionary, as rule made it
    assert bios_of({"A": "1", "B": "2"}, one).dependencies == ()


def test_a_condition_on_another_property_than_the_value_is_beyond_us() -> None:
    one = rule("B", "ReadOnly", True, ("A", "EQU", "1"))
    text = json.dumps(one).replace('"MapFromProperty": "CurrentValue"', '"MapFromProperty": "Max"')
    assert bios_of({"A": "1", "B": "2"}, json.loads(text)).dependencies == ()


def test_where_nothing_is_named_that_is_set_the_cause_is() -> None:
    one = rule("", "ReadOnly", True, ("A", "EQU", "1"), about="B")
    assert locked_by(bios_of({"A": "1", "B": "2"}, one), "B")


def test_a_lock_that_is_opened_is_none() -> None:
    one = rule("B", "ReadOnly", False, ("A", "EQU", "1"))
    assert can_set(bios_of({"A": "1", "B": "2"}, one), "B")


@pytest.mark.parametrize(
    ("relation", "value", "holds"),
    [("GTR", "4", True), ("GEQ", "5", True), ("LSS", "5", False), ("LEQ", "5", True),
     ("GTR", "5", False), ("LSS", "6", True), ("GTR", True, False), ("GTR", "x", False)],
)  # fmt: skip
def test_numbers_are_compared_as_numbers(relation: str, value: str, holds: bool) -> None:
    one = rule("B", "ReadOnly", True, ("A", relation, value))
    assert bool(locked_by(bios_of({"A": 5, "B": "x"}, one), "B")) is holds
