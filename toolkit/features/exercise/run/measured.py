"""What earlier runs of ``exercise`` measured on nodes, as far as it answers a prediction."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from toolkit.facts.rdma.exercise import Buffer, Kind
from toolkit.facts.rdma.measured import SIMULATED, Measured
from toolkit.features.exercise.plan.past import Earlier
from toolkit.features.exercise.run.past import earlier

_TOOL = "ib_write_bw"  # what is predicted of a pair is what an HCA writes into GPU memory
_UNIT = "GB/s"
_GPU = frozenset(each.value for each in Buffer if each.gpu)


def measured(runs: Path, hosts: Collection[str]) -> dict[str, tuple[Measured, ...]]:
    """By host, the newest figure of each GPU and HCA; a figure counts for both of its ends.

    Left out is what does not answer the prediction: latencies, shallow queues, other tools, host
    memory at either end, what fell back to another way, and what never left a node.
    """
    found: dict[str, dict[tuple[str, str], Measured]] = {}
    for one in earlier(runs):
        ends = _ends(one)
        for host, gpu, hca in ends if len({host for host, _, _ in ends}) == 2 else ():
            if host in hosts:
                tool = _TOOL + SIMULATED * one.simulated
                figure = Measured(gpu, hca, one.value, tool, one.when[:10])
                found.setdefault(host, {}).setdefault((gpu, hca), figure)
    return {host: tuple(each.values()) for host, each in found.items()}


def _ends(one: Earlier) -> list[tuple[str, str, str]]:
    """Host, GPU and HCA of both ends; none where this is no such figure."""
    test = one.same
    if test.tool != _TOOL or test.kind != Kind.DEEP or one.unit != _UNIT or one.fell_back:
        return []
    if any(part.buffer not in _GPU for part in test.parts):
        return []
    return [(part.host, part.gpu, part.hca) for part in test.parts]
