"""A BIOS as its BMC tells of it: attributes with what they are, will be and may be."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from toolkit.facts.firmware.redfish_json import Raw, Tree, raw, read_object, tree, words
from toolkit.facts.firmware.redfish_registry import (
    AttributeChoice,
    AttributeEntry,
    Dependency,
    Kind,
    Registry,
    parse_registry,
)


class Attribute(Struct, frozen=True):
    """One attribute: what the resource serves, and what the registry says of it."""

    name: str  # as a PATCH must have it
    current: Raw = None
    pending: Raw = None  # what the next reset makes it; None where nothing was said
    entry: AttributeEntry = field(default_factory=lambda: AttributeEntry(""))

    @property
    def display_name(self) -> str:
        return self.entry.display

    @property
    def default(self) -> Raw:
        return self.entry.default

    @property
    def allowed(self) -> tuple[AttributeChoice, ...]:
        return self.entry.choices

    @property
    def read_only(self) -> bool:
        """As the registry says it now; what depends on others is in redfish_depends."""
        return self.entry.read_only or self.entry.immutable or self.entry.grey

    @property
    def kind(self) -> Kind:
        """What values it takes; told by the value where no registry does."""
        if self.entry.kind is not Kind.UNTOLD:
            return self.entry.kind
        if isinstance(self.current, bool):
            return Kind.BOOLEAN
        return Kind.INTEGER if isinstance(self.current, int) else Kind.UNTOLD

    @property
    def shows_display(self) -> bool:
        """Whether the resource carries display names, as Supermicro's does, whatever DMTF says."""
        current = str(self.current)
        return all(each.value != current for each in self.allowed) and any(
            each.display == current for each in self.allowed
        )

    def shown(self, choice: AttributeChoice) -> str:
        """A choice in the form that the resource carries, and so a PATCH must."""
        return choice.display if choice.display and self.shows_display else choice.value

    def told(self, value: Raw) -> Raw:
        """What tells what a value means: its display name, where the value is a mere number."""
        if isinstance(value, bool) or not str(value).lstrip("-").isdecimal():
            return value
        shown = (each.display for each in self.allowed if each.value == str(value))
        return next(shown, "") or value

    @property
    def changing(self) -> bool:
        """Whether the next reset changes it."""
        return self.pending is not None and self.pending != self.current


class Bios(Struct, frozen=True):
    """What one BMC said of one BIOS.

    An attribute that only the registry lists is not one that an operator can set: those are
    in ``unserved``.
    """

    vendor: str = ""  # "Dell Inc.", in the BMC's own words; "" where it names none
    model: str = ""  # "PowerEdge R750"
    version: str = ""  # of the BIOS: "1.8.2"; "" where it tells none
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    unserved: Mapping[str, AttributeEntry] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()
    names: tuple[str, ...] = ()  # of the vendor, the surest first
    signs: tuple[str, ...] = ()  # what else gives the vendor away: addresses, actions
    registry: bool = False  # whether there is one: without it little is known of what is allowed
    pending_known: bool = False  # whether a pending resource was read
    locked: bool = False  # every attribute is read-only at once, as a BMC's lockdown makes them

    @property
    def changing(self) -> tuple[Attribute, ...]:
        """What the next reset changes."""
        return tuple(each for each in self.attributes.values() if each.changing)


def parse_bios(bios: str, registry: str = "", pending: str = "", system: str = "") -> Bios:
    """The resources of one BIOS, each as served; "" for one that is not offered.

    :param bios: the Bios resource; all others only add to it.
    :raises Unparsable: where one of them is no JSON object.
    """
    served = read_object("bmc-bios", bios)
    known = parse_registry(registry) if registry else Registry()
    coming = tree(read_object("bmc-bios-pending", pending).get("Attributes")) if pending else {}
    machine = read_object("bmc-system", system) if system else {}
    current = tree(served.get("Attributes"))
    said = (words(machine.get("Manufacturer")), known.owner, *tree(served.get("Oem")))
    names = tuple(filter(None, said))
    attributes = {name: _attribute(name, current, coming, known) for name in current}
    told = [each for each in attributes.values() if each.entry.name]
    actions = tree(served.get("Actions"))
    signs = (words(served.get("@odata.id")), *actions, *tree(actions.get("Oem")))
    return Bios(
        vendor=next(iter(names), ""),
        model=words(machine.get("Model")),
        version=words(machine.get("BiosVersion")),
        attributes=attributes,
        unserved={name: each for name, each in known.entries.items() if name not in current},
        dependencies=known.dependencies,
        names=names,
        signs=signs,
        registry=bool(known.entries),
        pending_known=bool(pending),
        locked=bool(told) and all(each.read_only for each in told),
    )


def _attribute(name: str, current: Tree, coming: Tree, known: Registry) -> Attribute:
    entry = known.entries.get(name, AttributeEntry(""))
    if entry.kind is Kind.PASSWORD:  # of no use to anybody here, and nobody's to print
        return Attribute(name, entry=entry)
    return Attribute(name, raw(current[name]), raw(coming.get(name)), entry)
