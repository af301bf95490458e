"""Is GPU memory kept from the HCA by confidential computing, or from NCCL by a partition?"""

from __future__ import annotations

from toolkit.checks.check import (
    Finding,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.gpu.driver import NOT_LOADED
from toolkit.errors import NoEvidence
from toolkit.facts.gpu.smi_query import UNREADABLE
from toolkit.facts.nccl.containers import MPS
from toolkit.facts.node.node import Node
from toolkit.want import Want

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
    """What to know of MPS on GPUs that it can split; nothing where daemons cannot be seen."""
    try:
        runs = any(each.name == MPS for each in node.daemons)
    except NoEvidence:
        return ()
    splits = any(chip is not None and chip.nvl5 for chip in node.gpu_chips.values())
    return (MLOPART,) if runs and splits else ()
