"""What a BMC says of itself, of the machine it sits in, and of secure boot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.firmware.redfish_json import read_object, words


class Trust(StrEnum):
    """How the BMC's certificate was verified."""

    CA = "ca"
    PINNED = "pinned"
    NO = "no"  # the operator said so


class BmcRead(Struct, frozen=True):
    """The BMC that was read, in its own words; "" for what it does not tell."""

    address: str  # as the operator gave it
    verified: Trust
    vendor: str = ""
    model: str = ""
    bios: str = ""  # version
    firmware: str = ""  # the BMC's own
    registry: str = ""  # id


class BmcMachine(Struct, frozen=True):
    """The machine that the BMC says it sits in; "" for what it does not tell."""

    manufacturer: str = ""
    model: str = ""
    serial: str = ""
    uuid: str = ""  # lower case
    sku: str = ""  # Dell's service tag
    bios: str = ""
    power: str = ""  # "On"


class SecureBootState(Struct, frozen=True):
    """Secure boot as the BMC tells it; None for what it does not tell."""

    now: bool | None  # at the current boot
    next: bool | None  # set for the next one
    mode: str = ""  # "UserMode"


def parse_lockdown(text: str) -> str:
    """Which lockdown is on, as a clause; "" for none.

    :param text: the BMC's words on lockdown, by the names of its attributes; "" for none.
    :raises Unparsable: where it is no JSON object.
    """
    told = read_object("bmc-bios-lockdown", text) if text else {}
    on = [name for name, value in told.items() if words(value).lower() in {"enabled", "on"}]
    return f"the BMC's lockdown is on ({', '.join(on)})" if on else ""


def parse_bmc(text: str) -> BmcRead:
    """Lines of "key value"; a value may hold blanks.

    :raises Unparsable: where no line tells how the BMC was verified: what was read over an
        unknown connection is nobody's word.
    """
    told = dict(line.partition(" ")[::2] for line in text.split("\n") if line)
    verified = told.get("verified", "")
    if verified not in list(Trust):
        raise Unparsable("bmc", f"verified {verified}")
    rest = (told.get(key, "") for key in ("vendor", "model", "bios", "bmc", "registry-id"))
    return BmcRead(told.get("address", ""), Trust(verified), *rest)


def parse_machine(text: str) -> BmcMachine:
    """A ComputerSystem as served.

    :raises Unparsable: where the text is no JSON object.
    """
    served = read_object("bmc-system", text)
    keys = ("Manufacturer", "Model", "SerialNumber", "UUID", "SKU", "BiosVersion", "PowerState")
    maker, model, serial, uuid, sku, bios, power = (words(served.get(key)).strip() for key in keys)
    return BmcMachine(maker, model, serial, uuid.lower(), sku, bios, power)


def parse_secure_boot(text: str) -> SecureBootState:
    """A SecureBoot resource as served.

    :raises Unparsable: where the text is no JSON object.
    """
    served = read_object("bmc-secureboot", text)
    coming = served.get("SecureBootEnable")
    return SecureBootState(
        {"enabled": True, "disabled": False}.get(
            words(served.get("SecureBootCurrentBoot")).lower()
        ),
        coming if isinstance(coming, bool) else None,
        words(served.get("SecureBootMode")),
    )


# Is a BMC the one of this node? Serial number, UUID and model say so, where both tell them.
# SMBIOS keeps the first three parts of a UUID in the processor's byte order, and not every BMC
# turns them round; some BMCs have the board's serial number where SMBIOS has the machine's, which
# is then the SKU.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What boards say whose maker filled nothing in.
_NOTHING = re.compile(
    r"(?i)\W*(?:to be filled.*|default string|none|n/?a|not (?:specified|available|applicable).*"
    r"|unknown|system (?:serial|product|manufacturer).*|0?123456789.*|0+|f+|x+|chassis.*)?\W*"
)
# In both byte orders: one of those that have it would be every other.
_UNFILLED = frozenset(
    {"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009"}
)


class Same(StrEnum):
    """Whether node and BMC are one machine."""

    YES = "yes"
    NO = "no"
    UNTOLD = "untold"  # neither number is told by both


def same_machine(dmi: Mapping[str, str], machine: BmcMachine) -> tuple[Same, str]:
    """Whether the BMC's machine is the node, and what says so.

    :param dmi: of the node: product_serial, product_uuid, product_name.
    :returns: and a clause: "serial ABC123, the node has DEF456".
    """
    serial, uuid = _told(dmi.get("product_serial", "")), _uuid(dmi.get("product_uuid", ""))
    other = _told(machine.serial)
    theirs = [each for each in (other, _told(machine.sku)) if each]
    if uuid and (told := _uuid(machine.uuid)) and told in {uuid, _turned(uuid)}:
        return Same.YES, f"UUID {uuid}"
    if serial and serial.casefold() in {each.casefold() for each in theirs}:
        return Same.YES, f"serial {serial}"
    if serial and other:  # a SKU alone may be an order number, which speaks against nothing
        return Same.NO, f"serial {other}, the node has {serial}"
    if uuid and _uuid(machine.uuid):
        return Same.NO, f"UUID {machine.uuid}, the node has {uuid}"
    ours, model = _told(dmi.get("product_name", "")), _told(machine.model)
    if ours and model and not _alike(ours, model):
        return Same.NO, f"model {model}, the node is a {ours}"
    return Same.UNTOLD, "no serial number or UUID is told by both"


def _told(text: str) -> str:
    word = text.strip()
    return "" if _NOTHING.fullmatch(word) else word


def _uuid(text: str) -> str:
    """Lower case; "" for one that is none, or that says nothing."""
    word = text.strip().lower()
    plain = set(word.replace("-", ""))
    if not _UUID.fullmatch(word) or plain in ({"0"}, {"f"}) or word in _UNFILLED:
        return ""
    return word


def _turned(uuid: str) -> str:
    """With the first three parts in the other byte order."""
    first, second, third, rest = uuid.split("-", 3)
    turned = (bytes.fromhex(each)[::-1].hex() for each in (first, second, third))
    return "-".join((*turned, rest))


def _alike(one: str, other: str) -> bool:
    """One may have the maker before it, or an order number behind."""
    short, long = sorted((re.sub(r"\W+", "", each).casefold() for each in (one, other)), key=len)
    return short in long
