"""What is the machine?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, passed, unknown
from toolkit.checks.role import lent_gpus, role
from toolkit.facts.firmware.machine import guest_of
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want


@check(
    "host.virt",
    impact=Impact.FRAGILE,
    source="systemd-detect-virt(1); /proc/cpuinfo, flag hypervisor; NCCL user guide, PCI ACS",
    fix="the role in the profile or the site's file, or the other machine",
)
def virt(node: Node, want: Want) -> Finding:
    """The role that is wanted is the one that the node shows.

    The right values of ACS and ATS are opposite on bare metal and where guests are given
    devices: judged for the wrong role, a node is mended into a fault. Inside a container
    the modules and settings that are seen are partly its own.
    """
    if node.container:
        return unknown(
            f"inside a container ({node.container}): what is read is partly its own",
            hint="probe the node itself",
        )
    shown = role(node, Want())
    by = ""
    if shown is Role.VM:
        named = node.virtualization not in {"", "none"}
        by = node.virtualization if named else guest_of(node.dmi)
    elif shown is Role.VM_HOST:
        gpus, lent = len(node.pci.gpus), len(lent_gpus(node))
        by = f"{lent} of {gpus} GPUs on vfio-pci" if lent else "HCAs beside its GPUs on vfio-pci"
    told = f"{shown}, by {by}" if by else str(shown)
    if want.role in {None, shown}:
        return passed(told)
    if {want.role, shown} == {Role.VM_HOST, Role.BARE_METAL} and want.role is Role.VM_HOST:
        return passed(f"{want.role}; no device is given to a guest now")
    return failed(told, expected=f"{want.role}", hint=f'role = "{shown}" in the site\'s file')
