"""What a text shows that is no whole node: what passes and fails, and what would tell the rest."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged
from toolkit.checks.wanting import wanted
from toolkit.plural import counted
from toolkit.report.table import Ink, Painter, clean, columns, wrapped

_MANY = 8  # texts told of one by one


def shown_lines(texts: Sequence[Judged], paint: Painter) -> list[str]:
    """One paragraph a text, in place of how many nodes are ready: none is known whole."""
    lines: list[str] = []
    for each in texts[:_MANY]:
        who = "this text" if len(texts) == 1 else clean(each.host)
        lines += [
            "",
            *_told(f"{who} shows", each.having(Status.PASS), paint, "nothing that passes"),
        ]
        lines += _told("what fails", each.having(Status.FAIL), paint, "")
        rows = [(f"  {one.command}", counted(one.checks, "check")) for one in wanted(each)]
        if rows:
            lines += [paint("most of what is missing is told by:", Ink.BOLD), *columns(rows)]
    left = len(texts) - _MANY
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
