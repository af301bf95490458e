"""Errors that PCI Express functions reported since boot.

The probe sends the totals that are not zero, how many functions have counters, and for how
long the machine is up. Source: Documentation/ABI/testing/sysfs-bus-pci-devices-aer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

_TOTAL = re.compile(
    r"([0-9a-f:.]+)/aer_dev_(correctable|nonfatal|fatal):TOTAL_ERR_(?:COR|NONFATAL|FATAL) (\d+)"
)
_HEAD = re.compile(r"(uptime|functions):(\d+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Errors:
    """The totals of one function."""

    correctable: int = 0
    nonfatal: int = 0
    fatal: int = 0


@dataclass(frozen=True, slots=True)
class AerCounts:
    uptime: int  # seconds
    functions: int  # those that have counters
    totals: dict[str, Errors]  # by address, of those with any error


def parse_aer(text: str) -> AerCounts:
    """Read the probe's lines.

    :raises Unparsable: at a line of another form, or where the head is missing.
    """
    head: dict[str, int] = {}
    counts: dict[str, dict[str, int]] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if found := _HEAD.fullmatch(line):
            head[found[1]] = int(found[2])
        elif found := _TOTAL.fullmatch(line):
            counts.setdefault(found[1], {})[found[2]] = int(found[3])
        else:
            raise Unparsable("aer_dev_*", line, number)
    if set(head) != {"uptime", "functions"}:
        raise Unparsable("aer_dev_*", f"{len(head)} of two lines that head the counters")
    totals = {address: Errors(**values) for address, values in counts.items()}
    return AerCounts(head["uptime"], head["functions"], totals)
