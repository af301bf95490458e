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
    unknown,
)
from toolkit.checks.role import role
from toolkit.facts.cmdline import Cmdline
from toolkit.facts.iommu import Domain
from toolkit.facts.node import Node
from toolkit.want import Iommu, Role, Want

_INTEL, _AMD = ("GenuineIntel",), ("AuthenticAMD", "HygonGenuine")
_SWITCHES = {"intel_iommu": _INTEL, "amd_iommu": _AMD, "iommu": (*_INTEL, *_AMD)}
GUEST = "in a guest the host's IOMMU decides"
FIX = (
    "iommu=pt (x86) or iommu.passthrough=1 (arm64) on the kernel command line, or the IOMMU "
    "off in the BIOS; then reboot"
)


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
    # A function given to a guest is not this node's to judge.
    unsure = [
        f"{each.address}: {domains.get(each.address, 'not told')}"
        for each in functions
        if each.group and domains.get(each.address) not in {Domain.IDENTITY, Domain.UNMANAGED}
    ]
    if unsure:
        return unknown(f"domain type of {', '.join(unsure)}", hint="kernels before 4.19 tell none")
    identity = [each for each in domains.values() if each is Domain.IDENTITY]
    return passed(f"identity on {len(identity)} GPUs and HCAs" if identity else "no group of ours")


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
    arguments, kernel = node.next_cmdline, node.next_boot.kernel
    vendor = node.cpu.vendor or node.cpu.model  # arm64 names no vendor
    how = passes_through(arguments, vendor)
    if how:
        return passed(f"{how} for {kernel}")
    # The options that were read are the running kernel's; another one's are not known.
    same = not node.live or kernel == node.kernel
    built_for_it = same and node.kernel_config.get("CONFIG_IOMMU_DEFAULT_PASSTHROUGH") == "y"
    if built_for_it and not _translation_asked(arguments):
        return passed("the kernel is built for passthrough")
    if node.live and not node.iommu_units and not _turned_off(node.cmdline, vendor):
        return passed("no IOMMU is active, and no argument turned it off")
    return failed(
        f"nothing asks for passthrough in the entry of {kernel}",
        expected="iommu=pt, iommu.passthrough=1 or the IOMMU off",
    )


def passes_through(arguments: Cmdline, vendor: str = "") -> str:
    """The argument that lets peer traffic pass; "" for none. The last of its name counts.

    :param vendor: as the processor names it; "" where any will do.
    """
    if off := _turned_off(arguments, vendor):
        return off
    if arguments["iommu.passthrough"].lower() in {"1", "y", "t", "on"}:
        return f"iommu.passthrough={arguments['iommu.passthrough']}"
    return "iommu=pt" if _deciding(arguments) == "pt" else ""


def _deciding(arguments: Cmdline) -> str:
    settings = [one for value in arguments.values("iommu") for one in value.split(",")]
    return ([one for one in settings if one in {"pt", "nopt"}] or [""])[-1]


def _translation_asked(arguments: Cmdline) -> bool:
    explicit = arguments["iommu.passthrough"].lower() in {"0", "n", "f", "off"}
    return explicit or _deciding(arguments) == "nopt"


def _turned_off(arguments: Cmdline, vendor: str) -> str:
    """Each maker's switch counts on its own processors alone; iommu=off on all of x86."""
    for name, makers in _SWITCHES.items():
        if "off" in arguments[name].split(",") and (not vendor or vendor in makers):
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
