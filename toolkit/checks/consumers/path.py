"""By which path can the HCA get at GPU memory, and is it the wanted one?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.modules.fixes import reload
from toolkit.checks.rdma.makers import CONNECTX, legacy_serves, makers, without_nvidia_peermem
from toolkit.checks.rdma.registration import dmabuf_refused, dmabuf_shown, taken, unexported
from toolkit.compat.gpus import BEFORE_TURING, chip
from toolkit.compat.reader import Confidence, HcaMaker, numbers
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.facts.rdma.registration import DMABUF
from toolkit.want import PeerPath, Want

if TYPE_CHECKING:
    from toolkit.facts.modules.pasted_modules import Symbols

REGISTER = "ib_register_peer_memory_client"
_CALL = "_reg_user_mr_dmabuf"  # what drivers of RDMA devices name it
PROOF = "ib_write_bw --use_cuda=0 --use_cuda_dmabuf"


def peermem_gap(node: Node) -> str:
    """What keeps peer memory from working now; "" when nothing does.

    A live module proves that its symbols were resolved and its client registered: init
    fails otherwise.

    :raises NoEvidence: where it is not known whether the HCAs take peer memory at all.
    """
    if legacy_serves(node):
        return ""
    if not without_nvidia_peermem(node):
        if not_listed(node):
            return NOT_LISTED
        state = node.module_state.get("nvidia_peermem")
        if state is None or state.initstate != "live":
            legacy = (
                "; nv_peer_mem, which it replaced, is" if "nv_peer_mem" in node.module_state else ""
            )
            return f"nvidia-peermem is not loaded{legacy}"
        nvidia = node.module_state.get("nvidia")
        held = nvidia is not None and "nvidia_peermem" in nvidia.holders
        return "" if held else "nvidia-peermem does not hold the driver"
    for driver, provider in makers(node).items():
        if provider is None or not provider.client:
            raise NoEvidence(
                f"HCAs driven by {driver}: whether their driver takes peer memory is not known",
                hint="their path is dma-buf: --profile dmabuf",
            )
        state = node.module_state.get(provider.client)
        if state is None or state.initstate != "live":
            return f"{provider.client} is not loaded"
    return ""


NOT_LISTED = "nvidia-peermem is not loaded"


def not_listed(node: Node) -> bool:
    """Whether lsmod, given as a loose file, lists the driver and not nvidia-peermem."""
    if node.knows_state or node.lsmod is None or node.hides("lsmod", "nvidia_peermem"):
        return False
    return "nvidia" in node.lsmod and "nvidia_peermem" not in node.lsmod


def dmabuf_gpu_gap(node: Node, want: Want) -> str:
    """What keeps the driver from exporting GPU memory as dma-buf; "" when nothing does."""
    if node.driver is None:
        return "no NVIDIA driver is loaded"
    if node.driver.flavor is not Flavor.OPEN:
        return "the driver is the proprietary one"
    first = want.compat.branch(str(node.driver.version)).dmabuf
    if not first or numbers(str(node.driver.version)) < numbers(first):
        return f"driver {node.driver.version} has no exporter"
    if node.kernel_config.get("CONFIG_DMA_SHARED_BUFFER") != "y":
        return "the kernel has no dma-buf"
    old = [each.address for each in node.pci.gpus if older_than_turing(each)]
    return f"older than Turing: {', '.join(old)}" if old else unexported(node)


def older_than_turing(gpu: PciFunction) -> bool:
    """Whether the open modules do not drive it; one that is not in our table is new."""
    known = chip(gpu.device)
    return known is not None and known.architecture in BEFORE_TURING


def dmabuf_nic_gap(node: Node, want: Want) -> str:
    """What keeps the HCAs from registering dma-buf memory; "" when nothing that can be read does.

    Judged are those that serve GPUs: by what they said when they were asked (--register), else
    each by its maker's driver; that a driver and a library have the call does not prove that it
    works.

    :raises NoEvidence: where of one of them it is not known.
    """
    if refused := dmabuf_refused(node):
        return refused
    if dmabuf_shown(node):
        return ""
    providers = makers(node, want.compat)
    if not (node.rdma_hardware or node.namespaced) or not providers:
        return "there is no RDMA device"
    gaps = [driver_gap(node, want, driver, each) for driver, each in providers.items()]
    if any(gaps):
        return next(filter(None, gaps))
    answers = {each.dmabuf for each in node.verbs}
    if answers == {False}:
        return f"{node.verbs[0].path} has no ibv_reg_dmabuf_mr: rdma-core before 34"
    return ""


def driver_gap(node: Node, want: Want, driver: str, provider: HcaMaker | None) -> str:
    """What keeps one maker's HCAs from it, on the side of the kernel.

    A driver that runs with the call has it, on whichever kernel; that of mlx5 is empty without
    on-demand paging.
    """
    if provider is None or not provider.kernel or provider.confidence is Confidence.LOW:
        raise NoEvidence(
            f"HCAs driven by {driver}: dma-buf there is not known",
            hint=f"try it: {provider.proof if provider else PROOF}",
        )
    ours, release = provider.id == CONNECTX, numbers(node.kernel)
    if not ours and any(
        name.endswith(_CALL) and module in provider.modules for name, module in node.symbols.items()
    ):
        return ""
    inbox = not ours or node.ofed.flavour is OfedFlavour.INBOX
    backported = not inbox or "ib_umem_dmabuf_get" in node.symbols
    if not want.compat.kernel_gate("dmabuf-mr").covers(node.kernel) and not backported:
        return f"kernel {node.kernel} cannot register dma-buf memory"
    if not ours and release < numbers(provider.before or provider.kernel):
        raise NoEvidence(
            f"{driver} of kernel.org registers dma-buf memory from {provider.kernel} on; whether "
            f"that on {node.kernel} does is not known",
            hint=f"try it: {provider.proof}",
        )
    wanted = ("INFINIBAND_USER_MEM", *(("INFINIBAND_ON_DEMAND_PAGING",) if ours else ()))
    missing = [each for each in wanted if node.kernel_config.get(f"CONFIG_{each}") != "y"]
    if inbox and missing:
        return f"the kernel's RDMA stack lacks {', '.join(f'CONFIG_{each}' for each in missing)}"
    return ""


def dmabuf_gap(node: Node, want: Want) -> str:
    """What keeps dma-buf from working now, on either side; "" when nothing that can be read."""
    return dmabuf_gpu_gap(node, want) or dmabuf_nic_gap(node, want)


@check(
    "path.selected",
    impact=Impact.BROKEN,
    source="NVIDIA/nccl src/transport/net_ib/gdr.cc; GPU Operator, GPUDirect RDMA",
    fix="see the failing checks of the wanted path, or choose the other with --profile",
)
def selected(node: Node, want: Want) -> Finding:
    """The wanted path is usable; where none is insisted on, one of both.

    Without a profile that names one, a node takes dma-buf where that is usable, else peermem;
    where neither is, it is measured by the one that needs the least repair.

    Consumers differ: NCCL takes dma-buf wherever both are there and never falls back at
    run time, perftest takes the one it is told to, UCX up to 1.17 does not see the peermem of
    newer OFED. So both paths are told, whichever is wanted: where dma-buf is usable, a node
    without peermem still serves whoever can take it. Nothing is tried.
    """
    assert want.path is not None  # where it is not known, check.py asks about each
    if want.taken and not_listed(node) and _untold(node, want):
        return unknown(
            f"{NOT_LISTED}; whether dma-buf serves in its place is not told",
            hint="modinfo nvidia tells the licence of the driver's modules, uname -r the kernel, "
            "lspci -nn the HCAs; else modprobe nvidia-peermem",
        )
    gaps = {
        PeerPath.PEERMEM: _try(PeerPath.PEERMEM, want, lambda: peermem_gap(node)),
        PeerPath.DMABUF: _try(PeerPath.DMABUF, want, lambda: dmabuf_gap(node, want)),
    }
    other = next(path for path in PeerPath if path is not want.path)
    told = (f"{other}: {gaps[other] or 'usable'}",)
    if not gaps[want.path]:
        return passed(f"{want.path}", details=told)
    hint = "" if gaps[other] else f"{other} is usable on this node: --profile {other}"
    return failed(
        f"{want.path}: {gaps[want.path]}",
        expected=f"{want.path} usable{', or the other path' if want.taken else ''}",
        hint=hint,
        details=told,
    )


def _untold(node: Node, want: Want) -> bool:
    try:
        dmabuf_gap(node, want)
    except (NoEvidence, Unparsable):
        return True
    return False


def _try(path: PeerPath, want: Want, gap: Callable[[], str]) -> str:
    """The gap of a path that is not wanted may stay unknown without harm."""
    try:
        return gap()
    except (NoEvidence, Unparsable) as why:
        if want.path is path:
            raise
        return f"not known ({why})"


# Where the open modules would not help, or not yet.
_DMABUF_HINTS = {
    "no NVIDIA driver is loaded": "modprobe nvidia; see nvidia.present",
    "older than Turing": "the open modules do not drive these GPUs: --profile peermem",
}


def _unknown_cuda(branch: int) -> str:
    return "newer than is known here" if branch else "older than 11.3"


@check(
    "dmabuf.gpu",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.DMABUF}),
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c, since 515.43.04",
    fix="open kernel modules of at least 515.43.04, on a kernel with dma-buf",
)
def dmabuf_gpu(node: Node, want: Want) -> Finding:
    """The driver exports GPU memory as dma-buf.

    Only the open kernel modules have the exporter, and they leave it out where the kernel was
    built without dma-buf. They drive Turing and newer alone.
    """
    gap = dmabuf_gpu_gap(node, want)
    if gap:
        wanted = "an open driver of 515.43.04 or newer, kernel with dma-buf"
        return failed(gap, expected=wanted, hint=_DMABUF_HINTS.get(gap.partition(":")[0], ""))
    assert node.driver is not None  # dmabuf_gpu_gap has just said so
    tried = "; exported and taken" if taken(node, DMABUF) else ""
    return passed(f"driver {node.driver.version}, open{tried}")


@check(
    "dmabuf.nic",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.DMABUF}),
    source="Linux drivers/infiniband/hw/*, reg_user_mr_dmabuf; rdma-core providers/*, "
    "reg_dmabuf_mr; toolkit/compat/data/providers.toml",
    fix="a kernel whose driver of these HCAs has the call (mlx5 5.12, or OFED; efa 5.16; "
    "irdma 6.3; bnxt_re 6.6; mana 6.15; ionic 6.18), and the rdma-core that goes with it",
)
def dmabuf_nic(node: Node, want: Want) -> Finding:
    """The HCAs' driver and library can register dma-buf memory.

    Told by the maker's driver, the kernel, its RDMA stack and libibverbs; a distribution may
    carry a driver back that kernel.org had later. With --register each HCA is asked, as NCCL
    does it: a registration of no dma-buf at all, by the library and past its provider by the
    kernel, says EBADF where the call is there. Where it fails after all, NCCL aborts with
    "Call to ibv_reg_dmabuf_mr failed" and does not fall back:
    NCCL_DMABUF_ENABLE=0 makes it take peermem.
    """
    gap = dmabuf_nic_gap(node, want)
    if gap:
        return failed(gap, expected="a driver that registers dma-buf, and a library with the call")
    with_call = [each.path for each in node.verbs if each.dmabuf]
    library = with_call[0] if with_call else "no libibverbs was seen: containers bring their own"
    known = [each for each in makers(node, want.compat).values() if each is not None]
    tried = "each HCA was asked, and has the call" if dmabuf_shown(node) else "not tried"
    return passed(
        f"{', '.join(e.id for e in known)} with {node.ofed.flavour} RDMA on kernel {node.kernel}; "
        f"{tried}",
        details=(
            library,
            *(f"{e.id}: the call is in rdma-core from {e.library} on" for e in known),
        ),
    )


@check(
    "cuda.attrs",
    impact=Impact.BROKEN,
    source="NVIDIA/nccl src/init.cc and src/graph/topo.cc; CUDA Toolkit release notes",
    fix="a newer NVIDIA driver: 470 for peermem, 515 for dma-buf",
)
def cuda_attrs(node: Node, want: Want) -> Finding:
    """The driver's CUDA knows the attributes by which libraries decide on the path.

    GPU_DIRECT_RDMA_SUPPORTED came with CUDA 11.3, DMA_BUF_SUPPORTED with 11.7; libcuda comes
    with the driver. Told by the driver's branch: the attributes themselves are not asked for,
    and DMA_BUF_SUPPORTED is 0 with the proprietary driver all the same.
    """
    if node.driver is None:
        return not_applicable("no NVIDIA driver is loaded: see nvidia.present")
    gate = want.compat.cuda_gate
    needed = gate("dmabuf") if want.path is PeerPath.DMABUF else gate("gdr-attribute")
    able = (b.branch for b in want.compat.drivers if b.cuda and needed.covers(b.cuda))
    branch = want.compat.branch(str(node.driver.version))
    told = f"driver {node.driver.version}: CUDA {branch.cuda or _unknown_cuda(branch.branch)}"
    if branch.branch >= min(able):
        return passed(told)
    return failed(told, expected=f"CUDA {needed.first} or newer: {needed.feature}")


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
    if not node.probed and node.said_symbols is not None:
        return _by_kallsyms(node.said_symbols)
    if REGISTER in node.symbols:
        return passed(f"exported by {node.symbols[REGISTER] or 'the kernel itself'}")
    on_disk = [path for path, module in node.symvers.items() if module]
    on_disk += offered(node)
    if on_disk:
        return failed(
            "exported on disk only: the RDMA stack is not loaded, or it is the inbox one",
            expected="exported by a loaded module",
            hint=f"see modules.origin; {reload('rdma')}",
            details=tuple(on_disk),
        )
    return failed(
        "exported by nothing, loaded or on disk",
        expected="exported by ib_uverbs or ib_core",
        hint=""
        if _try(PeerPath.DMABUF, want, lambda: dmabuf_gap(node, want))
        else "dma-buf is usable here: --profile dmabuf",
    )


def _by_kallsyms(said: Symbols) -> Finding:
    """Lines that somebody found: of one that is not among them only the whole file tells."""
    if REGISTER in said.modules:
        return passed(f"exported by {said.modules[REGISTER] or 'the kernel itself'}")
    if said.whole:
        return failed(
            "exported by nothing that is loaded",
            expected="exported by ib_uverbs or ib_core",
            hint="OFED's modules in place of the kernel's own (modinfo -n ib_core), or dma-buf",
        )
    return unknown(
        f"no line of /proc/kallsyms that was given has {REGISTER}: an excerpt proves no absence",
        hint="modinfo -n ib_core ib_uverbs tells whose they are: OFED's, below updates/ or extra/, "
        "export it; else the whole of /proc/kallsyms",
    )


def offered(node: Node) -> list[str]:
    """Installed modules that export it; none where nothing tells."""
    try:
        return [each.path for each in node.exports if REGISTER in each.crcs]
    except (NoEvidence, Unparsable):
        return []
