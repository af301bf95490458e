"""Which commands would tell most of what a node's texts do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from toolkit.checks.check import Gap
from toolkit.checks.judged import OTHERS, Judged

_MOST = 3
# What prints a source, or what stands in for it, as it is typed; by the key of the frame.
_PRINTS = {
    "pci": "lspci -vvv -nn",
    "lspci": "lspci -vvv -nn",
    "nvidia-smi-q": "nvidia-smi -q",
    "nvidia-topology": "nvidia-smi topo -m",
    "dmesg": "dmesg",
    "infiniband": "ibstat",
    "ofed-info": "ofed_info -s",
    "module-state": "lsmod",
    "dkms-status": "dkms status",
    "mokutil": "mokutil --sb-state",
    "cmdline": "cat /proc/cmdline",
    "os-release": "cat /etc/os-release",
    "gds": "gdscheck -p",
}


@dataclass(frozen=True, slots=True)
class MissingCommand:
    """One command, and how many checks wait for what it prints."""

    command: str
    checks: int


def wanted(judged: Judged) -> tuple[MissingCommand, ...]:
    """At most three commands, the most telling first; none where nothing is missing.

    A check counts for the source that it asked for last: there it could not go on.
    """
    missing = [
        each.cited[-1]
        for each in judged.verdicts
        if each.finding.gap is Gap.NOT_COLLECTED and each.cited
    ]
    about = dict(judged.about)
    others = OTHERS in about and about.get("gpus") == "0"  # of which its tools say nothing
    found = Counter(
        _PRINTS[key]
        for key in missing
        if key in _PRINTS and not (others and _PRINTS[key].startswith("nvidia-smi"))
    )
    return tuple(MissingCommand(*each) for each in found.most_common(_MOST))
