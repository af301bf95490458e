"""What ``ethtool`` says of single net devices: driver, counters, module.

Sources, as read: ethtool of 4.11 (lunn/ethtool, 2017) and 5.x (Azure/sonic-ethtool): dump_drvinfo,
do_gstats, qsfp.c sff8636_show_dom, sff-common.c; Linux Documentation/networking/device_drivers/
ethernet/mellanox/mlx5/counters.rst (2023): a priority's pauses are counted only where PFC is on for
it, and rx_bits_phy is what could have been received; lanes' flags of ethtool 5.19, patch to qsfp.c.
None of them prints which net device was asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

_HEADS = re.compile(
    r"^(?=driver: \S|NIC statistics:[ \t]*$|[ \t]*Identifier[ \t]+: 0x)", re.MULTILINE
)
_KEYED = re.compile(r"^[ \t]*(\S[^:\n]*?)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FIRMWARE = re.compile(r"(\S+) \((\w+)\)")
_LANES = re.compile(r"\[ ?((?:Yes|No)(?:, (?:Yes|No))*) ?\]")


class DriverInfo(Struct, frozen=True):
    """``ethtool -i``."""

    driver: str  # "mlx5_core"
    firmware: str  # "28.39.1002"
    board: str  # "MT_0000000838", which mlx5 tells beside it; "" else
    address: str  # "0000:19:00.0"
    flash: str = ""  # the firmware that it runs after a reset, where that is another

    @property
    def owed(self) -> str:
        """What waits for a reset; "" where nothing does."""
        if not self.flash:
            return ""
        both = f"{self.address} runs {self.firmware}, {self.flash} in its flash"
        return f"{both}: mlxfwreset, or a power cycle, is owed"


class CableModule(Struct, frozen=True):
    """``ethtool -m``."""

    alarms: tuple[str, ...]  # flags of alarm that are on
    warnings: tuple[str, ...]
    dark: tuple[str, ...]  # what has lost its signal on some lanes, and not on all


Statistics = Mapping[str, int]  # ``ethtool -S``, by name of the counter


class EthtoolSaid(Struct, frozen=True):
    drivers: tuple[DriverInfo, ...] = ()
    statistics: tuple[Statistics, ...] = ()
    modules: tuple[CableModule, ...] = ()


def parse_ethtool(text: str) -> EthtoolSaid:
    """Read answers of ``ethtool -i``, ``-S`` and ``-m``, in the order in which they come."""
    drivers, statistics, modules = [], [], []
    for block in _HEADS.split(text):
        if block.startswith("driver: "):
            has = dict(_KEYED.findall(block))
            said = has.get("firmware-version", "")
            found = _FIRMWARE.fullmatch(said)
            firmware, board = (found[1], found[2]) if found else (said, "")
            driver = DriverInfo(has.get("driver", ""), firmware, board, has.get("bus-info", ""))
            drivers.append(driver)
        elif block.startswith("NIC statistics"):
            counters = re.findall(r"^[ \t]+(\S+): (\d+)[ \t]*\n", block, re.MULTILINE)
            statistics.append({name: int(count) for name, count in counters})
        elif block.lstrip().startswith("Identifier"):
            modules.append(_module(_KEYED.findall(block)))
    return EthtoolSaid(tuple(drivers), tuple(statistics), tuple(modules))


def _module(rows: list[tuple[str, str]]) -> CableModule:
    told = [(re.sub(r"\s+", " ", key), value) for key, value in rows]
    lost = [
        (key, found[1].split(", ")) for key, value in told if (found := _LANES.fullmatch(value))
    ]
    return CableModule(
        tuple(key for key, value in told if value == "On" and " alarm" in key),
        tuple(key for key, value in told if value == "On" and " warning" in key),
        tuple(
            f"{key} on lane {', '.join(str(n) for n, e in enumerate(lanes, 1) if e == 'Yes')}"
            for key, lanes in lost
            if "loss of signal" in key and set(lanes) == {"Yes", "No"}
        ),
    )
