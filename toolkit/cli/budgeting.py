"""The verb that tells who holds what of the budget, and gives back what an operator has seen to."""

from __future__ import annotations

import sys

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.flow.access import state_dir
from toolkit.flow.budget import books_of, release
from toolkit.hosts import fold
from toolkit.report.budget import budget_document, budget_lines
from toolkit.report.document import dumps
from toolkit.report.table import Painter, wants_colour
from toolkit.spots import unfold


@verb(
    (
        Option("release", "", "these nodes serve again, or what was set aside: gpu[001-004]"),
        Option("json", False, "one JSON document on standard output (docs/budget.schema.json)"),
    )
)
def budget(said: Said) -> ExitCode:
    """Which nodes count as unavailable by our runs, why, and how many more may be begun.

    A node that a run left midway or out of service counts until a run brings it well, or until
    somebody who has seen to it says so with --release. docs/rollouts.md tells what counts.

    Examples:
      invoke budget
      invoke budget --release gpu[007-008]
    """
    runs = state_dir() / "runs"
    if said.text("release"):
        named = said.text("release")
        given = release(runs, [named] if "/" in named else unfold(named))  # set aside, or nodes
        print(f"released: {fold([share.node for share in given])}", file=sys.stderr)
    books = books_of(runs)
    if said.flag("json"):
        sys.stdout.write(dumps(budget_document(books)))
    else:
        print("\n".join(budget_lines(books, Painter(wants_colour(sys.stdout)))))
    return ExitCode.OK
