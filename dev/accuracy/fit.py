"""Constants from points: of each source the median, and of these the median.

Fitted in an order in which each rests on those before it. A constant that no point is left for
takes its prior, or what another constant was fitted to (toolkit/compat/data/throughput.toml).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan
from statistics import median

from dev.accuracy.apply import by_link, healthy, on_wire, path
from dev.accuracy.points import Point, Tier
from toolkit.compat.throughput import Constant, Constants, Range
from toolkit.throughput.model import Poster, line, mpi_latency, raw

_SMALL = 65536  # bytes below which a message's own cost counts
_LARGE = 1 << 20  # and from which it does not; nor where no size is told
_NONE = float("nan")


@dataclass(frozen=True, slots=True)
class Fit:
    """What one point says of one constant; nan where it says nothing."""

    name: str
    says: Callable[[Point, Constants], float]
    of_source: Callable[[list[float]], float] = median


def fitted(points: Iterable[Point], c: Constants) -> Constants:
    """The table with every fitted constant anew."""
    told = list(points)
    values: dict[str, float | Range] = {}
    for fit in FITS:
        row = c.rows[fit.name]
        here = [*_values(fit, told, c.but(values)), *row.also]
        if here:
            values[fit.name] = median(here)
        elif row.prior is not None:
            values[fit.name] = _stand_in(row, row.prior)
    for name, row in c.rows.items():  # those that take another's, once all are there
        if row.prior_of and name not in values:
            other = values.get(row.prior_of, c.rows[row.prior_of].range.value)
            values[name] = _stand_in(row, other)
    return c.but(values)


def _stand_in(row: Constant, value: float | Range) -> float | Range:
    """With the bounds that the row gives to what stands in."""
    middle = value.value if isinstance(value, Range) else value
    if row.prior_bounds is None:
        return middle
    low, high = row.prior_bounds
    return Range(middle, min(low, middle), max(high, middle))


def _values(fit: Fit, points: list[Point], c: Constants) -> list[float]:
    """One value of each source that says something."""
    by_source: dict[str, list[float]] = {}
    for point in points:
        value = fit.says(point, c)
        if not isnan(value):
            by_source.setdefault(point.source, []).append(value)
    return [fit.of_source(values) for values in by_source.values()]


def _large(point: Point) -> bool:
    return not point.size or point.size >= _LARGE


def _upkeep(point: Point, c: Constants) -> float:
    """Of each source the best: what remains when nothing else is in the way."""
    d2h = point.kind == "pcie_copy" and point.op.startswith("d2h")
    whole = d2h or (point.kind in {"pcie_p2p", "gds"} and not point.reads)
    if point.link is None or point.tier is not Tier.A or not whole:
        return _NONE
    size = c["payload-assumed"].value
    share = point.measured / (raw(point.link, c) * size / (size + c["tlp-overhead"].value))
    return share if share < 1 else _NONE  # several GPUs


def _fabric(point: Point, _: Constants) -> float:
    big = point.kind in {"verbs_bw", "mpi_bw"} and point.size >= _SMALL and point.tier is Tier.A
    wanted = big and point.fabric == "ib" and not point.both_ways
    return point.measured / line(point.gbits) if wanted else _NONE


def _same(cpu: str) -> Callable[[Point, Constants], float]:
    def says(point: Point, c: Constants) -> float:
        if point.cpu != cpu or point.path != "rc_same" or point.kind == "pcie_copy" or point.reads:
            return _NONE
        share = point.measured / by_link(point, c).value
        return share if share < 1.1 else _NONE  # several GPUs on one wire

    return says


def _cross(cpu: str) -> Callable[[Point, Constants], float]:
    def says(point: Point, c: Constants) -> float:
        there = point.cpu == cpu and point.path == "rc_cross" and not point.reads
        return point.measured / by_link(point, c).value if there else _NONE

    return says


def _ring(point: Point, c: Constants) -> float:
    if point.kind != "coll" or point.tier is not Tier.A:
        return _NONE
    return point.measured / path(point, c).value if point.nodes <= 2 else _NONE


def _copy(point: Point, c: Constants) -> float:
    return point.measured / by_link(point, c).value if point.kind == "pcie_copy" else _NONE


def _ratio(kind: str) -> Callable[[Point, Constants], float]:
    """Against the sound node; points of tier C are left out."""

    def says(point: Point, c: Constants) -> float:
        if point.kind != kind or point.tier is Tier.C or point.stream:
            return _NONE
        return point.measured / healthy(point, c).value

    return says


def _staged_coherent(point: Point, c: Constants) -> float:
    if (point.kind, point.path) != ("staged", "c2c_staged") or not _large(point):
        return _NONE
    return point.measured / (on_wire(point, c).value * point.hcas)


def _staged(point: Point, c: Constants) -> float:
    one = (point.kind, point.path, point.hcas) == ("staged", "staged", 1)
    if not one or not _large(point):
        return _NONE
    copy = by_link(point, c) * c["copy-efficiency"]
    return point.measured / on_wire(point, c).at_most(copy).value


def _staged_node(point: Point, _: Constants) -> float:
    there = (point.kind, point.path) == ("staged", "staged") and point.stream
    return point.measured / point.stream if there else _NONE


def _gap(point: Point, c: Constants) -> float:
    """Where many messages are in flight and the bytes alone do not explain the time."""
    many = point.kind == "verbs_bw" and point.depth >= 64 and 0 < point.size <= _SMALL
    if not many or point.poster is not Poster.CORE:  # others have constants of their own
        return _NONE
    power = c["message-gap-power"].value
    took = point.size / point.measured / 1e3
    bytes_alone = point.size / path(point, c).value / 1e3
    left = took**power - bytes_alone**power
    return float(left ** (1 / power)) if took > 1.01 * bytes_alone else _NONE


def _window(point: Point, c: Constants) -> float:
    """Where few messages are in flight, and they do not fill the wire."""
    whole = path(point, c).value
    if point.kind != "verbs_bw" or not 0 < point.depth < 64 or point.measured > 0.95 * whole:
        return _NONE
    window = point.depth * point.size
    return point.pairs * window / point.measured / 1e3 - window / whole / 1e3


def _mpi(point: Point, _: Constants) -> float:
    first = point.kind == "mpi_lat" and point.size == 1 and not point.host
    first = first and point.fabric != "efa"  # a constant of its own
    return point.measured if first else _NONE


def _over_mpi(way: str) -> Callable[[Point, Constants], float]:
    def says(point: Point, c: Constants) -> float:
        wanted = point.kind == "mpi_lat_nogdr" and point.path == way and point.size == 1
        wanted = wanted and point.fabric != "efa"
        return point.measured - c["latency-mpi"].value if wanted else _NONE

    return says


def _unpipelined(point: Point, c: Constants) -> float:
    if point.path != "staged_sync" or not _large(point):
        return _NONE
    if point.kind == "fallback":
        return point.measured
    if point.kind != "mpi_lat_nogdr":
        return _NONE
    base = mpi_latency(1, on_wire(point, c), c["latency-mpi"], c).value
    return point.size / (point.measured - base - c["latency-memcpy"].value) / 1e3


FITS = (
    Fit("link-upkeep", _upkeep, max),
    Fit("ib-efficiency", _fabric),
    Fit("same-genoa", _same("amd-genoa")),
    Fit("same-turin", _same("amd-turin")),
    Fit("cross-genoa", _cross("amd-genoa")),
    Fit("cross-turin", _cross("amd-turin")),
    Fit("cross-older", _cross("older")),
    Fit("ring-efficiency", _ring),
    Fit("copy-efficiency", _copy),
    Fit("acs-collective", _ratio("acs")),
    Fit("iommu-client", _ratio("iommu")),
    Fit("staged-coherent", _staged_coherent),
    Fit("staged", _staged),
    Fit("staged-node", _staged_node),
    Fit("message-gap", _gap),
    Fit("window-latency", _window),
    Fit("latency-mpi", _mpi),
    Fit("latency-mapped", _over_mpi("staged_gdrcopy")),
    Fit("latency-memcpy", _over_mpi("staged_sync")),
    Fit("staged-unpipelined", _unpipelined),
)
