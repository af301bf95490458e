"""MPI on the node: does it take GPU memory as it is?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed
from toolkit.facts.node.node import Node
from toolkit.want import Want


@check(
    "mpi.cuda",
    impact=Impact.SLOW,
    source="Open MPI documentation, CUDA; MVAPICH user guide; NVIDIA HPC-X",
    fix="use HPC-X, or build MPI --with-cuda over a UCX that was built so",
)
def cuda(node: Node, want: Want) -> Finding:
    """The MPI that somebody installed on the node takes GPU memory.

    Which path its traffic takes is UCX's or libfabric's affair. An MPI that came with the
    distribution or with OFED is not judged: it is there to start jobs, and NCCL does not
    mind. Those in environment modules or containers are not seen.
    """
    hpcx = [path for path in node.companion_files if "hpcx" in path]
    mpis = node.mpis
    able = [each for each in mpis if each.cuda]
    if able:
        return passed(
            f"{able[0].name} {able[0].version}",
            details=tuple(f"HPC-X: {path}" for path in hpcx),
        )
    lacking = [each for each in mpis if not each.of_the_distribution]
    if lacking and not hpcx:
        first = lacking[0]
        where = f" in {first.prefix}" if first.prefix else ""
        return failed(
            f"{first.name} {first.version}{where} was built without CUDA",
            expected="built with CUDA: GPU buffers would be copied through host memory, or crash",
        )
    if hpcx:
        return not_applicable(f"HPC-X in {hpcx[0]}, to be loaded by jobs: not judged here")
    if mpis:
        return not_applicable(f"only the distribution's {mpis[0].name}, built without CUDA")
    return not_applicable("no MPI in the path of commands")
