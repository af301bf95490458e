"""The picture of where the bytes go.

Bytes go with GPUDirect, and through host memory, as on a whiteboard. The way that is open as the
node stands is drawn to move; the other one stands still, and both do where that was not read. What
keeps GPUDirect from working, or sends it the long way, is said where it happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.view import GpuWay, TopologyView
from toolkit.report.picture import PAD, Box, Picture, PictureLine, PictureText, fitted
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import NOT_TOLD
from toolkit.throughput.pair import PairPrediction

_BOX, _HIGH, _GAP = 168.0, 46.0, 62.0
_EDGE, _HEAD = 16.0, 30.0
_STRIPE = 142.0  # of one way, with what is said of it
NEAR = frozenset({"PIX", "PXB"})
_COHERENT = frozenset({"C2C", "P2C"})


@dataclass(frozen=True, slots=True)
class _Stop:
    """One thing that bytes go through."""

    name: str
    more: str
    look: str


@dataclass(frozen=True, slots=True)
class _Stripe:
    """One way, with what is said of it: texts and their looks."""

    title: str
    stops: tuple[_Stop, ...]
    moving: bool  # the bytes go this way as the node stands
    said: tuple[tuple[str, str], ...]


def way_picture(view: TopologyView, found: Prediction, name: str) -> Picture | None:
    """The pair that is worst off, or the first; None where no GPU and HCA are told."""
    chosen = _worst(view, found)
    if chosen is None:
        return None
    way, figure = chosen
    direct, copied = _direct(way), _copied(way)
    blocked = figure.blocked if figure else ""
    works = figure is not None and not blocked and not figure.untold
    stripes = (
        _Stripe("with GPUDirect RDMA", direct, works, _direct_said(way, figure)),
        _Stripe(
            "without it: twice through host memory",
            copied,
            bool(blocked),
            ((_figure(figure.without_gdr if figure else None), "more"),),
        ),
    )
    boxes: list[Box] = []
    lines: list[PictureLine] = []
    words: list[PictureText] = []
    width = 2 * _EDGE + max(len(direct), len(copied)) * (_BOX + _GAP) - _GAP
    for number, stripe in enumerate(stripes):
        top = _EDGE + number * _STRIPE
        row = _row(stripe.stops, top + _HEAD)
        stopped = not number and (blocked or way.redirects)
        boxes += row
        lines += _joined(row, " ".join(_look(stripe, stopped=bool(stopped))))
        words += _way_texts(stripe, top, width - 2 * _EDGE)
    return Picture(
        name,
        width,
        _EDGE + 2 * _STRIPE - 14,
        f"{view.host}: where bytes go between {way.hca} and {way.gpu}",
        _told(direct, copied, way, figure),
        tuple(boxes),
        tuple(lines),
        tuple(words),
    )


def _look(stripe: _Stripe, *, stopped: bool) -> tuple[str, ...]:
    return ("flow" if stripe.moving else "still", *(("stopped",) if stopped else ()))


def _way_texts(stripe: _Stripe, top: float, room: float) -> Iterator[PictureText]:
    now = "  (as this node is now)" if stripe.moving else ""
    yield PictureText(_EDGE, top + 14, stripe.title + now, "name")
    for number, (text, look) in enumerate(stripe.said):
        y = top + _HEAD + _HIGH + 20 + number * 17
        yield PictureText(_EDGE, y, fitted(text, room), look)


def _worst(view: TopologyView, found: Prediction) -> tuple[GpuWay, PairPrediction | None] | None:
    figures = {(each.gpu, each.name): each for each in found.pairs}
    nearest = [(way, figures.get((way.gpu, way.hca))) for way in view.ways if way.nearest]

    def ill(pair: tuple[GpuWay, PairPrediction | None]) -> tuple[bool, bool, float]:
        way, figure = pair
        return (
            not (figure and figure.blocked),
            not way.redirects,
            figure.now.value if figure else 0.0,
        )

    return min(nearest, key=ill, default=None)


def _direct(way: GpuWay) -> tuple[_Stop, ...]:
    """From the wire into the GPU: by a switch, or by way of the root complex."""
    start = (_Stop("network", "", "wire"), _Stop(way.hca, "HCA", "hca"))
    end = _Stop("GPU", way.gpu, "gpu")
    switch = _Stop("PCIe switch", "", "switch")
    root = _Stop("root complex", "ACS sends it up" if way.redirects else way.distance, "root")
    if way.distance in _COHERENT:
        return (*start, _Stop("CPU", "NVLink-C2C", "root"), end)
    if way.distance not in NEAR:
        return (*start, root if way.distance != "?" else _Stop("a path not told", "", "root"), end)
    if way.redirects:
        return (*start, switch, root, switch, end)
    several = "es" if way.distance == "PXB" else ""
    return (*start, _Stop(f"PCIe switch{several}", way.distance, "switch"), end)


def _copied(way: GpuWay) -> tuple[_Stop, ...]:
    return (
        _Stop("network", "", "wire"),
        _Stop(way.hca, "HCA", "hca"),
        _Stop("root complex", "written", "root"),
        _Stop("host memory", "copied there", "memory"),
        _Stop("root complex", "read again", "root"),
        _Stop("GPU", way.gpu, "gpu"),
    )


def _row(stops: Sequence[_Stop], y: float) -> list[Box]:
    row = []
    for number, stop in enumerate(stops):
        pairs = ((stop.name, "name"), (stop.more, "more"))
        lines = tuple((fitted(text, _BOX - 2 * PAD), look) for text, look in pairs if text)
        x = _EDGE + number * (_BOX + _GAP)
        told = f"{stop.name} {stop.more}".strip()
        row.append(Box(x, y, _BOX, _HIGH, stop.look, lines, told))
    return row


def _joined(row: Sequence[Box], look: str) -> list[PictureLine]:
    return [
        PictureLine(((left.right, left.middle), (right.x, right.middle)), look)
        for left, right in pairwise(row)
    ]


def _direct_said(way: GpuWay, figure: PairPrediction | None) -> tuple[tuple[str, str], ...]:
    if figure is not None and figure.blocked:
        would = f"it would be {figure.with_gdr.said}"
        return ((f"not now: {figure.blocked}", "bad"), (would, "more"))
    unread = [NOT_TOLD] if figure is None or figure.untold else []
    if way.redirects is None and way.distance in NEAR:
        unread.append("whether ACS sends it the long way was not read")
    told = tuple((each, "more") for each in unread)
    if way.redirects:
        by = f"the long way, sent up by {', '.join(way.redirects)}"
        ring = _figure(figure.collective if figure else None)
        return ((by, "bad"), (f"in collectives {ring}", "more"), *told)
    return ((_figure(figure.with_gdr if figure else None), "more"), *told)


def _figure(told: Estimate | None) -> str:
    return told.said if told else "what it can carry is not told"


def _told(
    direct: Sequence[_Stop], copied: Sequence[_Stop], way: GpuWay, figure: PairPrediction | None
) -> str:
    with_it = ", ".join(each.name for each in direct)
    without = ", ".join(each.name for each in copied)
    said = "; ".join(text for text, _ in _direct_said(way, figure))
    other = _figure(figure.without_gdr if figure else None)
    return f"With GPUDirect RDMA: {with_it}; {said}. Without: {without}; {other}."
