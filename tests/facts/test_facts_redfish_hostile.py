"""A BMC that serves nonsense: refused in a sentence, or read as far as it makes sense."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws import tried
from tests.unit.bios_personas import AMI, DGX, X13, Row, bios_of
from toolkit.compat.bios import BiosRole, BiosRow, shipped
from toolkit.errors import Unparsable
from toolkit.facts.firmware.bios_setting import Meaning, hidden, match
from toolkit.facts.firmware.redfish_bios import Bios, parse_bios
from toolkit.facts.firmware.redfish_bmc import parse_lockdown, parse_machine, parse_secure_boot
from toolkit.facts.firmware.redfish_depends import can_set, effects, openers
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import parse_registry
from toolkit.facts.firmware.redfish_values import Wish, fulfils, meaning_of, raw_for

FLOATS = st.floats(allow_nan=False, allow_infinity=False)  # which JSON has neither of
LEAVES = st.none() | st.booleans() | st.integers() | FLOATS | st.text()
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# Names and values that mean something, so that what follows from them is reached too.
NAMES = st.sampled_from(
    ["ProcVirtualization", "SysProfile", "SNC_F300", "PciSlot1Aspm", "Socket0Pcie1axPCIespeed"]
)
VALUES = st.sampled_from(["Enabled", "Disabled", "Custom", "NPS4", "Gen3", "4T", "0", "1"]) | TREES


def attribute() -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "AttributeName": NAMES | TREES,
            "DisplayName": st.just("SR-IOV Support") | TREES,
            "MenuPath": TREES,
            "Type": st.sampled_from(["Enumeration", "Boolean", "Integer", "Password"]) | TREES,
            "Value": st.lists(st.fixed_dictionaries({"ValueName": VALUES})) | TREES,
            "ReadOnly": TREES,
            "LowerBound": TREES,
            "ScalarIncrement": TREES,
            "DefaultValue": VALUES,
        },
    )


def dependency() -> st.SearchStrategy[dict[str, object]]:
    condition = st.fixed_dictionaries(
        {
            "MapFromAttribute": NAMES | TREES,
            "MapFromCondition": st.sampled_from(["EQU", "NEQ", "GTR", "LEQ"]) | TREES,
            "MapFromValue": VALUES,
        },
        optional={"MapTerms": st.sampled_from(["AND", "OR"]) | TREES, "MapFromProperty": TREES},
    )
    inner = st.fixed_dictionaries(
        {
            "MapFrom": st.lists(condition, max_size=3) | TREES,
            "MapToAttribute": NAMES | TREES,
            "MapToProperty": st.sampled_from(["CurrentValue", "ReadOnly", "GrayOut"]) | TREES,
            "MapToValue": VALUES,
        }
    )
    return st.fixed_dictionaries({"Dependency": inner | TREES}, optional={"DependencyFor": TREES})


REGISTRIES = st.fixed_dictionaries(
    {
        "RegistryEntries": TREES
        | st.fixed_dictionaries(
            {
                "Attributes": st.lists(attribute() | TREES, max_size=5) | TREES,
                "Dependencies": st.lists(dependency() | TREES, max_size=5) | TREES,
            }
        )
    },
    optional={"OwningEntity": TREES},
)
SERVED = st.dictionaries(NAMES | st.text(), VALUES, max_size=5) | TREES


def everything_asked(bios: Bios) -> None:
    """Whatever anybody may ask of a BIOS."""
    rows = shipped()
    hidden(bios, rows)
    for found in match(bios, rows).values():
        for each in found:
            for meaning in Meaning:
                wish = Wish(meaning, 4 if meaning is Meaning.NUMBER else None)
                sent = raw_for(each.attribute, wish, each.row)
                assert sent is None or isinstance(sent, str | int | float)
    for name in bios.attributes:
        can_set(bios, name)
        openers(bios, name)
        effects(bios, {name: "Disabled"})


@given(SERVED, REGISTRIES, SERVED, TREES)
@tried(120)
def test_whatever_a_bmc_serves_is_read_or_refused(
    attributes: object, registry: object, pending: object, system: object
) -> None:
    try:
        bios = parse_bios(
            json.dumps({"Attributes": attributes, "Oem": system, "Actions": pending}),
            json.dumps(registry),
            json.dumps({"Attributes": pending}),
            json.dumps(system),
        )
    except Unparsable as why:
        assert not isinstance(system, dict), why  # noqa: PT017 - the one text that is no object
        return
    everything_asked(bios)


# By the frame that holds the text, which a refusal names.
PARSERS: dict[str, Callable[[str], object]] = {
    "bmc-bios": parse_bios,
    "bmc-bios-registry": parse_registry,
    "bmc-system": parse_machine,
    "bmc-secureboot": parse_secure_boot,
    "bmc-bios-pending": lambda text: parse_bios("{}", pending=text),
    "bmc-bios-lockdown": parse_lockdown,
}
BESIDES = {"bmc-bios-pending", "bmc-bios-lockdown"}  # nothing is no refusal: many have none


@given(st.text())
@example('{"Attributes": {"A": NaN}}')
@example('{"Attributes": {"A": Infinity}}')
@example("[" * 100_000)
@example('{"A":' * 100_000)
@example('{"A": ' + "9" * 5000 + "}")
@example("<html><body>Login</body></html>")
@example("")
@example("null")
@example("[]")
def test_what_is_no_json_object_is_refused_in_one_sentence(text: str) -> None:
    for source, parse in PARSERS.items():
        if not text and source in BESIDES:
            continue
        with pytest.raises(Unparsable, match=f"^{source}: ") as refused:
            parse(text)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 400


@given(LEAVES, st.text())
def test_every_value_means_something_and_keeps_its_own_words(value: Raw, name: str) -> None:
    for row in (None, *shipped().rows[::15]):
        meant = meaning_of(value, name, row)
        assert meant.raw is value
        assert (meant.number is None) == (meant.meaning is not Meaning.NUMBER)
        assert meant.same(meant)


@given(st.sampled_from(shipped().rows), st.sampled_from(["Enable", "disabled ", "YES", "oFF"]))
def test_case_and_blanks_around_a_word_do_not_change_what_it_means(row: BiosRow, word: str) -> None:
    assert meaning_of(word, "", row).meaning is meaning_of(word.strip().lower(), "", row).meaning


@pytest.mark.parametrize("rows", [X13, DGX, AMI], ids=["x13", "dgx", "ami"])
def test_what_is_sent_means_what_was_wished_for(rows: tuple[Row, ...]) -> None:
    bios = bios_of(rows)
    sent = 0
    for setting, found in match(bios, shipped()).items():
        for each in found:
            for wish in (Wish(Meaning.ON), Wish(Meaning.OFF), Wish(Meaning.AUTO)):
                raw = raw_for(each.attribute, wish, each.row)
                if raw is not None:
                    sent += 1
                    assert fulfils(meaning_of(raw, each.name, each.row), wish, setting)
    assert sent > 2


def test_a_huge_registry_is_read_in_the_time_of_its_size() -> None:
    entries = [{"AttributeName": f"A{n}", "Value": [{"ValueName": "x"}]} for n in range(20_000)]
    rules = [
        {
            "Dependency": {
                "MapFrom": [
                    {
                        "MapFromAttribute": f"A{n}",
                        "MapFromCondition": "EQU",
                        "MapFromValue": "y",
                    }
                ],
                "MapToAttribute": f"A{n + 1}",
                "MapToProperty": "CurrentValue",
                "MapToValue": "y",
            }
        }
        for n in range(5_000)
    ]
    served = json.dumps({"Attributes": {f"A{n}": "x" for n in range(20_000)}})
    known = json.dumps({"RegistryEntries": {"Attributes": entries, "Dependencies": rules}})
    start = time.process_time()
    bios = parse_bios(served, known)
    assert all(not found for found in match(bios, shipped()).values())
    after = effects(bios, {"A0": "y"})
    assert not after.settled or len(after.changed) == 5_000
    assert time.process_time() - start < 60


def test_a_value_of_megabytes_is_its_own_word() -> None:
    bios = parse_bios(json.dumps({"Attributes": {"Sriov": "Enabled" * 1_000_000}}))
    (one,) = match(bios, shipped())[BiosRole.SR_IOV]
    assert one.value.meaning is Meaning.OTHER
    assert meaning_of("x" * 1_000_000 + "NPS4").meaning is Meaning.OTHER


def test_a_password_is_not_kept() -> None:
    entry = {"AttributeName": "SetupPassword", "Type": "Password"}
    bios = parse_bios(
        json.dumps({"Attributes": {"SetupPassword": "hunter2"}}),
        json.dumps({"RegistryEntries": {"Attributes": [entry]}}),
        json.dumps({"Attributes": {"SetupPassword": "hunter3"}}),
    )
    assert "hunter" not in repr(bios)
