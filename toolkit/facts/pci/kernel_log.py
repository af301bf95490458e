"""What the kernel log tells of PCI: errors that AER reported, drivers that took no function, BARs.

The probe sends the totals that are not zero, how many functions have counters, and for how
long the machine is up. Where the firmware handles errors first the kernel counts none, and
the log alone tells. Sources: Documentation/ABI/testing/sysfs-bus-pci-devices-aer; Linux
drivers/pci/pcie/aer.c and dpc.c, drivers/firmware/efi/cper.c, include/ras/ras_event.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import Unparsable

_TOTAL = re.compile(
    r"([0-9a-f:.]+)/aer_dev_(correctable|nonfatal|fatal):TOTAL_ERR_(?:COR|NONFATAL|FATAL) (\d+)"
)
_HEAD = re.compile(r"(uptime|functions):(\d+)(?:\.\d+)?")


class Errors(Struct, frozen=True):
    """The totals of one function."""

    correctable: int = 0
    nonfatal: int = 0
    fatal: int = 0


class AerCounts(Struct, frozen=True):
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


class Severity(StrEnum):
    """Of an error of a link or of a function, as PCI Express sorts them."""

    FATAL = "fatal"
    NONFATAL = "non-fatal"
    CORRECTED = "corrected"


class BusError(Struct, frozen=True):
    """One error that the kernel log tells of a function."""

    address: str  # "0000:c4:00.0"
    severity: Severity
    text: str  # from the first word of the kernel on


_AT = r"(?P<at>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_HOW = r"(?P<how>(?:Un)?[Cc]orrect(?:ed|able)(?:,? \(?[Nn]on-[Ff]atal\)?| \(Fatal\))?|Fatal)"
# Who reports, and in words of old and new kernels about whom; rasdaemon writes the third.
# None: the line says how bad it is.
_TOLD = {
    re.compile(rf"AER: (?:Multiple )?{_HOW} error (?:message )?received(?: from|:) ?{_AT}"): None,
    re.compile(rf"{_AT}:? (?:AER: )?PCIe Bus Error: severity={_HOW}"): None,
    re.compile(rf"aer_event: .*?{_AT} .*?{_HOW}"): None,
    # The port has shut its link, whatever the error was: what was below it is lost for the moment.
    re.compile(rf"{_AT}: DPC: (?:containment event|.*(?:FATAL|uncorrectable))"): Severity.FATAL,
    re.compile(rf"{_AT}: AER: (?:can't recover|[Dd]evice recovery failed)"): Severity.NONFATAL,
}
_FIRMWARE = "[Hardware Error]:"
_SECTION = re.compile(r"(?:event severity|Error \d+, type): (\w+)")
_OF_FIRMWARE = {
    "fatal": Severity.FATAL,
    "recoverable": Severity.NONFATAL,
    "corrected": Severity.CORRECTED,
}


def bus_errors(lines: Iterable[str]) -> Iterator[BusError]:
    """Each error that the log tells of a function, by the kernel or by the firmware (GHES)."""
    severity, of_pcie = "", False
    for line in lines:
        if _FIRMWARE not in line:
            yield from _by_kernel(line)
            continue
        said = line.partition(_FIRMWARE)[2].strip()
        if found := _SECTION.match(said):
            severity, of_pcie = found[1], False
        elif said.startswith("section_type:"):
            of_pcie = "PCIe" in said
        elif of_pcie and severity in _OF_FIRMWARE and (at := re.match(rf"device_id: {_AT}", said)):
            told = f"told by the firmware: {severity} PCIe error"
            yield BusError(at[1].lower(), _OF_FIRMWARE[severity], told)


def _by_kernel(line: str) -> Iterator[BusError]:
    found = next(filter(None, (shape.search(line) for shape in _TOLD)), None)
    if found is not None:
        how = found.groupdict().get("how")
        severity = _TOLD[found.re] or _severity(str(how).lower())
        yield BusError(found["at"].lower(), severity, line[found.start() :].strip())


def _severity(words: str) -> Severity:
    if words.startswith("correct"):
        return Severity.CORRECTED
    return Severity.NONFATAL if "non-fatal" in words else Severity.FATAL


# Why a driver did not take a PCI function, as the kernel log tells it.
# Sources: drivers/base/dd.c, call_driver_probe ("probe of ADDRESS failed", since 6.7 "probe with
# driver NAME failed"); drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_function_enable.
_ADDRESS = r"(?P<address>[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_SINCE = _ADDRESS.replace("address", "since")
_FAILED = re.compile(
    rf"\b(?P<driver>\w+)(?:: probe of {_ADDRESS}| {_SINCE}: probe with driver \w+)"
    r" failed with error (?P<error>-\d+)"
)
_SAID = re.compile(rf"\bmlx5_core {_ADDRESS}: (?:\w+:\d+:\(pid \d+\): )?(?P<said>.*), aborting$")


class ProbeFailure(Struct, frozen=True):
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


# What the kernel logged of BARs that found no room: the last word on each counts.
# Sources: drivers/pci/setup-res.c and setup-bus.c. Kernels up to 6.9 write "BAR 1: no space for
# [mem size 0x...]", "BAR 1: failed to assign [mem size ...]" and "BAR 1: assigned [mem ...]"; later
# ones "BAR 1 [mem size ... 64bit pref]: can't assign; no space" and "BAR 1 [mem ...]: assigned".
# nvidia.ko: kernel-open/nvidia/nv-pci.c, "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:18:00.0)".
_REGION = r"(?P<region>BAR \d+|VF BAR \d+|bridge window)"
_MEMORY = r"\[mem (?:size )?0x[0-9a-f]+[^\]]*\]"
_LINE = re.compile(
    rf"(?P<address>[0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]): {_REGION}(?P<rest>.*)"
)
_REFUSED = re.compile(
    rf"(?:: (?:no space for|failed to assign|can't assign) {_MEMORY}"
    rf"| {_MEMORY}: (?:can't assign|can't claim|failed to assign))"
)
_PLACED = re.compile(rf"(?:: assigned {_MEMORY}| {_MEMORY}: assigned)")
_NVRM = re.compile(r"NVRM: BAR1 is 0M @ 0x0 \(PCI:(?P<address>[0-9a-f:.]+)\)")


_SIZE = re.compile(r"\[mem size 0x([0-9a-f]{1,16})")
_LARGE = 1 << 26  # registers are smaller, the memory of a GPU is larger


def large(line: str) -> bool:
    """Whether a refusal is of memory rather than of registers."""
    size = _SIZE.search(line)
    return "NVRM" in line or (size is not None and int(size[1], 16) >= _LARGE)


def homeless_bars(lines: Iterable[str]) -> dict[str, str]:
    """Functions whose last word is a refusal, with that line. Bytes of a port (io) are no memory.

    :param lines: of the kernel log, in order.
    :returns: by PCI address. Regions of virtual functions and windows of bridges are left out:
        what matters of them shows in the BARs below.
    """
    last: dict[tuple[str, str], str] = {}
    for line in lines:
        if told := _NVRM.search(line):
            last[told["address"], "BAR 1"] = line.strip()
        found = _LINE.search(line)
        if found is None or not found["region"].startswith("BAR"):
            continue
        key = (found["address"], found["region"])
        if _PLACED.search(found["rest"]):
            last.pop(key, None)
        elif _REFUSED.search(found["rest"]):
            last[key] = line.strip()
    return {address: line for (address, _), line in last.items()}
