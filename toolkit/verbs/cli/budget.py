"""The verb that tells who holds what of the budget, and gives back what an operator has seen to."""

from __future__ import annotations

import re
import sys

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError
from toolkit.hosts.addresses import unfold
from toolkit.hosts.host import fold
from toolkit.report.document import dumps
from toolkit.report.table import Painter, wants_colour
from toolkit.rollout.budget import books_of, release, set_aside
from toolkit.rollout.show_budget import budget_document, budget_lines
from toolkit.verbs.access import state_dir


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
