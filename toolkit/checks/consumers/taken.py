"""Which path does a node take, where nobody insists on one?

Consumers decide for themselves, and NCCL takes dma-buf wherever it is: so does a node on which
it is usable, else it takes peermem. Where neither is, the one that needs the least repair. What
cannot be read leaves the path open, and every check that goes by it unknown; but who pastes that
nvidia-peermem was loaded, or refused, goes by peermem and asks about it.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.checks.consumers.path import REGISTER, dmabuf_gap, dmabuf_gpu_gap, peermem_gap
from toolkit.checks.modules.loading import NAMES
from toolkit.errors import CutOff, NoEvidence, Unparsable
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.modules.refusals import parse_refusals
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.want import PeerPath, Want


def taken(node: Node, want: Want) -> Want:
    """The want with the path that this node takes, where it insists on none.

    :returns: with no path where that cannot be told.
    """
    if want.path is not None:
        return want
    try:
        return replace(want, path=_path(node, want), taken=True)
    except (NoEvidence, Unparsable):
        return replace(want, path=PeerPath.PEERMEM if _tried(node.fresh()) else None, taken=True)


def _tried(node: Node) -> bool:
    """Whether loose files say that somebody loaded nvidia-peermem, was refused, or asked of it."""
    try:
        if node.knows_state:
            return False
        told = {*(node.lsmod or ()), *(each.module for each in node.not_inserted)}
        told |= node.tagged_modules
        exports = node.said_symbols is not None and REGISTER in node.said_symbols.modules
        asked = bool(node.peermem_container) or node.peermem_said is not None or exports
        if not told.isdisjoint(NAMES) or asked:
            return True
        log = parse_refusals(node.dmesg) if node.has_log else None
        return log is not None and (log.any or bool(log.at_work))
    except (NoEvidence, Unparsable):
        return False


def _path(node: Node, want: Want) -> PeerPath:
    """The path.

    :raises NoEvidence: where one that is not known may be usable.
    """
    if not node.live:
        return _least(node, want)
    trouble: NoEvidence | Unparsable | None = None
    try:
        if not dmabuf_gap(node, want) and _registers(node, want):
            return PeerPath.DMABUF
    except CutOff:
        raise
    except (NoEvidence, Unparsable) as why:
        trouble = why
    if not peermem_gap(node):
        return PeerPath.PEERMEM
    if trouble is not None:
        raise trouble
    return _least(node, want)


def _least(node: Node, want: Want) -> PeerPath:
    """The path that needs the least repair: no other driver, and no other RDMA stack.

    Of an image too, of which GPUs and HCAs are not known: OFED there is to be used.
    """
    if node.ofed.flavour is not OfedFlavour.INBOX or REGISTER in node.symbols:
        lacks = not node.live or bool(dmabuf_gpu_gap(node, want)) or not _registers(node, want)
    else:
        lacks = node.driver is not None and node.driver.flavor is not Flavor.OPEN
    return PeerPath.PEERMEM if lacks else PeerPath.DMABUF


def _registers(node: Node, want: Want) -> bool:
    """What kernel.version asks, of an old kernel under a new OFED too."""
    since = want.compat.kernel_gate("dmabuf-mr")
    return since.covers(node.kernel) or "ib_umem_dmabuf_get" in node.symbols
