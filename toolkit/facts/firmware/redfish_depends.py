"""What else a change of one attribute changes, locks and unlocks, by the registry's dependencies.

A condition on an attribute that is not served is not known to hold, so nothing follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolkit.facts.firmware.redfish_bios import Bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Condition, Dependency, Property, Relation
from toolkit.facts.firmware.redfish_values import words_of

Values = Mapping[str, Raw]  # of attributes, by name
_LOCKS = (Property.READ_ONLY, Property.GREY)
_ROUNDS = 16  # of consequences of consequences; the longest chain in a capture has 3


class Consequence(Struct, frozen=True):
    """One attribute that a dependency sets."""

    attribute: str
    before: Raw  # what was asked for, of one that is overruled
    after: Raw
    because: Dependency


class Effects(Struct, frozen=True):
    """What comes of a change, beside the change."""

    values: Values  # of all attributes, once all is settled
    changed: tuple[Consequence, ...] = ()  # further attributes that change with it
    overruled: tuple[Consequence, ...] = ()  # asked for, and set otherwise by a dependency
    locked: tuple[str, ...] = ()  # read-only from then on
    unlocked: tuple[str, ...] = ()  # no longer read-only
    settled: bool = True  # False: dependencies that chase one another


class Opener(Struct, frozen=True):
    """One change after which another attribute can be set."""

    attribute: str
    value: Raw


def current_values(bios: Bios) -> Values:
    """What holds since the last boot."""
    return {name: each.current for name, each in bios.attributes.items()}


def next_values(bios: Bios) -> Values:
    """What holds after the next boot, as far as it was told."""
    return {
        name: each.current if each.pending is None else each.pending
        for name, each in bios.attributes.items()
    }


def locked_by(bios: Bios, name: str, values: Values | None = None) -> tuple[Dependency, ...]:
    """The dependencies that make an attribute read-only under these values; () for none.

    An attribute may be read-only with no dependency as well: hardware's own, or a lockdown.

    :param values: of attributes by name; None: those of the next boot.
    """
    given = next_values(bios) if values is None else values
    locks = (each for each in bios.dependencies if each.attribute == name and _is_lock(each))
    return tuple(each for each in locks if holds(bios, each, given))


def can_set(bios: Bios, name: str, values: Values | None = None) -> bool:
    """Whether a PATCH may set an attribute under these values.

    What the registry says of its own is the state when it was served: an attribute that was
    locked by a dependency then is open where no dependency locks it any more.
    """
    found = bios.attributes.get(name)
    if found is None or found.entry.immutable or bios.locked or locked_by(bios, name, values):
        return False
    return not found.read_only or bool(locked_by(bios, name, current_values(bios)))


def closed(bios: Bios, values: Values) -> Mapping[str, tuple[Dependency, ...]]:
    """Every attribute that a PATCH may not set under these values, and what closes it.

    () for one that no dependency closes: hardware's own, or under a lockdown.
    """
    locks = _locks(bios, values)
    at_serving = _locks(bios, current_values(bios))
    found: dict[str, tuple[Dependency, ...]] = {}
    for name, each in bios.attributes.items():
        if name in locks:
            found[name] = tuple(locks[name])
        elif bios.locked or each.entry.immutable or (each.read_only and name not in at_serving):
            found[name] = ()
    return found


def effects(bios: Bios, changes: Values, base: Values | None = None) -> Effects:
    """What comes of these changes.

    :param base: what holds before; None: what the next boot makes of it, pending included.
    """
    before = next_values(bios) if base is None else base
    values = {**before, **changes}
    changed: dict[str, Consequence] = {}
    overruled: dict[str, Consequence] = {}
    acting = [
        each
        for each in bios.dependencies
        if each.property is Property.VALUE and each.attribute in values
    ]
    # What was not asked for gives way first: of two serial ports that may not be one, the other.
    acting.sort(key=lambda each: each.attribute in changes)
    settled = False
    for _ in range(_ROUNDS):
        settled = True
        for each in acting:  # one by one: what the first does, the next may no longer have to
            name = each.attribute
            # What held before has had its effect already, unless the change goes against it.
            anew = name in changes or not holds(bios, each, before)
            kept = same(bios, name, values[name], each.value)
            if anew and not kept and holds(bios, each, values):
                into = overruled if name in changes else changed
                into[name] = Consequence(name, changes.get(name, before[name]), each.value, each)
                values[name], settled = each.value, False
        if settled:
            break
    was, is_now = closed(bios, before), closed(bios, values)
    return Effects(
        values,
        tuple(changed.values()),
        tuple(overruled.values()),
        tuple(each for each in is_now if each not in was),
        tuple(each for each in was if each not in is_now),
        settled,
    )


def openers(bios: Bios, name: str) -> tuple[Opener, ...]:
    """Single changes after which a locked attribute can be set; () where it is open, or none helps.

    The one that changes least else stands first: "Custom", as a rule.
    """
    if name not in bios.attributes or can_set(bios, name):
        return ()
    reasons = locked_by(bios, name)
    conditions = [each for reason in reasons for each in reason.conditions]
    found: dict[Opener, int] = {}
    for condition in conditions:
        for value in _others(bios, condition):
            after = effects(bios, {condition.attribute: value})
            if not after.overruled and can_set(bios, name, after.values):
                found[Opener(condition.attribute, value)] = len(after.changed)
    return tuple(sorted(found, key=lambda each: found[each]))


def holds(bios: Bios, dependency: Dependency, values: Values) -> bool:
    """Whether a dependency's conditions hold, joined from the first on."""
    result = False
    for number, condition in enumerate(dependency.conditions):
        one = condition.attribute in values and _compares(bios, condition, values)
        result = one if number == 0 else (result and one if condition.both else result or one)
    return result


def same(bios: Bios, name: str, one: Raw, other: Raw) -> bool:
    """Whether two values of an attribute are one, be they named, shown or typed differently."""
    if _plain(one) == _plain(other):
        return True
    found = bios.attributes.get(name)
    choices = found.allowed if found else ()
    texts = {_plain(one), _plain(other)}
    return any(texts == {_plain(each.value), _plain(each.display)} for each in choices)


def _compares(bios: Bios, condition: Condition, values: Values) -> bool:
    value = values[condition.attribute]
    equal = same(bios, condition.attribute, value, condition.value)
    if condition.relation in (Relation.EQUAL, Relation.OTHER):
        return equal is (condition.relation is Relation.EQUAL)
    one, other = _number(value), _number(condition.value)
    if one is None or other is None:
        return False
    return {
        Relation.ABOVE: one > other,
        Relation.AT_LEAST: one >= other,
        Relation.BELOW: one < other,
        Relation.AT_MOST: one <= other,
    }[condition.relation]


def _plain(value: Raw) -> str:
    if isinstance(value, bool):  # registries write switches as "0" and "1" as well
        return "1" if value else "0"
    text = words_of(value).lower()
    return {"true": "1", "false": "0"}.get(text, text)


def _number(value: Raw) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _is_lock(dependency: Dependency) -> bool:
    return dependency.property in _LOCKS and dependency.value is True


def _locks(bios: Bios, values: Values) -> dict[str, list[Dependency]]:
    found: dict[str, list[Dependency]] = {}
    for each in bios.dependencies:
        if _is_lock(each) and holds(bios, each, values):
            found.setdefault(each.attribute, []).append(each)
    return found


def _others(bios: Bios, condition: Condition) -> tuple[Raw, ...]:
    """Values of a condition's attribute that could end it, where it can be set at all."""
    found = bios.attributes.get(condition.attribute)
    if found is None or not can_set(bios, condition.attribute):
        return ()
    excepted = condition.relation is Relation.OTHER
    shown = [found.shown(each) for each in found.allowed]
    values: list[Raw] = [True, False] if isinstance(found.current, bool) else [*shown]
    return tuple(e for e in values if same(bios, found.name, e, condition.value) is excepted)
