"""The PCIe tree of a node as a picture: from root complexes on the left to GPUs and HCAs.

Ends stand in one column, a row each. A bracket at the right joins each GPU to the HCAs that none
is nearer than; what it can carry stands beside the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.view import NOT_READ, GpuWay, Root, TopologyView, TreePlace
from toolkit.plural import and_more, counted
from toolkit.report.picture import PAD, Box, Picture, PictureLine, PictureText, fitted
from toolkit.throughput.pair import PairPrediction

_ROOT, _BRIDGE, _END = 138.0, 182.0, 232.0  # widths of boxes
_GAP = 84.0  # between columns, where a link's label stands
_ROW, _HIGH, _APART = 54.0, 44.0, 20.0
_EDGE = 14.0
_LANE, _TOLD = 13.0, 380.0  # between brackets; for what is told beside a GPU
_ENDS = frozenset({"GPU", "HCA"})
_NEAR = frozenset({"C2C", "PIX", "PXB", "P2C"})
_SMALL = 11.0


class _Drawing(Struct):
    deepest: int
    blocking: frozenset[str]  # addresses of bridges that redirect on the path of a pair
    boxes: list[Box] = field(default_factory=list)
    lines: list[PictureLine] = field(default_factory=list)
    words: list[PictureText] = field(default_factory=list)
    ends: dict[str, Box] = field(default_factory=dict)  # by address and by name
    y: float = _EDGE  # of the next row

    def column(self, depth: int) -> float:
        return _EDGE + (_ROOT + _GAP) * min(depth, 1) + (_BRIDGE + _GAP) * max(0, depth - 1)


def tree_picture(view: TopologyView, found: Prediction, name: str) -> Picture:
    """The picture of a node; of one whose evidence has no tree, GPUs beside HCAs.

    :param name: unique among the pictures of a page, for ids.
    """
    roots = view.roots or _flat(view)
    drawing = _Drawing(
        max((_depth(each) for root in roots for each in root.below), default=1),
        frozenset(one.rpartition(": ")[0] for way in view.ways for one in way.redirects or ()),
    )
    for root in roots:
        _root(drawing, root, tree=bool(view.roots))
    lanes = _brackets(drawing, view)
    right = drawing.column(drawing.deepest) + _END
    _beside(drawing, view, found, right + PAD * 2 + lanes * _LANE)
    width = right + PAD * 2 + lanes * _LANE + (_TOLD if view.ways else 0) + _EDGE
    both = f"{counted(len(view.gpus), 'GPU')} and {counted(len(view.hcas), 'HCA')}"
    return Picture(
        name,
        width,
        drawing.y + _EDGE,
        f"{view.host}: {both}, read from: {view.source}",
        " ".join(_sentences(view)),
        tuple(drawing.boxes),
        tuple(drawing.lines),
        tuple(drawing.words),
    )


def _depth(place: TreePlace) -> int:
    return 1 + max((_depth(each) for each in place.below), default=0)


def _flat(view: TopologyView) -> tuple[Root, ...]:
    """What stands in for a tree where none was read: who is there, and no word of how."""
    names = {way.hca for way in view.ways} | set(view.hcas)
    ends = [TreePlace(gpu, "GPU", "", "", "", "", "", "", "", ()) for gpu in view.gpus]
    ends += [TreePlace(hca, "HCA", "", "", "", "", "", "", "", ()) for hca in sorted(names)]
    return (Root("not read", -1, tuple(ends)),)


def _root(drawing: _Drawing, root: Root, *, tree: bool) -> None:
    top = drawing.y
    tops = [_place(drawing, each, 1) for each in root.below]
    if not tops:
        return
    numa = f"NUMA node {root.numa}" if root.numa >= 0 else "NUMA not told"
    numa = "several NUMA nodes" if root.several else numa
    called, more = (root.name, numa) if tree else ("PCIe tree", "not read")
    room = _ROOT - 2 * PAD
    box = Box(
        _EDGE,
        top,
        _ROOT,
        drawing.y - top - (_ROW - _HIGH),
        "root",
        ((fitted(called, room), "name"), (fitted(more, room), "more")),
        f"root complex {root.name}, {numa}" if tree else "the PCIe tree was not read",
    )
    drawing.boxes.append(box)
    if tree:
        drawing.lines += [
            PictureLine(((box.right, each.middle), (each.x, each.middle)), "inside")
            for each in tops
        ]
    drawing.y += _APART


def _place(drawing: _Drawing, place: TreePlace, depth: int) -> Box:
    below = [(each, _place(drawing, each, depth + 1)) for each in place.below]
    if below:
        middle = (below[0][1].middle + below[-1][1].middle) / 2
    else:
        middle = drawing.y + _HIGH / 2
        drawing.y += _ROW
    x = drawing.column(drawing.deepest if not below else depth)
    blocks = place.address in drawing.blocking
    end = place.kind in _ENDS
    width = _END if end else _BRIDGE
    sends_up = bool(place.acs) and place.acs != NOT_READ
    second = " ".join(each for each in (place.name or place.ids, place.use) if each)
    if place.acs:
        second = place.acs if sends_up else "ACS not read"
    lines = [(f"{place.kind} {place.address}", "name"), (second, "bad" if blocks else "more")]
    look = f"{place.kind.lower().replace(' ', '-')}{' blocks' if blocks else ''}"
    box = Box(
        x,
        middle - _HIGH / 2,
        width,
        _HIGH,
        look,
        tuple((fitted(text, width - 2 * PAD), kind) for text, kind in lines if text),
        _told(place, blocks=blocks),
        end or sends_up,
    )
    drawing.boxes.append(box)
    if not below:
        drawing.ends |= {place.address: box} | ({place.name: box} if place.kind == "HCA" else {})
    for child, lower in below:
        _edge(drawing, box, child, lower)
    return box


def _told(place: TreePlace, *, blocks: bool) -> str:
    told = f"{place.kind} {place.address} {place.name} {place.use}".strip()
    if place.now:
        told += f"; link {place.now}" + (f" of {place.best}" if place.best != place.now else "")
    if place.acs == NOT_READ:
        return f"{told}; its ACS registers were not read"
    if place.acs:
        where = "in the way" if blocks else "on no path of a pair"
        return f"{told}; ACS sends peer traffic up ({place.acs}), {where}; {place.register}"
    return f"{told}; ACS redirects nothing; {place.register}" if place.register else told


def _edge(drawing: _Drawing, upper: Box, child: TreePlace, lower: Box) -> None:
    """A link has its label; the ports of one switch have no link between them."""
    half = upper.right + 12
    points = ((upper.right, upper.middle), (half, upper.middle), (half, lower.middle))
    link = child.kind in {"switch", *_ENDS} and child.now
    worn = link and child.best not in ("", child.now) and child.kind != "GPU"
    look = "worn" if worn else "link" if link else "inside"
    told = f"{child.now}, best {child.best or 'not told'}" if link else ""
    drawing.lines.append(PictureLine((*points, (lower.x, lower.middle)), look, told))
    if link:
        speed = f"Gen{child.generation} " if child.generation else ""
        lanes = child.now.rpartition(" ")[2]
        room, x = _GAP - 20, lower.x - 5
        kind = "small worn-word" if worn else "small"
        drawing.words += [
            PictureText(x, lower.middle - 5, fitted(speed + lanes, room, _SMALL), kind, "end"),
            PictureText(x, lower.middle + 14, f"{child.gigabytes:.1f} GB/s", kind, "end"),
        ]


def _chosen(view: TopologyView) -> dict[str, list[GpuWay]]:
    """By GPU: the HCAs that none is nearer than; one stands for all where none is near."""
    chosen: dict[str, list[GpuWay]] = {}
    for way in view.ways:
        ways = chosen.setdefault(way.gpu, [])
        if way.nearest and (way.distance in _NEAR or not ways):
            ways.append(way)
    return chosen


def _brackets(drawing: _Drawing, view: TopologyView) -> int:
    """Join GPUs and HCAs.

    :returns: how many lanes the brackets take.
    """
    lanes: list[list[tuple[float, float]]] = []
    spans = []
    for way in (each for ways in _chosen(view).values() for each in ways):
        gpu, hca = drawing.ends.get(way.gpu), drawing.ends.get(way.hca)
        if gpu is not None and hca is not None:
            spans.append((way, gpu, hca))
    for way, gpu, hca in sorted(spans, key=lambda each: abs(each[1].middle - each[2].middle)):
        low, high = sorted((gpu.middle, hca.middle))
        free = (at for at, taken in enumerate(lanes) if all(high < a or b < low for a, b in taken))
        lane = next(free, len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((low, high))
        x = gpu.right + PAD + lane * _LANE
        points = (
            (gpu.right, gpu.middle),
            (x, gpu.middle),
            (x, hca.middle),
            (hca.right, hca.middle),
        )
        look = "way stopped" if way.redirects else "way" if way.distance in _NEAR else "way far"
        drawing.lines.append(PictureLine(points, look, f"{way.gpu} with {way.hca}: {way.distance}"))
    return len(lanes)


def _beside(drawing: _Drawing, view: TopologyView, found: Prediction, x: float) -> None:
    """Beside each GPU: with which HCA, how far, and what that can carry."""
    told: Mapping[tuple[str, str], PairPrediction] = {
        (each.gpu, each.name): each for each in found.pairs
    }
    counts = {
        way.gpu: sum(each.nearest and each.gpu == way.gpu for each in view.ways)
        for way in view.ways
    }
    for gpu, ways in _chosen(view).items():
        box = drawing.ends.get(gpu)
        if box is None or not ways:
            continue
        first = ways[0]
        names = first.hca + and_more(counts[gpu] - 1)
        head = fitted(f"{first.distance}  {names}", _TOLD)
        figure = told.get((gpu, first.hca))
        drawing.words.append(PictureText(x, box.middle - 3, head, "name"))
        line, look = _carried(first, figure)
        drawing.words.append(PictureText(x, box.middle + 13, fitted(line, _TOLD), look))


def _carried(way: GpuWay, figure: PairPrediction | None) -> tuple[str, str]:
    if figure is not None and figure.blocked:
        return f"{figure.without_gdr.figure} through host memory: {figure.blocked}", "more bad"
    if way.redirects:
        ring = f", {figure.collective.figure} in collectives" if figure else ""
        return f"sent up by ACS{ring}", "more bad"
    if figure is not None and figure.untold:
        return f"if GPUDirect works, which was not read: {figure.with_gdr.figure}", "more"
    return (figure.with_gdr.said if figure else "what it can carry is not told"), "more"


def _sentences(view: TopologyView) -> Iterable[str]:
    for way in view.ways:
        if way.nearest:
            stopped = f", sent up by {', '.join(way.redirects)}" if way.redirects else ""
            if way.redirects is None and way.distance in {"PIX", "PXB"}:
                stopped = ", ACS not read"
            yield f"{way.gpu} to {way.hca}: {way.distance}{stopped}."
