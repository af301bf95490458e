"""By which path can the HCA get at GPU memory, and is it the wanted one?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, passed
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.gpu import Flavor
from toolkit.facts.node import Node
from toolkit.want import PeerPath, Want

REGISTER = "ib_register_peer_memory_client"


def peermem_gap(node: Node) -> str:
    """What keeps peermem from working now; "" when nothing does.

    A live module proves that its symbols were resolved and its client registered: init
    fails otherwise.
    """
    state = node.module_state.get("nvidia_peermem")
    if state is None or state.initstate != "live":
        return "nvidia-peermem is not loaded"
    if (
        "nvidia" not in node.module_state
        or "nvidia_peermem" not in node.module_state["nvidia"].holders
    ):
        return "nvidia-peermem does not hold the driver"
    return ""


def dmabuf_gap(node: Node) -> str:
    """What keeps dma-buf from working now; "" when nothing that can be read does."""
    if node.driver is None:
        return "no NVIDIA driver is loaded"
    if node.driver.flavor is not Flavor.OPEN:
        return "the driver is the proprietary one"
    if not node.driver.version.at_least(515, 43):
        return f"driver {node.driver.version} has no exporter"
    if node.kernel_config.get("CONFIG_DMA_SHARED_BUFFER") != "y":
        return "the kernel has no dma-buf"
    if not node.kernel_version.at_least(5, 12) and "ib_umem_dmabuf_get" not in node.symbols:
        return f"kernel {node.kernel} cannot register dma-buf memory"
    return ""


@check(
    "path.selected",
    impact=Impact.BROKEN,
    source="NVIDIA/nccl src/transport/net_ib/gdr.cc; GPU Operator, GPUDirect RDMA",
    fix="see the failing checks of the wanted path, or choose the other with --profile",
)
def selected(node: Node, want: Want) -> Finding:
    """The wanted path is usable.

    Consumers differ: NCCL takes dma-buf wherever both are there and never falls back at
    run time, perftest takes the one it is told to, UCX up to 1.17 knows peermem only.
    """
    gaps = {PeerPath.PEERMEM: peermem_gap(node), PeerPath.DMABUF: _try_dmabuf(node, want)}
    other = next(path for path in PeerPath if path is not want.path)
    told = (f"{other}: {gaps[other] or 'usable'}",)
    if not gaps[want.path]:
        return passed(f"{want.path}", details=told)
    hint = "" if gaps[other] else f"{other} is usable on this node: --profile {other}"
    return failed(
        f"{want.path}: {gaps[want.path]}",
        expected=f"{want.path} usable",
        hint=hint,
        details=told,
    )


def _try_dmabuf(node: Node, want: Want) -> str:
    """The gap of a path that is not wanted may stay unknown without harm."""
    try:
        return dmabuf_gap(node)
    except (NoEvidence, Unparsable) as why:
        if want.path is PeerPath.DMABUF:
            raise
        return f"not known ({why})"


@check(
    "dmabuf.gpu",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.DMABUF}),
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c, since 515.43.04",
    fix="open kernel modules of at least 515.43.04, on a kernel with dma-buf",
)
def dmabuf_gpu(node: Node, want: Want) -> Finding:
    """The driver exports GPU memory as dma-buf."""
    gap = dmabuf_gap(node)
    if gap:
        return failed(gap, expected="an open driver of 515.43.04 or newer, kernel with dma-buf")
    assert node.driver is not None  # dmabuf_gap has just said so
    return passed(f"driver {node.driver.version}, open")


@check(
    "ib.peer_symbol",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.PEERMEM}),
    source="mlnx-ofa_kernel drivers/infiniband/core/peer_mem.c; Launchpad bug 1923104",
    fix="install DOCA-OFED or a kernel that carries the peer-memory interface, or use dma-buf",
)
def peer_symbol(node: Node, want: Want) -> Finding:
    """The loaded RDMA stack exports ib_register_peer_memory_client.

    kernel.org kernels never did; Ubuntu's carried it up to 6.5. It sits in ib_uverbs since
    OFED 24.07 and in ib_core before, so the module is asked for, not assumed.
    """
    if REGISTER in node.symbols:
        return passed(f"exported by {node.symbols[REGISTER] or 'the kernel itself'}")
    on_disk = [path for path, module in node.symvers.items() if module]
    if on_disk:
        return failed(
            "exported on disk only: the RDMA stack is not loaded, or it is the inbox one",
            expected="exported by a loaded module",
            hint="reload the RDMA stack or reboot; see modules.origin",
            details=tuple(on_disk),
        )
    return failed(
        "exported by nothing, loaded or on disk",
        expected="exported by ib_uverbs or ib_core",
        hint="" if _try_dmabuf(node, want) else "dma-buf is usable here: --profile dmabuf",
    )
