"""Firmware of ConnectX cards as ``mlxfwmanager`` and ``mlxup`` list it.

Source, as read: Mellanox/mstflint mlxfwupdate/mlxfwmanager.cpp and mlnx_dev.cpp: a block a device,
with its PSID, its name on the PCI bus and the versions that it has and that are to be had.
"""

from __future__ import annotations

import re

from toolkit.errors import NoEvidence
from toolkit.facts.rdma.ethtool import DriverInfo

_DEVICE = re.compile(r"^Device #\d+:[ \t]*$", re.MULTILINE)
_FIELD = re.compile(
    r"^[ \t]+(Device Type|PSID|PCI Device Name|Status):[ \t]+(\S.*?)[ \t]*$", re.MULTILINE
)
# What the flash has, and what runs where that is another: until a reset.
_FLASH = re.compile(r"^[ \t]+FW[ \t]+(\d[\d.]+)\b", re.MULTILINE)
_RUNS = re.compile(r"^[ \t]+FW \(Running\)[ \t]+(\d[\d.]+)\b", re.MULTILINE)
_SAID = re.compile(r"^-E- (.*\S)", re.MULTILINE)


def parse_mlxfwmanager(text: str) -> tuple[DriverInfo, ...]:
    """Each device with its board and the firmware that it runs; one that tells none is left out.

    :raises NoEvidence: where it lists none.
    """
    found = []
    for block in _DEVICE.split(text)[1:]:
        has, flash = dict(_FIELD.findall(block)), _FLASH.search(block)
        runs = _RUNS.search(block) or flash
        if runs is not None:
            name, board = has.get("PCI Device Name", ""), has.get("PSID", "")
            owed = flash[1] if flash and flash[1] != runs[1] else ""
            found.append(DriverInfo(has.get("Device Type", ""), runs[1], board, name, owed))
    if not found:
        said = _SAID.search(text)
        raise NoEvidence(
            f"mlxfwmanager: {said[1] if said else 'no device with its firmware'}",
            hint="mst start, as root, and again; or mstflint -d ADDRESS query; or ibv_devinfo",
        )
    return tuple(found)
