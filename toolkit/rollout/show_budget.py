"""The books of the budget, for a person and for machines: docs/budget.schema.json."""

from __future__ import annotations

from toolkit.plural import counted
from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean, columns
from toolkit.rollout.plan.budget import Books, CountedAs

SCHEMA = "gdr-toolkit/budget/1"
_INK = {CountedAs.LEFT: Ink.RED, CountedAs.OUT: Ink.YELLOW, CountedAs.LOST: Ink.YELLOW}


def budget_lines(books: Books, paint: Painter) -> list[str]:
    """What is held, one share a line, and how much room there is."""
    taken = len(books.nodes) + books.aside
    limit = f", and no more than {books.limit} may be" if books.limit is not None else ""
    last = f"{counted(taken, 'node', 'is', 'are')} unavailable by our runs{limit}"
    if not books.shares:
        return [last]
    rows = [("node", "held", "by", "since", "why")]
    for share in books.shares:
        count = f" ({share.count})" if share.held is CountedAs.ASIDE else ""
        since = share.since[:16].replace("T", " ")
        held = f"{share.held}{count}"
        rows.append((clean(share.node), held, clean(share.run) or "-", since, clean(share.why)))
    head, *lines = columns(rows)
    inks = [_INK.get(share.held) for share in books.shares]
    painted = [paint(line, ink) if ink else line for line, ink in zip(lines, inks, strict=True)]
    return [paint(head, Ink.BOLD), *painted, "", last]


def budget_document(books: Books) -> dict[str, Json]:
    """The same as one JSON document."""
    return {
        "schema": SCHEMA,
        "limit": books.limit,
        "room": books.room(),
        "shares": [
            {
                "node": share.node,
                "run": share.run,
                "held": str(share.held),
                "why": share.why,
                "since": share.since,
                "count": share.count,
            }
            for share in books.shares
        ],
    }
