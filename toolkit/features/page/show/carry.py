"""What a node's paths are predicted to carry, as a table that equal nodes share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.facts.rdma.measured import SIMULATED, Measured
from toolkit.features.predict.plan.pair import PairPrediction
from toolkit.features.predict.plan.totals import Prediction


@dataclass(frozen=True, slots=True)
class Path:
    """Pairs of which the same is predicted."""

    pairs: tuple[tuple[str, str], ...]  # GPU's address, HCA's name
    now: str  # as it stands: "48.2 GB/s (44-50)"
    limit: str
    ring: str  # of a collective between nodes
    without: str  # through host memory
    blocked: str  # what keeps GPUDirect from working; "" where nothing does


@dataclass(frozen=True, slots=True)
class Carry:
    """Of one node: each GPU with the HCAs that none is nearer than, and all together."""

    paths: tuple[Path, ...]
    total: str  # "94.6 GB/s (82-100), limited by 2 HCAs of wire"; "" where not told
    without: str  # the same through host memory
    notes: tuple[str, ...]


def carry(told: Prediction) -> Carry | None:
    """The table of one node; None where nothing tells of a pair."""
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for pair in told.nearest:
        alike.setdefault(_figures(pair), []).append((pair.gpu, pair.name or pair.hca))
    if not alike:
        return None
    paths = tuple(Path(tuple(pairs), *figures) for figures, pairs in alike.items())
    total = told.total
    return Carry(
        paths,
        total.with_gdr.said if total else "",
        total.without_gdr.said if total else "",
        told.notes,
    )


def in_short(path: Path, figures: Iterable[Measured]) -> str:
    """What was measured over the pairs of a path, in a few words; "" where nothing was."""
    mine = [each for each in figures if (each.gpu, each.hca) in path.pairs]
    if not mine:
        return ""
    values = [each.value for each in mine]
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    span = f"{low} GB/s" if low == high else f"{low}-{high} GB/s"
    times = f", {len(mine)} times" if len(mine) > 1 else ""
    return span + times + SIMULATED * any(each.tool.endswith(SIMULATED) for each in mine)


def _figures(pair: PairPrediction) -> tuple[str, str, str, str, str]:
    return (
        pair.now.figure,
        pair.now.limit,
        f"{pair.collective.figure}, limited by {pair.collective.limit}",
        pair.without_gdr.figure,
        pair.blocked,
    )
