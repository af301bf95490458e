"""Which value of an attribute a wish means: the very one that a PATCH must carry."""

from __future__ import annotations

from toolkit.compat.bios import BiosRow
from toolkit.facts.firmware.redfish_bios import Attribute
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Kind
from toolkit.facts.firmware.redfish_values import Meaning, Value, meaning_of, squeezed, words_of
from toolkit.facts.firmware.redfish_wish import Wish as Meant
from toolkit.facts.firmware.redfish_wish import raw_for
from toolkit.features.bios.plan.wishes import Wish

_SHOWN = 12  # allowed values that a sentence names
_TEXT = frozenset({Kind.STRING, Kind.UNTOLD})


def value_for(attribute: Attribute, wish: Wish, row: BiosRow | None = None) -> Raw:
    """The value; None where the attribute takes none that the wish could mean.

    The BIOS's own word goes before what means the same.

    :param row: what is known of the attribute, where it is one of our settings.
    """
    if wish.exact is not None:
        return wish.exact
    named = squeezed(wish.word)
    for each in attribute.allowed:
        if named in {squeezed(each.value), squeezed(each.display)}:
            return attribute.shown(each)
    if wish.setting is None and not attribute.allowed and attribute.kind in _TEXT:
        return wish.word  # nobody tells what it takes but the BMC itself
    meant = meaning_of(wish.word, attribute.name, row)
    if meant.meaning is Meaning.OTHER:
        return None
    return raw_for(attribute, Meant(meant.meaning, meant.number), row)


def satisfied(attribute: Attribute, value: Raw, wish: Wish, row: BiosRow | None = None) -> bool:
    """Whether a value is as wished already: in meaning, or in the very word of ``raw:``."""
    now = _meant(attribute, value, row)
    if now.meaning in wish.will_do:
        return True
    target = value_for(attribute, wish, row)
    if target is None:
        return False
    alike = wish.setting is not None and now.same(_meant(attribute, target, row))
    return alike or words_of(target) == words_of(value)


def _meant(attribute: Attribute, value: Raw, row: BiosRow | None) -> Value:
    """What a value means, told by its display name where it is a mere number."""
    return meaning_of(attribute.told(value), attribute.name, row)


def allowed(attribute: Attribute) -> str:
    """What it takes, for a sentence."""
    if attribute.kind is Kind.BOOLEAN:
        return "true, false"
    if attribute.kind is Kind.INTEGER:
        ends = (("from", attribute.entry.lower), ("to", attribute.entry.upper))
        told = [f"{word} {end}" for word, end in ends if end is not None]
        return " ".join(("a whole number", *told))
    found = [attribute.shown(each) for each in attribute.allowed]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more or "not told by its registry"
