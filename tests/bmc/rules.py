"""What a BMC does with an attribute registry: values checked, dependencies carried out.

Written from DSP0268's AttributeRegistry and what vendors' registries hold, and on purpose not
with the toolkit's own reading of them: two readings of one registry can disagree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# What stands in JSON; a test's server has no use for a type for each resource.
Resource = dict[str, Any]
Values = dict[str, Any]

_CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQU": operator.eq,
    "NEQ": operator.ne,
    "GTR": operator.gt,
    "GEQ": operator.ge,
    "LSS": operator.lt,
    "LEQ": operator.le,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is wrong with a request, as a Redfish message tells of it."""

    message_id: str  # without its registry: "PropertyNotWritable"
    text: str
    about: str  # the attribute, or ""


def entries(registry: Resource) -> dict[str, Resource]:
    """The registry's entries by attribute name; the last of equals, as services have it."""
    listed = registry.get("RegistryEntries", {}).get("Attributes", [])
    return {each["AttributeName"]: each for each in listed}


def state(registry: Resource, values: Mapping[str, Any]) -> dict[str, Values]:
    """What the dependencies make of each attribute where these values hold.

    :returns: by attribute, the properties that are not as the registry writes them, as
        {"KernelDmaProtection": {"CurrentValue": "Disabled", "ReadOnly": True}}.
    """
    found: dict[str, Values] = {}
    for each in registry.get("RegistryEntries", {}).get("Dependencies", []):
        rule = each["Dependency"]
        if _holds(rule["MapFrom"], values):
            change = found.setdefault(rule["MapToAttribute"], {})
            change[rule["MapToProperty"]] = rule["MapToValue"]
    return found


def applied(registry: Resource, values: Mapping[str, Any]) -> Values:
    """The values that firmware ends up with: dependencies change some of them, in turn."""
    now = dict(values)
    for _ in range(5):  # a chain of dependencies is short; a circle must still end
        before = dict(now)
        for name, change in state(registry, now).items():
            if "CurrentValue" in change and name in now:
                now[name] = change["CurrentValue"]
        if now == before:
            break
    return now


def locked(registry: Resource, values: Mapping[str, Any]) -> set[str]:
    """The attributes that cannot be written while these values hold."""
    changed = state(registry, values)
    return {
        name
        for name, entry in entries(registry).items()
        if any(
            changed.get(name, {}).get(key, entry.get(key, False)) for key in ("ReadOnly", "GrayOut")
        )
    }


def refusals(
    registry: Resource, holding: Mapping[str, Any], known: Mapping[str, Any], wanted: Values
) -> tuple[Refusal, ...]:
    """All that is wrong with ``wanted``.

    :param holding: the values by which read-only state is judged.
    :param known: the attributes that the resource shows; others do not exist there.
    """
    described = entries(registry)
    shut = locked(registry, holding)
    found = []
    for name, value in wanted.items():
        if name not in known or (described and name not in described):
            found.append(Refusal("PropertyUnknown", f"The property {name} is not known.", name))
        elif name in shut:
            text = f"The property {name} is a read only property and cannot be assigned a value."
            found.append(Refusal("PropertyNotWritable", text, name))
        elif name in described:
            found += _wrong(described[name], name, value, known[name])
    return tuple(found)


def _wrong(entry: Resource, name: str, value: Any, shown: Any) -> Iterator[Refusal]:
    match entry.get("Type"):
        case "Enumeration":
            allowed = _names(entry, shown)
            if value not in allowed:
                yield _unlisted(name, value)
        case "Boolean" if not isinstance(value, bool):
            yield _mistyped(name, value)
        case "Integer" if isinstance(value, bool) or not isinstance(value, int):
            yield _mistyped(name, value)
        case "Integer":
            low, high = entry.get("LowerBound", value), entry.get("UpperBound", value)
            step = entry.get("ScalarIncrement") or 1
            if not low <= value <= high or (value - low) % step:
                text = f"The value {value} for the property {name} is out of range."
                yield Refusal("PropertyValueOutOfRange", text, name)
        case "String" if not isinstance(value, str):
            yield _mistyped(name, value)


def _names(entry: Resource, shown: Any) -> set[Any]:
    """The values in the form that the resource shows; one vendor shows display names."""
    values = entry.get("Value", [])
    names = {each["ValueName"] for each in values}
    if shown not in names:
        names |= {each.get("ValueDisplayName") for each in values}
    return names


def _unlisted(name: str, value: Any) -> Refusal:
    text = f"The value {value} for the property {name} is not in the list of acceptable values."
    return Refusal("PropertyValueNotInList", text, name)


def _mistyped(name: str, value: Any) -> Refusal:
    text = f"The value {value} for the property {name} is of a different type."
    return Refusal("PropertyValueTypeError", text, name)


def _holds(terms: list[Resource], values: Mapping[str, Any]) -> bool:
    """Whether a condition does; without MapTerms one of several is enough."""
    result = False
    for number, term in enumerate(terms):
        one = _one(term, values)
        # HPE writes the word that joins two at the second of them, Lenovo at the first.
        word = terms[number - 1 if "MapTerms" in terms[0] else number].get("MapTerms", "OR")
        result = (result and one) if number and word == "AND" else (result or one)
    return result


def _one(term: Resource, values: Mapping[str, Any]) -> bool:
    name = str(term.get("MapFromAttribute"))
    if name not in values or term.get("MapFromProperty", "CurrentValue") != "CurrentValue":
        return False
    compare = _CONDITIONS.get(str(term.get("MapFromCondition")))
    return compare is not None and bool(compare(values[name], term.get("MapFromValue")))
