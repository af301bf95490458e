"""The topology of nodes as pictures: one file of SVG, or a page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup
from msgspec import Struct

from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.picture_tree import tree_picture
from toolkit.features.topology.show.view import GpuWay, TopologyView
from toolkit.plural import counted
from toolkit.report import pages
from toolkit.report.pages import render
from toolkit.report.picture import PAD, Box, Picture, PictureLine, PictureText, fitted, svg
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import NOT_TOLD
from toolkit.throughput.pair import PairPrediction

# The picture of where the bytes go.
# Bytes go with GPUDirect, and through host memory, as on a whiteboard. The way that is open as the
# node stands is drawn to move; the other one stands still, and both do where that was not read.
# What keeps GPUDirect from working, or sends it the long way, is said where it happens.
_BOX, _HIGH, _GAP = 168.0, 46.0, 62.0
_EDGE, _HEAD = 16.0, 30.0
_STRIPE = 142.0  # of one way, with what is said of it
NEAR = frozenset({"PIX", "PXB"})
_COHERENT = frozenset({"C2C", "P2C"})


class _Stop(Struct, frozen=True):
    """One thing that bytes go through."""

    name: str
    more: str
    look: str


class _Stripe(Struct, frozen=True):
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
            ((_estimate(figure.without_gdr if figure else None), "more"),),
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
        ring = _estimate(figure.collective if figure else None)
        return ((by, "bad"), (f"in collectives {ring}", "more"), *told)
    return ((_estimate(figure.with_gdr if figure else None), "more"), *told)


def _estimate(told: Estimate | None) -> str:
    return told.said if told else "what it can carry is not told"


def _told(
    direct: Sequence[_Stop], copied: Sequence[_Stop], way: GpuWay, figure: PairPrediction | None
) -> str:
    with_it = ", ".join(each.name for each in direct)
    without = ", ".join(each.name for each in copied)
    said = "; ".join(text for text, _ in _direct_said(way, figure))
    other = _estimate(figure.without_gdr if figure else None)
    return f"With GPUDirect RDMA: {with_it}; {said}. Without: {without}; {other}."


_STYLES = ("base.css", "picture.css", "topology.css")
_TREE = "The PCIe tree: each link with its generation, width and bandwidth one way"
_WAY = (
    "Where the bytes go; what moves is the way that is open as this node stands, and nothing where "
    "that was not read"
)


class Drawn(Struct, frozen=True):
    """One node: what was seen of it, and what its paths can carry."""

    view: TopologyView
    found: Prediction


class _Figure(Struct, frozen=True):
    drawing: Markup
    caption: str


class _Row(Struct, frozen=True):
    gpu: str
    hca: str
    distance: str
    direct: str
    copied: str
    trouble: str


class _Node(Struct, frozen=True):
    id: str
    host: str
    summary: str
    pictures: tuple[_Figure, ...]
    rows: tuple[_Row, ...]
    notes: tuple[str, ...]


def tree_svg(drawn: Drawn) -> str:
    """The tree of one node, as a file of its own."""
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    return head + svg(tree_picture(drawn.view, drawn.found, "tree"), _alone())


@cache
def _alone() -> str:
    """What of the pages' style a picture needs outside of them: its colours, and its own."""
    folder = Path(pages.__file__).parent
    base = (folder / "base.css").read_text(encoding="utf-8")
    colours = base[: base.index("* { box-sizing")]
    return colours + (folder / "picture.css").read_text(encoding="utf-8")


def page(nodes: Sequence[Drawn], failures: Sequence[str], command: str) -> Iterator[str]:
    """The page, part by part.

    :param failures: a sentence for each node that there is no picture of.
    :param command: what made it, as an operator would type it.
    """
    title = f"{nodes[0].view.host}: GPUs and HCAs" if len(nodes) == 1 else ""
    return render(
        "topology.html",
        {
            "title": title or f"GPUs and HCAs of {counted(len(nodes), 'node')}",
            "nodes": [_node(each, number) for number, each in enumerate(nodes)],
            "failures": failures,
            "command": command,
        },
        styles=_STYLES,
    )


def _node(drawn: Drawn, number: int) -> _Node:
    view = drawn.view
    both = f"{counted(len(view.gpus), 'GPU')}, {counted(len(view.hcas), 'HCA')}"
    way = way_picture(view, drawn.found, f"way{number}")
    figures = [_figure(tree_picture(view, drawn.found, f"tree{number}"), _TREE)]
    figures += [_figure(way, _WAY)] if way else []
    return _Node(
        f"node{number}",
        view.host,
        f"{both}, read from: {view.source}",
        tuple(figures),
        tuple(_rows(drawn)),
        view.notes,
    )


def _figure(picture: Picture, caption: str) -> _Figure:
    return _Figure(Markup(svg(picture)), caption)  # noqa: S704 # the writer escapes all text


def _rows(drawn: Drawn) -> Iterator[_Row]:
    figures = {(each.gpu, each.name): each for each in drawn.found.pairs}
    for way in drawn.view.ways:
        if not way.nearest:
            continue
        figure = figures.get((way.gpu, way.hca))
        trouble = [figure.blocked] if figure and figure.blocked else []
        trouble += [f"ACS at {each}" for each in way.redirects or ()]
        trouble += [NOT_TOLD] if figure is None or figure.untold else []
        trouble += ["ACS not read"] if way.redirects is None and way.distance in NEAR else []
        yield _Row(
            way.gpu,
            way.hca,
            way.distance,
            figure.with_gdr.said if figure else "not told",
            figure.without_gdr.said if figure else "not told",
            "; ".join(trouble),
        )
