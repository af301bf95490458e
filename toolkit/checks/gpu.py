"""Are the GPUs of a kind that can do GPUDirect RDMA, and set up for it?"""

from __future__ import annotations

import re

from toolkit.checks.check import (
    ONE_MEMORY,
    Finding,
    Impact,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.driver import NOT_LOADED
from toolkit.facts.node import Node
from toolkit.gpus import BEFORE_TURING
from toolkit.want import PeerPath, Want
from toolkit.words import counted

# TITAN stands with GeForce: GPUDirect RDMA is for data-centre and professional products.
_CONSUMER = re.compile(r"\b(GeForce|TITAN)\b", re.IGNORECASE)


@check(
    "gpu.class",
    impact=Impact.BROKEN,
    source="GPUDirect RDMA guide; linux-rdma/perftest issue 269; "
    "aikitoria/open-gpu-kernel-modules issue 37; toolkit/data/gpus.toml",
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


def _by_name(node: Node, doubtful: list[str]) -> Finding:
    """GPUs whose chip is sold as GeForce too."""
    if node.no_driver:
        return not_applicable(f"{NOT_LOADED}, which tells the names of the GPUs")
    count, names = len(node.gpu_chips), {row.address: row.name for row in node.gpu_rows}
    consumer = [address for address in doubtful if _CONSUMER.search(names.get(address, ""))]
    if consumer:
        return failed(
            f"{len(consumer)} of {count} GPUs: {names[consumer[0]]}",
            expected="data-centre or professional GPUs",
            hint="on these the kernel driver refuses peermem, and libcuda the export of a dma-buf: "
            "no setting of the node changes that",
            details=tuple(f"{address}: {names[address]}" for address in consumer),
        )
    if unnamed := [address for address in doubtful if not names.get(address)]:
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
    source="nvidia-smi -q, MIG Mode and Virtualization Mode; GPU Operator, GPUDirect RDMA",
    fix="nvidia-smi -i GPU -mig 0 with no client running; the mode is kept over a reboot",
)
def mig_vgpu(node: Node, want: Want) -> Finding:
    """GPUs are whole: not split into MIG instances, not a vGPU.

    GPUDirect RDMA works for each instance, but NCCL sees instances without peer-to-peer
    among them. A node that is meant for MIG waives this check. A vGPU has GPUDirect RDMA on
    listed pairs of GPU and hypervisor only, which cannot be told from inside.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    gpus = node.smi.gpus
    split = [each for each in gpus if "Enabled" in {each.mig, each.mig_pending}]
    if split:
        waiting = [each for each in split if each.mig != each.mig_pending and each.mig_pending]
        return failed(
            f"MIG on {len(split)} of {len(gpus)} GPUs"
            + (f", {len(waiting)} of them change at the next reset" if waiting else ""),
            expected="MIG off",
            hint=f"nvidia-smi -i {split[0].address} -mig 0",
            details=tuple(each.address for each in split),
        )
    virtual = [each for each in gpus if each.virtualization.upper() == "VGPU"]
    if virtual:
        return unknown(
            f"{len(virtual)} of {len(gpus)} GPUs are vGPUs",
            hint="see the list of GPUs and hypervisors in the vGPU guide, GPUDirect",
        )
    if not any(each.mig or each.virtualization for each in gpus):
        return not_applicable("the GPUs have no MIG, and the driver tells of no virtualization")
    return passed(f"{counted(len(gpus), 'GPU', 'is', 'are')} whole")
