"""What the kernel logged of BARs that found no room: the last word on each counts.

Sources: drivers/pci/setup-res.c and setup-bus.c. Kernels up to 6.9 write "BAR 1: no space for
[mem size 0x...]", "BAR 1: failed to assign [mem size ...]" and "BAR 1: assigned [mem ...]"; later
ones "BAR 1 [mem size ... 64bit pref]: can't assign; no space" and "BAR 1 [mem ...]: assigned".
nvidia.ko: kernel-open/nvidia/nv-pci.c, "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:18:00.0)".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
