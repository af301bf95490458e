"""Are the GPUs of a kind that can do GPUDirect RDMA, and set up for it?"""

from __future__ import annotations

import re

from toolkit.checks.check import (
    ONE_MEMORY,
    Finding,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.consumers.containers import in_pods
from toolkit.checks.gpu.driver import NOT_LOADED
from toolkit.compat.gpus import BEFORE_TURING
from toolkit.errors import NoEvidence
from toolkit.facts.gpu.driver import is_error
from toolkit.facts.gpu.smi_query import UNREADABLE, SmiGpu
from toolkit.facts.nccl.containers import MPS
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import PeerPath, Want

ENABLED = "Enabled"
MIG_LOSES = "GPUDirect RDMA works for each instance; instances have no peer-to-peer among them"
# TITAN stands with GeForce: GPUDirect RDMA is for data-centre and professional products.
_CONSUMER = re.compile(r"\b(GeForce|TITAN)\b", re.IGNORECASE)
NEVER = (
    "on these the kernel driver refuses peermem, and libcuda the export of a dma-buf: "
    "no setting of the node changes that"
)


@check(
    "gpu.class",
    impact=Impact.BROKEN,
    source="GPUDirect RDMA guide; linux-rdma/perftest issue 269; "
    "aikitoria/open-gpu-kernel-modules issue 37; toolkit/compat/data/gpus.toml",
    fix="no setting mends it: GPUDirect RDMA needs a data-centre or professional GPU",
)
def gpu_class(node: Node, want: Want) -> Finding:
    """Every GPU is of a kind that can do GPUDirect RDMA by the wanted path.

    On GeForce the kernel driver refuses it to peermem (nvidia_p2p_get_pages fails), and CUDA's
    own library, libcuda, refuses the export of a dma-buf. A GPU that shares one
    memory with the CPU, as GB10 does, is not made for it and needs it not. Before Turing
    there are no open kernel modules, and so no dma-buf: peermem is the only path.
    """
    chips = node.gpu_chips
    if node.unified_memory:
        return not_applicable(ONE_MEMORY)
    kinds = sorted({each.architecture for each in chips.values() if each is not None})
    old = [a for a, c in chips.items() if c is not None and c.architecture in BEFORE_TURING]
    if want.path is PeerPath.DMABUF and old:
        return failed(
            f"{len(old)} of {len(chips)} GPUs are older than Turing ({', '.join(kinds)})",
            expected="Turing or newer for dma-buf",
            hint="--profile peermem: the only path of these GPUs; their last driver branch is 580",
        )
    doubtful = [a for a, c in chips.items() if c is None or not c.datacentre]
    if not doubtful:
        return passed(f"{counted(len(chips), 'GPU')}: {', '.join(kinds)}")
    return _by_name(node, doubtful)


def for_consumers(name: str) -> bool:
    """Whether a GPU of this name is one to which NVIDIA gives no GPUDirect RDMA."""
    return _CONSUMER.search(name) is not None


def _by_name(node: Node, doubtful: list[str]) -> Finding:
    if node.no_driver:
        return not_applicable(f"{NOT_LOADED}, which tells the names of the GPUs")
    count, names = len(node.gpu_chips), {row.address: row.name for row in node.gpu_rows}
    consumer = [address for address in doubtful if for_consumers(names.get(address, ""))]
    if consumer:
        return failed(
            f"{len(consumer)} of {count} GPUs: {names[consumer[0]]}",
            expected="data-centre or professional GPUs",
            hint=NEVER,
            details=tuple(f"{address}: {names[address]}" for address in consumer),
        )
    if unnamed := [a for a in doubtful if not names.get(a) or is_error(names[a])]:
        return unknown(f"nvidia-smi does not tell the name of {unnamed[0]}", hint="nvidia-smi -L")
    return passed(
        f"{counted(count, 'GPU')}: {', '.join(sorted({names[each] for each in doubtful}))}"
    )


@check(
    "nvidia.persistence",
    impact=Impact.SLOW,
    source="NVIDIA driver documentation, Driver Persistence; Azure/azurehpc-health-checks",
    fix="systemctl enable --now nvidia-persistenced",
)
def persistence(node: Node, want: Want) -> Finding:
    """Persistence mode is on for every GPU.

    Without it the driver puts a GPU down when its last user leaves: each job then waits for
    it to come up again, with its BAR1 and its place in the NVLink fabric. nvidia-smi -pm 1
    sets it until the next boot; the daemon keeps it.
    """
    if (unit := node.services.get("nvidia-persistenced")) is not None and unit.failed:
        return failed(
            f"nvidia-persistenced has failed ({unit.result})",
            expected="running, and Enabled on every GPU",
            hint="journalctl -u nvidia-persistenced: often no driver was loaded when it started",
        )
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    rows = node.gpu_rows
    if not rows:
        return unknown("nvidia-smi lists no GPU", hint="nvidia-smi; dmesg | grep NVRM")
    off = [row.address for row in rows if row.persistence == "Disabled"]
    if off:
        return failed(
            f"off on {len(off)} of {len(rows)} GPUs",
            expected="Enabled on every GPU",
            hint="systemctl enable --now nvidia-persistenced",
            details=tuple(off),
        )
    if untold := [row.address for row in rows if row.persistence != "Enabled"]:
        return unknown(f"nvidia-smi does not tell the persistence mode of {untold[0]}")
    return passed(f"on for {counted(len(rows), 'GPU')}")


@check(
    "nvidia.mig_vgpu",
    impact=Impact.SLOW,
    source="nvidia-smi -q, MIG Mode and Virtualization Mode; GPU Operator, GPUDirect RDMA; "
    "NVIDIA MIG user guide, application considerations",
    fix="where MIG is not meant: drain the GPU, then nvidia-smi -i GPU -mig 0, which needs it "
    "without a client; the mode is kept over a reboot. mig in the site's file says what is meant",
)
def mig_vgpu(node: Node, want: Want) -> Finding:
    """GPUs are split into MIG instances as the node is meant to, and are no vGPUs.

    Meant is what mig in the site's file says, "on" or "off"; without it, that all GPUs are in
    one mode, now and after a reset; pods are given each as it is. GPUDirect RDMA works for each
    instance, but instances have no peer-to-peer among them, and NCCL takes one for a process. A
    vGPU has GPUDirect RDMA on listed pairs of GPU and hypervisor only, which cannot be told from
    inside.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    gpus = node.smi.gpus
    able = [each for each in gpus if each.mig]
    mixed = want.mig == "any" and len({each.mig for each in able}) > 1
    if found := _mig_trouble(able, "each" if mixed and in_pods(node) else want.mig):
        return found
    virtual = [each for each in gpus if each.virtualization.upper() == "VGPU"]
    if virtual:
        return unknown(
            f"{len(virtual)} of {len(gpus)} GPUs are vGPUs",
            hint="see the list of GPUs and hypervisors in the vGPU guide, GPUDirect",
        )
    if not any(each.mig or each.virtualization for each in gpus):
        return not_applicable("the GPUs have no MIG, and the driver tells of no virtualization")
    if split := [each for each in able if each.mig == ENABLED]:
        which = (
            f"{len(split)} of {len(able)} GPUs"
            if len(split) < len(able)
            else f"all {len(able)} GPUs"
        )
        return passed(f"MIG on {which} that can", details=(MIG_LOSES,))
    return passed(f"{counted(len(gpus), 'GPU', 'is', 'are')} whole")


def _mig_trouble(able: list[SmiGpu], meant: str) -> Finding | None:
    if strange := [each for each in able if each.mig not in {ENABLED, "Disabled"}]:
        return unknown(f"the MIG mode of {strange[0].address} is {strange[0].mig!r}")
    split = [each for each in able if each.mig == ENABLED]
    waiting = [each for each in able if each.mig_pending and each.mig != each.mig_pending]
    whole = [each for each in able if each not in split]
    wrong = {"on": whole, "off": split, "each": []}.get(meant, min(split, whole, key=len))
    odd = list(dict.fromkeys((*wrong, *waiting)))
    if not odd:
        return None
    return failed(
        f"MIG on {len(split)} of {len(able)} GPUs"
        + (f", {len(waiting)} of them change at the next reset" if waiting else ""),
        expected=f"MIG {meant}" if meant != "any" else "one mode on all GPUs, now and later",
        hint=f"drain it, then nvidia-smi -i {odd[0].address} "
        + (f"-mig {int(odd[0].mig != ENABLED)}" if wrong else "--gpu-reset"),
        details=tuple(each.address for each in odd),
    )


# Is GPU memory kept from the HCA by confidential computing, or from NCCL by a partition?
HOPPER = "Hopper"
# NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckGdr: NCCL_NET_GDR_MLOPART, 0 by default.
MLOPART = (
    "CUDA's MPS runs: where it splits these GPUs by memory locality (MLOPart), NCCL from 2.30.7 on "
    "does without GPUDirect RDMA for the parts, unless NCCL_NET_GDR_MLOPART=1"
)


@check(
    "nvidia.confidential",
    impact=Impact.SLOW,
    source="nvidia-smi -q, Conf Compute Protected Memory Usage; NVIDIA trusted computing, release "
    "notes of R580 TRD1 (passthrough with a bounce buffer); NVIDIA/nccl src/graph/paths.cc",
    fix="none while the GPUs are to be confidential: waive it there; else CC mode off, which the "
    "host sets, and which takes a reset of the GPU",
)
def confidential(node: Node, want: Want) -> Finding:
    """No GPU keeps its memory from HCAs for confidential computing.

    H100 and H200 in CC mode encrypt all that crosses PCIe, and stage it in bounce buffers that
    the host can read: an HCA gets at no memory of theirs. Told by the memory that nvidia-smi
    calls protected, which is 0 otherwise. What MPS may do to GPUDirect RDMA by partitions of a
    GPU (MLOPart, Blackwell) is told beside.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    told = [each for each in node.smi.gpus if each.protected_mib is not None]
    if not told:
        why = "nvidia-smi tells of no protected memory, as older drivers do not"
        return Finding(Status.NA, why, details=_parts(node))
    if odd := [each.address for each in told if each.protected_mib == UNREADABLE]:
        return unknown(f"nvidia-smi does not tell the protected memory of {odd[0]}")
    closed = [each.address for each in told if each.protected_mib]
    if not closed:
        return passed("no protected memory", details=_parts(node))
    chips = node.gpu_chips
    kinds = {chip.architecture for a in closed if (chip := chips.get(a)) is not None}
    if kinds != {HOPPER}:
        return unknown(
            f"confidential computing on {len(closed)} GPUs, of a kind that may let HCAs in",
            hint="nvidia-smi conf-compute -f; whether PCIe is encrypted end to end is the host's",
        )
    return failed(
        f"confidential computing on {len(closed)} of {len(node.smi.gpus)} GPUs: bounce buffers",
        expected="no protected memory, where GPUDirect RDMA is wanted",
        hint="nvidia-smi conf-compute -f",
        details=tuple(closed),
    )


def _parts(node: Node) -> tuple[str, ...]:
    try:
        runs = any(each.name == MPS for each in node.daemons)
    except NoEvidence:
        return ()
    splits = any(chip is not None and chip.nvl5 for chip in node.gpu_chips.values())
    return (MLOPART,) if runs and splits else ()
