"""The catalogue of checks: all of them, and one explained."""

from __future__ import annotations

import sys

from toolkit.cli import table
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.report.document import dumps
from toolkit.report.listings import checks_document, listing
from toolkit.report.listings import explain as explain_check
from toolkit.report.table import Painter, wants_colour

CHECKS_JSON = Option(
    "json", False, "one JSON document on standard output (docs/checks.schema.json)"
)


@verb((CHECKS_JSON,))
def checks(said: Said) -> ExitCode:
    """Every check, one line each: id, impact, and the property as it should be.

    Examples:
      invoke checks
      invoke checks --json
    """
    from toolkit.checks.all import ALL  # noqa: PLC0415 of all only this verb tells

    if said.flag("json"):
        sys.stdout.write(dumps(checks_document(ALL)))
    else:
        print(listing(ALL, wrapped=sys.stdout.isatty()))
    return ExitCode.OK


@verb((Option("check", "", "id of a check", positional=True), CHECKS_JSON))
def explain(said: Said) -> ExitCode:
    """Why a check matters, what is read for it, and what brings its property about.

    Examples:
      invoke explain peermem.stub
    """
    check = table.check(said.text("check"))
    if said.flag("json"):
        sys.stdout.write(dumps(checks_document([check])))
    else:
        print(explain_check(check, Painter(wants_colour(sys.stdout))))
    return ExitCode.OK
