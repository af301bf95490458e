"""What would set ACS at the next boot: arguments of the kernel, and units that call setpci.

Sources: Documentation/admin-guide/kernel-parameters, pci=; drivers/pci/pci.c,
pci_dev_str_match and __pci_config_acs.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.facts.lines import rows
from toolkit.facts.pci.config_space import REDIRECT, Acs
from toolkit.facts.pci.functions import PciFunction, PciTree

# pci_std_enable_acs; TransBlk is for untrusted ports alone.
_ASKED_FOR = (
    Acs.SOURCE_VALIDATION | Acs.REQUEST_REDIRECT | Acs.COMPLETION_REDIRECT | Acs.UPSTREAM_FORWARDING
)
_DEVFN = r"[0-9a-f]{1,2}\.[0-7]"
_PATH = re.compile(rf"(?:([0-9a-f]{{1,8}}):)?([0-9a-f]{{1,2}}):({_DEVFN}(?:/{_DEVFN})*)")
_UNIT = re.compile(r"([^ ]*) (enabled|disabled)(?: |$)(.*)")
_IDS = re.compile(r"pci:([0-9a-f]{1,8}):([0-9a-f]{1,8})(?::[0-9a-f]{1,8}){0,2}")


class AcsArguments(Struct, frozen=True):
    """What ``pci=`` asks of ACS: devices by kernel notation."""

    disabled: tuple[str, ...] = ()  # redirects off
    configured: tuple[tuple[str, str], ...] = ()  # mask and device

    def at_boot(self, tree: PciTree, bridge: PciFunction, able: Acs) -> Acs:
        """The control register that the kernel gives a bridge when an IOMMU asks for ACS.

        :param able: the services that the bridge implements; no other is turned on.
        """
        control = able & _ASKED_FOR
        if any(matches(tree, bridge, device) for device in self.disabled):
            control &= ~REDIRECT
        # A bridge takes the first entry that names it. Marks may be fewer than seven.
        mask = next((m for m, device in self.configured if matches(tree, bridge, device)), "")
        for bit, mark in enumerate(reversed(mask)):
            if mark == "1":
                control |= able & Acs(1 << bit)
            elif mark == "0":
                control &= ~Acs(1 << bit)
        return control


def parse_acs_arguments(values: tuple[str, ...]) -> AcsArguments:
    """Read the values of every ``pci=``; of several equal options the last counts.

    Options are separated by commas, devices by semicolons.
    """
    disabled: tuple[str, ...] = ()
    configured: tuple[tuple[str, str], ...] = ()
    for option in (one for value in values for one in value.split(",")):
        name, _, rest = option.partition("=")
        devices = tuple(each.strip() for each in rest.strip("\"'\\").split(";") if each.strip())
        if name == "disable_acs_redir":
            disabled = devices
        elif name == "config_acs":
            pairs = (each.partition("@") for each in devices)
            configured = tuple((mask, device) for mask, at, device in pairs if at)
    return AcsArguments(disabled, configured)


def matches(tree: PciTree, bridge: PciFunction, device: str) -> bool:
    """Whether a device in the kernel's notation is this bridge; pci_dev_str_match.

    "17:00.0", "0000:15:01.0/00.0/00.0" (a path from a bridge down), "pci:1000:c030" (by ids,
    where 0 is any).
    """
    ids = _IDS.fullmatch(device.lower())
    if ids is not None:
        wanted = (int(ids[1], 16), int(ids[2], 16))
        return all(
            want in {0, have}
            for want, have in zip(wanted, (bridge.vendor, bridge.device), strict=True)
        )
    path = _PATH.fullmatch(device.lower())
    if path is None:
        return False
    first, *steps = path[3].split("/")
    slot, _, function = first.partition(".")
    start = f"{int(path[1] or '0', 16):04x}:{int(path[2], 16):02x}:{int(slot, 16):02x}.{function}"
    chain = [*(each.address for each in tree.bridges_above(bridge)), bridge.address]
    walked = chain[-1 - len(steps) :]
    tails = [address.rpartition(":")[2].lstrip("0") for address in walked[1:]]
    return walked[0] == start and tails == [each.lstrip("0") for each in steps]


def device_path(bridge: PciFunction) -> str:
    """How the kernel finds a bridge by its place: "0000:15:01.0/00.0/00.0".

    The numbers of buses below a root bus change with what is plugged in, its own with the
    firmware alone; so it is named by that, and by device and function on each bus below.
    """
    below = [at + 1 for at, each in enumerate(bridge.parents) if each.startswith("pci")]
    first, *rest = (*bridge.parents[max(below, default=0) :], bridge.address)
    return "/".join((first, *(each.rpartition(":")[2] for each in rest)))


class AtBoot(Struct, frozen=True):
    """Something that may clear ACS at each boot by calling setpci."""

    name: str  # "acs-off.service", "rc.local"
    enabled: bool
    command: str


def parse_acs_units(text: str) -> tuple[AtBoot, ...]:
    """Read "acs-off.service enabled /usr/local/sbin/acs-off" lines.

    :raises Unparsable: at a line of another shape.
    """
    found = rows(text, _UNIT, "units that clear ACS")
    return tuple(AtBoot(unit[1], unit[2] == "enabled", unit[3]) for unit in found)
