"""The machine and its processor, and whether it is one at all.

Sources: /proc/cpuinfo, /sys/class/dmi/id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.facts.lines import named_lines


@dataclass(frozen=True, slots=True)
class Cpu:
    vendor: str  # "GenuineIntel", "AuthenticAMD"; "" on arm64
    model: str
    hypervisor: bool  # the CPUID bit that only guests see
    address_bits: int = 0  # of physical addresses; 0 where not told, as on arm64
    x2apic: bool = False  # it can number more than 255 processors
    threads: int = 0  # logical processors of a socket; 0 where not told
    cores: int = 0  # of a socket; 0 where not told
    family: int = 0  # CPUID's, in decimal: 25; 0 where not told, as on arm64
    number: int = 0  # CPUID's model within the family


def parse_cpu(text: str) -> Cpu:
    """Read the first processor of /proc/cpuinfo."""
    values: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition(":")
        values.setdefault(key.strip(), value.strip())
    flags = values.get("flags", "").split()
    bits = re.match(r"(\d{2}) bits physical", values.get("address sizes", ""), re.ASCII)
    return Cpu(
        values.get("vendor_id", ""),
        values.get("model name", values.get("CPU part", "")),
        "hypervisor" in flags,
        int(bits[1]) if bits else 0,
        "x2apic" in flags,
        _count(values.get("siblings", "")),
        _count(values.get("cpu cores", "")),
        _count(values.get("cpu family", "")),
        _count(values.get("model", "")),
    )


def _count(said: str) -> int:
    return int(said) if re.fullmatch(r"\d{1,4}", said, re.ASCII) else 0


def parse_dmi(text: str) -> dict[str, str]:
    """Read "sys_vendor:Dell Inc." lines; placeholders are kept as the vendor left them."""
    return {key: value.strip() for key, value in named_lines(text, "/sys/class/dmi/id")}
