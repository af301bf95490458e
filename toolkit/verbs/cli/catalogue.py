"""The catalogue of checks: all of them, and one explained."""

from __future__ import annotations

import sys

from toolkit import DEFAULT_PROFILE
from toolkit.checks.check import Check
from toolkit.cli import table
from toolkit.cli.options import WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.report.document import dumps
from toolkit.report.listings import checks_document, listing
from toolkit.report.listings import explain as explain_check
from toolkit.report.table import Painter, wants_colour

CHECKS_JSON = Option(
    "json", False, "one JSON document on standard output (docs/checks.schema.json)"
)
SITE = tuple(each for each in WANT if each.name == "site")


def _own(said: Said) -> tuple[Check, ...]:
    """Checks of the site's folder."""
    if not said.text("site"):
        return ()
    from toolkit.verbs.access import wanted  # noqa: PLC0415 only they pay for it

    return wanted(DEFAULT_PROFILE, said.text("site")).own


@verb((*SITE, CHECKS_JSON))
def checks(said: Said) -> ExitCode:
    """Every check, one line each: id, impact, and the property as it should be.

    Examples:
      invoke checks
      invoke checks --json
      invoke checks --site gpu-site
    """
    from toolkit.checks.all import ALL  # noqa: PLC0415 of all only this verb tells

    every = (*ALL, *_own(said))
    if said.flag("json"):
        sys.stdout.write(dumps(checks_document(every)))
    else:
        print(listing(every, wrapped=sys.stdout.isatty()))
    return ExitCode.OK


@verb((Option("check", "", "id of a check", positional=True), *SITE, CHECKS_JSON))
def explain(said: Said) -> ExitCode:
    """Why a check matters, what is read for it, and what brings its property about.

    Examples:
      invoke explain peermem.stub
    """
    name = said.text("check")
    own = {each.id: each for each in _own(said)}
    check = own.get(name) or table.check(name)
    if said.flag("json"):
        sys.stdout.write(dumps(checks_document([check])))
    else:
        print(explain_check(check, Painter(wants_colour(sys.stdout))))
    return ExitCode.OK
