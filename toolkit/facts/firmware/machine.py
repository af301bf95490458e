"""The machine and its processor, and whether it is one at all.

Sources: /proc/cpuinfo, /sys/class/dmi/id.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines


class Cpu(Struct, frozen=True):
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


# Whether a machine is one: what systemd-detect-virt and DMI say.
# Source: systemd-detect-virt(1); /sys/class/dmi/id.
# Its words for containers; all others but "none" are hypervisors.
CONTAINERS = frozenset(
    {"openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot"}
    | {"pouch", "container-other"}
)
# What hypervisors call the machines that they make; a cloud's bare metal has the same vendor.
_GUESTS = (
    ("QEMU", "", "qemu"),
    ("KVM", "", "kvm"),
    ("Red Hat", "KVM|RHEV", "kvm"),
    ("OpenStack Foundation", "", "kvm"),
    ("Nutanix", "AHV", "kvm"),
    ("VMware", "", "vmware"),
    ("Microsoft Corporation", "Virtual Machine", "microsoft"),
    ("Google", "Google Compute Engine", "google"),
    ("Amazon EC2", r"(?!.*\.metal)", "amazon"),
    ("innotek GmbH", "", "oracle"),
    ("Xen", "", "xen"),
)


def parse_detect_virt(text: str) -> str:
    """Read ``systemd-detect-virt``, which fails with "none" where there is nothing.

    :returns: "none", "kvm", "docker", ...
    :raises Unparsable: unless it says one word.
    """
    word = text.strip()
    if not re.fullmatch(r"[a-z][a-z0-9-]*", word):
        raise Unparsable("systemd-detect-virt", word)
    return word


def guest_of(dmi: dict[str, str]) -> str:
    """The hypervisor that DMI names; "" where it names none, or a cloud's bare metal."""
    vendor, product = dmi.get("sys_vendor", ""), dmi.get("product_name", "")
    for start, name, hypervisor in _GUESTS:
        if vendor.startswith(start) and re.match(name, product):
            return hypervisor
    return ""
