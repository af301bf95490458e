"""What an attribute's value means, whoever wrote it: on, off, auto, a number, or its own word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.compat.bios import BiosRow, Reads
from toolkit.facts.firmware.redfish_json import Raw


class Meaning(StrEnum):
    """The kinds of values that can be compared across vendors."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"
    NUMBER = "number"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Value:
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
    own = None if row is None else _own_word(value, row)
    if own is not None:
        return own
    # The value, and what is left without the attribute's name, or its end, before it.
    text = value.strip()
    parts = [name, name.rpartition("_")[2], name.partition("_")[2]]
    cut = [text[len(part) :].lstrip("_") for part in parts if part and _starts(text, part)]
    spellings = (text, *(each for each in cut if each))
    found = (_word(value, text, reads) for text in spellings)
    return next((each for each in found if each is not None), Value(value, Meaning.OTHER))


def _own_word(value: str, row: BiosRow) -> Value | None:
    word = squeezed(value)
    own = ((Meaning.ON, row.on), (Meaning.OFF, row.off), (Meaning.AUTO, row.auto))
    for meaning, known in own:
        if word in map(squeezed, known):
            return Value(value, meaning)
    return None


def _starts(text: str, part: str) -> bool:
    return len(text) > len(part) and text.lower().startswith(part.lower())


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
