"""Does storage reach GPUs as fast as it reaches host memory?"""

from __future__ import annotations

from toolkit.checks.check import Finding, failed, passed, unknown
from toolkit.checks.traffic.verdict import SHORT
from toolkit.facts.gpu.gds import GdsioRun
from toolkit.facts.node.node import Node

_FASTER = 1.2  # than through host memory: a fallback to host memory is not
_TOLD_BY = "gdscheck -p, and the counters in /proc/driver/nvidia-fs/stats before and after"


def judge(node: Node) -> Finding:
    """The check traffic.storage, where a measurement was given."""
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
    ways = ", ".join(_shown(each) for each in _best(runs))
    if not any(each.direct for each in runs):
        return unknown(f"{ways}: no run of GPUDirect Storage", hint="gdsio -x 0, same load")
    return unknown(
        f"{ways}: whether cuFile went directly it does not tell"
        + ("; the drives may be the limit of both" if best.way == "CPUONLY" else ""),
        hint=_TOLD_BY,
    )


def _pairs(runs: tuple[GdsioRun, ...]) -> list[tuple[GdsioRun, GdsioRun]]:
    """The best direct run of a load with the best that bounced."""
    best: dict[tuple[object, bool], GdsioRun] = {}
    for each in runs:
        if each.direct or each.bounced:
            key = (each.load, each.direct)
            best[key] = max(best.get(key, each), each, key=lambda one: one.throughput)
    loads = {load for load, direct in best if direct}
    return [(best[load, True], best[load, False]) for load in loads if (load, False) in best]


def _best(runs: tuple[GdsioRun, ...]) -> list[GdsioRun]:
    """The best run of each way and operation, in the order printed."""
    found: dict[tuple[str, str], GdsioRun] = {}
    for each in runs:
        key = (each.operation, each.way)
        found[key] = max(found.get(key, each), each, key=lambda one: one.throughput)
    return list(found.values())


def _shown(run: GdsioRun) -> str:
    return f"{run.operation} {run.way} {run.throughput:.1f} GB/s"
