"""Are GPU and HCA near each other, are their links whole, and is BAR1 large enough?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolkit.checks.check import (
    Finding,
    Impact,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.role import role
from toolkit.facts.node import Node
from toolkit.facts.pci import PciFunction, PciTree
from toolkit.facts.topology import Distance, best_pairs
from toolkit.want import Role, Want

FLAT = "a guest's PCI tree is not the machine's"
MIB = 1 << 20


@check(
    "pcie.distance",
    impact=Impact.SLOW,
    source="NVIDIA/nccl src/graph/paths.cc; nvidia-smi topo -m",
    fix="move the HCA to the GPU's switch; jobs: choose HCAs by topology, never by index",
)
def distance(node: Node, want: Want) -> Finding:
    """Every GPU has an HCA behind a common switch (PIX or PXB).

    Through the root complex (PHB) NCCL does not use GPUDirect by default; between root
    complexes or sockets it is slow or refused.
    """
    if role(node, want) is Role.VM:
        return not_applicable(FLAT)
    pairs = best_pairs(node.pci, node.hcas)
    if not pairs:
        return not_applicable("no HCA; see rdma.devices")
    counts = Counter(each.distance.name for each in pairs)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    far = [each for each in pairs if each.distance > Distance.PXB]
    if far:
        return failed(
            f"{len(far)} of {len(pairs)} GPUs have no HCA behind their switch ({told})",
            expected="PIX or PXB for every GPU",
            details=tuple(f"{e.gpu.address}: {e.distance.name} to {e.hca.address}" for e in far),
        )
    return passed(f"GPU to nearest HCA: {told}")


@check(
    "pcie.link",
    impact=Impact.SLOW,
    source="/sys/bus/pci/devices/*/{current,max}_link_{speed,width}; imbue-ai/cluster-health",
    fix="reseat the card or its riser; link speed in the BIOS. No software mends it",
)
def link(node: Node, want: Want) -> Finding:
    """Links of GPUs, HCAs and the switches above them run at full width and speed.

    Full is what both ends can. An idle GPU lowers its speed to save power, so for a GPU
    only the width counts; on an HCA both do.
    """
    tree = node.pci
    lines = [line for function in (*tree.gpus, *node.hcas) for line in _links(tree, function)]
    told = list(dict.fromkeys(line for line in lines if line[1]))
    if not any(lower.now.width for _, _, lower in lines):
        if role(node, want) is Role.VM:
            return not_applicable(FLAT)
        return unknown("no link tells its width")
    if told:
        return failed(
            f"{len(told)} links below what both ends can",
            expected="full width and speed",
            details=tuple(f"{lower.address}: {why}" for _, why, lower in told),
        )
    slow = [gpu for gpu in tree.gpus if gpu.now.speed < gpu.best.speed]
    idle = f"; {len(slow)} GPUs at a lower speed, as idle ones are" if slow else ""
    return passed(f"{len({lower.address for _, _, lower in lines})} links at full width{idle}")


def _links(tree: PciTree, function: PciFunction) -> Iterator[tuple[PciFunction, str, PciFunction]]:
    """The physical links from a function up to its root port: upper end, trouble, lower end.

    Upwards a path alternates link, switch, link: the two ports of one switch have no link
    between them.
    """
    path = [function, *reversed(tree.bridges_above(function))]
    for lower, upper in zip(path[::2], path[1::2], strict=False):
        yield upper, _trouble(lower, upper), lower


def _trouble(lower: PciFunction, upper: PciFunction) -> str:
    width = min(lower.best.width, upper.best.width or lower.best.width)
    if lower.now.width and lower.now.width < width:
        return f"x{lower.now.width} of x{width}"
    speed = min(lower.best.speed, upper.best.speed or lower.best.speed)
    if not lower.is_gpu and lower.now.speed and lower.now.speed < speed:
        return f"{lower.now.speed:g} of {speed:g} GT/s"
    return ""


@check(
    "pcie.bar1",
    impact=Impact.BROKEN,
    source="NVIDIA/open-gpu-kernel-modules nv-pci.c; GPUDirect RDMA guide, BAR sizes",
    fix="Above 4G decoding and Resizable BAR on in the BIOS, and enough 64-bit MMIO space",
)
def bar1(node: Node, want: Want) -> Finding:
    """BAR1 of every GPU covers its memory.

    Pinned GPU memory is bounded by BAR1: behind a small one large registrations fail with
    "Cannot allocate memory", while small tests pass. BAR1 is NVIDIA's name; lspci may call
    it region 2.
    """
    sizes = {gpu.address: max((bar.size for bar in gpu.bars), default=0) for gpu in node.pci.gpus}
    if not all(sizes.values()):
        return unknown("a GPU tells no memory region", hint="dmesg | grep 'BAR 1'")
    tiny = {address: size for address, size in sizes.items() if size <= 256 * MIB}
    if tiny:
        return failed(
            f"256 MiB or less on {len(tiny)} of {len(sizes)} GPUs",
            expected="BAR1 at least as large as the GPU's memory",
            details=tuple(f"{address}: {size // MIB} MiB" for address, size in tiny.items()),
        )
    memory = {row.address: row.memory_mib for row in node.gpu_rows if row.memory_mib}
    missing = [address for address in sizes if address not in memory]
    if missing:
        return unknown(f"nvidia-smi does not tell the memory of {', '.join(missing)}")
    small = [address for address, size in sizes.items() if size < memory[address] * MIB]
    if small:
        return failed(
            f"smaller than the memory of {len(small)} of {len(sizes)} GPUs",
            expected="BAR1 at least as large as the GPU's memory",
            details=tuple(f"{a}: {sizes[a] // MIB} of {memory[a]} MiB" for a in small),
        )
    return passed(f"covers the memory of {len(sizes)} GPUs")
