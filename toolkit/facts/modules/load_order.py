"""When nvidia-peermem was loaded at boot, and when services began whose jobs may need it.

Sources: systemctl(1), show: times in microseconds since the kernel began; journalctl(1),
short-monotonic; systemd's modules-load.c, which notes each module that it inserts.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable

OURS = "gdr-toolkit-peermem.service"
# They start jobs. What a job finds missing at its start, it does without until its end.
STARTERS = ("slurmd.service", "kubelet.service")
_INSERTED = re.compile(
    r"\[\s*(\d+\.\d+)\] .*: (?:Inserted module|Module(?=.* already loaded$)) '([^']+)'.*"
)
_REFUSED = re.compile(r"\[\s*\d+\.\d+\] .*: (Failed to (?:insert|find) module '([^']+)'.*)")


class UnitTimes(Struct, frozen=True):
    """One unit since the boot; seconds since the kernel began, 0 for what has not been."""

    loaded: bool  # systemd knows it
    active: bool
    well: bool  # its last run did not fail
    began: float
    done: float  # up; for a oneshot: through


def parse_unit_times(text: str) -> dict[str, UnitTimes]:
    """``systemctl show`` of several units: blocks of "Key=Value" lines, an empty one between.

    :raises Unparsable: at a line of another shape, or a block without a name.
    """
    found = {}
    for block in text.strip("\n").split("\n\n"):
        told: dict[str, str] = {}
        for line in block.split("\n"):
            key, equals, value = line.partition("=")
            if not equals:
                raise Unparsable("systemctl show", line)
            told[key] = value
        if "Id" not in told:
            raise Unparsable("systemctl show", block.split("\n")[0])
        found[told["Id"]] = UnitTimes(
            told.get("LoadState") == "loaded",
            told.get("ActiveState") == "active",
            told.get("Result", "success") == "success",
            _seconds(told.get("InactiveExitTimestampMonotonic", "0")),
            _seconds(told.get("ActiveEnterTimestampMonotonic", "0")),
        )
    return found


def _seconds(micro: str) -> float:
    if not micro.isdigit():
        raise Unparsable("systemctl show", micro)
    return int(micro) / 1e6


class Inserted(Struct, frozen=True):
    """What the journal has of one module since the boot."""

    at: float = 0.0  # seconds since the kernel began; 0 where it tells nothing
    refused: str = ""  # why it was not inserted, in systemd's words


def parse_inserted(text: str, module: str) -> Inserted:
    """``journalctl -o short-monotonic`` of systemd-modules-load, for one module."""
    for line in text.split("\n"):
        found = _INSERTED.fullmatch(line.rstrip())
        if found is not None and found[2].replace("-", "_") == module:
            return Inserted(float(found[1]))
    for line in text.split("\n"):
        found = _REFUSED.fullmatch(line.rstrip())
        if found is not None and found[2].replace("-", "_") == module:
            return Inserted(refused=found[1])
    return Inserted()
