"""Two readings of each real registry, ours and that of the simulated BMC, come to the same."""

from __future__ import annotations

import json
import random

import pytest

from tests.bmc.rules import applied, locked
from tests.corpus.bios_captures import bios_of, texts
from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_depends import can_set, closed, current_values, effects
from toolkit.facts.firmware.redfish_json import Raw

NAMES = ("dell", "hpe", "lenovo")
# Of these two the simulated BMC moves both at once, and a real one that which was not set.
EXCHANGED = {"EmbeddedSerialPort", "VirtualSerialPort"}


def changes_of(bios: Bios) -> list[tuple[str, Raw]]:
    """Every single change of an attribute that something depends on, as the registry allows it."""
    causes = {each.attribute for rule in bios.dependencies for each in rule.conditions}
    return [
        (name, attribute.shown(choice))
        for name, attribute in bios.attributes.items()
        if name in causes - EXCHANGED and can_set(bios, name)
        for choice in attribute.allowed
        if attribute.shown(choice) != attribute.current
    ]


@pytest.mark.parametrize("name", NAMES)
def test_both_say_what_a_change_leads_to_and_closes(name: str) -> None:
    bios, registry = bios_of(name), json.loads(texts(name)["registry"])
    values = current_values(bios)
    found = changes_of(bios)
    assert len(found) > 20
    # A static read-only is the state when it was served: only ours knows that it may end.
    stated = {each for each, one in bios.attributes.items() if one.read_only}
    for attribute, value in random.Random(name).sample(found, min(60, len(found))):  # noqa: S311 - a choice of cases
        made = effects(bios, {attribute: value}, values)
        assert made.settled
        assert made.values == applied(registry, {**values, attribute: value}), (attribute, value)
        theirs = locked(registry, made.values) & bios.attributes.keys()
        assert closed(bios, made.values).keys() - stated == theirs - stated, (attribute, value)
