"""The topology of nodes as pictures: one file of SVG, or a page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.picture import NEAR, way_picture
from toolkit.features.topology.show.picture_tree import tree_picture
from toolkit.features.topology.show.view import TopologyView
from toolkit.plural import counted
from toolkit.report import pages
from toolkit.report.pages import render
from toolkit.report.picture import Picture, svg
from toolkit.throughput.inputs import NOT_TOLD

_STYLES = ("base.css", "picture.css", "topology.css")
_TREE = "The PCIe tree: each link with its generation, width and bandwidth one way"
_WAY = (
    "Where the bytes go; what moves is the way that is open as this node stands, and nothing where "
    "that was not read"
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One node: what was seen of it, and what its paths can carry."""

    view: TopologyView
    found: Prediction


@dataclass(frozen=True, slots=True)
class _Figure:
    drawing: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class _Row:
    gpu: str
    hca: str
    distance: str
    direct: str
    copied: str
    trouble: str


@dataclass(frozen=True, slots=True)
class _Node:
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
