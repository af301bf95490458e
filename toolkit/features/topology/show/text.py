"""The topology of nodes as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.features.topology.show.view import NOT_READ, GpuWay, Root, TopologyView, TreePlace
from toolkit.plural import counted
from toolkit.report.document import Json, picked
from toolkit.report.table import WIDTH, Ink, Painter, clean, columns

_LEAST = 8  # characters that are left of a name
SCHEMA = "gdr-toolkit/topology/1"
_FAR = frozenset({"PHB", "NODE", "SYS", "NODE or SYS", "?"})  # none of these HCAs is preferred


def text(view: TopologyView, paint: Painter) -> str:
    """The tree, each GPU with its nearest HCAs, and the distances of all."""
    both = f"{counted(len(view.gpus), 'GPU')}, {counted(len(view.hcas), 'HCA')}"
    head = f"{view.host}  {both}, read from: {view.source}"
    lines = [paint(clean(head), Ink.BOLD)]
    for root in view.roots:
        lines += ["", *_root(root, paint)]
    if view.ways:
        lines += ["", *_nearest(view, paint), "", *_grid(view)]
    lines += [clean(f"note: {note}") for note in view.notes]
    return "\n".join(lines)


def _root(root: Root, paint: Painter) -> Iterator[str]:
    numa = f"NUMA node {root.numa}" if root.numa >= 0 else "NUMA node not told"
    numa = "several NUMA nodes" if root.several else numa
    yield f"root complex {root.name}, {numa}"
    yield from _branches(root.below, "", paint)


def _branches(places: tuple[TreePlace, ...], indent: str, paint: Painter) -> Iterator[str]:
    for number, place in enumerate(places, start=1):
        last = number == len(places)
        branch = indent + ("└─ " if last else "├─ ")
        yield branch + _place(place, paint, WIDTH - len(branch))
        yield from _branches(place.below, indent + ("   " if last else "│  "), paint)


def _place(place: TreePlace, paint: Painter, room: int) -> str:
    """:param room: characters that the line may have; the name of a product is cut to fit."""
    end = place.kind in {"GPU", "HCA"}
    kind = paint(place.kind, Ink.BOLD) if end else place.kind
    name = clean(place.name) or place.ids
    others = sum(len(each) + 1 for each in (place.address, place.kind, place.use) if each)
    name = _cut(name, room - others - len(_link(place)))
    line = " ".join(word for word in (place.address, kind, name, place.use) if word) + _link(place)
    if place.acs == NOT_READ:
        return line + paint("  ACS not read", Ink.GREY)
    return line + (paint(f"  ACS: {place.acs}", Ink.YELLOW) if place.acs else "")


def _cut(name: str, room: int) -> str:
    return name if len(name) <= max(room, _LEAST) else name[: max(room, _LEAST) - 1] + "…"


def _link(place: TreePlace) -> str:
    if not place.now:
        return ""
    return f"  {place.now}" + (f" of {place.best}" if place.best != place.now else "")


def _nearest(view: TopologyView, paint: Painter) -> Iterator[str]:
    """A row for each GPU and each HCA that none is nearer than; a line below for what blocks.

    HCAs that are equally far from a GPU, none of them behind its switch, share a row.
    """
    rows: list[tuple[str, ...]] = [("GPU", "HCA", "distance", "limiting link", "ACS redirect")]
    chosen: dict[tuple[str, ...], list[GpuWay]] = {}
    for way in view.ways:
        if way.nearest:
            alone = () if way.distance in _FAR else (way.hca,)
            chosen.setdefault((way.gpu, way.distance, way.limit, *alone), []).append(way)
    for first, *more in chosen.values():
        hcas = f"{first.hca} and {len(more)} more" if more else first.hca
        limit = _limit(first, alone=not more)
        if first.redirects is None:
            redirect = "not read" if first.distance in {"PIX", "PXB"} else "-"
        else:
            redirect = "yes" if first.redirects else "no"
        rows.append((first.gpu, hcas, first.distance, limit, redirect))
    head, *body = columns([tuple(map(clean, row)) for row in rows])
    yield head
    for ways, line in zip(chosen.values(), body, strict=True):
        yield line
        for each in ways[0].redirects or ():
            yield paint(f"    blocked by {each}", Ink.RED)


def _limit(way: GpuWay, *, alone: bool) -> str:
    """:param alone: whether the row is of one path, so that the place of its link is told."""
    if not way.limit:
        return "not told"
    speed = f"{way.limit} = {way.gigabytes:.1f} GB/s"
    return f"{speed} at {way.limited_at}" if alone else speed


def _grid(view: TopologyView) -> Iterator[str]:
    """The distance of every GPU to every HCA."""
    known = {(way.gpu, way.hca): way.distance for way in view.ways}
    names = [clean(each) for each in view.hcas]
    # Every column is as wide as its name, or "NODE or SYS".
    wide = max(map(len, (*names, *(way.distance for way in view.ways))))
    fit = max(1, (WIDTH - max(map(len, view.gpus))) // (wide + 2))
    for start in range(0, len(view.hcas), fit):
        hcas = view.hcas[start : start + fit]
        rows = [("", *hcas)]
        rows += [(gpu, *(known.get((gpu, hca), "?") for hca in hcas)) for gpu in view.gpus]
        yield from columns([tuple(map(clean, row)) for row in rows])


def as_json(view: TopologyView) -> dict[str, Json]:
    """The same for machines."""
    return picked(view, "name=host source gpus hcas roots pairs=ways notes")
