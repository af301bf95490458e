"""Do the arguments of the kernel mean what they seem to mean?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.checks.check import Finding, Impact, check, failed, passed, unknown
from toolkit.facts.cmdline import Cmdline
from toolkit.facts.node import Node
from toolkit.want import Want

# Options of pci= that drivers/pci/pci.c (pci_setup) and arch/x86/pci/common.c
# (pcibios_setup) know. One that is not here is asked of the kernel log before it is blamed.
_KNOWN = re.compile(
    r"off|conf1|conf2|noaer|noari|norom|biosirq|rom|nobios|nobar|nodomains|nommconf|noats|"
    r"nocrs|use_crs|irqroutes|irqmask|lastbus|assign-busses|usepirqmask|routeirq|bfsort|"
    r"nobfsort|nomsi|earlydump|skip_isa_align|noacpi|noearly|check_enable_amd_mmconf|firmware|"
    r"bios|verify|scan|realloc|nofwsync|big_root_window|ecrc|cbiosize|cbmemsize|hpiosize|"
    r"hpmmiosize|hpmmioprefsize|hpmemsize|hpbussize|resource_alignment|pcie_bus_tune_off|"
    r"pcie_bus_safe|pcie_bus_perf|pcie_bus_peer2peer|pcie_scan_all|disable_acs_redir|"
    r"config_acs|nobbn|use_e820|no_e820|notph"
)
_REFUSED = re.compile(r"PCI: Unknown option `([^']*)'")


@check(
    "iommu.cmdline",
    impact=Impact.FRAGILE,
    source="Documentation/admin-guide/kernel-parameters; drivers/pci/pci.c, pci_setup",
    fix="remove the argument from the boot configuration",
)
def cmdline(node: Node, want: Want) -> Finding:
    """No argument on the command line pretends to do what it does not.

    mainline has no pci=noacs, although it is passed on as the permanent ACS fix;
    pcie_acs_override only pretends that ACS exists. Of two equal options of pci= the last
    alone counts; iommu=pt beside a switched-off IOMMU does nothing and is no fault, nor is
    amd_iommu=on: AMD's is on by default.
    """
    if not node.knows_cmdline:
        return _by_log(node)
    arguments = node.cmdline
    wrong = list(_misleading(arguments))
    options = {each.partition("=")[0] for each in arguments.listed("pci")}
    strange = {each for each in options if not _KNOWN.fullmatch(each)}
    if strange and not wrong:  # asked only where something hangs on it
        refused = sorted(strange & set(_refused(node.dmesg)))
        wrong += [f"pci={each}: the kernel knows no such option" for each in refused]
    if wrong:
        return failed("; ".join(wrong), expected="arguments that do something")
    if arguments["amd_iommu"] == "on":
        return passed("amd_iommu=on has no effect and does no harm")
    return passed("nothing misleading")


def _by_log(node: Node) -> Finding:
    """What the kernel logs of options that it does not know, where only its log was given."""
    refused = list(_refused(node.dmesg))
    if refused:
        told = ", ".join(f"pci={each}" for each in refused)
        return failed(f"{told}: the kernel knows no such option", expected="options that exist")
    return unknown("the kernel log complains of no option", hint="cat /proc/cmdline")


def _refused(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        if found := _REFUSED.search(line):
            yield found[1].partition("=")[0]


def _misleading(arguments: Cmdline) -> Iterator[str]:
    if "pcie_acs_override" in arguments:
        yield "pcie_acs_override only pretends that ACS exists"
    if "noacs" in arguments.listed("pci"):
        yield "pci=noacs does not exist: ACS is as firmware and kernel left it"
    if {"pt", "nopt"} <= arguments.listed("iommu"):
        yield "iommu=pt and iommu=nopt contradict each other"
    for name in ("intel_iommu", "amd_iommu"):
        values = arguments.listed(name)
        if "off" in values and values & {"on", "force_enable"}:
            yield f"{name} is switched on and off"
    told = {value.lower() for value in arguments.values("iommu.passthrough")}
    passing, translating = told & {"1", "y", "on", "t"}, told & {"0", "n", "off", "f"}
    if passing and translating:
        yield "iommu.passthrough is set both ways"
    elif translating and "pt" in arguments.listed("iommu"):
        yield "iommu=pt and iommu.passthrough=0 contradict each other"
    for option in ("disable_acs_redir", "config_acs"):
        given = [
            each
            for value in arguments.values("pci")
            for each in value.split(",")
            if each.startswith(f"{option}=")
        ]
        if len(set(given)) > 1:
            yield f"pci={option}= stands there {len(given)} times, and the last alone counts"
