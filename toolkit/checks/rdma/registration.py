"""Does each HCA take the memory of its GPUs, tried by a registration that moves no byte?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.modules.fixes import reload
from toolkit.checks.rdma.makers import serving
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.registration import (
    DMABUF,
    EXTRA,
    MAPPED,
    PEERMEM,
    WAYS,
    Registration,
    cause,
)
from toolkit.plural import counted
from toolkit.want import PeerPath, Want

if TYPE_CHECKING:  # its reader is imported where such a log was given
    from toolkit.facts.rdma.verbs_log import VerbsTrouble

NOT_TRIED = "not tried: verify --register"
_SOURCE = (
    "NVIDIA/nccl src/transport/net_ib/gdr.cc; linux-rdma/rdma-core libibverbs/verbs.c; "
    "Linux drivers/infiniband/core/uverbs_std_types_mr.c"
)


def dmabuf_refused(node: Node) -> str:
    """Why an HCA that serves GPUs takes no dma-buf, as it said itself; "" where all do, or none
    was asked."""
    tried = node.registration
    if tried is None:
        return ""
    asked = ((each.name, tried.hcas.get(each.name)) for each in serving(node))
    refused = ((name, each.why_not) for name, each in asked if each and each.why_not)
    return next((f"{name}: {why}" for name, why in refused), "")


def dmabuf_shown(node: Node) -> bool:
    """Whether every HCA that serves GPUs said that it registers dma-buf memory."""
    tried = node.registration
    if tried is None:
        return False
    asked = [tried.hcas.get(each.name) for each in serving(node)]
    return bool(asked) and all(each is not None and each.able for each in asked)


def taken(node: Node, way: str) -> int:
    """How many pairs of GPU and HCA registered by that way; 0 where it was not tried."""
    tried = node.registration
    return sum(each.way == way and each.taken for each in tried.pairs) if tried else 0


def unexported(node: Node) -> str:
    """The call of CUDA that gave no dma-buf of a GPU's memory; "" where none failed so."""
    tried = node.registration
    failures = tried.unexported if tried else {}
    return next(
        (
            f"{gpu}: {why}"
            for (gpu, way), why in failures.items()
            if way == DMABUF and why[:2] == "cu"
        ),
        "",
    )


@check(
    "register.dmabuf",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.DMABUF}),
    source=_SOURCE,
    fix="see dmabuf.gpu and dmabuf.nic; dmesg has the driver's own words (NVRM: dma-buf ...)",
)
def by_dmabuf(node: Node, want: Want) -> Finding:
    """Each GPU's memory registers by dma-buf with the HCAs that serve it.

    Tried by ``--register`` alone: 2 MiB of each GPU by cuMemAlloc and by cuMemCreate, exported
    by cuMemGetHandleForAddressRange, given to ibv_reg_dmabuf_mr of each HCA, and taken back.
    No byte moves, so that a redirect by ACS, or a slow way, is not seen: see exercise. A GPU
    that a job has for itself, or with less than 1 GiB free, is left alone.
    """
    return _judged(node, (DMABUF, MAPPED))


@check(
    "register.peermem",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.PEERMEM}),
    source=_SOURCE + "; NVIDIA/open-gpu-kernel-modules nvidia-peermem.c",
    fix=f"see peermem.loaded and peermem.bound; {reload()}",
)
def by_peermem(node: Node, want: Want) -> Finding:
    """Each GPU's memory registers by its address with the HCAs that serve it.

    As register.dmabuf, with ibv_reg_mr of the address: nvidia-peermem, or the client of the
    HCAs' maker, has to take it. Where none does, the kernel looks for ordinary memory there
    and says EFAULT.
    """
    return _judged(node, (PEERMEM,))


def _judged(node: Node, ways: tuple[str, ...]) -> Finding:
    tried = node.registration
    if tried is None:
        return not_applicable(NOT_TRIED)
    if tried.missing:
        name, why = next(iter(tried.missing.items()))
        loaded = name in tried.libraries or why.startswith("cu")
        hint = "nvidia-smi, ibv_devices" if loaded else f"is {name} installed, and does it load?"
        return unknown(f"{name}: {why}", hint=hint)
    near, far = _pairs(node, tried)
    if not near:
        return unknown("CUDA lists no GPU, or there is no HCA: nothing was tried")
    wrong = list(_wrong(tried, near, ways))
    if wrong:
        pairs = {(gpu, hca) for gpu, hca, _ in wrong}
        return failed(
            f"{len(pairs)} of {counted(len(near), 'pair')} of GPU and HCA: {wrong[0][2]}",
            expected="each GPU's memory is taken by the HCAs that serve it",
            details=tuple(_by_gpu(wrong, near)),
        )
    open_ = next(_open(tried, near, ways), "" if tried.whole else "it broke off before its end")
    if open_:
        return unknown(f"not all were tried: {open_}")
    return passed(
        f"{counted(len(near), 'pair')} of GPU and HCA: taken, and given back",
        details=(*_beside(tried, near), *_farther(list(_wrong(tried, far, ways)), far)),
    )


GpuHca = tuple[str, str]  # "0000:18:00.0", "mlx5_0"


def _pairs(node: Node, tried: Registration) -> tuple[list[GpuHca], list[GpuHca]]:
    """Those with a common switch, and all others; where no two have one, all count as near."""
    names = {each.address: each.name for each in serving(node)}
    every = [(gpu, name) for gpu in tried.every_gpu() for name in names.values()]
    joined = {(e.gpu.address, names.get(e.hca.address, "")) for e in node.near_pairs}
    near = [each for each in every if each in joined] or every
    return near, [each for each in every if each not in near]


def _wrong(
    tried: Registration, pairs: list[GpuHca], ways: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    for gpu, hca in pairs:
        said = tried.of(gpu, hca)
        for way in ways:
            if (gpu, way) in tried.unexported:
                yield gpu, hca, f"{way}: {tried.unexported[gpu, way]}"
            elif way in said and said[way] != "ok":
                yield gpu, hca, f"{way}: {cause(way, said[way], tried.memlock)}"


def _by_gpu(wrong: list[tuple[str, str, str]], pairs: list[GpuHca]) -> Iterator[str]:
    """One line for each GPU and reason; none where all pairs have one."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for gpu, hca, why in wrong:
        reasons.setdefault((gpu, why), []).append(hca)
    if len({why for _, why in reasons}) == 1 and len(wrong) == len(pairs):
        return
    for (gpu, why), names in reasons.items():
        all_ = len(names) == sum(each == gpu for each, _ in pairs) > 1
        yield f"{gpu} with {'every HCA' if all_ else ', '.join(names)}: {why}"


def _open(tried: Registration, pairs: list[GpuHca], ways: Iterable[str]) -> Iterator[str]:
    """Of which pairs nobody knows, each with the reason."""
    for gpu, hca in pairs:
        said = tried.of(gpu, hca)
        if gpu in tried.left:
            yield f"{gpu}: {tried.left[gpu]}"
        elif "open" in said:
            yield f"{hca} could not be opened: {said['open']}"
        elif not all(way in said for way in ways):
            yield f"{gpu} {hca}: {tried.left.get(hca, 'it was not tried')}"


def _beside(tried: Registration, pairs: list[GpuHca]) -> Iterator[str]:
    for way in WAYS:
        said = [
            each.said for each in tried.pairs if each.way == way and (each.gpu, each.hca) in pairs
        ]
        if said or way not in EXTRA:
            yield f"{way}: {said.count('ok')} of {len(pairs)}"


def _farther(wrong: list[tuple[str, str, str]], far: list[GpuHca]) -> Iterator[str]:
    """HCAs of other switches: whoever crosses the root complex asks for them."""
    if wrong:
        gpu, hca, why = wrong[0]
        many = len({(g, h) for g, h, _ in wrong})
        yield f"without a common switch {many} of {len(far)} refuse, such as {gpu} {hca}: {why}"


_REFUSED = re.compile(r"\b(?:erdma|infiniband)\b.*: ERROR: Out of (?:mr size|MRs): ")
# By what a program told of the reason.
_WAYS_OUT = {
    "Bad address": "memory of a GPU: is nvidia-peermem loaded, or does the program use dma-buf?",
    "Cannot allocate memory": "ulimit -l in the job, and in its container (rdma.memlock)",
    "Numerical result out of range": "less at once, or in parts: ibv_devinfo -v, max_mr_size",
    "": "is nvidia-peermem loaded (peermem.loaded), or does the GPU give dma-buf (dmabuf.gpu)?",
}
_EFA = "the EFA installer and aws-ofi-nccl that fit this NCCL; efa.peermem"
_LIBRARY = "a UCX with CUDA or ROCm, and its modules where it looks: ucx_info -d; UCX_MODULE_DIR"


@check(
    "rdma.registration",
    impact=Impact.BROKEN,
    needs_gpu=False,
    source="Linux, drivers/infiniband/hw/erdma/erdma_verbs.c, erdma_reg_user_mr; openucx/ucx "
    "src/uct/ib/base/ib_md.c; NVIDIA/nvshmem src/modules/transport",
    fix="register less at once, or in parts: the limit is the adapter's (ibv_devinfo -v, "
    "max_mr_size); neither memlock nor a module of peer memory mends it",
)
def refused(node: Node, want: Want) -> Finding:
    """No RDMA driver has logged that it refused memory for being more than the adapter takes.

    Most drivers refuse without a word; erdma says so, with its limit. A size of 0 stands for one
    that the caller gave wrong. Logs of UCX, NVSHMEM and others, given as text, tell what was
    refused to them.
    """
    if told := (*(each for each in node.verbs_troubles if each.of_memory), *_by_jobs(node)):
        return _refused_to_programs(told)
    if node.ucx_ways:
        ways = (f"{hca}: {' and '.join(sorted(has))}" for hca, has in node.ucx_ways.items())
        return passed(f"UCX found a way to GPU memory by {', '.join(ways)}")
    lines = [line for line in node.dmesg if _REFUSED.search(line)]
    if not lines and not any(each.driver == "erdma" for each in node.hcas):
        return not_applicable("no HCA whose driver logs what it refuses")
    if not lines:
        return passed(f"none refused {node.log_reaches}")
    first = lines[0]
    return failed(
        first[first.index("ERROR: ") :].removeprefix("ERROR: "),
        expected="registrations within the adapter's limit",
        details=tuple(lines[:3]),
    )


# misc/ibvwrap.cc of NCCL, and nccl_ofi_*.cpp of aws-ofi-nccl.
_NOT_REGISTERED = re.compile(
    r"Call to ibv_\w*reg_\w*mr\w* failed|NET/OFI (?:CM: )?(?:Unable to|Could(?:n't| not)|Failed to)"
    r" register\b|NET/OFI .{0,200}?\b(?:registration|fi_mr_\w+)\b.{0,200}? failed"
)


def _by_jobs(node: Node) -> Iterator[VerbsTrouble]:
    """What NCCL and perftest could not register, by their own logs."""
    if (log := node.nccl_log) is None and not node.perftest_runs:
        return
    from toolkit.facts.rdma import verbs_log as said  # noqa: PLC0415 nobody else pays for it

    if log is not None and log.hosts and node.hostname:
        log = log.of(node.hostname)
    for line in log.troubles if log is not None else ():
        if _NOT_REGISTERED.search(line):
            yield said.VerbsTrouble(said.Trouble.REGISTER, f"NCCL: {line}", said.errno_of(line))
    for run in node.perftest_runs:
        if run.trouble is not None and run.trouble.unregistered:
            yield said.VerbsTrouble(said.Trouble.REGISTER, f"perftest: {run.trouble}")


def _refused_to_programs(told: tuple[VerbsTrouble, ...]) -> Finding:
    """The first that a program could not register: what failed afterwards may follow from it."""
    first, *others = told
    return failed(
        first.words,
        expected="memory that the HCA takes",
        hint=_LIBRARY
        if " not available" in first.words
        else _EFA
        if "NET/OFI" in first.words and not first.errno
        else _WAYS_OUT[first.errno],
        details=tuple(each.words for each in others[:3]),
    )
