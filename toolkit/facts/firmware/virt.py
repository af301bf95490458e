"""Whether a machine is one: what systemd-detect-virt and DMI say.

Source: systemd-detect-virt(1); /sys/class/dmi/id.
"""

from __future__ import annotations

import re

from toolkit.errors import Unparsable

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
