"""Which attribute of which BIOS is which setting: rows of toolkit/compat/data/bios.toml.

A row claims attributes by name and display name; the first row of the file that claims one has
it, so that what looks alike and is not stands before the rows that it would deceive.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolkit.compat.rows import Confidence, Row, refuse_pattern, repeated, rows
from toolkit.untrusted import read_toml

DATA = Path(__file__).parent / "data" / "bios.toml"


class BiosRole(StrEnum):
    """What of a BIOS decides on peer-to-peer traffic, whatever a vendor calls it."""

    ABOVE_4G = "above-4g"  # BARs may lie above 4 GiB
    MMIO_WINDOW = "mmio-window"  # base and size of the window above 4 GiB
    RESIZABLE_BAR = "resizable-bar"
    SR_IOV = "sr-iov"
    IOMMU = "iommu"  # VT-d, AMD-Vi: the tables are published
    DMA_PROTECTION = "dma-protection"  # remapping before the system runs, and its opt-in flag
    ACS = "acs"
    ATS = "ats"
    RELAXED_ORDERING = "relaxed-ordering"  # of PCIe, not of the processor's own DMA engine
    TEN_BIT_TAG = "ten-bit-tag"
    PAYLOAD = "payload"  # largest payload (part mps), largest read request (part mrrs)
    ASPM = "aspm"
    LINK_SPEED = "link-speed"
    NUMA_CLUSTERING = "numa-clustering"  # NPS, SNC
    C_STATES = "c-states"
    POWER_PROFILE = "power-profile"
    SMT = "smt"
    X2APIC = "x2apic"
    SECURE_BOOT = "secure-boot"


class Reads(StrEnum):
    """How the words of an attribute are meant where they are digits."""

    SWITCH = "switch"  # 0 is off, 1 is on
    NUMBER = "number"  # 1 is one


class Vendor(Row, frozen=True, kw_only=True):
    """Whose BIOS it is, by what its BMC says of itself."""

    names: tuple[str, ...]  # patterns found in Manufacturer, OwningEntity or a key under Oem
    signs: tuple[str, ...] = ()  # patterns found in addresses and names of actions

    def __post_init__(self) -> None:
        for pattern in (*self.names, *self.signs):
            refuse_pattern(f"vendors: {self.id}", pattern)


class BiosRow(Row, frozen=True, kw_only=True):
    """Attributes that are one setting. Patterns are matched in full, whatever the case."""

    setting: BiosRole  # what it is; of a row that is mistaken: what it looks like
    names: tuple[str, ...] = ()  # of attributes, without a suffix of four hex digits
    display: tuple[str, ...] = ()  # of the registry; beside names both must match where it tells
    vendors: tuple[str, ...] = ()  # ids of vendors; none: any, and those not known
    menu: str = ""  # pattern found in the menu's path
    not_menu: str = ""  # pattern not found there
    unless: tuple[str, ...] = ()  # patterns of names: where one is there, that one is it
    also: BiosRole | None = None  # one switch for two settings
    part: str = ""  # which side of the setting: "mps", "mrrs", "base", "status"
    scope: str = ""  # what it holds for, with the groups of the name: "slot {0}"; "": all
    mistaken: bool = False  # looks like the setting and is another thing
    reads: Reads = Reads.SWITCH
    on: tuple[str, ...] = ()  # words of this attribute that mean on
    off: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    note: str = ""  # what an operator should know of it

    def __post_init__(self) -> None:
        if not self.names and not self.display:
            raise ValueError(f"bios: {self.id}: names or display is missing")
        patterns = (*self.names, *self.display, *self.unless, self.menu, self.not_menu)
        for pattern in patterns:
            refuse_pattern(f"bios: {self.id}", pattern)
        for pattern in self.names if self.scope else ():
            groups = re.compile(pattern).groups
            try:
                self.scope.format(*[""] * groups)
            except (IndexError, KeyError, ValueError) as why:
                raise ValueError(
                    f"bios: {self.id}: scope {self.scope!r} does not fit the {groups} groups of"
                    f" {pattern!r}"
                ) from why


class BiosRows(Struct, frozen=True):
    """All rows, in the order of the file, and the vendors that they name."""

    rows: tuple[BiosRow, ...]
    vendors: tuple[Vendor, ...]

    def vendor(self, names: tuple[str, ...], signs: tuple[str, ...]) -> str:
        """The id of the vendor that a BMC names, or gives away; "" for one that is not known.

        :param names: what it says of itself, the surest first.
        :param signs: addresses and names of actions, which count where no name does.
        """
        said = ((name, each.names, each.id) for name in names for each in self.vendors)
        shown = ((sign, each.signs, each.id) for sign in signs for each in self.vendors)
        for text, patterns, found in (*said, *shown):
            if any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns):
                return found
        return ""


@lru_cache(maxsize=1)
def shipped() -> BiosRows:
    """The rows that come with the toolkit; read once."""
    return read(DATA.read_text("utf-8"))


def read(text: str) -> BiosRows:
    """The rows of a file as toolkit/compat/data/bios.toml.

    :raises ValueError: where a row is not well made, with its table and number.
    """
    tables = read_toml(text)
    found = BiosRows(
        tuple(rows("bios", BiosRow, tables.get("bios"), _ENUMS)),
        tuple(rows("vendors", Vendor, tables.get("vendors"), _ENUMS)),
    )
    known = {each.id for each in found.vendors}
    for row in found.rows:
        strange = next((each for each in row.vendors if each not in known), "")
        if strange:
            raise ValueError(f"bios: {row.id}: unknown vendor {strange!r}")
        if repeated(row.vendors):
            raise ValueError(f"bios: {row.id}: a vendor is named twice")
    return found


_ENUMS: dict[str, type[StrEnum]] = {"Confidence": Confidence, "BiosRole": BiosRole, "Reads": Reads}


def read_wanted_bios(value: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401 of TOML
    """The table [bios] of a site: setting and word, "on" and "off" or one of the BIOS's own.

    :raises ValueError: it is no table, or has a setting that is not known, or no word.
    """
    if not isinstance(value, dict):
        raise ValueError('bios must be a table: bios = { smt = "off" }')
    for name, word in value.items():
        if name not in list(BiosRole):
            raise ValueError(f"bios: unknown setting {name!r}; settings: {', '.join(BiosRole)}")
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f'bios: {name} must be a word such as "on", not {word!r}')
    return tuple(sorted(value.items()))
