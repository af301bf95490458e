"""Frames of the healthy node, for the facts of ``node_firmware``."""

from __future__ import annotations

import struct

from tests.evidence.board import od
from tests.evidence.frames import Override

INTR_REMAP, X2APIC_OPT_OUT, DMA_OPT_IN = 1, 2, 4  # DMAR flags
_CPU = "devices/system/cpu"


def dmar(flags: int = INTR_REMAP, *, ats: bool = True) -> str:
    """The frame "acpi-bytes" with Intel's table: one unit, and perhaps root ports with ATS."""
    body = struct.pack("<BB10x", 51, flags) + struct.pack("<HHBBHQ", 0, 16, 1, 0, 0, 0xC5FFC000)
    if ats:
        body += struct.pack("<HHBBH", 2, 8, 1, 0, 0)
    head = struct.pack("<4sIBB6s8sI4sI", b"DMAR", 36 + len(body), 1, 0, b"DELL", b"", 1, b"", 1)
    return f"@DMAR\n{od(head + body)}"


def ivrs(info: int = 0) -> str:
    """The same with AMD's table."""
    head = struct.pack("<4sIBB6s8sI4sII", b"IVRS", 48, 2, 0, b"AMD", b"", 1, b"", 1, info)
    return f"@IVRS\n{od(head.ljust(48, bytes(1)))}"


def setup(**changes: str) -> str:
    """The frame "setup"; keywords are ends of names: smt_control="off", packages="0:0+1"."""
    said = {
        "online": "0-223",
        "smt/control": "on",
        "cpuidle/current_driver": "intel_idle",
        "cpu0/cpuidle/state0/name": "POLL",
        "cpu0/cpuidle/state1/name": "C1",
        "cpu0/cpuidle/state2/name": "C6",
        "cpu0/cpuidle/state0/latency": "0",
        "cpu0/cpuidle/state1/latency": "1",
        "cpu0/cpuidle/state2/latency": "290",
        "cpu0/cpufreq/scaling_driver": "intel_pstate",
        "cpu0/cpufreq/scaling_governor": "performance",
        "cpu0/power/energy_perf_bias": "0",
        "intel_pstate/no_turbo": "0",
    }
    names = {name.replace("/", "_"): name for name in said}
    policy, packages = "[default] performance powersave", "0:0 1:1"
    policy, packages = changes.pop("policy", policy), changes.pop("packages", packages)
    for key, value in changes.items():
        said[names[key]] = value
    lines = [f"{_CPU}/{name}:{value}" for name, value in said.items() if value]
    lines += [f"module/pcie_aspm/parameters/policy:{policy}"] if policy else []
    lines += [f"package/node{each.replace('+', ' ')}" for each in packages.split()]
    return "".join(f"{line}\n" for line in lines)


IOMEM = """\
90000000-9fffffff : PCI Bus 0000:05
14000000000-1bfffffffff : PCI Bus 0000:05
54000000000-6bfffffffff : PCI Bus 0000:15
  54000000000-6bfffffffff : PCI Bus 0000:16
25c000000000-273fffffffff : PCI Bus 0000:97
"""
FRAMES: dict[str, Override] = {"setup": setup(), "iomem": IOMEM, "acpi-bytes": dmar()}
