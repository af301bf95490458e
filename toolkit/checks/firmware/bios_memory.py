"""Does the firmware give GPUs and virtual functions the address space that they need?"""

from __future__ import annotations

from toolkit.checks.check import Impact
from toolkit.checks.firmware.bios import bios
from toolkit.checks.firmware.bios_seen import BiosFinding, config_of, moot, right, unseen, wrong
from toolkit.checks.pci.bar import GIB, MIB, ROOM
from toolkit.checks.role import role
from toolkit.compat.bios import BiosRole
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.facts.node.node import Node
from toolkit.facts.pci.kernel_log import homeless_bars, large
from toolkit.facts.pci.pcie_caps import read_sriov
from toolkit.facts.pci.windows import FOUR_GIB, Region, Window
from toolkit.plural import counted
from toolkit.want import Role, Want

_LARGE = 64 * MIB  # the memory window of a GPU, never its registers
# drivers/pci/iov.c, and its older wording.
_NO_VIRTUAL = "not enough MMIO resources for SR-IOV"
_NOT_ADDRESSABLE = "not CPU addressable"  # drivers/acpi/pci_root.c


def _large(node: Node) -> dict[str, Region | None]:
    """The memory window of each GPU; None where it shows none at all.

    :raises NoEvidence: where the regions of a GPU were not read.
    """
    found: dict[str, Region | None] = {}
    for gpu in node.pci.gpus:
        if gpu.address not in node.regions:
            raise NoEvidence(f"resources of {gpu.address}: not read")
        regions = [each for each in node.regions[gpu.address] if not each.of_virtual]
        largest = max(regions, key=lambda each: each.size, default=None)
        found[gpu.address] = largest if largest and largest.size >= _LARGE else None
    return found


def _homeless(node: Node) -> tuple[str, ...]:
    return tuple(
        f"{address}: {region.size // MIB} MiB without address" if region else f"{address}: none"
        for address, region in _large(node).items()
        if region is None or not region.placed
    )


def _logged(node: Node, words: str) -> tuple[str, ...]:
    """The last line of the log that says so; () where no log tells. A hint, and no proof."""
    return read_or(lambda: tuple(each.strip() for each in node.dmesg if words in each)[-1:], ())


def _refusals(node: Node) -> tuple[str, ...]:
    try:
        told = homeless_bars(node.dmesg)
    except (NoEvidence, Unparsable):
        return ()
    return tuple(told[gpu.address] for gpu in node.pci.gpus if gpu.address in told)


def _by_log(node: Node) -> BiosFinding:
    """From the kernel log alone.

    :raises NoEvidence: where it tells of no trouble, which proves nothing: logs are cut.
    """
    told = {a: line for a, line in homeless_bars(node.dmesg).items() if large(line)}
    if not told:
        raise NoEvidence("the kernel log tells of no memory without address, and of none with one")
    return wrong(
        f"{counted(len(told), 'function', 'has', 'have')} no address for memory, says the log",
        expected="a window above 4 GiB for each GPU",
        hint=f"{ROOM}; or pci=realloc",
        details=tuple(told.values()),
    )


@bios(
    BiosRole.ABOVE_4G,
    impact=Impact.BROKEN,
    source="/sys/bus/pci/devices/*/resource; /proc/iomem; GPUDirect RDMA guide, BAR sizes",
    fix="Above 4G decoding (64-bit MMIO) on in the BIOS, then a cold boot",
)
def above_4g(node: Node, want: Want) -> BiosFinding:
    """GPUs have their memory window above 4 GiB, where there is room for it.

    Below 4 GiB a window of more than some 256 MiB fits nowhere. A window without any address
    is a GPU that no peer can reach. That the kernel could not place it at first, and then
    did, is in order: what counts is where it lies now.
    """
    if not node.knows_pci and node.has_log:
        return _by_log(node)
    if not node.pci.gpus:
        return moot("no GPU in what lspci shows here")
    if homeless := _homeless(node):
        return wrong(
            f"{len(homeless)} of {len(node.pci.gpus)} GPUs have no address for their memory",
            expected="a window above 4 GiB for each",
            hint=f"{ROOM}; or pci=realloc",
            details=(*homeless, *_refusals(node)),
        )
    low = [a for a, region in _large(node).items() if region and region.start < FOUR_GIB]
    if not low:
        return right(f"above 4 GiB on {counted(len(node.pci.gpus), 'GPU')}", on=True)
    if not node.windows:
        raise NoEvidence("/proc/iomem: names no window of a host bridge")
    if any(each.high for each in node.windows):
        return right(
            "host bridges have windows above 4 GiB; "
            f"{counted(len(low), 'GPU', 'lies', 'lie')} below",
            on=True,
            details=tuple(low),
        )
    return wrong(
        "no host bridge has a window above 4 GiB",
        expected="64-bit windows above 4 GiB",
        on=False,
        details=tuple(f"{address}: below 4 GiB" for address in low),
    )


@bios(
    BiosRole.MMIO_WINDOW,
    impact=Impact.BROKEN,
    source="/proc/iomem; address sizes of /proc/cpuinfo; drivers/acpi/pci_root.c and pci/iov.c",
    fix="MMIO base and size in the BIOS: below the processor's address width, and as large as all "
    "BARs together, those of virtual functions included",
)
def mmio_window(node: Node, want: Want) -> BiosFinding:
    """The windows above 4 GiB hold all BARs, and the processor can address them.

    A base beyond the processor's physical address width is ignored by the kernel, and what
    lies there is lost. Too small a window leaves BARs without address: those of GPUs, or of
    virtual functions that guests were to get.
    """
    windows, bits = node.windows, node.cpu.address_bits
    high = [each for each in windows if each.high]
    beyond = [each for each in windows if bits and each.end >> bits]
    if beyond:
        return wrong(
            f"{counted(len(beyond), 'window', 'ends', 'end')} beyond the processor's {bits} "
            "address bits",
            expected=f"all windows below {1 << bits:#x}",
            hint="a lower MMIO base in the BIOS",
            details=(*map(_shown, beyond), *_logged(node, _NOT_ADDRESSABLE)),
        )
    if homeless := _homeless(node):
        return _no_room(node, homeless, high)
    if not high:
        return unseen("no host bridge has a window above 4 GiB: see bios.above_4g")
    if lacking := _full(node, high):
        return wrong(
            f"{counted(len(lacking), 'window', 'holds', 'hold')} less than the BARs below",
            expected="room for every BAR",
            details=lacking,
        )
    total = sum(each.size for each in high) // GIB
    told = f"of {bits} address bits" if bits else "address bits not told"
    return right(
        f"{counted(len(high), 'window')} of {total} GiB in all, up to "
        f"{max(each.end for each in high):#x}; {told}",
        details=tuple(map(_shown, high)),
    )


def _no_room(node: Node, homeless: tuple[str, ...], high: list[Window]) -> BiosFinding:
    # The kernel leaves out of its map what the processor cannot address, and says so.
    ignored = _logged(node, _NOT_ADDRESSABLE)
    return wrong(
        f"{len(homeless)} of {len(node.pci.gpus)} GPUs found no room",
        expected="room for every BAR",
        hint="a lower MMIO base in the BIOS"
        if ignored
        else "a larger MMIO window in the BIOS; or pci=realloc",
        details=(*homeless, *map(_shown, high), *ignored),
    )


def _shown(window: Window) -> str:
    return f"{window.bus}: {window.start:#x} to {window.end:#x}, {window.size // GIB} GiB"


def _full(node: Node, high: list[Window]) -> tuple[str, ...]:
    """Root buses whose large BARs need more than their windows have: they lie elsewhere."""
    room: dict[str, int] = {}
    for each in high:
        room[each.bus] = room.get(each.bus, 0) + each.size
    needed: dict[str, int] = {}
    for address, regions in node.regions.items():
        function = node.pci.functions.get(address)
        root = function.parents[0].removeprefix("pci") if function and function.parents else ""
        placed = sum(each.size for each in regions if each.placed and each.start >= FOUR_GIB)
        needed[root] = needed.get(root, 0) + placed
    return tuple(
        f"{bus}: {needed[bus] // MIB} MiB in a window of {size // MIB}"
        for bus, size in room.items()
        if needed.get(bus, 0) > size
    )


@bios(
    BiosRole.RESIZABLE_BAR,
    impact=Impact.SLOW,
    source="PCI Express Base Specification 7.8.6; drivers/pci/rebar.c; GPUDirect RDMA guide",
    fix=f"Resizable BAR on in the BIOS; {ROOM}",
)
def resizable_bar(node: Node, want: Want) -> BiosFinding:
    """GPUs whose BAR can be resized show all of their memory.

    The firmware resizes before the system starts; where it does not, a GPU shows 256 MiB,
    and peers reach no more than that. Most data-centre GPUs have a BAR of full size and
    nothing to resize.
    """
    small, full = [], 0
    # Bytes of memory by GPU, as far as nvidia-smi tells.
    if not node.has_gpu_rows or node.no_driver:
        memory = {}
    else:
        memory = {each.address: each.memory_mib * MIB for each in node.gpu_rows if each.memory_mib}
    for gpu in node.pci.gpus:
        offers = node.pci_config.functions[gpu.address].resizable()
        best = max(offers, key=lambda each: each.largest, default=None)
        if best is None:
            continue
        if best.now < min(best.largest, memory.get(gpu.address) or best.largest):
            small.append(f"{gpu.address}: {best.now // MIB} MiB of {best.largest // MIB}")
        else:
            full += 1
    if small:
        return wrong(
            f"not resized on {len(small)} of {len(node.pci.gpus)} GPUs",
            expected="BARs that show all of the GPU's memory",
            on=False,
            firm=False,
            hint=ROOM,
            details=tuple(small),
        )
    if not full:
        return moot("no GPU here has a BAR that can be resized")
    return right(f"resized on {counted(full, 'GPU')}, or large enough", on=True, firm=False)


@bios(
    BiosRole.SR_IOV,
    impact=Impact.BROKEN,
    source="drivers/pci/iov.c; PCI Express Base Specification 9.3.3",
    fix="SR-IOV on in the BIOS, and room for the BARs of virtual functions; whether an HCA offers "
    "them at all is its own: mlxconfig -d DEVICE set SRIOV_EN=1 NUM_OF_VFS=8 writes its settings, "
    "in force after a cold boot with the node drained",
)
def sr_iov(node: Node, want: Want) -> BiosFinding:
    """On a host of guests, virtual functions of HCAs have room for their BARs.

    The firmware keeps that room only with SR-IOV on; else creating them fails with "not
    enough MMIO resources for SR-IOV". Bare metal needs none.
    """
    if role(node, want) is not Role.VM_HOST:
        return moot("no guests here: virtual functions are not needed")
    offers = {
        each.address: found
        for each in node.pci.adapters
        if not each.virtual and (found := read_sriov(config_of(node, each))) and found.total
    }
    if not offers:
        return unseen("no HCA offers virtual functions: mlxconfig SRIOV_EN, before any BIOS")
    # Most kernels forget a region that found no room: only one with a place has it.
    rooms = {a: [e for e in node.regions.get(a, ()) if e.of_virtual] for a in offers}
    lacking = [a for a, room in rooms.items() if not room or not all(e.placed for e in room)]
    if lacking:
        return wrong(
            f"no room for virtual functions on {len(lacking)} of {len(offers)} HCAs",
            expected="addresses for the BARs of virtual functions",
            on=False,
            firm=False,
            details=(*lacking, *_logged(node, _NO_VIRTUAL)),
        )
    return right(
        f"room for virtual functions on {counted(len(offers), 'HCA')}", on=True, firm=False
    )
