"""What ``nvidia-smi -q`` tells of a GPU's health: memory, clocks, and what the driver asks for.

The names differ by branch and by chip. ECC counts "SRAM Uncorrectable" since Ampere, "SRAM
Uncorrectable Parity" and "SEC-DED" later, "Double Bit", "Total" before. The clocks' section was
"Clocks Throttle Reasons" up to branch 530. "N/A" stands for what a GPU has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Path = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]

_NONE = {
    *("", "N/A", "[N/A]", "Not Supported", "[Not Supported]"),
    "Requested functionality has been deprecated",
}
# What is no trouble where a value is a word rather than a count.
_FINE = {"No", "None", "Not Active", "Inactive", "0"}
_RECOVERY = ("GPU Reset Status", "GPU Recovery Action")
_CLOCKS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
_SECTIONS = {
    *("ECC Errors", "Retired Pages", "Remapped Rows", *_RECOVERY),
    *_CLOCKS,
}
_REPAIRS = ("Retired Pages", "Remapped Rows")
_ASKS = ("Pending Page Blacklist", "Pending", "Remapping Failure Occurred")
_ECC_FLAGS = (
    *("SRAM Threshold Exceeded", "Channel Repair Pending"),
    *("TPC Repair Pending", "Unrepairable Memory"),
)
_SLOWDOWNS = (
    "HW Slowdown",
    "HW Thermal Slowdown",
    "HW Power Brake Slowdown",
    "SW Thermal Slowdown",
)


@dataclass(frozen=True, slots=True)
class SmiHealth:
    """Of each group the values that are told, by name; none where the GPU has no such thing."""

    errors: Pairs = ()  # uncorrected, since the driver was loaded: ("SRAM Uncorrectable", "0")
    lifetime: Pairs = ()  # the same since the GPU was made
    repairs: Pairs = ()  # of its memory: ("Remapped Rows, Pending", "No")
    clocks: Pairs = ()  # what slows it down: ("HW Slowdown", "Not Active")
    recovery: Pairs = ()  # what the driver asks for: ("GPU Recovery Action", "None")
    sections: frozenset[str] = frozenset()  # that are there, though they may say N/A


def smi_health(values: Mapping[Path, str]) -> SmiHealth:
    """Pick the health out of one GPU's values."""
    told = {path: value for path, value in values.items() if value not in _NONE}
    return SmiHealth(
        tuple(_uncorrected(told, "Volatile")),
        tuple(_uncorrected(told, "Aggregate")),
        tuple(_repairs(told)),
        tuple(
            (path[-1], value)
            for path, value in told.items()
            if path[0] in _CLOCKS and path[-1] in _SLOWDOWNS
        ),
        tuple((path[-1], value) for path, value in told.items() if path[0] in _RECOVERY),
        frozenset(path[0] for path in values if path[0] in _SECTIONS),
    )


def _uncorrected(told: Mapping[Path, str], since: str) -> Iterator[tuple[str, str]]:
    for path, value in told.items():
        if path[:2] != ("ECC Errors", since):
            continue
        if "Uncorrectable" in path[-1] or path[2:] == ("Double Bit", "Total"):
            yield " ".join(path[2:]), value


def _repairs(told: Mapping[Path, str]) -> Iterator[tuple[str, str]]:
    for path, value in told.items():
        if path[0] in _REPAIRS and path[-1] in _ASKS:
            yield ", ".join(path), value
        elif path[0] == "ECC Errors" and path[-1] in _ECC_FLAGS:
            yield path[-1], value


def raised(pairs: Pairs) -> Pairs:
    """Those that tell of trouble: counts above zero, and words that are not "no"."""
    return tuple((name, value) for name, value in pairs if value not in _FINE)


def unreadable(pairs: Pairs) -> Pairs:
    """Values that are neither a count nor yes or no: "ERR!", "Unknown Error", "[GPU is lost]"."""
    return tuple(
        (name, value)
        for name, value in pairs
        if "ERR" in value.upper() or "lost" in value or value.startswith("[")
    )
