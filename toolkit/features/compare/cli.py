"""Lay nodes side by side; change nothing.

The verb that lays nodes side by side.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from toolkit.checks.agreement import Agreement, SmallSheets
from toolkit.checks.comparison import Sheet, Sheets
from toolkit.checks.outliers import Comparison, compare
from toolkit.cli.options import HOSTS, REACH, SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError, worst
from toolkit.evidence import Evidence
from toolkit.features.compare import show as report
from toolkit.groups import Wants
from toolkit.report.between import between_document, between_lines
from toolkit.report.document import dumps
from toolkit.report.text import errors
from toolkit.verbs.cli.nodes import each_node
from toolkit.verbs.cli.session import Session


def sheeting(wants: Wants, agreement: Agreement) -> Callable[[str, Evidence], Sheet]:
    """Makes a node's sheet, by its name and its evidence, of which nothing else remains."""
    sheets, small, turn = Sheets(wants), SmallSheets(), threading.Lock()

    def make(name: str, evidence: Evidence) -> Sheet:
        with turn:
            agreement.take(small.make(name, evidence))
            return sheets.make(name, evidence)

    return make


@verb(
    HOSTS,
    REACH,
    WANT,
    SAVED,
    (Option("json", False, "one JSON document on standard output (docs/compare.schema.json)"),),
)
def compare_(said: Said) -> ExitCode:
    """Find the nodes of a fleet that are unlike the others, and in what; change nothing.

    Exits 0 when all are identical, 2 when some differ, 3 when something could not be read
    on a node, 4 when a host is out of reach.

    Examples:
      invoke compare --hosts gpu[001-128]
      invoke compare --from evidence/ --json
    """
    session = Session.begin("compare", said)
    wants = session.wants()
    agreement = Agreement(wants)
    outcomes = each_node(session, sheeting(wants, agreement))
    sheets = [each.value for each in outcomes if each.value is not None]
    failed = [(each.host, each.error) for each in outcomes if each.error is not None]
    if len(outcomes) < 2:
        raise UsageError("one node has none to be compared with", hint="name two or more")
    compared = compare(sheets) if len(sheets) > 1 else None
    code = worst([*(error.exit_code for _, error in failed), _code(compared)])
    for line in errors(failed, session.paint):
        session.say(line)
    if compared is not None:
        session.say(report.text(compared, session.paint))
    between = agreement.verdicts()
    if lines := between_lines(between, session.paint):
        session.say("\n".join(["", "judged between the nodes:", "", *lines]).rstrip())
    document = report.document(compared, failed, code, session.now) | between_document(between)
    text = dumps(document)
    session.folder.keep("compare.json", text)
    if said.flag("json"):
        sys.stdout.write(text)
    session.kept()
    return code


def _code(compared: Comparison | None) -> ExitCode:
    if compared is None:
        return ExitCode.UNREACHABLE
    if not compared.identical:
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if compared.unread else ExitCode.OK
