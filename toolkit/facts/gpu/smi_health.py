"""What ``nvidia-smi -q`` tells of a GPU's health: memory, clocks, and what the driver asks for.

The names differ by branch and by chip. ECC counts "SRAM Uncorrectable" since Ampere, "SRAM
Uncorrectable Parity" and "SEC-DED" later, "Double Bit", "Total" before. The clocks' section was
"Clocks Throttle Reasons" up to branch 530. "N/A" stands for what a GPU has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from toolkit.facts.gpu.driver import normal_address

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


class SmiHealth(Struct, frozen=True):
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


# What nvidia-smi says in place of an answer, or in place of a value.
# Sources: nvmlErrorString of libnvidia-ml ("GPU is lost", "Driver/library version mismatch",
# "Driver Not Loaded"), and nvidia-smi's own sentences around them. It writes the GPU as "GPU
# 0000:CA:00.0", "GPU0000:91:00.0" and "GPU7: 0000:CA:00.0".
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# Of the table a row without a name: "|   5  ERR!     On   | 00000000:91:00.0 Off |  ERR! |".
_LOST = re.compile(
    r"Unable to determine the device handle for|GPU is lost|^\|\s+\d+\s+ERR!\s", re.IGNORECASE
)
_RESET = re.compile(r"GPU requires reset", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"Failed to initialize NVML|No devices were found|couldn't communicate with the NVIDIA driver",
    re.IGNORECASE,
)


class SmiSaid(Struct, frozen=True):
    """Lines of nvidia-smi that are no answer, each once."""

    lost: tuple[str, ...]  # a GPU does not answer
    reset: tuple[str, ...]  # a GPU wants to be reset
    silent: tuple[str, ...]  # NVML does not answer for any GPU

    @property
    def addresses(self) -> tuple[str, ...]:
        """The GPUs that these lines name, as sysfs writes them."""
        found = [_ADDRESS.search(line) for line in (*self.lost, *self.reset)]
        return tuple(dict.fromkeys(normal_address(each[0]) for each in found if each))


def parse_smi_said(text: str) -> SmiSaid:
    """Pick the sentences out of any answer of nvidia-smi; most have none."""
    lines = tuple(dict.fromkeys(line.strip() for line in text.split("\n")))

    def having(words: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(line for line in lines if words.search(line))

    return SmiSaid(having(_LOST), having(_RESET), having(_NO_ANSWER))
