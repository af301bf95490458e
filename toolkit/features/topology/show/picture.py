"""Pictures as boxes, lines and words, with one writer, SVG; and the picture of where the bytes go.

Units are pixels at a scale of one; y grows downwards. What varies is a class, never a style, so
that the policy of a page can forbid every style but its own. All text is escaped here.

Bytes go with GPUDirect, and through host memory, as on a whiteboard. The way that is open as the
node stands is drawn to move; the other one stands still, and both do where that was not read. What
keeps GPUDirect from working, or sends it the long way, is said where it happens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.view import GpuWay, TopologyView
from toolkit.report.pages import plain
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import NOT_TOLD
from toolkit.throughput.pair import PairPrediction

SIZE = 12.0  # of type
LEADING = 15.0
PAD = 9.0  # between a box and its words

# Advance widths in ems, those of DejaVu Sans rounded up: no font of our stack is wider.
_WIDTHS = {
    **dict.fromkeys("ijl|'.,:;! ", 0.36),
    **dict.fromkeys("frt()[]-/", 0.46),
    **dict.fromkeys("mwMW@%", 1.0),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 0.79),
}
_USUAL, _WIDE = 0.66, 1.05


@dataclass(frozen=True, slots=True)
class PictureText:
    """One line of text; ``y`` is its baseline."""

    x: float
    y: float
    text: str
    look: str = ""
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Box:
    """A thing, with what it is called and what is told of it when pointed at, or read aloud."""

    x: float
    y: float
    width: float
    height: float
    look: str
    lines: tuple[tuple[str, str], ...]  # text and look; already fitted
    told: str  # whole sentences: the title on hover, and what a screen reader says
    stop: bool = False  # reached by the keyboard

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class PictureLine:
    points: tuple[tuple[float, float], ...]
    look: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    id: str  # of its title and description, unique in a page
    width: float
    height: float
    title: str
    told: str  # the whole of it in words, for who does not see it
    boxes: tuple[Box, ...]
    lines: tuple[PictureLine, ...] = ()
    words: tuple[PictureText, ...] = ()


def measured(text: str, size: float = SIZE) -> float:
    """The width of a text, pixels, at most."""
    return sum(_WIDTHS.get(char) or _unusual(char) for char in text) * size


def _unusual(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    return _WIDE if unicodedata.east_asian_width(char) in "WF" or ord(char) > 0x2FF else _USUAL


def fitted(text: str, width: float, size: float = SIZE) -> str:
    """The text, cut where it is wider than ``width`` pixels."""
    whole = plain(" ".join(text.split()))
    if measured(whole, size) <= width:
        return whole
    kept = whole
    while kept and measured(kept + "…", size) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…" if measured("…", size) <= width else ""


def svg(picture: Picture, style: str = "") -> str:
    """The picture, to stand in a page or, with a style, alone in a file."""
    return "".join(_parts(picture, style))


def _parts(picture: Picture, style: str) -> Iterator[str]:
    wide, high = f"{picture.width:g}", f"{picture.height:g}"
    ids = f"{picture.id}-title {picture.id}-told"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}" role="group" aria-labelledby="{escape(ids)}">\n'
    )
    yield f'<title id="{escape(picture.id)}-title">{_escaped(picture.title)}</title>\n'
    yield f'<desc id="{escape(picture.id)}-told">{_escaped(picture.told)}</desc>\n'
    if style:
        yield f"<style>{escape(style, quote=False)}</style>\n"
        yield f'<rect class="ground" width="{wide}" height="{high}"/>\n'
    yield from map(_line, picture.lines)
    yield from map(_box, picture.boxes)
    yield from map(_words, picture.words)
    yield "</svg>\n"


def _line(line: PictureLine) -> str:
    points = " ".join(f"{x:g},{y:g}" for x, y in line.points)
    told = f"<title>{_escaped(line.told)}</title>" if line.told else ""
    return f'<polyline class="{escape(line.look)}" points="{points}">{told}</polyline>\n'


def _box(box: Box) -> str:
    stop = f' tabindex="0" role="img" aria-label="{_escaped(box.told)}"' if box.stop else ""
    parts = [
        f'<g class="{escape(box.look)}"{stop}><title>{_escaped(box.told)}</title>',
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6"/>',
    ]
    first = box.middle - (len(box.lines) - 1) * LEADING / 2 + SIZE * 0.36
    for number, (text, look) in enumerate(box.lines):
        parts.append(_words(PictureText(box.x + PAD, first + number * LEADING, text, look)))
    return "".join(parts) + "</g>\n"


def _words(words: PictureText) -> str:
    anchor = f' text-anchor="{escape(words.anchor)}"' if words.anchor != "start" else ""
    look = f' class="{escape(words.look)}"' if words.look else ""
    return f'<text x="{words.x:g}" y="{words.y:g}"{look}{anchor}>{_escaped(words.text)}</text>\n'


def _escaped(text: str) -> str:
    """Escaped, and without characters that XML cannot hold."""
    return escape(plain(text).replace("\t", " "))


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
