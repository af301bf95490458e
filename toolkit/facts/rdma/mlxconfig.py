"""Settings in the firmware of ConnectX cards, as ``mlxconfig query`` prints them.

Sources, as read: Mellanox/mstflint 4.36.0 mlxconfig/mlxcfg_ui.cpp (printOpening, printConfHeader,
printSingleParam, printValue). A row is "* RO NAME VALUE...": a star where the next boot has another
value; with -e columns of the default and of now stand before that of the next boot. With -j FILE it
writes the same there (WriteSingleParam, writeParamToJson).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from toolkit.errors import Unparsable
from toolkit.facts.rdma.mlxlink import documents

_DEVICE = re.compile(r"^Device #\d+:[ \t]*$", re.MULTILINE)
_HEADER = re.compile(r"^Configurations:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_COLUMN = re.compile(r"Default|Current|Next [Bb]oot|New")
_ROW = re.compile(r"^[ \t*]*(?:RO)?[ \t]+([A-Z][A-Z0-9_]+)[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_VALUE = re.compile(r"(?:[^()\s]*\((\d+)\)|(\d+)|\S+)")


@dataclass(frozen=True, slots=True)
class FirmwareSetting:
    name: str  # "ATS_ENABLED"
    word: str  # "True(1)", as printed, of the next boot
    next: int | None  # None for N/A, or what is no number
    now: int | None = None  # None where no column tells it

    @property
    def pending(self) -> bool:
        """Whether it comes into force with the next boot alone."""
        return None not in {self.now, self.next} and self.now != self.next


@dataclass(frozen=True, slots=True)
class Card:
    """One device that was asked."""

    device: str  # "0000:19:00.0", "/dev/mst/mt4129_pciconf0"
    type: str  # "ConnectX7"
    settings: dict[str, FirmwareSetting]


def parse_mlxconfig(text: str) -> tuple[Card, ...]:
    """Read the answer; a row that is cut off at its end is left out.

    :raises Unparsable: where a device has no table of values.
    """
    told = documents(text, "mlxconfig -j")
    if told:
        return tuple(_written(card) for each in told for card in each.values())
    return tuple(_card(each) for each in _DEVICE.split(text)[1:])


def _written(card: dict[str, Any]) -> Card:
    """One device of what -j wrote."""
    settings = {}
    for name, values in (card.get("tlv_configuration") or {}).items():
        words = [str(values.get(key, "N/A")) for key in ("next_value", "current_value")]
        after, now = (_VALUE.match(each) for each in words)
        told = None if now is None else _number(now)
        settings[name] = FirmwareSetting(name, words[0], _number(after) if after else None, told)
    return Card(str(card.get("device", "")), str(card.get("device_type", "")), settings)


def _card(text: str) -> Card:
    keyed = dict(re.findall(r"^(Device type|Device):\s+(\S+)", text, re.MULTILINE))
    header = _HEADER.search(text)
    if header is None:
        raise Unparsable("mlxconfig", f"{keyed.get('Device', '?')}: no configurations")
    columns = [each.lower() for each in _COLUMN.findall(header[1])]
    # The last line may be cut: "True(1)" is known to be whole, a number is not.
    line = text.rstrip().rpartition("\n")[2]
    last = line if line.endswith(")") else ""
    rows = _ROW.findall(text[header.end() :].rstrip().rpartition("\n")[0] + "\n" + last)
    settings = {name: found for name, row in rows if (found := _setting(name, row, columns))}
    return Card(keyed.get("Device", ""), keyed.get("Device type", ""), settings)


def _setting(name: str, row: str, columns: list[str]) -> FirmwareSetting | None:
    values = list(_VALUE.finditer(row))
    if len(values) < len(columns) or not columns:
        return None
    by = dict(zip(columns, values, strict=False))
    last = by.get("next boot") or by.get("current")
    if last is None:
        return None
    return FirmwareSetting(
        name, last[0], _number(last), _number(by["current"]) if "current" in by else None
    )


def _number(found: re.Match[str]) -> int | None:
    told = found[1] or found[2]
    return int(told) if told else None
