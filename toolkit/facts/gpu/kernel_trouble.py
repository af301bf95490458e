"""What the kernel logged of GPUs and NVSwitches that are failing; of HCAs see ``hca_log``.

Sources: NVIDIA/open-gpu-kernel-modules, nvErrorLog_va, "NVRM: Xid (%s): %d, ", nvswitch's
NVSWITCH_PRINT_SXID, "nvidia-nvswitch%d: SXid (PCI:%s): %05d, ", and osinit.c, "The NVIDIA GPU
%s (PCI ID: ...) installed in this system has fallen off the bus", over three lines.

Before it a line may have "[  9.1] ", "<6>[ 9.1] ", "[Sun Feb 23 16:24:18 2025] ",
"kern  :warn  : 2025-01-17T15:36:17,330762+00:00 " or "Feb 23 16:24:18 host kernel: ".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.gpus import XidAction, xid_row
from toolkit.facts.gpu.driver import normal_address

_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"
# "(PCI:0000:1b:00)", "(0000:03:00)" of old drivers, "(PCI:0000:00:05 GPU-I:05)" of a MIG instance.
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?({_ADDRESS})[^)]*\)[^:]*: (\d+)\b(.*)")
_ANY_XID = re.compile(r"NVRM: Xid\b")
_PREVIOUS = re.compile(r"\bcaused by previous Xid (\d+)")
_SXID = re.compile(
    rf"(?:nvidia-nvswitch\d+: )?SXid \((?:PCI:)?({_ADDRESS}(?:\.\d)?)\): (\d+)\b,? *(.*)"
)
_ANY_SXID = re.compile(r"(?:nvidia-nvswitch\d+: )?\bSXid\b")
# Of every GPU, or of no one that is named: CUDA is gone until the driver is loaded anew; and what
# nvstatuscodes.h has of a GPU that works no more, as an assertion of the driver prints it.
_UVM = re.compile(
    r"\buvm:?\b.{0,20}\bencountered\b.*\bfatal\b|NVRM:.*\[NV_ERR_RESET_REQUIRED\]", re.IGNORECASE
)
_SXID_MORE = re.compile(r"(?:Severity|Data|Engine)\b")  # lines that go on with the one before
_HALF = re.compile(rf"NVRM: The NVIDIA GPU ({_ADDRESS}(?:\.\d)?)")
_OFF = re.compile(
    rf"NVRM:(?: GPU (?:at PCI:)?({_ADDRESS}(?:\.\d)?):?)?.*"
    r"(?:\bfallen off the bus|\[NV_ERR_GPU_IS_LOST\])"
)
# kernel-open/nvidia/nv.c, nvidia_init_module; RmInitNvDevice's callers in osinit.c.
_UNSTARTED = re.compile(
    rf"NVRM: (?:GPU ({_ADDRESS}(?:\.\d)?): )?(?:RmInitAdapter failed!"
    r"|(?:GPU\d+ )?RmInitAdapter: Cannot initialize GSP firmware"
    r"|None of the NVIDIA devices were initialized)"
)
_FATAL_WORD = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
_RECOVERY = re.compile(r"\bto 0x[0-9a-fA-F]+ \(([^)]+)\)")
_STAMPS = (
    re.compile(r"\[ *(\d+\.\d+)\]"),
    re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})\]"),
    re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"),
    re.compile(r"^(?:<\d+>)?([A-Z][a-z]{2} [ \d]\d [\d:]{8}) "),
)


class Trouble(Struct, frozen=True):
    """One line of the kernel log that tells of a device."""

    address: str  # "0000:1b:00.0"; "" where the line has none
    when: str  # "9123.1 s after boot", "Sun Feb 23 16:24:18 2025"; "" for untold
    text: str  # from the device's own word on
    number: int = 0  # of an Xid or SXid
    sick: bool | None = True  # whether hardware or firmware fails; None: not known


def when(line: str) -> str:
    """The time that stands before a line of the kernel log, as it is written there."""
    for at, stamp in enumerate(_STAMPS):
        if found := stamp.search(line):
            return found[1] if at else f"{found[1]} s after boot"
    return ""


def _function(address: str) -> str:
    """As sysfs writes it: the GPU is the first function of its device."""
    return normal_address(address if "." in address else f"{address}.0")


def xids(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """Each Xid; one whose line is cut has the number 0 and is not known.

    One that names an earlier Xid as its cause stands for that where the log has lost it.
    """
    told = [_xid(line) for line in lines if _ANY_XID.search(line)]
    numbers = {each.number for each in told}
    for at, each in enumerate(told):
        before = _PREVIOUS.search(each.text)
        if before and (number := int(before[1])) not in numbers:
            told[at] = replace(each, number=number, sick=_xid_sick(number, ""))
    return tuple(told)


def uvm_troubles(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """What unified memory (nvidia-uvm) or the driver on its behalf says of a fatal error."""
    found = ((line, _UVM.search(line)) for line in lines)
    return tuple(Trouble("", when(line), line[at.start() :].strip()) for line, at in found if at)


def _xid(line: str) -> Trouble:
    found = _XID.search(line)
    if found is None:
        return Trouble("", when(line), line[line.index("NVRM: Xid") :].strip(), sick=None)
    number = int(found[2])
    text = line[found.start() :].strip()
    return Trouble(_function(found[1]), when(line), text, number, _xid_sick(number, found[3]))


def _xid_sick(number: int, rest: str) -> bool | None:
    """Whether an Xid tells of a fault that outlives its job; None where that is not known."""
    row = xid_row(number)
    if row is None:
        return None
    if row.act is not XidAction.WORD:
        return row.act in {XidAction.RESET, XidAction.REBOOT, XidAction.EXCHANGE}
    if recovery := _RECOVERY.search(rest):
        return recovery[1] != "None"
    if word := _FATAL_WORD.search(rest):
        return not word[1]
    return None


def sxids(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """Each SXid; the driver says itself whether it is fatal. A cut one has the number 0."""
    told = []
    for line in lines:
        found = _SXID.search(line)
        if found is None and (cut := _ANY_SXID.search(line)):
            told.append(Trouble("", when(line), line[cut.start() :].strip(), sick=None))
        if found is None or _SXID_MORE.match(found[3]):
            continue
        word = _FATAL_WORD.search(found[3])
        sick = None if word is None else not word[1]
        text = line[found.start() :].strip()
        told.append(Trouble(_function(found[1]), when(line), text, int(found[2]), sick))
    return tuple(told)


def fallen(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """GPUs that fell off the bus, with an Xid or, where the driver finds one so, without."""
    told, last = [], ""
    for line in lines:
        if half := _HALF.search(line):
            last = half[1]
        lost = "fallen off the bus" in line or "[NV_ERR_GPU_IS_LOST]" in line
        if not lost or (found := _OFF.search(line)) is None:
            continue
        xid = _XID.search(line)
        address = (xid or found)[1] or last
        text = line[found.start() :].strip()
        told.append(Trouble(_function(address) if address else "", when(line), text))
        last = ""
    return tuple(told)


def unstarted(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """GPUs that the driver could not start since it was loaded last; or it started none at all."""
    told: list[Trouble] = []
    for line in lines:
        if "NVRM: loading NVIDIA" in line:
            told = []
        elif found := _UNSTARTED.search(line):
            address = _function(found[1]) if found[1] else ""
            told.append(Trouble(address, when(line), line[found.start() :].strip()))
    return tuple(told)
