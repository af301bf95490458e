"""What stands beside BIOS settings on a BMC, and what of it is taken."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.redfish.find import Found, Json, Resource, text_of
from toolkit.redfish.registry import RegistryKey

_LONGEST = 200  # characters of a word that heads something


def registry_key(found: Found, lockdown: str) -> RegistryKey:
    """What the registry of this machine is kept by."""
    system = found.system.body
    return RegistryKey(
        text_of(system, "Manufacturer"),
        text_of(system, "Model"),
        text_of(system, "BiosVersion"),
        text_of(found.bios.body, "AttributeRegistry"),
        lockdown,
    )


def attributes_place(manager: Resource) -> str:
    """Where a BMC keeps settings of its own, as far as vendors link them: "" for nowhere.

    Of several it is that which bears the BMC's name: others are of the chassis or of jobs.
    """
    links = manager.body.get("Links")
    vendors = links.get("Oem") if isinstance(links, Mapping) else None
    for vendor in vendors.values() if isinstance(vendors, Mapping) else ():
        for name, listed in vendor.items() if isinstance(vendor, Mapping) else ():
            if name.endswith("Attributes") and isinstance(listed, list):
                paths = [text_of(each, "@odata.id") for each in listed if isinstance(each, Mapping)]
                own = manager.path.rstrip("/").rpartition("/")[2]
                named = [each for each in paths if each.rstrip("/").endswith(f"/{own}")]
                return next(iter(named or paths), "")
    return ""


def lockdown_words(attributes: Json) -> dict[str, str]:
    """The attributes that tell of lockdown, by their names."""
    found = attributes.get("Attributes")
    told = found.items() if isinstance(found, Mapping) else ()
    return {
        name: value for name, value in told if "lockdown" in name.lower() and isinstance(value, str)
    }


def one_line(text: str) -> str:
    """Text of a BMC where only one line may stand."""
    return " ".join(text.split())[:_LONGEST]
