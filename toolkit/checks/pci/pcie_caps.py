"""Do the PCI Express registers of GPU, HCA and the ports between suit peer traffic?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.rdma.pasted_ports import ordering_told
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.pcie_caps import Express
from toolkit.facts.pci.topology import COHERENT_PORTS, Distance
from toolkit.plural import counted
from toolkit.want import Role, Want

OWN = frozenset({Role.BARE_METAL, Role.VM_HOST})  # a guest sees registers of its hypervisor
NO_HCA = "no HCA; see rdma.devices"
DEFAULT_REQUEST, TUNED_REQUEST = 512, 4096


def registers(node: Node, function: PciFunction) -> Express | None:
    """The registers of one function, read with its config space."""
    return node.pci_config.functions[function.address].express()


@check(
    "pcie.mps",
    impact=Impact.BROKEN,
    roles=OWN,
    source="PCI Express Base Specification 7.5.3.4; kernel-parameters, pci=pcie_bus_safe",
    fix="one maximum payload in the BIOS, or pci=pcie_bus_safe on the kernel command line",
)
def mps(node: Node, want: Want) -> Finding:
    """Nobody on a GPU-HCA path sends larger packets than the others take.

    A receiver treats a packet above its own maximum payload size as malformed: an
    uncorrectable error. Behind one switch the two devices talk to each other directly, so
    what suits each towards the root complex may yet not fit (pci=pcie_bus_perf does that).
    """
    path = path_functions(node) if node.compute_hcas else ()
    if lost := [each.address for each in path if not each.parents]:
        return unknown(f"where {lost[0]} hangs is not told", hint="give the whole lspci -vvv")
    sizes: dict[str, int] = {}
    for function in path:
        express = registers(node, function)
        if express is not None:
            sizes[function.address] = express.payload
    if not sizes:
        return not_applicable(NO_HCA)
    wrong = _too_large(node, sizes)
    shown = ", ".join(f"{size}" for size in sorted(set(sizes.values())))
    if wrong:
        return failed(
            f"{len(wrong)} senders of too large packets (payloads of {shown} bytes)",
            expected="no sender above a receiver on its path",
            details=tuple(wrong.values()),
        )
    if not node.pci.whole:
        return unknown(f"{shown} bytes in this excerpt; a path has two ends", hint="lspci -vvv")
    return passed(f"{shown} bytes on {counted(len(sizes), 'function')}")


def path_functions(node: Node) -> tuple[PciFunction, ...]:
    """GPUs, the HCAs that serve them, and the bridges above both."""
    tree = node.pci
    found: dict[str, PciFunction] = {}
    for function in (*tree.gpus, *node.compute_hcas):
        for each in (*tree.bridges_above(function), function):
            found.setdefault(each.address, each)
    return tuple(found.values())


def _too_large(node: Node, sizes: dict[str, int]) -> dict[str, str]:
    """By sender: whom it overwhelms. Judged are its own ports, and peers below a switch."""
    tree = node.pci
    ways: list[tuple[PciFunction, tuple[PciFunction, ...]]] = [
        (each, tree.bridges_above(each)[::-1]) for each in (*tree.gpus, *node.compute_hcas)
    ]
    for pair in node.tree_pairs:
        if pair.distance <= Distance.PXB and pair.hca.address in sizes:
            ways.append((pair.gpu, (*pair.bridges, pair.hca)))
            ways.append((pair.hca, (*pair.bridges, pair.gpu)))
    wrong: dict[str, str] = {}
    for sender, receivers in ways:
        own = sizes.get(sender.address, 0)
        for each in receivers:
            if sizes.get(each.address, own) < own:
                told = f"{sender.address} sends {own} bytes, {each.address} takes"
                wrong.setdefault(sender.address, f"{told} {sizes[each.address]}")
    return wrong


@check(
    "pcie.mrrs",
    impact=Impact.SLOW,
    roles=OWN,
    source="PCI Express Base Specification 7.5.3.4; Mellanox/nic-configuration-operator",
    fix="setpci -s ADDRESS CAP_EXP+8.w=5000:7000 in a unit that runs at boot, before any job; a "
    "reset of the HCA undoes it",
)
def mrrs(node: Node, want: Want) -> Finding:
    """HCAs that serve GPUs may ask for at least 512 bytes at once.

    512 is what the kernel and the firmware leave, and in order; 4096 is the tuned value for
    large reads. Less makes the HCA read in crumbs.
    """
    sizes = {each.address: each for each in node.compute_hcas}
    told = {a: e.read_request for a, each in sizes.items() if (e := registers(node, each))}
    if not told:
        return not_applicable(NO_HCA)
    small = {address: size for address, size in told.items() if size < DEFAULT_REQUEST}
    if small:
        return failed(
            f"below {DEFAULT_REQUEST} bytes on {len(small)} of {len(told)} HCAs",
            expected=f"{TUNED_REQUEST} bytes, or at least {DEFAULT_REQUEST}",
            details=tuple(f"{address}: {size} bytes" for address, size in small.items()),
        )
    untuned = [
        f"{a}: {size}; {TUNED_REQUEST} suits large reads better"
        for a, size in told.items()
        if size < TUNED_REQUEST
    ]
    shown = ", ".join(f"{size}" for size in sorted(set(told.values())))
    return passed(f"{shown} bytes on {counted(len(told), 'HCA')}", details=tuple(untuned))


@check(
    "pcie.relaxed_ordering",
    impact=Impact.SLOW,
    roles=OWN,
    source="PCI Express Base Specification 7.5.3.4, Enable Relaxed Ordering; setpci(8)",
    fix="PCIe Relaxed Ordering on in the BIOS; or setpci -s ADDRESS CAP_EXP+8.w=0010:0010 in a "
    "unit that runs at boot, before any job; a reset of the HCA undoes it",
)
def relaxed_ordering(node: Node, want: Want) -> Finding:
    """HCAs that serve GPUs may write with relaxed ordering, where the CPU gains by it.

    AMD EPYC and Grace lose much write throughput without; Intel is indifferent. What an
    HCA may do is one thing; NCCL asks for it by itself since 2.12, for each of its regions. The
    firmware's PCI_WR_ORDERING is another switch: 1 forces it on all, which software that polls
    the last byte does not stand.
    """
    if said := ordering_told(node):
        return said
    told = {
        each.address: express.relaxed_ordering
        for each in node.compute_hcas
        if (express := registers(node, each))
    }
    if not told:
        return not_applicable(NO_HCA)
    off = [address for address, on in told.items() if not on]
    if off and gains(node):
        return failed(
            f"off on {len(off)} of {len(told)} HCAs",
            expected="on: this CPU needs it for full write throughput",
            details=tuple(off),
        )
    if off:
        return passed(
            f"off on {counted(len(off), 'HCA')}, which this CPU does not mind", details=tuple(off)
        )
    return passed(f"on for {counted(len(told), 'HCA')}")


def gains(node: Node) -> bool:
    """Whether the processor loses much write throughput to strict ordering."""
    ports = node.pci.functions.values()
    grace = any(f.vendor == 0x10DE and f.is_bridge and f.device in COHERENT_PORTS for f in ports)
    return grace or node.cpu.vendor == "AuthenticAMD"


@check(
    "pcie.tags",
    impact=Impact.SLOW,
    roles=OWN,
    source="PCI Express Base Specification 2.2.6.2 and 7.5.3; drivers/pci/probe.c",
    fix="extended tags on in the BIOS; drop what turns them off from the kernel command line",
)
def tags(node: Node, want: Want) -> Finding:
    """GPUs and HCAs use the 8-bit tags that they have, or longer ones.

    With 5 bits only 32 reads are under way at once, too few for a fast link. The kernel
    turns 8-bit tags on by itself; 10-bit ones are up to the firmware.
    """
    functions = (*node.pci.gpus, *node.compute_hcas)
    told = {each.address: e for each in functions if (e := registers(node, each))}
    if not told:
        return not_applicable("no PCI Express GPU or HCA")
    short = [
        address
        for address, each in told.items()
        if each.tags_8bit_possible and not each.tags_8bit and not each.tags_10bit
    ]
    if short:
        return failed(
            f"5-bit tags on {len(short)} of {len(told)} GPUs and HCAs",
            expected="8-bit tags, which they have",
            details=tuple(short),
        )
    able = [each for each in told.values() if each.tags_10bit_requester]
    longer = f"10-bit tags: on for {sum(bool(e.tags_10bit) for e in able)} of {len(able)} that can"
    return passed(
        f"8-bit tags or as many as {counted(len(told), 'function', 'has', 'have')}",
        details=(longer,),
    )
