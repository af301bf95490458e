"""Which value of an attribute a wish means: the very one that a PATCH must carry."""

from __future__ import annotations

from toolkit.bios_rows import BiosRow
from toolkit.change.bios_wishes import Wish
from toolkit.facts.redfish_bios import Attribute
from toolkit.facts.redfish_json import Raw
from toolkit.facts.redfish_registry import Kind
from toolkit.facts.redfish_values import Meaning, meaning_of, squeezed, words_of

_SHOWN = 12  # allowed values that a sentence names


def value_for(attribute: Attribute, wish: Wish, row: BiosRow | None = None) -> Raw:
    """The value; None where the attribute takes none that the wish could mean.

    :param row: what is known of the attribute, where it is one of our settings.
    """
    if wish.exact is not None:
        return wish.exact
    if attribute.kind is Kind.BOOLEAN:
        meant = meaning_of(wish.word).meaning
        return {Meaning.ON: True, Meaning.OFF: False}.get(meant)
    if attribute.kind is Kind.INTEGER:
        return _whole(attribute, wish.word)
    if not attribute.allowed:
        return _without_registry(attribute, wish)
    return _chosen(attribute, wish, row)


def _chosen(attribute: Attribute, wish: Wish, row: BiosRow | None) -> Raw:
    """One of the allowed values: the BIOS's own word first, then what means the same."""
    named = squeezed(wish.word)
    for value, display in _choices(attribute):
        if named in {squeezed(value), squeezed(display)}:
            return _as_shown(attribute, value, display)
    wished = meaning_of(wish.word, attribute.name, row)
    shown = [_as_shown(attribute, value, display) for value, display in _choices(attribute)]
    meant = [each for each in shown if meaning_of(each, attribute.name, row).same(wished)]
    return meant[0] if len(meant) == 1 and wished.meaning is not Meaning.OTHER else None


def satisfied(attribute: Attribute, value: Raw, wish: Wish, row: BiosRow | None = None) -> bool:
    """Whether a value is as wished already."""
    now = meaning_of(value, attribute.name, row)
    if now.meaning in wish.will_do:
        return True
    target = value_for(attribute, wish, row)
    if target is None:
        return False
    return words_of(target) == words_of(value) or now.same(meaning_of(target, attribute.name, row))


def allowed(attribute: Attribute) -> str:
    """What it takes, for a sentence."""
    if attribute.kind is Kind.BOOLEAN:
        return "true, false"
    if attribute.kind is Kind.INTEGER:
        return f"{attribute.entry.lower} to {attribute.entry.upper}"
    found = [_as_shown(attribute, value, display) for value, display in _choices(attribute)]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more or "not told by its registry"


def _choices(attribute: Attribute) -> list[tuple[str, str]]:
    return [(each.value, each.display) for each in attribute.allowed]


def _as_shown(attribute: Attribute, value: str, display: str) -> str:
    """In the form in which the resource has it: Supermicro's registry numbers its values."""
    now = words_of(attribute.current)
    values = {each.value for each in attribute.allowed}
    displays = {each.display for each in attribute.allowed}
    return display if display and now in displays and now not in values else value


def _whole(attribute: Attribute, word: str) -> Raw:
    meant = meaning_of(word)
    number = meant.number
    if meant.meaning in {Meaning.ON, Meaning.OFF}:
        number = int(meant.meaning is Meaning.ON)
    entry = attribute.entry
    if number is None or not (entry.lower or 0) <= number <= (entry.upper or number):
        return None
    return number


def _without_registry(attribute: Attribute, wish: Wish) -> Raw:
    """No registry tells what is allowed: the opposite of a word that is there, in its spelling."""
    now = words_of(attribute.current)
    meant = meaning_of(wish.word).meaning
    for on, off in (("Enabled", "Disabled"), ("Enable", "Disable"), ("On", "Off"), ("Yes", "No")):
        if now in {on, off} and meant in {Meaning.ON, Meaning.OFF}:
            return on if meant is Meaning.ON else off
    return None
