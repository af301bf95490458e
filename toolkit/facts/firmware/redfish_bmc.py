"""What a BMC says of itself, of the machine it sits in, and of secure boot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.firmware.redfish_json import read_object, words


class Trust(StrEnum):
    """How the BMC's certificate was verified."""

    CA = "ca"
    PINNED = "pinned"
    NO = "no"  # the operator said so


@dataclass(frozen=True, slots=True)
class BmcRead:
    """The BMC that was read, in its own words; "" for what it does not tell."""

    address: str  # as the operator gave it
    verified: Trust
    vendor: str = ""
    model: str = ""
    bios: str = ""  # version
    firmware: str = ""  # the BMC's own
    registry: str = ""  # id


@dataclass(frozen=True, slots=True)
class BmcMachine:
    """The machine that the BMC says it sits in; "" for what it does not tell."""

    manufacturer: str = ""
    model: str = ""
    serial: str = ""
    uuid: str = ""  # lower case
    sku: str = ""  # Dell's service tag
    bios: str = ""
    power: str = ""  # "On"


@dataclass(frozen=True, slots=True)
class SecureBootState:
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
    return BmcRead(
        told.get("address", ""),
        Trust(verified),
        told.get("vendor", ""),
        told.get("model", ""),
        told.get("bios", ""),
        told.get("bmc", ""),
        told.get("registry-id", ""),
    )


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
