"""Do the arguments of the kernel mean what they seem to mean?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolkit.checks.check import Finding, Gap, Impact, check, failed, passed, unknown
from toolkit.checks.pci.iommu_words import (
    AMD,
    SWITCHES,
    asking,
    passes_through,
    settings,
    turned_off,
)
from toolkit.errors import read_or
from toolkit.facts.boot.cmdline import Cmdline
from toolkit.facts.node.node import Node
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
# intel_iommu_setup and parse_amd_iommu_options; a later kernel's are asked of the log as well.
_VALUES = {
    "intel_iommu": frozenset(
        {"on", "off", "igfx_off", "forcedac", "strict", "sp_off", "sm_on", "sm_off"}
        | {"tboot_noforce"}
    ),
    "amd_iommu": frozenset(
        {"on", "off", "fullflush", "force_enable", "force_isolation", "pgtbl_v1", "pgtbl_v2"}
        | {"irtcachedis", "nohugepages", "v2_pgsizes_only"}
    ),
}
_UNKNOWN = re.compile(r"(DMAR|AMD-Vi): Unknown option - '([^']*)'")
_BY_DRIVER = {"DMAR": "intel_iommu", "AMD-Vi": "amd_iommu"}
_OVERRIDE = "pcie_acs_override"


@check(
    "iommu.cmdline",
    impact=Impact.FRAGILE,
    source="Documentation/admin-guide/kernel-parameters; drivers/pci/pci.c, pci_setup; "
    "arch/x86/kernel/pci-dma.c, iommu_setup",
    fix="remove the argument from the boot configuration",
)
def cmdline(node: Node, want: Want) -> Finding:
    """No argument on the command line pretends to do what it does not.

    mainline has no pci=noacs, although it is passed on as the permanent ACS fix;
    pcie_acs_override only pretends that ACS exists. Of two equal options of pci= the last
    alone counts, and of iommu=pt, iommu=nopt and iommu.passthrough too. amd_iommu=pt and
    intel_iommu=pt are no values: iommu=pt is. iommu= is read on x86 alone, and amd_iommu=off on
    AMD's processors. iommu=pt beside a switched-off IOMMU does nothing and is no fault, nor is
    amd_iommu=on: AMD's is on by default.
    """
    if not node.knows_cmdline:
        return _by_log(node)
    arguments = node.cmdline
    vendor, arch = (
        _processor(node)
        if any(name in arguments for name in (*SWITCHES, "iommu.passthrough"))
        else ("", "")
    )
    wrong = [*_misleading(arguments, vendor), *_elsewhere(arguments, vendor, arch)]
    if "pcie_acs_override" in arguments:
        wrong.append(_override(read_or(lambda: node.dmesg, ())))
    options = {each.partition("=")[0] for each in arguments.listed("pci")}
    strange = {each for each in options if not _KNOWN.fullmatch(each)}
    values = {pair for pair in _values(arguments) if pair[1] not in _VALUES[pair[0]]}
    if (strange or values) and not wrong:  # asked only where something hangs on it
        refused = sorted(strange & set(_refused(node.dmesg)))
        wrong += [f"pci={each}: the kernel knows no such option" for each in refused]
        wrong += [
            f"{name}={value}: the kernel knows no such value"
            for name, value in sorted(values & set(_unknown_values(node.dmesg)))
        ]
    if wrong:
        return failed("; ".join(wrong), expected="arguments that do something")
    idle = [f"{each} has no effect and does no harm" for each in _idle(arguments, vendor)]
    return passed("; ".join(idle) or "nothing misleading")


def _processor(node: Node) -> tuple[str, str]:
    """Maker and architecture; "" for what loose files do not tell, so that any will do."""
    if not node.knows_cpu:
        return "", ""
    return node.cpu.vendor or node.cpu.model, node.arch


def _override(log: tuple[str, ...]) -> str:
    if any("Unknown kernel command line" in each and _OVERRIDE in each for each in log):
        return f"{_OVERRIDE} is not known to this kernel, and only pretends that ACS exists"
    return f"{_OVERRIDE} only pretends that ACS exists"


def _by_log(node: Node) -> Finding:
    refused = [f"pci={each}" for each in _refused(node.dmesg)]
    refused += [f"{name}={value}" for name, value in _unknown_values(node.dmesg)]
    if refused:
        told = ", ".join(dict.fromkeys(refused))
        return failed(f"{told}: the kernel knows no such option", expected="options that exist")
    why = "the kernel log complains of no option"
    return unknown(why, hint="cat /proc/cmdline", gap=Gap.LOG)


def _refused(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        if found := _REFUSED.search(line):
            yield found[1].partition("=")[0]


def _unknown_values(lines: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What the drivers of IOMMUs log of values that they do not know: the rest of the word."""
    for line in lines:
        if found := _UNKNOWN.search(line):
            yield _BY_DRIVER[found[1]], found[2].partition(",")[0]


def _values(arguments: Cmdline) -> Iterator[tuple[str, str]]:
    for name in _VALUES:
        yield from ((name, value) for value in settings(arguments, name))


def _misleading(arguments: Cmdline, vendor: str) -> Iterator[str]:
    if "noacs" in arguments.listed("pci"):
        yield "pci=noacs does not exist: ACS is as firmware and kernel left it"
    for name in ("intel_iommu", "amd_iommu"):
        values = arguments.listed(name)
        if "off" in values and values & {"on", "force_enable"}:
            yield f"{name} is switched on and off"
        for value in sorted(values & {"pt", "nopt", "passthrough"}):
            yield f"{name}={value} does not exist: it is iommu={value.replace('passthrough', 'pt')}"
    if "passthrough" in arguments.listed("iommu"):
        yield "iommu=passthrough does not exist: it is iommu=pt"
    yield from _contradictions(arguments, vendor)
    for option in ("disable_acs_redir", "config_acs"):
        given = [each for each in settings(arguments, "pci") if each.startswith(f"{option}=")]
        if len(set(given)) > 1:
            yield f"pci={option}= stands there {len(given)} times, and the last alone counts"


def _contradictions(arguments: Cmdline, vendor: str) -> Iterator[str]:
    """Words for and against passthrough: which counts hangs on their order alone."""
    said = asking(arguments, vendor)
    words = tuple(dict.fromkeys(each.word for each in said))
    if len({each.passes for each in said}) > 1:
        both = all(each.startswith("iommu.passthrough") for each in words)
        how = "sets it both ways" if both else "contradict each other"
        last = said[-1].word
        yield f"{' and '.join(words)} {how}, and the last counts: {last}"


def _elsewhere(arguments: Cmdline, vendor: str, arch: str) -> Iterator[str]:
    """What is asked of an IOMMU of another maker alone, so that nothing comes of it here."""
    if arch == "aarch64" and "pt" in settings(arguments, "iommu") and not asking(arguments, vendor):
        yield "iommu=pt does nothing on aarch64: it is iommu.passthrough=1"
    if not vendor or passes_through(arguments, vendor):
        return
    for name, makers in SWITCHES.items():
        if vendor not in makers and "off" in settings(arguments, name):
            yield f"{name}=off does nothing on {vendor}"


def _idle(arguments: Cmdline, vendor: str) -> Iterator[str]:
    """Arguments without effect that nobody need take away."""
    if "on" in settings(arguments, "amd_iommu"):
        yield "amd_iommu=on"
    if vendor in AMD and "on" in settings(arguments, "intel_iommu"):
        yield "intel_iommu=on"
    if "on" in settings(arguments, "iommu"):
        yield "iommu=on"
    off = turned_off(arguments, vendor) if vendor else ""
    if off and any(each.passes for each in asking(arguments, vendor)):
        yield f"passthrough beside {off}"
