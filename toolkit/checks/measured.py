"""Does traffic that somebody has measured come to what its path carries? Judged where it was given.

What judges a measurement holds it against the throughput model, which nobody else needs here: it is
imported once there is one.
"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.traffic.verdict import SHORT
from toolkit.facts.gpu.gds import GdsioRun
from toolkit.facts.node.node import Node
from toolkit.want import Want

# Does storage reach GPUs as fast as it reaches host memory?
_FASTER = 1.2  # than through host memory: a fallback to host memory is not
_TOLD_BY = "gdscheck -p, and the counters in /proc/driver/nvidia-fs/stats before and after"


def _pairs(runs: tuple[GdsioRun, ...]) -> list[tuple[GdsioRun, GdsioRun]]:
    best: dict[tuple[object, bool], GdsioRun] = {}
    for each in runs:
        if each.direct or each.bounced:
            key = (each.load, each.direct)
            best[key] = max(best.get(key, each), each, key=lambda one: one.throughput)
    loads = {load for load, direct in best if direct}
    return [(best[load, True], best[load, False]) for load in loads if (load, False) in best]


def _shown(run: GdsioRun) -> str:
    return f"{run.operation} {run.way} {run.throughput:.1f} GB/s"


def _not_given(by: str) -> Finding:
    return not_applicable(f"no measurement was given (doctor FILE: what {by} printed)")


@check(
    "traffic.pair",
    impact=Impact.SLOW,
    needs_gpu=False,
    source="linux-rdma/perftest src/perftest_parameters.c; openucx/ucx src/tools/perf; "
    "docs/prediction.md",
    fix="what the path checks name; where the wire is short, cable and fabric",
)
def pair(node: Node, want: Want) -> Finding:
    """Traffic that was measured by one HCA comes to what its port, and the path, carry.

    Told by what ib_write_bw and its kin or ucx_perftest printed, and the port's rate beside it,
    which these tools do not print. Host memory tells of wire and port alone, nothing of
    GPUDirect. A deep queue hides ACS redirection: see acs.redirect.
    """
    broken_off = any(not each.of_memory for each in node.verbs_troubles)
    if not (node.perftest_runs or node.ucx_run or node.ucx_tcp or broken_off):
        return _not_given("ib_write_bw or ucx_perftest")
    from toolkit.checks.traffic.pair import judge  # noqa: PLC0415 see above

    return judge(node)


@check(
    "traffic.collective",
    impact=Impact.SLOW,
    needs_gpu=False,
    source="NVIDIA/nccl-tests doc/PERFORMANCE.md, bus bandwidth; docs/prediction.md",
    fix="what nccl.log and the path checks name",
)
def collective(node: Node, want: Want) -> Finding:
    """A collective that was measured comes to what its ports, or NVLink, carry, and is right.

    Told by the bus bandwidth of large messages that nccl-tests printed; the average at its foot is
    over all sizes, and says nothing. Rate and number of ports are not in such a text: they are
    taken from what stands beside it. Between nodes a ring is bound by all ports together;
    reduction in switches goes beyond that.
    """
    if not node.collective_runs:
        return _not_given("all_reduce_perf or its kin")
    from toolkit.checks.traffic.collective import judge  # noqa: PLC0415 see above

    return judge(node)


@check(
    "traffic.storage",
    impact=Impact.SLOW,
    needs_gpu=False,
    source="NVIDIA GPUDirect Storage Benchmarking and Configuration Guide, gdsio",
    fix="what gds.nvidia_fs, gds.iommu and gds.nvme name",
)
def storage(node: Node, want: Want) -> Finding:
    """Storage reaches GPUs directly no slower than through host memory.

    Told by lines of gdsio for one load: GPUD (-x 0) beside CPU_GPU (-x 2). That GPUD is as
    fast proves nothing, for cuFile falls back to host memory without a word, and drives may be the
    limit of either way; that it is a fifth faster does.
    """
    if not node.gdsio_runs:
        return _not_given("gdsio")
    runs = node.gdsio_runs
    pairs = _pairs(runs)
    slower = [pair for pair in pairs if pair[0].throughput < SHORT * pair[1].throughput]
    if slower:
        direct, other = slower[0]
        return failed(
            f"{_shown(direct)}, and {_shown(other)}",
            expected="directly no slower than through host memory",
            hint="see gds.nvidia_fs, gds.iommu, pcie.distance of the drives",
            details=tuple(f"{_shown(one)}, and {_shown(two)}" for one, two in slower[1:]),
        )
    if pairs and all(one.throughput >= _FASTER * two.throughput for one, two in pairs):
        told = tuple(f"{_shown(one)}, and {_shown(two)}" for one, two in pairs)
        return passed(f"{told[0]}: faster than a fallback would be", details=told[1:])
    best = max(runs, key=lambda each: each.throughput)
    by_way: dict[tuple[str, str], GdsioRun] = {}
    for each in runs:
        key = (each.operation, each.way)
        by_way[key] = max(by_way.get(key, each), each, key=lambda one: one.throughput)
    ways = ", ".join(map(_shown, by_way.values()))
    if not any(each.direct for each in runs):
        return unknown(f"{ways}: no run of GPUDirect Storage", hint="gdsio -x 0, same load")
    return unknown(
        f"{ways}: whether cuFile went directly it does not tell"
        + ("; the drives may be the limit of both" if best.way == "CPUONLY" else ""),
        hint=_TOLD_BY,
    )
