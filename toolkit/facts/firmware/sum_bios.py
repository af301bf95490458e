"""A BIOS as Supermicro Update Manager writes it: sum -c GetCurrentBiosCfg, and saa after it.

Source: SUM and SAA User's Guides, "BIOS Settings XML File Format"; files of X11SDV-8C-TP8F and
X11DPT-B that SUM 2.3 wrote. A setting has the name that its menu shows; the same name stands in
several menus, as of each CPU's slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from toolkit.errors import Unparsable
from toolkit.facts.firmware.redfish_bios import Attribute, Bios
from toolkit.facts.firmware.redfish_json import Raw
from toolkit.facts.firmware.redfish_registry import AttributeChoice, AttributeEntry, Kind

SOURCE = "BiosCfg"
_KINDS = {
    "Option": Kind.ENUMERATION,
    "CheckBox": Kind.BOOLEAN,
    "Numeric": Kind.INTEGER,
    "String": Kind.STRING,
    "Password": Kind.PASSWORD,
}
_DECLARED = re.compile(r"^\s*<\?xml[^>]*\?>")  # an encoding, which a string no longer has
_BOARD = re.compile(r"<Subtitle>\s*Supermicro\s+([^<\s]+)")
_VERSION = re.compile(r"BIOS Version\s*\(([^)]*)\)")


def parse_sum_bios(text: str) -> Bios:
    """Every setting, under the name that this maker's BMC would serve it by.

    :raises Unparsable: no XML, or none of a BIOS.
    """
    try:
        root = ElementTree.fromstring(_DECLARED.sub("", text).strip())  # noqa: S314 expat bounds entity expansion
    except (ElementTree.ParseError, ValueError) as why:
        raise Unparsable(SOURCE, str(why)) from why
    if root.tag != "BiosCfg":
        raise Unparsable(SOURCE, f"<{root.tag}>")
    attributes: dict[str, Attribute] = {}
    try:
        for menu, setting in _settings(root, ""):
            name = _free(_served(setting.get("name", "")), attributes)
            attributes[name] = _attribute(name, menu, setting)
    except RecursionError as why:
        raise Unparsable(SOURCE, "<Menu> within <Menu>, deeper than any BIOS") from why
    board, version = _BOARD.search(text), _VERSION.search(text)
    return Bios(
        vendor="Supermicro",
        model=board[1] if board else "",
        version=version[1].strip() if version else "",
        attributes=attributes,
        names=("Supermicro",),
        registry=any(each.allowed for each in attributes.values()),
    )


def _settings(above: Element, menu: str) -> Iterator[tuple[str, Element]]:
    for each in above:
        if each.tag == "Menu":
            yield from _settings(each, f"{menu}/{each.get('name', '')}")
        elif each.tag == "Setting":
            yield menu, each


def _served(name: str) -> str:
    """ "IntelVTforDirectedI_O_VT_d_" of "Intel VT for Directed I/O (VT-d)"."""
    return re.sub(r"[^A-Za-z0-9]", "_", re.sub(r"\s", "", name))


def _free(name: str, taken: dict[str, Attribute]) -> str:
    """With a suffix as this maker's BMC has them, where the same name came before."""
    if name not in taken:
        return name
    return next(each for at in range(1, 1 << 16) if (each := f"{name}_{at:04X}") not in taken)


def _attribute(name: str, menu: str, setting: Element) -> Attribute:
    kind = _KINDS.get(setting.get("type", ""), Kind.UNTOLD)
    entry = AttributeEntry(
        name,
        display=setting.get("name", ""),
        menu=menu,
        kind=kind,
        choices=tuple(
            AttributeChoice(each.text or "", each.text or "")
            for each in setting.iterfind("Information/AvailableOptions/Option")
        ),
        default=setting.findtext("Information/DefaultOption"),
    )
    return Attribute(name, _value(kind, setting), entry=entry)


def _value(kind: Kind, setting: Element) -> Raw:
    """Its value; None of a password, which is of no use to anybody here."""
    if kind is Kind.PASSWORD:
        return None
    if (checked := setting.get("checkedStatus")) is not None:
        return checked == "Checked"
    if (number := setting.get("numericValue")) is not None and re.fullmatch(r"-?\d{1,18}", number):
        return int(number)
    return setting.get("selectedOption", setting.get("stringValue"))
