"""Two passports side by side, for people and for machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, zip_longest

from toolkit.errors import ExitCode
from toolkit.features.image.plan import DiffKind, Unlike
from toolkit.plural import counted
from toolkit.report.document import Json, envelope, picked
from toolkit.report.table import WIDTH, Ink, Painter, clean, wrapped

SCHEMA = "gdr-toolkit/passport-diff/1"
_FIELD, _GAP, _INDENT = 22, 2, 2
_VALUE = (WIDTH - _INDENT - _FIELD - 2 * _GAP) // 2


def text(a: str, b: str, found: Sequence[Unlike], paint: Painter) -> str:
    """What ``image.diff`` prints.

    :param a: what the operator called the first, and ``b`` the second.
    """
    if not found:
        return f"{paint('same', Ink.GREEN)}      {clean(a)} and {clean(b)}"
    lines = [f"{paint('A', Ink.BOLD)}  {clean(a)}", f"{paint('B', Ink.BOLD)}  {clean(b)}", ""]
    for head, rows in groupby(found, _head):
        lines += [paint(clean(head), Ink.BOLD), *(line for row in rows for line in _row(row))]
    return "\n".join([*lines, "", f"they differ in {counted(len(found), 'thing')}"])


def _head(row: Unlike) -> str:
    match row.kind:
        case DiffKind.IMAGE:
            return "image"
        case DiffKind.ARGUMENT:
            return "kernel arguments"
        case DiffKind.MODULE:
            return f"{row.name}, for {row.kernel}"
        case DiffKind.KERNEL:
            return f"kernel {row.name}"
    return row.name


def _row(row: Unlike) -> Iterator[str]:
    label = clean(row.field or (row.name if row.kind is DiffKind.ARGUMENT else ""))
    if len(label) > _FIELD:
        yield " " * _INDENT + label
        label = ""
    # Of a hash its beginning; the document has all of it.
    short = (re.sub(r"^(sha256 [0-9a-f]{16})[0-9a-f]{48}$", r"\1", each) for each in (row.a, row.b))
    columns = [wrapped(each or "-", _VALUE, cell=True) for each in short]
    for first, second in zip_longest(*columns, fillvalue=""):
        parts = (label.ljust(_FIELD), first.ljust(_VALUE), second)
        yield (" " * _INDENT + (" " * _GAP).join(parts)).rstrip()
        label = ""


def document(
    a: str, b: str, found: Sequence[Unlike], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document (docs/passport-diff.schema.json)."""
    return {
        **envelope(SCHEMA, when, code),
        "a": a,
        "b": b,
        "differences": [picked(each, "kind name kernel field a b") for each in found],
    }
