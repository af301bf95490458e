"""What was given and not understood, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.facts.text.foreign import Foreign
from toolkit.plural import counted
from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean, labelled

_MANY = 8  # files told of, unless all are asked for


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
            {
                "name": each.name,
                "first": each.first,
                "nearest": list(each.nearest),
                "why": each.why,
            }
            for each in aside
        ]
    }
