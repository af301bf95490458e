"""What an attribute's value means, whoever wrote it: on, off, auto, a number, or its own word."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.compat.bios import BiosRole, BiosRow, Reads
from toolkit.facts.firmware.redfish_bios import Attribute
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import Kind


class Meaning(StrEnum):
    """The kinds of values that can be compared across vendors."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"
    NUMBER = "number"
    OTHER = "other"


class Value(Struct, frozen=True):
    """A value as served, and what it means."""

    raw: Raw
    meaning: Meaning
    number: int | None = None  # bytes where it had a unit, else a count or a generation

    def __str__(self) -> str:
        """As an operator finds it in the BIOS's own screens."""
        return words_of(self.raw)

    def same(self, other: Value) -> bool:
        """Whether both mean the same, however they are spelt."""
        if Meaning.OTHER in (self.meaning, other.meaning):
            return squeezed(words_of(self.raw)) == squeezed(words_of(other.raw))
        return (self.meaning, self.number) == (other.meaning, other.number)


ON = frozenset({"enabled", "enable", "yes", "on", "true", "forceenabled", "forceenable"})
OFF = frozenset({"disabled", "disable", "no", "off", "false", "forcedisabled", "forcedisable"})
AUTO = frozenset({"auto", "automatic", "perportctrl"})
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE = re.compile(r"([0-9]{1,12})\s*([kmgtp]?)i?(b?)(?:ytes?)?", re.IGNORECASE)
_WORDS = {"one": 1, "two": 2, "four": 4, "eight": 8}
# "NPS4", "Enable SNC2 (2-clusters)", "2-Way", "PcieGen3", "GEN5", "TwoMemoryDomainsPerSocket"
_COUNTS = (
    re.compile(r"(?:nps|snc)([1-8])(?![0-9])", re.IGNORECASE),
    re.compile(r"([1-8])-?way", re.IGNORECASE),
    re.compile(r"(?:pcie?)?\s*gen\s*([1-9])(?:\s*\([0-9. ]+gt/s\))?", re.IGNORECASE),
    re.compile(r"(one|two|four|eight)memorydomains?persocket", re.IGNORECASE),
)
_LONGEST = 200  # no meaning is that long; a hostile string is not searched


def words_of(value: Raw) -> str:
    """A value as text; a switch as JSON has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def squeezed(text: str) -> str:
    """Lower case without what vendors spell differently: blanks, dashes, underscores."""
    return re.sub(r"[\s_-]+", "", text).lower()


def meaning_of(value: Raw, name: str = "", row: BiosRow | None = None) -> Value:
    """What a value means.

    :param name: of the attribute, which some vendors put before each of its values.
    :param row: what is known of the attribute: words of its own, and how digits are meant.
    """
    reads = Reads.SWITCH if row is None else row.reads
    if isinstance(value, bool):
        return Value(value, Meaning.ON if value else Meaning.OFF)
    if isinstance(value, int):
        return _digits(value, value, reads)
    if not isinstance(value, str) or len(value) > _LONGEST:
        return Value(value, Meaning.OTHER)
    known = ((Meaning.ON, row.on), (Meaning.OFF, row.off), (Meaning.AUTO, row.auto)) if row else ()
    for meaning, own in known:
        if squeezed(value) in map(squeezed, own):
            return Value(value, meaning)
    # The value, and what is left without the attribute's name, or its end, before it.
    text = value.strip()
    parts = [name, name.rpartition("_")[2], name.partition("_")[2]]
    starts = [each for each in parts if each and text.lower().startswith(each.lower())]
    spellings = (text, *filter(None, (text[len(each) :].lstrip("_") for each in starts)))
    found = (_word(value, text, reads) for text in spellings)
    return next((each for each in found if each is not None), Value(value, Meaning.OTHER))


def _word(value: str, text: str, reads: Reads) -> Value | None:
    """What one spelling means; None for a word of its own."""
    word = squeezed(text)
    for known, meaning in ((ON, Meaning.ON), (OFF, Meaning.OFF), (AUTO, Meaning.AUTO)):
        if word in known:
            return Value(value, meaning)
    if re.fullmatch(r"[0-9]{1,12}", text):
        return _digits(value, int(text), reads)
    size = _SIZE.fullmatch(text)
    if size is not None:
        return Value(value, Meaning.NUMBER, int(size[1]) * _UNITS[size[2].lower()])
    for pattern in _COUNTS:
        found = pattern.search(text)
        if found is not None:
            digits = found[1].lower()
            return Value(value, Meaning.NUMBER, _WORDS.get(digits) or int(digits))
    return None


def _digits(value: Raw, number: int, reads: Reads) -> Value:
    if reads is Reads.SWITCH and number in (0, 1):
        return Value(value, Meaning.ON if number else Meaning.OFF)
    return Value(value, Meaning.NUMBER, number)


# What a PATCH must carry so that an attribute means what is wanted.
# Where no registry tells what is allowed: the other of the pair, as the BIOS spells it.
_PAIRS = (
    ("Enabled", "Disabled"),
    ("Enable", "Disable"),
    ("Yes", "No"),
    ("On", "Off"),
    ("True", "False"),
)
_PLAIN = {"auto", *(word.lower() for pair in _PAIRS for word in pair)}


class Wish(Struct, frozen=True):
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
    plain = [each for each in fitting if squeezed(words_of(attribute.told(each))) in _PLAIN]
    return next(iter(plain or fitting), None) if plain or len(fitting) == 1 else None


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
