"""The verb that shows who holds what of the budget, and gives back (docs/budget.schema.json)."""

from __future__ import annotations

import re
import sys

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError
from toolkit.hosts.addresses import unfold
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.document import Json, dumps, picked
from toolkit.report.table import Ink, Painter, clean, columns, wants_colour
from toolkit.rollout.budget import books_of, release, set_aside
from toolkit.rollout.plan.budget import Books, CountedAs
from toolkit.verbs.access import state_dir

SCHEMA = "gdr-toolkit/budget/1"
_INK = {CountedAs.LEFT: Ink.RED, CountedAs.OUT: Ink.YELLOW, CountedAs.LOST: Ink.YELLOW}


@verb(
    (
        Option("release", "", "these nodes serve again, or what was set aside: gpu[001-004]"),
        Option(
            "set_aside", "", "so many for who counts by itself, until released: ansible/site=13"
        ),
        Option("reason", "", "--set-aside: why, for those who look"),
        Option("json", False, "one JSON document on standard output (docs/budget.schema.json)"),
    )
)
def budget(said: Said) -> ExitCode:
    """Which nodes count as unavailable by our runs, why, and how many more may be begun.

    A node that a run left midway or out of service counts until a run brings it well, or until
    somebody who has seen to it says so with --release. What changes nodes by itself, as Ansible
    does, has its share set aside first. docs/rollouts.md tells what counts.

    Examples:
      invoke budget
      invoke budget --release gpu[007-008]
      invoke budget --set-aside ansible/site=13 && ansible-playbook ... -e share=13
    """
    runs = state_dir() / "runs"
    if said.text("set_aside") or said.text("release"):
        said.not_dry("budget --release or --set-aside", "who holds what: budget")
    if said.text("set_aside"):
        engine, count = _aside(said.text("set_aside"))
        set_aside(runs, engine, count, said.text("reason"))
        print(f"set aside: {count} for {engine}", file=sys.stderr)
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


def _aside(said: str) -> tuple[str, int]:
    """Whose share, and how many. With a slash, so that no node has that name."""
    found = re.fullmatch(r"([A-Za-z0-9._-]+/[A-Za-z0-9._-]+)=([1-9][0-9]{0,5})", said)
    if found is None:
        raise UsageError(
            f"--set-aside {said!r} is no share", hint="WHO/WHAT=COUNT, for example ansible/site=13"
        )
    return found[1], int(found[2])


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
        "shares": [picked(each, "node run held why since count") for each in books.shares],
    }
