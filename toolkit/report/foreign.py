"""What was given that is no whole node: what a text shows, and what was not understood."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged, wanted
from toolkit.facts.text.foreign import Foreign
from toolkit.plural import counted
from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean, columns, labelled, wrapped

_MANY = 8  # files told of, unless all are asked for
_TEXTS = 8  # texts told of one by one


def foreign_lines(aside: Sequence[Foreign], paint: Painter, *, verbose: bool) -> list[str]:
    """One paragraph: each file with its first line, and what it came nearest to."""
    if not aside:
        return []
    shown = aside if verbose else aside[:_MANY]
    files = paint(counted(len(aside), "file").ljust(33), Ink.BOLD)
    lines = [f"{paint('skipped'.ljust(8), Ink.GREY)} {files}not understood"]
    for each in shown:
        lines += labelled("file", clean(each.name))
        lines += labelled("", _about(each))
    left = len(aside) - len(shown)
    return [*lines, *(labelled("", f"and {left} more (--verbose)") if left else []), ""]


def _about(each: Foreign) -> str:
    if each.why:
        return each.why
    begins = f'begins "{each.first}"' if each.first else "holds no text"
    return f"{begins}; nearest: {', '.join(each.nearest)}" if each.nearest else begins


def foreign_document(aside: Sequence[Foreign]) -> dict[str, Json]:
    """The same for the report's head; nothing where all was understood."""
    if not aside:
        return {}
    return {
        "foreign": [
            {"name": each.name, "first": each.first, "nearest": list(each.nearest), "why": each.why}
            for each in aside
        ]
    }


def shown_lines(texts: Sequence[Judged], paint: Painter) -> list[str]:
    """One paragraph a text, in place of how many nodes are ready: none is known whole."""
    lines: list[str] = []
    for each in texts[:_TEXTS]:
        who = "this text" if len(texts) == 1 else clean(each.host)
        lines += [
            "",
            *_told(f"{who} shows", each.having(Status.PASS), paint, "nothing that passes"),
        ]
        lines += _told("what fails", each.having(Status.FAIL), paint, "")
        rows = [(f"  {one.command}", counted(one.checks, "check")) for one in wanted(each)]
        if rows:
            lines += [paint("most of what is missing is told by:", Ink.BOLD), *columns(rows)]
    left = len(texts) - _TEXTS
    return lines + ([f"and {counted(left, 'text')} more (--json)"] if left > 0 else [])


def _told(head: str, verdicts: Sequence[Verdict], paint: Painter, none: str) -> list[str]:
    if not verdicts:
        return [f"{paint(f'{head}:', Ink.BOLD)} {none}"] if none else []
    width = 2 + max(len(each.check.id) for each in verdicts) + 2
    lines = [paint(f"{head}:", Ink.BOLD)]
    for each in verdicts:
        first = f"  {each.check.id}".ljust(width)
        lines += wrapped(each.finding.found, first=first, rest=" " * width) or [first.rstrip()]
    return lines
