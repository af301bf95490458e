"""What a BIOS would be once attributes are set: by the rules of its registry, told at the reset.

Rules are carried out in ``facts.redfish_depends``; here they are seen from what holds now, since
a BMC takes no change of an attribute that only a pending value would open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.facts.redfish_bios import Bios
from toolkit.facts.redfish_depends import closed, current_values, effects
from toolkit.facts.redfish_json import Raw
from toolkit.facts.redfish_registry import Condition
from toolkit.facts.redfish_values import words_of


@dataclass(frozen=True, slots=True)
class World:
    """A BIOS as it would be."""

    values: Mapping[str, Raw]
    closed: Mapping[str, tuple[Condition, ...]]  # read-only, and what makes it so; () for good
    forced: Mapping[str, Raw]  # set by a rule, besides what was asked for


def world(bios: Bios, sets: Mapping[str, Raw]) -> World:
    """What would be once ``sets`` holds: values that follow, and what can be changed then."""
    made = effects(bios, sets, current_values(bios))
    return World(
        made.values,
        {
            name: tuple(each for rule in rules for each in rule.conditions)
            for name, rules in closed(bios, made.values).items()
        },
        {each.attribute: each.after for each in made.changed},
    )


def same(one: Raw, other: Raw) -> bool:
    """Whether two values are one: registries write "true" where resources have true."""
    return words_of(one).casefold() == words_of(other).casefold()
