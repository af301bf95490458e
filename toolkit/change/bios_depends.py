"""What else a BIOS changes, opens or closes when attributes are set, by its registry.

A registry tells rules: where these conditions hold, that property of that attribute is so. What it
says of an attribute as it stands is the outcome of the rules at that moment: an attribute which
a rule closes is open once no such rule holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.facts.redfish_bios import Bios
from toolkit.facts.redfish_json import Raw
from toolkit.facts.redfish_registry import Condition, Dependency, Property, Relation
from toolkit.facts.redfish_values import squeezed, words_of

_CLOSING = frozenset({Property.READ_ONLY, Property.GREY})
_ROUNDS = 4  # of values that force values


@dataclass(frozen=True, slots=True)
class World:
    """A BIOS as it would be."""

    values: Mapping[str, Raw]
    closed: Mapping[str, tuple[Condition, ...]]  # read-only, and what makes it so; () for good
    forced: Mapping[str, Raw]  # set by a rule, not by us


def world(bios: Bios, sets: Mapping[str, Raw]) -> World:
    """What would be once ``sets`` holds: values that follow, and what can be changed then."""
    values = {name: each.current for name, each in bios.attributes.items()} | dict(sets)
    forced: dict[str, Raw] = {}
    for _ in range(_ROUNDS if sets else 0):
        now = {
            each.attribute: each.value
            for each in bios.dependencies
            if each.property is Property.VALUE
            and _moves(each, sets, forced)
            and holds(each, values)
        }
        fresh = {n: v for n, v in now.items() if n in values and not same(values[n], v)}
        forced |= fresh
        values |= fresh
        if not fresh:
            break
    return World(values, _closed(bios, values), forced)


def _moves(rule: Dependency, sets: Mapping[str, Raw], forced: Mapping[str, Raw]) -> bool:
    """Whether a rule speaks of what changes; the others have had their effect already."""
    return any(each.attribute in sets or each.attribute in forced for each in rule.conditions)


def _closed(bios: Bios, values: Mapping[str, Raw]) -> dict[str, tuple[Condition, ...]]:
    found: dict[str, tuple[Condition, ...]] = {}
    ruled: set[str] = set()
    for rule in bios.dependencies:
        if rule.property in _CLOSING:
            if rule.value is True:
                ruled.add(rule.attribute)
            if holds(rule, values) and rule.value is True:
                found[rule.attribute] = rule.conditions
    for name, each in bios.attributes.items():
        if each.entry.immutable or (each.read_only and name not in ruled):
            found[name] = ()
    return found


def holds(rule: Dependency, values: Mapping[str, Raw]) -> bool:
    """Whether the conditions hold: OR of what AND joins."""
    group, found = True, False
    for number, each in enumerate(rule.conditions):
        if number and not each.both:
            found, group = found or group, True
        group = group and _true(each, values)
    return found or group


def _true(condition: Condition, values: Mapping[str, Raw]) -> bool:
    if condition.attribute not in values:
        return False
    here, there = values[condition.attribute], condition.value
    if condition.relation in {Relation.EQUAL, Relation.OTHER}:
        return same(here, there) is (condition.relation is Relation.EQUAL)
    one, other = _number(here), _number(there)
    if one is None or other is None:
        return False
    return {
        Relation.ABOVE: one > other,
        Relation.AT_LEAST: one >= other,
        Relation.BELOW: one < other,
        Relation.AT_MOST: one <= other,
    }[condition.relation]


def same(one: Raw, other: Raw) -> bool:
    """Whether two values are one: registries write "true" and "1" where resources have true."""
    return squeezed(words_of(one)) == squeezed(words_of(other))


def _number(value: Raw) -> float | None:
    try:
        return float(words_of(value))
    except ValueError:
        return None
