"""Drift for a person: wanted, on disk, in effect; folded by who drifted alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from toolkit.errors import Outcome
from toolkit.features.drift.plan.drift import Cell, Drift, Line, Standing, told
from toolkit.hosts.host import fold
from toolkit.report.table import Ink, Painter, clean, wrapped
from toolkit.report.text import errors

_INK = {
    Standing.DRIFT: Ink.RED,
    Standing.UNKNOWN: Ink.YELLOW,
    Standing.WAIVED: Ink.YELLOW,
    Standing.NONE: Ink.GREY,
}
_HEADS = ("property", "wanted", "on disk", "in effect")
_WIDTHS = (23, 20, 24, 25)
_INDENT, _GAP = 2, 2
_FURTHER = " " * _INDENT * 2


def text(outcomes: Sequence[Outcome[Drift]], paint: Painter, *, verbose: bool = False) -> str:
    """What ``drift`` prints.

    :param verbose: what is as wanted too, and what to do about each line.
    """
    groups: dict[tuple[str, tuple[Line, ...]], list[str]] = {}
    for outcome in outcomes:
        if outcome.value is not None:
            drift = outcome.value
            shown = drift.lines if verbose else told(drift.lines)
            groups.setdefault((drift.state, shown), []).append(outcome.host)
    lines: list[str] = []
    for (state, shown), hosts in groups.items():
        if shown or state not in {"as wanted", "no GPU"}:
            lines += [_head(state, hosts, paint), *_table(shown, paint, verbose=verbose), ""]
    lines += errors([(each.host, each.error) for each in outcomes], paint)
    return "\n".join([*lines, *_summary(outcomes, paint)])


def _head(state: str, hosts: Sequence[str], paint: Painter) -> str:
    ink = {"drift": Ink.RED, "as wanted": Ink.GREEN}.get(state, Ink.YELLOW)
    return f"{paint(state.ljust(10), ink)}{paint(clean(fold(hosts)), Ink.BOLD)}"


def _table(lines: Sequence[Line], paint: Painter, *, verbose: bool) -> Iterator[str]:
    if not lines:
        return
    heads = (
        paint(head.ljust(width), Ink.GREY) for head, width in zip(_HEADS, _WIDTHS, strict=True)
    )
    yield (" " * _INDENT + (" " * _GAP).join(heads)).rstrip()
    for line in lines:
        yield from _line(line, paint)
        if verbose and line.hint:
            yield from wrapped(f"next: {line.hint}", first=_FURTHER, rest=_FURTHER)


def _line(line: Line, paint: Painter) -> Iterator[str]:
    """One property; a path that its column does not hold has a line of its own."""
    name = clean(line.name)
    if len(name) > _WIDTHS[0] and " " not in name:
        yield from wrapped(name, first=" " * _INDENT, rest=" " * _INDENT, cell=True)
        name = ""
    plain = (Cell(name, Standing.SAME), Cell(line.wanted, Standing.SAME))
    cells = (*plain, line.on_disk, line.in_effect)
    columns = [_cell(cell, width, paint) for cell, width in zip(cells, _WIDTHS, strict=True)]
    blank = [" " * width for width in _WIDTHS]
    for row in zip_longest(*columns):
        parts = [part or empty for part, empty in zip(row, blank, strict=True)]
        yield (" " * _INDENT + (" " * _GAP).join(parts)).rstrip()


def _cell(cell: Cell, width: int, paint: Painter) -> list[str]:
    shown = clean(cell.text) or ("" if cell.standing is not Standing.NONE else "-")
    if cell.standing is Standing.WAIVED:
        shown = f"waived: {shown}"
    ink = _INK.get(cell.standing) if cell.text else None
    lines = wrapped(shown, width, cell=True) or [""]
    return [paint(each.ljust(width), ink) if ink else each.ljust(width) for each in lines]


def _summary(outcomes: Sequence[Outcome[Drift]], paint: Painter) -> Iterator[str]:
    drifts = [(each.host, each.value) for each in outcomes if each.value is not None]
    same = [host for host, drift in drifts if drift.state == "as wanted"]
    bare = [host for host, drift in drifts if drift.state == "no GPU"]
    owed = [host for host, drift in drifts if drift.reboot_owed]
    if same:
        yield f"{paint('as wanted'.ljust(10), Ink.GREEN)}{clean(fold(same))}"
    if bare:
        yield f"{paint('no GPU'.ljust(10), Ink.GREY)}{clean(fold(bare))}"
    if owed:
        yield f"{paint('reboot'.ljust(10), Ink.YELLOW)}{clean(fold(owed))}: provision --reboot"
    count = sum(drift.state == "drift" for _, drift in drifts)
    yield f"{count} of {len(outcomes)} nodes have drifted"
