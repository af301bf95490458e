"""Why a driver did not take a PCI function, as the kernel log tells it.

Sources: drivers/base/dd.c, call_driver_probe ("probe of ADDRESS failed", since 6.7 "probe with
driver NAME failed"); drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_function_enable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ADDRESS = r"(?P<address>[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_SINCE = _ADDRESS.replace("address", "since")
_FAILED = re.compile(
    rf"\b(?P<driver>\w+)(?:: probe of {_ADDRESS}| {_SINCE}: probe with driver \w+)"
    r" failed with error (?P<error>-\d+)"
)
_SAID = re.compile(rf"\bmlx5_core {_ADDRESS}: (?:\w+:\d+:\(pid \d+\): )?(?P<said>.*), aborting$")


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    driver: str  # "mlx5_core"
    error: int  # -22
    said: str = ""  # what it gave up at: "Failed initializing command interface"


def parse_probe_failures(lines: Iterable[str]) -> dict[str, ProbeFailure]:
    """The last failure of each function, by its address."""
    found: dict[str, ProbeFailure] = {}
    said: dict[str, str] = {}
    for line in lines:
        if told := _SAID.search(line):
            said[told["address"]] = told["said"]
        elif told := _FAILED.search(line):
            address = told["address"] or told["since"]
            found[address] = ProbeFailure(told["driver"], int(told["error"]), said.pop(address, ""))
    return found
