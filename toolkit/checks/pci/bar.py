"""Is BAR1 large enough for the GPU's memory?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.compat.gpus import with_display_modes
from toolkit.errors import NoEvidence, NotCollected, Unparsable
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pcie_caps import Resizable
from toolkit.plural import counted
from toolkit.want import Want

MIB, GIB = 1 << 20, 1 << 30
DISPLAY = (
    "display mode keeps it small: with the node drained and the driver unloaded, "
    "displaymodeselector --gpumode compute (NVIDIA Developer) writes the card's EEPROM and turns "
    "its display outputs off; then a reboot"
)
ROOM = "Above 4G decoding and Resizable BAR on in the BIOS, and enough 64-bit MMIO space"


@check(
    "pcie.bar1",
    impact=Impact.SLOW,
    source="NVIDIA/open-gpu-kernel-modules nv-pci.c; GPUDirect RDMA guide, BAR sizes; "
    "NVIDIA Display Mode Selector Tool",
    fix=f"{ROOM}; on cards with a display mode (A40, L40, RTX A6000, RTX 6000 Ada) "
    "displaymodeselector --gpumode compute on a drained node: it writes the card's EEPROM",
)
def bar1(node: Node, want: Want) -> Finding:
    """BAR1 of every GPU covers its memory.

    Pinned GPU memory is bounded by BAR1: behind a small one large registrations fail with
    "Cannot allocate memory", while small tests pass, as do the buffers of NCCL, which are a
    few MiB each. BAR1 is NVIDIA's name; lspci may call it region 2. Where the GPU's memory is
    not told, the largest size that its Resizable BAR offers stands for it.
    """
    tree = _of_tree(node)
    untold = tree is None or not all(tree.values())
    if untold and not node.probed and (alone := node.bar1_alone):
        return _alone(alone)
    sizes = node.bar1_sizes if tree is None else tree
    if not sizes or not all(sizes.values()):
        return unknown("a GPU tells no memory region", hint="dmesg | grep 'BAR 1'")
    tiny = {address: size for address, size in sizes.items() if size <= 256 * MIB}
    if tiny:
        return failed(
            f"256 MiB or less on {len(tiny)} of {len(sizes)} GPUs",
            expected="BAR1 at least as large as the GPU's memory",
            hint=_offer(node, tiny),
            details=tuple(f"{address}: {size // MIB} MiB" for address, size in tiny.items()),
        )
    if tree is not None and (not node.has_gpu_rows or node.no_driver):
        return _by_capability(node, sizes)
    return _by_memory(node, sizes)


def _alone(sections: tuple[tuple[int, int], ...]) -> Finding:
    """Of sections without their GPUs: one that was cut away would be missed."""
    small = [
        f"{bar} MiB" + (f" of {memory}" if memory else "")
        for bar, memory in sections
        if bar <= 256 or bar < memory
    ]
    if small:
        return failed(
            f"smaller than its memory, or 256 MiB, on {len(small)} of {len(sections)} GPUs: "
            f"{small[0]}",
            expected="BAR1 at least as large as the GPU's memory",
            hint=ROOM,
            details=tuple(small[1:]),
        )
    told = "covers the memory" if all(memory for _, memory in sections) else "more than 256 MiB"
    return unknown(
        f"{told} on {counted(len(sections), 'GPU')}: {sections[0][0]} MiB; which they are, and "
        "whether there are more, is not told",
        hint="nvidia-smi -q -d MEMORY, whole",
    )


def _of_tree(node: Node) -> dict[str, int] | None:
    """The largest region of each GPU; None for loose files without the PCI bus."""
    try:
        gpus = node.pci.gpus
    except NotCollected:
        if node.probed:
            raise
        return None
    return {gpu.address: max((bar.size for bar in gpu.bars), default=0) for gpu in gpus}


def _by_memory(node: Node, sizes: dict[str, int]) -> Finding:
    memory = {row.address: row.memory_mib for row in node.gpu_rows if row.memory_mib}
    missing = [address for address in sizes if address not in memory]
    if missing:
        return unknown(f"nvidia-smi does not tell the memory of {', '.join(missing)}")
    small = {address: s for address, s in sizes.items() if s < memory[address] * MIB}
    if small:
        return failed(
            f"smaller than the memory of {len(small)} of {len(sizes)} GPUs",
            expected="BAR1 at least as large as the GPU's memory",
            hint=_offer(node, small),
            details=tuple(f"{a}: {size // MIB} of {memory[a]} MiB" for a, size in small.items()),
        )
    return passed(f"covers the memory of {len(sizes)} GPUs")


def _by_capability(node: Node, sizes: dict[str, int]) -> Finding:
    """Without nvidia-smi: a BAR at its largest size covers what the maker meant it to."""
    for address, size in sizes.items():
        most = _largest(node.pci_config.functions[address].resizable())
        if not most and node.no_driver:
            return not_applicable("no NVIDIA driver is loaded, which tells the GPUs' memory")
        if not most:
            return unknown(f"{address}: {size // MIB} MiB, and the memory of the GPU is not told")
        if size < most:
            return failed(
                f"{address}: {size // MIB} MiB of {most // MIB} that it offers",
                expected="BAR1 at its largest size, which covers the GPU's memory",
                hint=ROOM,
            )
    return passed(f"at the largest size that {counted(len(sizes), 'GPU', 'offers', 'offer')}")


def _largest(regions: tuple[Resizable, ...]) -> int:
    return max((each.largest for each in regions), default=0)


def _offer(node: Node, small: dict[str, int]) -> str:
    """What would enlarge it: another mode of the card, or what its capability allows; else ""."""
    try:
        if all(node.pci.functions[each].device in with_display_modes() for each in small):
            return DISPLAY
        offers = {_largest(node.pci_config.functions[each].resizable()) for each in small}
    except (NoEvidence, Unparsable):
        return ""  # a hint less: the failure itself rests on the regions alone
    if not all(offers):
        return "no Resizable BAR capability: the size is the card's own, or another mode's"
    return f"the card offers up to {min(offers) // GIB} GiB: {ROOM}"
