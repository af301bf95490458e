"""The topology of nodes as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean, columns
from toolkit.report.topology_view import NOT_READ, Place, Root, View, Way

SCHEMA = "gdr-toolkit/topology/1"
_GRID = 12  # HCAs that fit side by side


def text(view: View, paint: Painter) -> str:
    """The tree, each GPU with its nearest HCAs, and the distances of all."""
    head = f"{view.host}  {len(view.gpus)} GPUs, {len(view.hcas)} HCAs, by the {view.source}"
    lines = [paint(clean(head), Ink.BOLD)]
    for root in view.roots:
        lines += ["", *_root(root, paint)]
    if view.ways:
        lines += ["", *_nearest(view, paint), "", *_grid(view)]
    lines += [clean(f"note: {note}") for note in view.notes]
    return "\n".join(lines)


def _root(root: Root, paint: Painter) -> Iterator[str]:
    numa = f"NUMA node {root.numa}" if root.numa >= 0 else "NUMA node not told"
    yield f"root complex {root.name}, {numa}"
    yield from _branches(root.below, "", paint)


def _branches(places: tuple[Place, ...], indent: str, paint: Painter) -> Iterator[str]:
    for number, place in enumerate(places, start=1):
        last = number == len(places)
        yield f"{indent}{'└─ ' if last else '├─ '}{_place(place, paint)}"
        yield from _branches(place.below, indent + ("   " if last else "│  "), paint)


def _place(place: Place, paint: Painter) -> str:
    end = place.kind in {"GPU", "HCA"}
    kind = paint(place.kind, Ink.BOLD) if end else place.kind
    words = [place.address, kind, clean(place.name) or place.ids, place.use]
    line = " ".join(word for word in words if word) + _link(place)
    if place.acs == NOT_READ:
        return line + paint("  ACS not read", Ink.GREY)
    return line + (paint(f"  ACS: {place.acs}", Ink.YELLOW) if place.acs else "")


def _link(place: Place) -> str:
    if not place.now:
        return ""
    return f"  {place.now}" + (f" of {place.best}" if place.best != place.now else "")


def _nearest(view: View, paint: Painter) -> Iterator[str]:
    """A row for each GPU and each HCA that none is nearer than; a line below for what blocks."""
    rows: list[tuple[str, ...]] = [("GPU", "HCA", "distance", "limiting link", "ACS redirect")]
    chosen = [way for way in view.ways if way.nearest]
    rows += [(way.gpu, way.hca, way.distance, _limit(way), _redirect(way)) for way in chosen]
    head, *body = columns([tuple(map(clean, row)) for row in rows])
    yield head
    for way, line in zip(chosen, body, strict=True):
        yield line
        for each in way.redirects or ():
            yield paint(f"    blocked by {each}", Ink.RED)


def _limit(way: Way) -> str:
    if not way.limit:
        return "not told"
    return f"{way.limit} = {way.gigabytes:.1f} GB/s at {way.limited_at}"


def _redirect(way: Way) -> str:
    if way.redirects is None:
        return "not read" if way.distance in {"PIX", "PXB"} else "-"
    return "yes" if way.redirects else "no"


def _grid(view: View) -> Iterator[str]:
    """The distance of every GPU to every HCA."""
    known = {(way.gpu, way.hca): way.distance for way in view.ways}
    for start in range(0, len(view.hcas), _GRID):
        hcas = view.hcas[start : start + _GRID]
        rows = [("", *hcas)]
        rows += [(gpu, *(known.get((gpu, hca), "?") for hca in hcas)) for gpu in view.gpus]
        yield from columns([tuple(map(clean, row)) for row in rows])


def as_json(view: View) -> dict[str, Json]:
    """The same for machines."""
    return {
        "name": view.host,
        "source": view.source,
        "gpus": list(view.gpus),
        "hcas": list(view.hcas),
        "roots": [_plain(root) for root in view.roots],
        "pairs": [_plain(way) for way in view.ways],
        "notes": list(view.notes),
    }


def _plain(value: Root | Place | Way) -> dict[str, Json]:
    return {field.name: _json(getattr(value, field.name)) for field in fields(value)}


def _json(value: object) -> Json:
    if isinstance(value, Root | Place | Way):
        return _plain(value)
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)
