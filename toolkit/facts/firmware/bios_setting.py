"""What a BIOS exposes of the settings that decide on peer-to-peer traffic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.bios import BiosRole, BiosRow, BiosRows
from toolkit.facts.firmware.redfish_bios import Attribute, Bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import AttributeEntry
from toolkit.facts.firmware.redfish_values import Meaning, Value, meaning_of

__all__ = ["BiosRole", "Exposed", "Meaning", "Value", "hidden", "match"]
# What Supermicro puts behind a name, anew with every build: "Above4GDecoding_0041".
_SUFFIX = re.compile(r"_[0-9A-F]{4}")


class Exposed(Struct, frozen=True):
    """One attribute that is, or is part of, a setting."""

    setting: BiosRole
    attribute: Attribute
    value: Value  # what holds since the last boot
    pending: Value | None  # what holds after the next one, where that differs
    row: BiosRow
    scope: str = ""  # what it holds for: "slot 1"; "" for the whole machine

    @property
    def name(self) -> str:
        return self.attribute.name

    @property
    def part(self) -> str:
        """Which side of the setting it is: "mps"; "" for all of it."""
        return self.row.part

    @property
    def next(self) -> Value:
        """What holds after the next boot."""
        return self.pending or self.value


def match(bios: Bios, rows: BiosRows) -> Mapping[BiosRole, tuple[Exposed, ...]]:
    """Every setting, with the attributes that are it: () for one that is not exposed."""
    claimed = _Claims(bios, rows)
    found: dict[BiosRole, list[Exposed]] = {each: [] for each in BiosRole}
    for name, attribute in bios.attributes.items():
        row = claimed(name, attribute.entry)
        if row is None or row.mistaken:
            continue
        for setting in (row.setting, row.also):
            if setting is not None:
                coming = _value(attribute, attribute.pending, row) if attribute.changing else None
                value = _value(attribute, attribute.current, row)
                exposed = Exposed(
                    setting, attribute, value, coming, row, _scope(row, stem(attribute.name))
                )
                found[setting].append(exposed)
    return {setting: tuple(each) for setting, each in found.items()}


def hidden(bios: Bios, rows: BiosRows) -> Mapping[BiosRole, tuple[str, ...]]:
    """Names that the registry lists for a setting, and the BIOS does not serve."""
    claimed = _Claims(bios, rows)
    found: dict[BiosRole, list[str]] = {}
    for name, entry in bios.unserved.items():
        row = claimed(name, entry)
        if row is not None and not row.mistaken:
            found.setdefault(row.setting, []).append(name)
    return {setting: tuple(names) for setting, names in found.items()}


class _Claims:
    """Which row has an attribute: the first in the file that fits this BIOS."""

    def __init__(self, bios: Bios, rows: BiosRows) -> None:
        vendor = rows.vendor(bios.names, bios.signs)
        names = [stem(name) for name in bios.attributes]
        self._rows = [
            row
            for row in rows.rows
            if (not row.vendors or vendor in row.vendors)
            and not (row.unless and any(_full(row.unless, name) for name in names))
        ]
        # Most of a thousand attributes are no row's: two patterns say so at once.
        self._names = _any_of(tuple(each for row in self._rows for each in row.names))
        self._display = _any_of(tuple(each for row in self._rows for each in row.display))

    def __call__(self, name: str, entry: AttributeEntry) -> BiosRow | None:
        bare = stem(name)
        if not self._names.fullmatch(bare) and not self._display.fullmatch(entry.display):
            return None
        return next((row for row in self._rows if _fits(row, bare, entry)), None)


def stem(name: str) -> str:
    """A name without the suffix that changes with every build of the BIOS."""
    return name[:-5] if _SUFFIX.fullmatch(name[-5:]) and len(name) > 5 else name


def _fits(row: BiosRow, bare: str, entry: AttributeEntry) -> bool:
    if row.names and not _full(row.names, bare):
        return False
    # A name alone does where no registry tells more; a display name that says otherwise wins.
    if row.display and (entry.display or not row.names) and not _full(row.display, entry.display):
        return False
    if row.menu and entry.menu and not _within(row.menu, entry.menu):
        return False
    return not (row.not_menu and _within(row.not_menu, entry.menu))


@lru_cache(maxsize=1024)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # (?!) matches nothing: that is what no pattern matches.
    return re.compile("|".join(f"(?:{each})" for each in patterns) or "(?!)", re.IGNORECASE)


def _full(patterns: tuple[str, ...], text: str) -> re.Match[str] | None:
    return _any_of(patterns).fullmatch(text) if patterns else None


def _within(pattern: str, text: str) -> bool:
    return _any_of((pattern,)).search(text) is not None


def _value(attribute: Attribute, raw: Raw, row: BiosRow) -> Value:
    return replace(meaning_of(attribute.told(raw), attribute.name, row), raw=raw)


def _scope(row: BiosRow, bare: str) -> str:
    for pattern in row.names if row.scope else ():
        found = _full((pattern,), bare)
        if found is not None:
            return row.scope.format(*found.groups(""))
    return ""
