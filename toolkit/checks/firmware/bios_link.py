"""Does the firmware let links between GPUs and HCAs run as they can?"""

from __future__ import annotations

from toolkit.checks.check import Impact
from toolkit.checks.firmware.bios import bios
from toolkit.checks.firmware.bios_seen import BiosFinding, config_of, moot, right, unseen, wrong
from toolkit.checks.pci.pcie_caps import NO_HCA, gains, path_functions, registers
from toolkit.compat.bios import BiosRole
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pcie_caps import LinkControl, read_link_control
from toolkit.facts.pci.topology import links
from toolkit.plural import counted
from toolkit.want import Want

_SMALL, _USUAL = 128, 256  # bytes of payload


@bios(
    BiosRole.RELAXED_ORDERING,
    impact=Impact.SLOW,
    source="PCI Express Base Specification 7.5.3.4, Enable Relaxed Ordering",
    fix="PCIe relaxed ordering on in the BIOS, also for remote peer-to-peer; not the one of the "
    "processor's own DMA engine (IOAT, CB)",
)
def relaxed_ordering(node: Node, want: Want) -> BiosFinding:
    """Firmware leaves devices the right to write with relaxed ordering.

    They come out of reset with it: where GPUs and HCAs alike are without, the firmware took it
    away. An HCA alone has a switch of its own, judged by pcie.relaxed_ordering. What the root
    complex makes of such writes the system does not show.
    """
    functions = (*node.pci.gpus, *node.compute_hcas)
    told = {each.address: e.relaxed_ordering for each in functions if (e := registers(node, each))}
    if not told:
        return moot("no PCI Express GPU or HCA")
    off = tuple(address for address, on in told.items() if not on)
    gpus = [each.address for each in node.pci.gpus if each.address in told]
    if len(off) == len(told) and gpus and gains(node):
        return wrong(
            f"off on {counted(len(off), 'endpoint')}, GPUs and HCAs alike",
            expected="on: this CPU needs it for full write throughput",
            on=False,
            firm=False,
            details=off,
        )
    if off:
        why = "theirs alone: see pcie.relaxed_ordering" if gains(node) else "no matter to this CPU"
        return right(f"off on {counted(len(off), 'endpoint')}, {why}", firm=False, details=off)
    return right(f"on for {counted(len(told), 'endpoint')}", on=True, firm=False)


@bios(
    BiosRole.TEN_BIT_TAG,
    impact=Impact.BROKEN,
    source="PCI Express Base Specification 2.2.6.2 and 7.5.3.16; drivers/pci/pci.c",
    fix="10-bit tags on Auto in the BIOS, never forced",
)
def ten_bit_tag(node: Node, want: Want) -> BiosFinding:
    """Nobody asks with 10-bit tags whom a peer on its path cannot answer.

    The firmware may force them on towards the root complex, which has the completer; a peer
    behind the same switch that has not answers with tags cut short: errors and hangs.
    """
    pairs = node.near_pairs
    hcas = {each.address for each in node.compute_hcas}
    wrong_ones: dict[str, str] = {}
    functions = (*node.pci.gpus, *node.compute_hcas)
    told = {each.address: e for each in functions if (e := registers(node, each))}
    if not told:
        return moot("no PCI Express GPU or HCA")
    asking = {address for address, each in told.items() if each.tags_10bit}
    able = {address for address, e in told.items() if e.tags_10bit_completer is not False}
    for pair in pairs:
        if pair.hca.address not in hcas:
            continue
        for one, other in ((pair.gpu, pair.hca), (pair.hca, pair.gpu)):
            if one.address in asking and other.address not in able:
                wrong_ones[one.address] = f"{one.address} asks {other.address}, which cannot answer"
    if wrong_ones:
        return wrong(
            f"forced on {counted(len(wrong_ones), 'function')} whose peers have no completer",
            expected="10-bit tags between those alone that both can",
            on=True,
            firm=False,
            details=tuple(wrong_ones.values()),
        )
    if not asking:
        return right("off; pcie.tags tells whether shorter ones do", firm=False)
    return right(f"on for {len(asking)}, and every peer can answer", on=True, firm=False)


@bios(
    BiosRole.PAYLOAD,
    impact=Impact.SLOW,
    source="PCI Express Base Specification 7.5.3.4; kernel-parameters, pci=pcie_bus_*",
    fix="maximum payload on Auto or 256 bytes in the BIOS; or pci=pcie_bus_safe",
)
def payload(node: Node, want: Want) -> BiosFinding:
    """Payloads between GPUs and HCAs are not held below what every port on the way can.

    At 128 bytes a sixth of the link goes to headers. Whether sizes fit each other is
    judged by pcie.mps, read requests by pcie.mrrs.
    """
    if not node.compute_hcas:
        return moot(NO_HCA)
    told = {f.address: e for f in path_functions(node) if (e := registers(node, f))}
    if not told:
        return unseen("no PCI Express function between GPUs and HCAs")
    able = min(each.payload_max for each in told.values())
    low = tuple(address for address, each in told.items() if each.payload <= _SMALL)
    if low and able >= _USUAL:
        asked = [e for e in node.cmdline.listed("pci") if e.startswith("pcie_bus_")]
        if asked:
            return unseen(f"{_SMALL} bytes on {len(low)}: {asked[0]} on the command line")
        return wrong(
            f"{_SMALL} bytes on {len(low)} of {len(told)} functions, and all can {able}",
            expected=f"{_USUAL} bytes or more",
            details=low,
        )
    shown = ", ".join(str(size) for size in sorted({each.payload for each in told.values()}))
    return right(f"{shown} bytes on {counted(len(told), 'function')}; all can {able}")


@bios(
    BiosRole.ASPM,
    impact=Impact.SLOW,
    source="PCI Express Base Specification 7.5.3.7, ASPM Control; drivers/pci/pcie/aspm.c",
    fix="ASPM off in the BIOS for the slots of GPUs and HCAs; or pcie_aspm.policy=performance",
)
def aspm(node: Node, want: Want) -> BiosFinding:
    """No link on a GPU-HCA path rests by itself (ASPM).

    A link that rests takes microseconds to come back, and some devices lose it altogether.
    With the policy "default" the kernel keeps what the firmware set.
    """
    told = _controls(node)
    if not told:
        return moot("no PCI Express link of a GPU or HCA")
    resting = {address: each.aspm for address, each in told.items() if each.aspm}
    policy = node.setup.aspm_policy
    by = f"; the kernel's policy is {policy}" if policy not in {"", "default"} else ""
    if resting:
        return wrong(
            f"on for {len(resting)} of {len(told)} functions{by}",
            expected="no L0s or L1 on paths of GPUs and HCAs",
            on=True,
            firm=False,
            details=tuple(f"{address}: {states}" for address, states in resting.items()),
        )
    return right(f"off on {counted(len(told), 'function')}{by}", on=False, firm=False)


def _controls(node: Node) -> dict[str, LinkControl]:
    return {
        each.address: found
        for each in path_functions(node)
        if (found := read_link_control(config_of(node, each)))
    }


@bios(
    BiosRole.LINK_SPEED,
    impact=Impact.SLOW,
    source="PCI Express Base Specification 7.5.3.19, Target Link Speed",
    fix="link speed of the slot on Auto in the BIOS",
)
def link_speed(node: Node, want: Want) -> BiosFinding:
    """No port above a GPU or HCA is told to keep its link slower than both ends can.

    The upper end sets the target. What speed and width links have is judged by pcie.link.
    """
    told = _controls(node)
    tree, held, seen = node.pci, dict[str, str](), set[str]()
    for function in (*tree.gpus, *node.compute_hcas):
        for hop in links([function, *reversed(tree.bridges_above(function))]):
            upper, lower = told.get(hop.upper.address), told.get(hop.lower.address)
            if upper is None or lower is None or not upper.target:
                continue
            seen.add(hop.upper.address)
            best = min(upper.best, lower.best)
            if upper.target < best:
                held[hop.upper.address] = f"{upper.target:g} of {best:g} GT/s"
    if held:
        return wrong(
            f"{counted(len(held), 'port', 'is', 'are')} told to run slower than both ends can",
            expected="the highest speed of both ends",
            details=tuple(f"{address}: {words}" for address, words in held.items()),
        )
    if not seen:
        return unseen("no port above a GPU or HCA tells a target speed")
    return right(f"no target below what both ends can, on {counted(len(seen), 'link')}")
