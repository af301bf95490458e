"""Are the links whole, and free of errors?"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from toolkit.checks.check import (
    Finding,
    Gap,
    Impact,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.pci.pcie import FLAT
from toolkit.checks.rdma.pasted_ports import pcie_told
from toolkit.checks.role import role
from toolkit.compat.gpus import chip
from toolkit.errors import unless_cut
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction, PciTree
from toolkit.facts.pci.kernel_log import Errors, Severity
from toolkit.facts.pci.topology import Hop, links
from toolkit.facts.rdma.hca_roles import HcaUse
from toolkit.plural import counted
from toolkit.want import Role, Want

HOUR = 3600
NOISY = 100  # correctable errors an hour that wear and dust do not explain


@check(
    "pcie.link",
    impact=Impact.SLOW,
    source="/sys/bus/pci/devices/*/{current,max}_link_{speed,width}; pcie_print_link_status()",
    fix="reseat the card or its riser; link speed in the BIOS. No software mends it",
)
def link(node: Node, want: Want) -> Finding:
    """Links of GPUs, HCAs and the switches above them run at full width and speed.

    Full is what both ends can: a port above an older card is "downgraded" and in order. Cards
    such as L40S and A40 lower their speed while idle, all alike: where one alone is slower,
    whether it idles or cannot is not told. GPUs that are made for computing alone (A100,
    H100, B200) have one performance state and keep their speed: a lower one is a fault, as it
    is on an HCA. The HCA that manages the node is nobody's fault.
    """
    if not node.knows_pci and (elsewhere := _without_bus(node)):
        return elsewhere
    tree = node.pci
    hops = _hops(tree, (*tree.gpus, *_judged(node)))
    if not any(hop.lower.now.width for hop in hops):
        if role(node, want) is Role.VM:
            return not_applicable(FLAT)
        for hop in hops:
            if hop.lower.printed is not None:
                hop.lower.express()  # raises where lspci was not run as root
        return unknown("no link tells its width")
    told = {
        hop.lower.address: (hop, why) for hop in hops if (why := trouble(hop) or _stuck(node, hop))
    }
    alone = [a for a, (hop, _) in told.items() if hop.lower is hop.upper]
    if len(told) > len(alone):
        return failed(
            f"{counted(len(told) - len(alone), 'link')} below what both ends can",
            expected="full width and speed",
            details=tuple(f"{a}: {why}" for a, (_, why) in told.items() if a not in alone),
        )
    if alone:
        return unknown(f"{alone[0]}: {told[alone[0]][1]}; what the slot can is not told")
    return _whole(tree.gpus, len({hop.lower.address for hop in hops}))


def _without_bus(node: Node) -> Finding | None:
    gpus = unless_cut(lambda: node.smi_shown.gpus, ())
    slow = [f"{each.address}: {each.link}" for each in gpus if each.link]
    if slow:
        return failed(
            f"{counted(len(slow), 'GPU')} at work below what the slot can: {slow[0]}",
            expected="full width and speed",
            details=tuple(slow[1:]),
        )
    given = node.said_pcie_links or node.has_log
    return pcie_told(node) or _by_log(node.dmesg) if given else None


def _whole(gpus: tuple[PciFunction, ...], many: int) -> Finding:
    slow = [gpu for gpu in gpus if gpu.now.speed < gpu.best.speed]
    of, slower = Counter(g.device for g in gpus), Counter(g.device for g in slow)
    if odd := [g.address for g in slow if slower[g.device] * 2 <= of[g.device]]:
        return unknown(
            f"{', '.join(odd)}: slower than its twins; whether it idles or cannot is not told",
            hint="put load on it and read again: nvidia-smi -q -d PERFORMANCE",
        )
    idle = f"; {counted(len(slow), 'GPU')} at a lower speed, as idle ones are" if slow else ""
    return passed(f"{many} links at full width{idle}")


def _judged(node: Node) -> Iterator[PciFunction]:
    roles = node.hca_roles if node.has_rdma else {}
    for each in node.hcas:
        if each.address not in roles or roles[each.address].use is not HcaUse.MANAGEMENT:
            yield each


def _hops(tree: PciTree, functions: tuple[PciFunction, ...]) -> list[Hop]:
    """The links from each function up to its root port; one end alone where no port is told."""
    found: list[Hop] = []
    for function in functions:
        path = [function, *reversed(tree.bridges_above(function))]
        found += links(path) if len(path) > 1 else [Hop(function, function)]
    return found


def trouble(hop: Hop) -> str:
    """What is wrong with a link, in a few words; "" for nothing."""
    lower, best = hop.lower, hop.best
    if lower.now.width and lower.now.width < best.width:
        return f"x{lower.now.width} of x{best.width}"
    if not lower.is_gpu and lower.now.speed and lower.now.speed < best.speed:
        return f"{lower.now.speed:g} of {best.speed:g} GT/s"
    return ""


def _stuck(node: Node, hop: Hop) -> str:
    """The speed of a GPU that is slower than it can be, and of a kind that does not idle so."""
    gpu, best = hop.lower, hop.best
    kind = chip(gpu.device) if gpu.is_gpu and 0 < gpu.now.speed < best.speed else None
    # What NVIDIA's driver does not hold has its speed from whoever had it last.
    held = gpu.driver == "nvidia" or not node.drivers_told
    if kind is None or not kind.datacentre or kind.multi_node or not held:
        return ""
    return f"{gpu.now.speed:g} of {best.speed:g} GT/s; this GPU does not lower it while idle"


# "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:40:01.1
# (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)"; without "limited by" it is in order.
_BANDWIDTH = re.compile(
    r"mlx5_core ([0-9a-f:.]+): ([\d.]+ Gb/s) available PCIe bandwidth(, limited by (.+))?"
)


def _by_log(lines: tuple[str, ...]) -> Finding:
    found = {match[1]: match for line in lines if (match := _BANDWIDTH.search(line))}
    limited = {address: match for address, match in found.items() if match[3]}
    if limited:
        return failed(
            f"{counted(len(limited), 'HCA', 'gets less than it', 'get less than they')} can",
            expected="full width and speed",
            details=tuple(
                f"{a}: {match[2]}, limited by {match[4]}" for a, match in limited.items()
            ),
        )
    if not found:
        return unknown("the kernel log tells of no link", gap=Gap.LOG)
    told = ", ".join(f"{address} {match[2]}" for address, match in found.items())
    return unknown(
        f"{told}: all that the card can; whether its port is faster is not told",
        hint="compare with ibstat: a port rate above the PCIe bandwidth is lost",
    )


_OF_ERRORS = (
    "Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; PCIe AER howto; the kernel log: "
    "drivers/pci/pcie/{aer,dpc}.c, drivers/firmware/efi/cper.c"
)


@check(
    "pcie.fatal",
    impact=Impact.SICK,
    source=_OF_ERRORS,
    fix="reseat the card or its riser or cable; then the device below and the port above it",
)
def fatal(node: Node, want: Want) -> Finding:
    """No GPU, HCA or bridge above them had a fatal error of its link since boot.

    After one the link is reset and what the device did is lost; a job that used it hangs or dies.
    Where the firmware handles errors first, the kernel counts none and logs what it is told.
    """
    return _counted(
        node,
        "none fatal",
        lambda totals, _: [f"{totals.fatal} fatal"] if totals.fatal else [],
        lambda logged, _: [f"{count} fatal"] if (count := logged[Severity.FATAL]) else [],
    )


@check(
    "pcie.aer",
    impact=Impact.FRAGILE,
    source=_OF_ERRORS,
    fix="reseat the card or its riser or cable; then the device below and the port above it",
)
def aer(node: Node, want: Want) -> Finding:
    """No GPU, HCA or bridge above them reports errors of its link.

    Non-fatal ones lose data; corrected ones cost time alone, but a hundred an hour are a contact
    that will fail. Counted since boot, or told by the kernel log. Fatal ones are pcie.fatal's.
    """
    expected = f"none non-fatal, corrected ones below {NOISY} an hour"
    return _counted(
        node,
        expected,
        _errors,
        lambda logged, hours: _errors(
            Errors(logged[Severity.CORRECTED], logged[Severity.NONFATAL]), hours
        ),
    )


Words = list[str]


def _counted(
    node: Node,
    expected: str,
    words: Callable[[Errors, float], Words],
    of_log: Callable[[Counter[Severity], float], Words],
) -> Finding:
    """The errors of GPUs, HCAs and what is above them, by what is to be said of each."""
    if not node.knows_pci and (said := _by_log_alone(node, expected, of_log)) is not None:
        return said
    counts, tree = node.aer, node.pci
    totals = counts.totals if counts is not None else {}
    hours = max(1.0, counts.uptime / HOUR) if counts is not None else 1.0
    watched = {
        each.address
        for function in (*tree.gpus, *node.hcas)
        for each in (*tree.bridges_above(function), function)
    }
    logged: dict[str, Counter[Severity]] = defaultdict(Counter)
    for error in unless_cut(lambda: node.bus_errors, ()):
        logged[error.address][error.severity] += 1
    bad = {
        address: ", ".join(told)
        for address in sorted(watched)
        if (
            told := words(totals.get(address, Errors()), hours)
            or [f"{each} in the kernel log" for each in of_log(logged[address], hours)]
        )
    }
    if bad:
        return failed(
            f"errors on {len(bad)} of {len(watched)} functions in {counted(round(hours), 'hour')}",
            expected=expected,
            details=tuple(f"{address}: {told}" for address, told in bad.items()),
        )
    if counts is None or not counts.functions:
        return not_applicable("no function has AER counters: the firmware keeps them, or a guest")
    return passed(
        f"none of note on {counted(len(watched), 'function')} in {counted(round(hours), 'hour')}"
    )


# What a driver of GPUs or HCAs is told of an error at its own function, or at a port above it.
_CONCERNED = re.compile(
    r"\b(?:nvidia|amdgpu|mlx[45]_core|bnxt_en|ice|efa|ionic) [0-9a-f:.]+: .*(?:AER|PCIe Bus Error)"
)


def _by_log_alone(
    node: Node, expected: str, of_log: Callable[[Counter[Severity], float], Words]
) -> Finding | None:
    """Where nothing tells which functions there are, and a GPU or an HCA had to do with errors."""
    errors = unless_cut(lambda: node.bus_errors, ())
    if not errors or not any(map(_CONCERNED.search, node.dmesg)):
        return None
    logged: dict[str, Counter[Severity]] = defaultdict(Counter)
    for error in errors:
        logged[error.address][error.severity] += 1
    bad = [f"{at}: {', '.join(told)}" for at, each in logged.items() if (told := of_log(each, 1.0))]
    if not bad:
        return None
    return failed(f"in the kernel log {'; '.join(bad[:2])}", expected=expected, details=tuple(bad))


def _errors(totals: Errors, hours: float) -> Words:
    words = []
    if totals.nonfatal:
        words.append(f"{totals.nonfatal} non-fatal")
    if totals.correctable / hours >= NOISY:
        words.append(f"{totals.correctable / hours:.0f} corrected an hour")
    return words
