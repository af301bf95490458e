"""The page of a prediction: the double copy beside the direct path, and what it costs a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup
from msgspec import Struct

from toolkit.compat.throughput import Constants
from toolkit.features.predict.plan.stages import Stage, Stages, stages
from toolkit.features.predict.plan.totals import NodeInputs, Prediction, Return
from toolkit.features.predict.show import alike, job_words, return_rows, short, why
from toolkit.plural import and_more, counted, figure
from toolkit.report.pages import render
from toolkit.report.picture import Box, Picture, PictureText, fitted, svg
from toolkit.throughput.inputs import Load
from toolkit.throughput.pair import PairPrediction

_STYLES = ("base.css", "picture.css", "topology.css")
_NAME, _BAR, _SAID = 200.0, 380.0, 430.0  # widths of what a row has
_EDGE, _ROW, _HIGH, _HEAD = 14.0, 27.0, 17.0, 34.0
_THIN = 3.0  # of a bar too short to be seen
_HEADS = ("GPU", "HCA", "path", "with GPUDirect", "NCCL ring", "through host memory", "limits")


class Forecast(Struct, frozen=True):
    """One node as the page shows it."""

    name: str
    told: NodeInputs
    found: Prediction
    now: Prediction | None = None  # as it stands, where the rest is as wished


class _Section(Struct, frozen=True):
    """Nodes of which the same is told."""

    id: str
    names: str
    summary: str
    totals: tuple[tuple[str, str, str], ...]
    drawing: Markup | None
    caption: str
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


class Asked(Struct, frozen=True):
    """What the page is about, beside its nodes."""

    load: Load
    command: str
    wishes: str = ""
    worth: Return | None = None
    failures: tuple[str, ...] = ()


def page(nodes: Sequence[Forecast], asked: Asked, c: Constants) -> Iterator[str]:
    """The page, part by part; nodes of which the same is told share a section."""
    groups: dict[tuple[object, ...], list[Forecast]] = {}
    for each in nodes:
        key = (_rows(each.found), _totals(each, asked.wishes), each.found.notes)
        groups.setdefault(key, []).append(each)
    sections = [_section(each, at, asked, c) for at, each in enumerate(groups.values())]
    title = nodes[0].name if len(nodes) == 1 else counted(len(nodes), "node")
    worth = asked.worth
    return render(
        "predict.html",
        {
            "title": f"{title}: GPUDirect beside two copies",
            "sections": sections,
            "heads": _HEADS,
            "command": asked.command,
            "wishes": asked.wishes,
            "failures": asked.failures,
            "job": job_words(worth) if worth else "",
            "times": return_rows(worth) if worth else (),
            "granted": worth.assumptions if worth else (),
        },
        styles=_STYLES,
    )


def _section(group: list[Forecast], number: int, asked: Asked, c: Constants) -> _Section:
    first = group[0]
    found = first.found
    picture = _picture(first, f"ways{number}", asked.load, c)
    gpus = counted(len({each.gpu for each in found.pairs}), "GPU")
    hcas = counted(len({each.hca for each in found.pairs}), "HCA")
    return _Section(
        f"nodes{number}",
        first.name + and_more(len(group) - 1),
        f"{gpus}, {hcas}, read from: {found.source}" if found.pairs else "no pair is told",
        _totals(first, asked.wishes),
        Markup(svg(picture)) if picture else None,  # noqa: S704 # the writer escapes all text
        picture.told if picture else "",
        _rows(found),
        found.notes,
    )


def _totals(node: Forecast, wishes: str) -> tuple[tuple[str, str, str], ...]:
    """All HCAs together: with GPUDirect, and through host memory."""
    both = [("as it stands", node.now), (f"what if {wishes}", node.found)]
    shown = both if node.now else [("as it stands", node.found)]
    return tuple(
        (name, found.total.with_gdr.said, found.total.without_gdr.said)
        for name, found in shown
        if found and found.total
    )


def _rows(found: Prediction) -> tuple[tuple[str, ...], ...]:
    """The pairs that are nearest; those that differ in nothing but their names share one."""
    rows = []
    for pairs in alike(found.nearest):
        first = pairs[0]
        name = first.name + and_more(len(pairs) - 1)
        limits = why(first) + (f"; now without: {first.blocked}" if first.blocked else "")
        figures = (short(e) for e in (first.with_gdr, first.collective, first.without_gdr))
        rows.append((first.gpu, name, first.distance.shown, *figures, limits))
    return tuple(rows)


def _picture(node: Forecast, name: str, load: Load, c: Constants) -> Picture | None:
    """Of the first pair that has both ways."""
    told = {(each.gpu, each.hca): each for each in node.told.pairs}
    for pair in node.found.nearest:
        made = stages(told[pair.gpu, pair.hca], pair, load.size, c)
        if made is not None:
            words = f"{pair.gpu} by {pair.name}, one message of {load.size} B"
            return _drawn(made, name, words, _titles(made, pair))
    return None


def _titles(made: Stages, pair: PairPrediction) -> tuple[str, str]:
    """What either way takes, and which of them the node goes now."""
    direct = f"by GPUDirect, all stages at once: {_us(made.by_direct)}"
    ways = "two copies" if len(made.copied) > 1 else "memory that both share"
    less, more = (each / made.by_direct for each in (made.in_pieces, made.one_by_one))
    copied = (
        f"by {ways} through host memory: {_us(made.in_pieces)} in pieces that overlap "
        f"({less:.1f} times as long), {_us(made.one_by_one)} one after the other ({more:.1f} times)"
    )
    if pair.blocked:
        return f"{direct}, once it works", f"{copied}; so this node goes now"
    return (direct if pair.untold else f"{direct}; so this node goes now"), copied


def _drawn(made: Stages, name: str, words: str, titles: tuple[str, str]) -> Picture:
    longest = max(made.by_direct, made.one_by_one)
    boxes: list[Box] = []
    texts: list[PictureText] = []
    y = _EDGE
    pieces = Stage("in pieces", "by a library that pipelines", 0.0, made.in_pieces, "bar-pieces")
    lanes: list[tuple[str, list[tuple[float, Stage]]]] = [
        (titles[0], [(0.0, each) for each in made.direct]),
        (titles[1], [*_after(made.copied), (0.0, pieces)]),
    ]
    for title, rows in lanes:
        texts.append(PictureText(_EDGE, y + 14, title, "name"))
        for at, (start, stage) in enumerate(rows):
            top = y + _HEAD - 8 + at * _ROW
            x = _EDGE + _NAME + start / longest * _BAR
            wide = max(_THIN, stage.took / longest * _BAR)
            boxes.append(
                Box(x, top, wide, _HIGH, stage.look, (), f"{stage.name}: {_figure(stage)}")
            )
            texts += _row_words(stage, top + _HIGH - 4)
        y += _HEAD + len(rows) * _ROW + 10
    told = f"{words}: {titles[0]}; {titles[1]}."
    width = 2 * _EDGE + _NAME + _BAR + _SAID
    return Picture(name, width, y, words, told, tuple(boxes), (), tuple(texts))


def _after(copied: tuple[Stage, ...]) -> list[tuple[float, Stage]]:
    """Each where the one before it ends."""
    rows, start = [], 0.0
    for each in copied:
        rows.append((start, each))
        start += each.took
    return rows


def _row_words(stage: Stage, y: float) -> Iterator[PictureText]:
    yield PictureText(_EDGE, y, stage.name)
    x = _EDGE + _NAME + _BAR + 12
    yield PictureText(x, y, fitted(_figure(stage), _SAID - 12), "more")


def _figure(stage: Stage) -> str:
    rate = f" at {figure(stage.rate)} GB/s" if stage.rate else ""
    return f"{_us(stage.took)}{rate}, {stage.limit}"


def _us(time: float) -> str:
    return f"{figure(time)} us" if time < 1000 else f"{figure(time / 1000)} ms"
