"""Which ACS bits a platform wants on which bridge.

The masks are those of rdma-core's kernel-boot/rdma_topo, written as the kernel's config_acs
takes them: seven marks from DirectTrans down to SrcValid, where "x" leaves a bit alone.
Sources: there; Documentation/admin-guide/kernel-parameters, pci=.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.pci.config_space import Acs, AcsRegisters
from toolkit.facts.pci.functions import PciFunction, PciTree
from toolkit.facts.pci.platform import (
    Platform,
    common_bridge,
    inline_pairs,
    is_cx_nic,
    is_data_direct,
    is_grace_port,
    is_nic_switch,
    is_vera_port,
    port_towards,
    root_port,
)
from toolkit.facts.versions import Version

CLEAR = "xx000x0"
NO_REDIRECT = "x0x00xx"  # on ordinary switches the rest does no harm
_ISOLATED, _ISOLATED_VERA = "xx111x1", "xx101x1"  # Vera cannot redirect completions
NAMES = {
    Acs.SOURCE_VALIDATION: "SrcValid",
    Acs.TRANSLATION_BLOCKING: "TransBlk",
    Acs.REQUEST_REDIRECT: "ReqRedir",
    Acs.COMPLETION_REDIRECT: "CmpltRedir",
    Acs.UPSTREAM_FORWARDING: "UpstreamFwd",
    Acs.EGRESS_CONTROL: "EgressCtrl",
    Acs.DIRECT_TRANSLATED: "DirectTrans",
}


def names_of(bits: Acs) -> str:
    """As lspci abbreviates them: "ReqRedir CmpltRedir"."""
    return " ".join(name for bit, name in NAMES.items() if bits & bit)


def kernel_default(bridge: PciFunction) -> str:
    """What the kernel sets on a bridge when an IOMMU asks for ACS."""
    return _ISOLATED_VERA if is_vera_port(bridge) else _ISOLATED


@cache  # there are some ten masks
def _marked(mask: str, mark: str) -> Acs:
    bits = enumerate(reversed(mask))
    return Acs(sum(1 << bit for bit, each in bits if each == mark))


class Demand(Struct, frozen=True):
    """What the table wants of one bridge."""

    bridge: PciFunction
    mask: str  # "xx110x1"
    place: str  # "towards GPU 0000:18:00.0"

    @property
    def on(self) -> Acs:
        return _marked(self.mask, "1")

    @property
    def off(self) -> Acs:
        return _marked(self.mask, "0")

    def trouble(self, registers: AcsRegisters | None) -> str:
        """What is wrong with the bridge; "" where it is as the table wants it."""
        if registers is None:
            return "no ACS capability" if self.on else ""
        missing, extra = self.on & ~registers.control, self.off & registers.control
        told = [f"{names_of(missing)} off"] if missing else []
        told += [f"{names_of(extra)} on"] if extra else []
        return ", ".join(told)


def demands(tree: PciTree, platform: Platform, *, virtualised: bool) -> tuple[Demand, ...]:
    """What the table wants, one demand a bridge; empty for a platform that is not in it.

    :param tree: with config space, for ports off the path count only where they have ACS.
    :param virtualised: whether the node hosts guests; it counts on the inline platform alone.
    :raises NoEvidence: where the config space of a port was not read as far as that.
    """
    own = _own_demands(tree, platform, virtualised)
    if own is None:
        return ()
    taken: dict[str, Demand] = {}
    for demand in own:
        taken.setdefault(demand.bridge.address, demand)
    isolated = platform is not Platform.INLINE or virtualised
    for each in tree.functions.values():
        if each.address in taken or not (is_nic_switch(each) or is_grace_port(each)):
            continue
        if each.acs_registers() is not None:
            mask = kernel_default(each) if isolated else CLEAR
            taken[each.address] = Demand(each, mask, "another port")
    return tuple(taken[address] for address in sorted(taken))


def _own_demands(tree: PciTree, platform: Platform, virtualised: bool) -> list[Demand] | None:
    if platform is Platform.COHERENT:
        return []
    if platform is Platform.DATA_DIRECT:
        return [each for pair in direct_pairs(tree) for each in _direct(tree, pair)]
    if platform is not Platform.INLINE:
        return None
    return [
        Demand(bridge, mask if virtualised else CLEAR, place)
        for pair in inline_pairs(tree)
        for bridge, mask, place in (
            (pair.nic_port, "1x111x1", f"towards HCA {pair.nic.address}"),
            (pair.gpu_port, kernel_default(pair.gpu_port), f"towards GPU {pair.gpu.address}"),
            (pair.root, kernel_default(pair.root), "root port"),
        )
    ]


def _direct(tree: PciTree, pair: tuple[PciFunction, PciFunction]) -> list[Demand]:
    dma, gpu = pair
    shared, root = common_bridge(tree, dma, gpu), root_port(tree, dma)
    if shared is None or root is None:
        return []
    wanted = (
        (port_towards(tree, shared, dma), "xx110x1", f"towards DMA function {dma.address}"),
        (port_towards(tree, shared, gpu), "xx101x1", f"towards GPU {gpu.address}"),
        # Without SrcValid there the whole segment falls into one IOMMU group.
        (root, "xx111x0", "root port"),
    )
    return [Demand(bridge, mask, place) for bridge, mask, place in wanted if bridge is not None]


def direct_pairs(tree: PciTree) -> tuple[tuple[PciFunction, PciFunction], ...]:
    """Each DMA function with the one GPU below its root port.

    :raises Unparsable: where the board is not laid out so: the table then says nothing.
    """
    pairs = []
    for dma in tree.functions.values():
        if not is_data_direct(dma):
            continue
        root = root_port(tree, dma)
        below = [gpu for gpu in tree.gpus if root is not None and root_port(tree, gpu) == root]
        if len(below) != 1:
            raise Unparsable("data-direct board", f"{dma.address} with {len(below)} GPUs beside it")
        pairs.append((dma, below[0]))
    return tuple(pairs)


def group_troubles(tree: PciTree, platform: Platform, *, virtualised: bool) -> tuple[str, ...]:
    """Where IOMMU groups are not as the table wants them."""
    if platform is Platform.DATA_DIRECT:
        return tuple(
            f"DMA function {dma.address} in group {dma.group or 'none'}, GPU {gpu.address} in "
            f"{gpu.group or 'none'}: one group wanted"
            for dma, gpu in direct_pairs(tree)
            if dma.group != gpu.group or not dma.group
        )
    if platform is Platform.INLINE:
        return tuple(
            f"HCA {p.nic.address} in group {p.nic.group or 'none'}, GPU {p.gpu.address} in "
            f"{p.gpu.group or 'none'}: {'two groups' if virtualised else 'one group'} wanted"
            for p in inline_pairs(tree)
            if not _inline_group_fits(p.nic.group, p.gpu.group, virtualised)
        )
    return _shared_groups(tree) if platform is Platform.COHERENT else ()


def _inline_group_fits(nic: str, gpu: str, virtualised: bool) -> bool:
    return bool(nic and gpu and nic != gpu) if virtualised else nic == gpu


def _shared_groups(tree: PciTree) -> tuple[str, ...]:
    told, seen = [], dict[str, str]()
    for each in tree.functions.values():
        if not (each.is_gpu or is_cx_nic(each)):
            continue
        if not each.group:
            told.append(f"{each.address} in no group: a group of its own wanted")
        elif each.group in seen:
            told.append(f"{each.address} in group {each.group} with {seen[each.group]}")
        seen.setdefault(each.group, each.address)
    return tuple(told)


def config_acs(wanted: tuple[Demand, ...]) -> str:
    """The argument for every bridge that must differ from the kernel's default; "" for none."""
    parts = [f"{d.mask}@{d.bridge.address}" for d in wanted if d.mask != kernel_default(d.bridge)]
    return "pci=config_acs=" + ";".join(parts) if parts else ""


def disable_acs_redir(addresses: tuple[str, ...]) -> str:
    return "pci=disable_acs_redir=" + ";".join(addresses)


# Which argument sets ACS on which kernel.
# from           argument
# 4.19           pci=disable_acs_redir=      clears redirects, leaves the rest
# 6.11           pci=config_acs=             any bit; and both go through one function
# 6.11 to 6.14   neither works               but for 6.12.23, 6.13.11, 6.14.2 and later
#
# Of the 6.11 to 6.14 that are not mended, config_acs gives up at its second device and takes what
# is to be off from the firmware; disable_acs_redir sets all other bits, and leaves redirects as the
# firmware had them. Sources: kernel commits aaca43fda742 (4.19), 47c8846a49ba (6.11) and
# 9cf8a952d57b (6.15; in stable since 6.12.23, 6.13.11 and 6.14.2).
class AcsArgument(StrEnum):
    """An option of ``pci=`` that sets ACS."""

    REDIRECT = "disable_acs_redir"
    CONFIG = "config_acs"


_FIRST, _REWRITTEN, _MENDED = (4, 19), (6, 11), (6, 15)
_MENDED_IN = {(6, 12): 23, (6, 13): 11, (6, 14): 2}  # the point releases that have it too
# RHEL 9.4, of April 2024: before 6.11 there was nothing of it to port back.
_EL9 = re.compile(r"5\.14\.0-(\d+)\..*\.el9")
_EL9_LAST = 427
_ENTERPRISE = re.compile(r"\.el\d|\.ocs\d|\.an\d")
_SLE = 150000  # "6.4.0-150600.23-default": the service pack behind the dash
_SLE_PORTS = (6, 4)  # in support when 6.11 came


def acs_argument(release: str) -> AcsArgument | None:
    """The option of ``pci=`` that is known to work; None for none.

    None too where a distribution may have ported 6.11's rewriting of it back, with or without its
    mistakes: RHEL 8, 9.5 and later and 10, SUSE since 15 SP6, kernels for NVIDIA's own machines.

    :param release: "6.12.117+deb12-amd64".
    """
    numbers = Version(release).numbers
    if "nvidia" in release:
        return None
    if _ENTERPRISE.search(release):
        port = _EL9.match(release)
        known = port is not None and int(port[1]) <= _EL9_LAST
        return AcsArgument.REDIRECT if known else None
    if len(numbers) > 3 and numbers[3] >= _SLE and numbers[:2] >= _SLE_PORTS:
        return None
    if numbers[:2] < _FIRST:
        return None
    if numbers[:2] < _REWRITTEN:
        return AcsArgument.REDIRECT
    return AcsArgument.CONFIG if _mended(numbers) else None


def mistakes_arguments(release: str) -> bool:
    """Whether the kernel is one of those that mistake both options, beyond doubt.

    Ubuntu's "6.14.0-27" has no point release, and may be mended.
    """
    numbers = Version(release).numbers
    if len(numbers) < 3 or numbers[2] == 0 or numbers[:2] < _REWRITTEN:
        return False
    return acs_argument(release) is None and not _ENTERPRISE.search(release)


def _mended(numbers: tuple[int, ...]) -> bool:
    if numbers[:2] >= _MENDED:
        return True
    first = _MENDED_IN.get((numbers[0], numbers[1]))
    return first is not None and len(numbers) > 2 and numbers[2] >= first
