"""What kind of board connects GPUs with HCAs: the right ACS and ATS values depend on it.

The kinds are those that rdma-core's kernel-boot/rdma_topo tells apart, and two more that
it does not judge. PCI ids as there and in include/linux/pci_ids.h; chipsets as in
NVIDIA/open-gpu-kernel-modules nvcst.h and osinit.c, _checkP2pChipsetSupport.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.facts.pci.functions import MELLANOX, NVIDIA, PciFunction, PciTree
from toolkit.facts.pci.topology import COHERENT_PORTS, is_superchip

DATA_DIRECT_ID = 0x2100  # ConnectX-8's second DMA function
_GRACE = frozenset({0x22B1, 0x22B2, 0x22B8})
_VERA = frozenset({0x2F95, 0x2F96})
_CX_SWITCH = frozenset({0x197C, 0x1979})
_BF3_SWITCH = 0x197B
_CX_NIC = frozenset({0x1021, 0x1023, 0x1025})  # ConnectX-7, -8 and -9
_AMPERE = 0x1DEF
_ALTRA = frozenset({0xE000, 0xE00D, 0xE00E, 0xE010, 0xE100, 0xE110})
_AMPERE_ONE = range(0xE200, 0xE208)  # AmpereOne-160; its larger sister is not refused


class Platform(StrEnum):
    DATA_DIRECT = "data-direct"  # a DMA function of ConnectX-8 beside the GPU
    INLINE = "inline"  # NIC and GPU below one ConnectX switch
    COHERENT = "NUMA-attached"  # GPU directly below a root port of Grace or Vera
    SWITCHED = "PCIe switches"  # GPU and HCA below one ordinary switch
    ROOT_PORTS = "root ports"  # each GPU and HCA on root ports of its own


def is_grace_port(function: PciFunction) -> bool:
    """A root port of Grace or Vera."""
    return function.vendor == NVIDIA and function.device in COHERENT_PORTS


def is_vera_port(function: PciFunction) -> bool:
    return function.vendor == NVIDIA and function.device in _VERA


def is_cx_switch(function: PciFunction) -> bool:
    """A port of the switch inside a ConnectX."""
    return function.vendor == MELLANOX and function.device in _CX_SWITCH


def is_nic_switch(function: PciFunction) -> bool:
    """A port of the switch inside a ConnectX or a BlueField-3."""
    return function.vendor == MELLANOX and function.device in {*_CX_SWITCH, _BF3_SWITCH}


def is_cx_nic(function: PciFunction) -> bool:
    """A physical function of a ConnectX that the table of rdma_topo knows."""
    return function.vendor == MELLANOX and function.device in _CX_NIC and not function.virtual


def is_data_direct(function: PciFunction) -> bool:
    return function.vendor == MELLANOX and function.device == DATA_DIRECT_ID


def is_coherent_gpu(function: PciFunction) -> bool:
    """A GPU that shares memory with its processor over NVLink-C2C."""
    return function.is_gpu and is_superchip(function.device)


def refusing_chipset(tree: PciTree) -> str:
    """The chipset that the NVIDIA driver takes for incapable of PCIe peer-to-peer; "" if none."""
    for each in tree.functions.values():
        if each.vendor == NVIDIA and each.device in _GRACE:
            return "Grace"
        if each.vendor == _AMPERE and each.device in _ALTRA:
            return "Ampere Altra"
        if each.vendor == _AMPERE and each.device in _AMPERE_ONE:
            return "AmpereOne"
    return ""


def common_bridge(tree: PciTree, one: PciFunction, other: PciFunction) -> PciFunction | None:
    """The lowest bridge that both are below; None where only the root complex joins them."""
    shared = None
    for ours, theirs in zip(one.parents, other.parents, strict=False):
        if ours != theirs:
            break
        shared = tree.functions.get(ours)
    return shared


def port_towards(tree: PciTree, above: PciFunction, function: PciFunction) -> PciFunction | None:
    """The bridge directly below ``above`` on the way down to ``function``."""
    below = function.parents[function.parents.index(above.address) + 1 :]
    return tree.functions.get(below[0]) if below else None


def root_port(tree: PciTree, function: PciFunction) -> PciFunction | None:
    """None for a function on the root bus itself."""
    return next(iter(tree.bridges_above(function)), None)


class InlinePair(Struct, frozen=True):
    """A GPU and a NIC below one ConnectX switch."""

    gpu: PciFunction
    nic: PciFunction
    gpu_port: PciFunction
    nic_port: PciFunction
    root: PciFunction


def inline_pairs(tree: PciTree) -> tuple[InlinePair, ...]:
    """Each GPU below the switch of a ConnectX, with the NICs below that switch."""
    nics = [each for each in tree.functions.values() if is_cx_nic(each)]
    found = []
    for gpu in tree.gpus:
        for nic in nics:
            shared = common_bridge(tree, gpu, nic)
            root = root_port(tree, gpu)
            if shared is None or root is None or not is_cx_switch(shared):
                continue
            ports = (port_towards(tree, shared, gpu), port_towards(tree, shared, nic))
            if ports[0] is not None and ports[1] is not None:
                found.append(InlinePair(gpu, nic, ports[0], ports[1], root))
    return tuple(found)


def classify(tree: PciTree) -> Platform:
    """The kind of board, told by ids and by the places of functions.

    The order is that of rdma_topo: a DMA function decides before all else.
    """
    functions = tree.functions.values()
    if any(is_data_direct(each) for each in functions):
        return Platform.DATA_DIRECT
    for gpu in tree.gpus:
        above = tree.bridges_above(gpu)
        if len(above) == 1 and is_grace_port(above[0]):
            return Platform.COHERENT
    if inline_pairs(tree):
        return Platform.INLINE
    for gpu in tree.gpus:
        if any(common_bridge(tree, gpu, nic) for nic in tree.adapters):
            return Platform.SWITCHED
    return Platform.ROOT_PORTS
