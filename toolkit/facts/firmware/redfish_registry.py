"""The attribute registry of a BIOS: what each attribute is called, may be, and depends on.

Written from captures of Dell, HPE, Lenovo and OpenBMC; DMTF DSP8010, AttributeRegistry.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from toolkit.facts.firmware.redfish_json import (
    Raw,
    Tree,
    flag,
    raw,
    read_object,
    tree,
    trees,
    whole,
    words,
)


class Kind(StrEnum):
    """What values an attribute takes."""

    ENUMERATION = "Enumeration"
    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    STRING = "String"
    PASSWORD = "Password"  # noqa: S105 - the name of a type
    UNTOLD = ""  # no registry, or a type that we do not know


class Property(StrEnum):
    """What of an attribute a dependency sets, as far as it matters here."""

    VALUE = "CurrentValue"
    READ_ONLY = "ReadOnly"
    GREY = "GrayOut"
    HIDDEN = "Hidden"


class Relation(StrEnum):
    """How a condition compares."""

    EQUAL = "EQU"
    OTHER = "NEQ"
    ABOVE = "GTR"
    AT_LEAST = "GEQ"
    BELOW = "LSS"
    AT_MOST = "LEQ"


class AttributeChoice(Struct, frozen=True):
    """One allowed value; which of the two the resource shows differs by vendor."""

    value: str  # ValueName: "Enabled"; Supermicro has a number there
    display: str = ""  # ValueDisplayName


class AttributeEntry(Struct, frozen=True):
    """What the registry says of one attribute."""

    name: str
    display: str = ""  # DisplayName
    menu: str = ""  # MenuPath: "./ProcSettingsRef"; "" where the registry has none
    kind: Kind = Kind.UNTOLD
    default: Raw = None
    choices: tuple[AttributeChoice, ...] = ()
    lower: int | None = None
    upper: int | None = None
    step: int | None = None
    read_only: bool = False  # now: it may be open again under another profile
    grey: bool = False
    hidden: bool = False
    immutable: bool = False  # hardware's, for good
    reset: bool = True  # a change needs a reset


class Condition(Struct, frozen=True):
    attribute: str
    relation: Relation
    value: Raw
    both: bool = False  # joined with what stands before it by AND; else by OR


class Dependency(Struct, frozen=True):
    """Where the conditions hold, that property of that attribute is that value."""

    conditions: tuple[Condition, ...]
    attribute: str
    property: Property
    value: Raw


class Registry(Struct, frozen=True):
    """All entries by name, in the order of the registry, and what depends on what."""

    entries: Mapping[str, AttributeEntry] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    owner: str = ""  # OwningEntity: "Dell"
    id: str = ""


def parse_registry(text: str) -> Registry:
    """An AttributeRegistry as served. What it lacks is left out; nothing is guessed.

    :raises Unparsable: where the text is no JSON object.
    """
    served = read_object("bmc-bios-registry", text)
    lists = tree(served.get("RegistryEntries"))
    entries: dict[str, AttributeEntry] = {}
    for given in trees(lists.get("Attributes")):
        name = words(given.get("AttributeName"))
        if name and name not in entries:  # Lenovo lists some names twice
            entries[name] = _entry(name, given)
    made = (_dependency(each) for each in trees(lists.get("Dependencies")))
    return Registry(
        entries,
        tuple(each for each in made if each is not None),
        words(served.get("OwningEntity")),
        words(served.get("Id")),
    )


def _entry(name: str, given: Tree) -> AttributeEntry:
    said = words(given.get("Type"))
    kind = Kind(said) if said in list(Kind) else Kind.UNTOLD
    found: dict[str, AttributeChoice] = {}
    for each in trees(given.get("Value")):
        value = raw(each.get("ValueName"))
        text = str(value) if value is not None else words(each.get("ValueDisplayName"))
        if text:
            found.setdefault(text, AttributeChoice(text, words(each.get("ValueDisplayName"))))
    return AttributeEntry(
        name,
        words(given.get("DisplayName")),
        words(given.get("MenuPath")),
        kind,
        _default(kind, raw(given.get("DefaultValue"))),
        tuple(found.values()),
        whole(given.get("LowerBound")),
        whole(given.get("UpperBound")),
        whole(given.get("ScalarIncrement")),
        flag(given.get("ReadOnly")),
        flag(given.get("GrayOut")),
        flag(given.get("Hidden")),
        flag(given.get("Immutable")),
        given.get("ResetRequired") is not False,
    )


def _default(kind: Kind, value: Raw) -> Raw:
    # Lenovo writes the defaults of switches as "0" and "1" and serves them as false and true.
    if kind is Kind.BOOLEAN and isinstance(value, str):
        return {"0": False, "false": False, "1": True, "true": True}.get(value.lower(), value)
    if kind is Kind.INTEGER and isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return value


def _dependency(given: Tree) -> Dependency | None:
    inner = tree(given.get("Dependency"))
    # HPE's DependencyFor often names the cause; what is set stands in MapToAttribute.
    to = words(inner.get("MapToAttribute")) or words(given.get("DependencyFor"))
    what = words(inner.get("MapToProperty"))
    conditions = _conditions(trees(inner.get("MapFrom")))
    if not to or what not in list(Property) or not conditions:
        return None
    return Dependency(conditions, to, Property(what), raw(inner.get("MapToValue")))


def _conditions(given: list[Tree]) -> tuple[Condition, ...]:
    """The conditions; () where one of them is beyond us, so that none counts without it."""
    terms = [words(each.get("MapTerms")) for each in given]
    # HPE writes the term at the second of two, Lenovo at the first, Dell nowhere and means OR.
    joins = terms[1:] if terms and not terms[0] else terms[:-1]
    made = []
    for number, each in enumerate(given):
        relation = words(each.get("MapFromCondition"))
        name = words(each.get("MapFromAttribute"))
        about = each.get("MapFromProperty", Property.VALUE)
        if relation not in list(Relation) or not name or about != Property.VALUE:
            return ()
        both = number > 0 and joins[number - 1] == "AND"
        made.append(Condition(name, Relation(relation), raw(each.get("MapFromValue")), both))
    return tuple(made)
