"""The verb that draws the PCIe tree of nodes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, ToolkitError, UsageError, worst
from toolkit.facts.node.node import Node
from toolkit.features.predict.cli import evidence_of
from toolkit.features.predict.plan.totals import predict
from toolkit.features.topology.show.page import Drawn, page, tree_svg
from toolkit.features.topology.show.view import (
    NOT_READ,
    GpuWay,
    Root,
    TopologyView,
    TreePlace,
    view,
)
from toolkit.package_data import program
from toolkit.plural import and_more, counted
from toolkit.report.document import Json, dumps, picked
from toolkit.report.table import WIDTH, Ink, Painter, clean, columns, shortened
from toolkit.report.text import errors
from toolkit.verbs.cli.session import Session

# The topology of nodes as text for a terminal, and as JSON.
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
    name = shortened(name, max(room - others - len(_link(place)), _LEAST))
    line = " ".join(word for word in (place.address, kind, name, place.use) if word) + _link(place)
    if place.acs == NOT_READ:
        return line + paint("  ACS not read", Ink.GREY)
    return line + (paint(f"  ACS: {place.acs}", Ink.YELLOW) if place.acs else "")


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
        hcas = first.hca + and_more(len(more))
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


@verb(
    HOSTS,
    REACH,
    SAVED,
    (
        Option("svg", "", "draw the tree of one node into this file", file=True),
        Option("html", "", "draw the nodes, and where their bytes go, into this page", file=True),
        Option("json", False, "one JSON document on standard output (docs/topology.schema.json)"),
    ),
)
def topology(said: Said) -> ExitCode:
    """Draw the PCIe tree of nodes: GPUs, HCAs, how far apart, and what stands between them.

    Bridges that redirect peer traffic are named with the ACS bits that do so; the link that
    limits each pair, with its bandwidth. ACS needs root.

    Examples:
      invoke topology --hosts gpu007
      invoke topology --hosts demo-acs
      invoke topology --from evidence/gpu007.evidence --json
      invoke topology --hosts gpu007 --html gpu007.html
    """
    session = Session.begin("topology", said)
    views: list[TopologyView] = []
    drawn: list[Drawn] = []
    failures: list[tuple[str, ToolkitError]] = []
    for name, evidence in evidence_of(said):
        try:
            if isinstance(evidence, ToolkitError):
                raise evidence
            node = Node(evidence)
            views.append(view(name, node.sources))
        except ToolkitError as why:
            failures.append((name, why))
        else:
            if session.files:
                drawn.append(Drawn(views[-1], predict(node)))
    _draw(session, drawn, failures)
    session.say("\n\n".join(text(each, session.paint) for each in views))
    for line in errors(failures, session.paint):
        session.say(line)
    if said.flag("json"):
        wrong: list[Json] = [
            {"name": name, "error": str(why), "hint": why.hint} for name, why in failures
        ]
        sys.stdout.write(
            dumps({"schema": SCHEMA, "hosts": [as_json(each) for each in views], "errors": wrong})
        )
    return worst([why.exit_code for _, why in failures])


def _draw(session: Session, drawn: list[Drawn], failures: list[tuple[str, ToolkitError]]) -> None:
    """:raises UsageError: one picture is asked for, and there are several nodes."""
    said, made = session.said, []
    # Why there is no picture is told of each node, with its exit code.
    if said.text("svg") and drawn:
        if len(drawn) > 1:
            raise UsageError(
                f"--svg draws one node, and {len(drawn)} could be drawn",
                hint="name one with --hosts, or draw them all with --html FILE",
            )
        made += ["svg"] if session.deliver("svg", tree_svg(drawn[0])) else []
    if said.text("html"):
        lost = [f"{name}: {why}" for name, why in failures]
        asked = ("from_", "--from") if said.text("from_") else ("hosts", "--hosts")
        command = f"{program()} {shlex.join(('topology', asked[1], said.text(asked[0])))}"
        whole = "".join(page(drawn, lost, command))
        made += ["html"] if session.deliver("html", whole) else []
    for each in made if drawn else ():
        session.remark(f"drawn in {said.text(each)}")
