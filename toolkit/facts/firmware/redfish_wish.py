"""What a PATCH must carry so that an attribute means what is wanted."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.compat.bios import BiosRole, BiosRow, Reads
from toolkit.facts.firmware.redfish_bios import Attribute
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Kind
from toolkit.facts.firmware.redfish_values import Meaning, Value, meaning_of, squeezed, words_of

# Where no registry tells what is allowed: the other of the pair, as the BIOS spells it.
_PAIRS = (
    ("Enabled", "Disabled"),
    ("Enable", "Disable"),
    ("Yes", "No"),
    ("On", "Off"),
    ("True", "False"),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a setting should mean."""

    meaning: Meaning
    number: int | None = None  # where the meaning is a number: bytes, a count, a generation

    def __str__(self) -> str:
        return str(self.meaning if self.number is None else self.number)


def fulfils(value: Value, wish: Wish, setting: BiosRole | None = None) -> bool:
    """Whether a value means what is wished for."""
    if setting is BiosRole.NUMA_CLUSTERING:
        return _nodes(value.meaning, value.number) == _nodes(wish.meaning, wish.number)
    return (value.meaning, value.number) == (wish.meaning, wish.number)


def raw_for(attribute: Attribute, wish: Wish, row: BiosRow | None = None) -> Raw:
    """The value to send, in the form that the resource shows; None where none means that.

    Where several mean it, the one that holds already, else a plain word such as "Enabled". Else
    None: which of seven profiles for speed it should be is not ours to say.

    :param row: what is known of the attribute, where it is one of our settings.
    """

    def fits(value: Raw) -> bool:
        meant = meaning_of(attribute.told(value), attribute.name, row)
        return fulfils(meant, wish, None if row is None else row.setting)

    if fits(attribute.current):
        return attribute.current
    if isinstance(attribute.current, bool) or attribute.kind is Kind.BOOLEAN:
        return {Meaning.ON: True, Meaning.OFF: False}.get(wish.meaning)
    if attribute.kind is Kind.INTEGER:
        number = wish.number
        if wish.meaning in (Meaning.ON, Meaning.OFF) and (row is None or row.reads is Reads.SWITCH):
            number = int(wish.meaning is Meaning.ON)
        return None if number is None or _outside(attribute, number) else number
    if not attribute.allowed:
        return _other_of_pair(attribute, wish, row)
    fitting = [each for each in map(attribute.shown, attribute.allowed) if fits(each)]
    plain = [each for each in fitting if _plain(words_of(attribute.told(each)))]
    return next(iter(plain or fitting), None) if plain or len(fitting) == 1 else None


def _plain(text: str) -> bool:
    word = squeezed(text)
    return word == "auto" or any(word in (on.lower(), off.lower()) for on, off in _PAIRS)


def _nodes(meaning: Meaning, number: int | None) -> tuple[Meaning, int | None]:
    """One node a socket is the same, be it called off or 1."""
    if meaning is Meaning.OFF or (meaning is Meaning.NUMBER and number in (0, 1)):
        return Meaning.NUMBER, 1
    return meaning, number


def _outside(attribute: Attribute, number: int) -> bool:
    lower, upper, step = attribute.entry.lower, attribute.entry.upper, attribute.entry.step
    if (lower is not None and number < lower) or (upper is not None and number > upper):
        return True
    return bool(step and step > 0 and (number - (lower or 0)) % step)


def _other_of_pair(attribute: Attribute, wish: Wish, row: BiosRow | None) -> str | None:
    """The other word of the pair that the BIOS uses, with the prefix that it puts before it."""
    current = attribute.current
    if not isinstance(current, str) or wish.meaning not in (Meaning.ON, Meaning.OFF):
        return None
    for pair in _PAIRS:
        for word in pair:
            prefix = current[: -len(word)]
            if current.lower().endswith(word.lower()) and prefix in ("", attribute.name):
                made = prefix + pair[wish.meaning is Meaning.OFF]
                meant = meaning_of(made, attribute.name, row).meaning
                return made if meant is wish.meaning else None
    return None
