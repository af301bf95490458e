"""Does the IOMMU pass peer traffic through, now and after the next boot?"""

from __future__ import annotations

from collections import Counter

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
)
from toolkit.facts.cmdline import Cmdline
from toolkit.facts.node import Node
from toolkit.want import Iommu, Role, Want

GUEST = "in a guest the host's IOMMU decides"
FIX = (
    "iommu=pt (x86) or iommu.passthrough=1 (arm64) on the kernel command line, or the IOMMU "
    "off in the BIOS; then reboot"
)


def role(node: Node, want: Want) -> Role:
    """The role that is wanted, else the one that the node shows."""
    if want.role is not None:
        return want.role
    return Role.VM if node.cpu.hypervisor else Role.BARE_METAL


@check(
    "iommu.passthrough",
    impact=Impact.SLOW,
    source="Documentation/ABI/testing/sysfs-kernel-iommu_groups; CUDA, GPUDirect RDMA guide",
    fix=FIX,
)
def passthrough(node: Node, want: Want) -> Finding:
    """GPUs and HCAs are in identity domains, or there is no IOMMU.

    Judged by the type of the group, not by the command line: a kernel may be built for
    passthrough, and a parameter may be overruled. Under translation the HCA emits addresses
    that only the root complex understands, so traffic climbs past the switch even with ACS
    off.
    """
    if want.iommu is Iommu.ANY:
        return not_applicable("the profile leaves the IOMMU alone")
    if role(node, want) is Role.VM:
        return not_applicable(GUEST)
    groups = node.iommu_groups
    if not node.iommu_units and not groups:
        return passed("no IOMMU is active")
    functions = (*node.pci.gpus, *node.hcas)
    domains = {each.address: groups[each.group] for each in functions if each.group in groups}
    translated = {address: domain for address, domain in domains.items() if domain.translated}
    if translated:
        kinds = Counter(translated.values())
        return failed(
            "translated: " + ", ".join(f"{domain} on {count}" for domain, count in kinds.items()),
            expected="identity on every GPU and HCA",
            details=tuple(f"{address}: {domain}" for address, domain in translated.items()),
        )
    return passed(f"identity on {len(domains)} GPUs and HCAs" if domains else "no group holds them")


@check(
    "iommu.boot",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    source="Documentation/admin-guide/kernel-parameters: iommu, iommu.passthrough",
    fix=FIX,
)
def boot(node: Node, want: Want) -> Finding:
    """The next boot will pass peer traffic through too.

    What runs now may have been set by hand; what counts after the reboot is the boot
    loader's own configuration.
    """
    if want.iommu is Iommu.ANY:
        return not_applicable("the profile leaves the IOMMU alone")
    if role(node, want) is Role.VM:
        return not_applicable(GUEST)
    entry = node.next_boot
    how = passes_through(entry.cmdline)
    if how:
        return passed(f"{how} for {entry.kernel}")
    if node.kernel_config.get("CONFIG_IOMMU_DEFAULT_PASSTHROUGH") == "y":
        return passed("the kernel is built for passthrough")
    if node.live and not node.iommu_units and not _turned_off(node.cmdline):
        return passed("no IOMMU is active, and no argument turned it off")
    return failed(
        f"nothing asks for passthrough in the entry of {entry.kernel}",
        expected="iommu=pt, iommu.passthrough=1 or the IOMMU off",
    )


def passes_through(arguments: Cmdline) -> str:
    """The argument that lets peer traffic pass; "" for none. The last of its name counts."""
    if off := _turned_off(arguments):
        return off
    if arguments["iommu.passthrough"] in {"1", "y", "on"}:
        return f"iommu.passthrough={arguments['iommu.passthrough']}"
    settings = [one for value in arguments.values("iommu") for one in value.split(",")]
    deciding = [one for one in settings if one in {"pt", "nopt"}]
    return "iommu=pt" if deciding[-1:] == ["pt"] else ""


def _turned_off(arguments: Cmdline) -> str:
    for name in ("intel_iommu", "amd_iommu", "iommu"):
        if "off" in arguments[name].split(","):
            return f"{name}=off"
    return ""


@check(
    "iommu.cmdline",
    impact=Impact.FRAGILE,
    source="Documentation/admin-guide/kernel-parameters; drivers/pci/pci.c, pci_setup",
    fix="remove the argument from the boot configuration",
)
def cmdline(node: Node, want: Want) -> Finding:
    """No argument on the command line pretends to do what it does not.

    mainline has no pci=noacs, although it is passed on as the permanent ACS fix;
    pcie_acs_override only pretends that ACS exists. amd_iommu=on does nothing: AMD's is on
    by default.
    """
    wrong = []
    if "pcie_acs_override" in node.cmdline:
        wrong.append("pcie_acs_override only pretends that ACS exists")
    if "noacs" in node.cmdline.listed("pci"):
        wrong.append("pci=noacs does not exist: ACS is as the firmware left it")
    settings = node.cmdline.listed("iommu") & {"pt", "nopt"}
    if len(settings) > 1:
        wrong.append("iommu=pt and iommu=nopt contradict each other")
    if wrong:
        return failed("; ".join(wrong), expected="arguments that do something")
    if node.cmdline["amd_iommu"] == "on":
        return passed("amd_iommu=on has no effect and does no harm")
    return passed("nothing misleading")
