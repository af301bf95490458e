"""The machine and its processor, and whether it is one at all.

Sources: /proc/cpuinfo, /sys/class/dmi/id.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.facts.lines import named_lines


@dataclass(frozen=True, slots=True)
class Cpu:
    vendor: str  # "GenuineIntel", "AuthenticAMD"; "" on arm64
    model: str
    hypervisor: bool  # the CPUID bit that only guests see


def parse_cpu(text: str) -> Cpu:
    """Read the first processor of /proc/cpuinfo."""
    values: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition(":")
        values.setdefault(key.strip(), value.strip())
    return Cpu(
        values.get("vendor_id", ""),
        values.get("model name", values.get("CPU part", "")),
        "hypervisor" in values.get("flags", "").split(),
    )


def parse_dmi(text: str) -> dict[str, str]:
    """Read "sys_vendor:Dell Inc." lines; placeholders are kept as the vendor left them."""
    return {key: value.strip() for key, value in named_lines(text, "/sys/class/dmi/id")}
