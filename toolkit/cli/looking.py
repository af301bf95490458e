"""The verbs that look and change nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.checks.all import ALL, named
from toolkit.checks.judged import Judged
from toolkit.cli.options import HOSTS, OUTPUT, REACH, SAVED, WANT, Option, Said
from toolkit.cli.session import Session, fleet
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, worst
from toolkit.flow.capture import capture as capture_nodes
from toolkit.flow.doctor import examine, examine_saved
from toolkit.flow.runs import read_saved
from toolkit.report.document import Told, dumps
from toolkit.report.explain import explain as explain_check
from toolkit.report.explain import listing
from toolkit.report.table import Painter, columns, wants_colour
from toolkit.report.text import errors, report


def judged_code(outcome: Outcome[Judged]) -> ExitCode:
    """What one host's examination makes of the exit code."""
    if outcome.error is not None:
        return outcome.error.exit_code
    return outcome.get().exit_code


@verb(HOSTS, REACH, WANT, OUTPUT, SAVED)
def doctor(said: Said) -> ExitCode:
    """Judge nodes; change nothing.

    Exits 0 when every node is as wanted, 2 when a check fails, 3 when only unknowns
    remain, 4 when a host is out of reach.

    Examples:
      invoke doctor --hosts gpu[001-128] -x gpu007
      invoke doctor --hosts @train --inventory hosts.ini --json > report.json
      invoke doctor --from evidence/ --profile dmabuf
    """
    session = Session.begin("doctor", said)
    want = session.want()
    if said.text("from_"):
        outcomes = examine_saved(read_saved(Path(said.text("from_"))), want, session.today)
    else:
        with fleet(said) as opened:
            outcomes = examine(opened, want, session.today, session.folder)
    session.say(report(outcomes, session.paint, verbose=said.flag("verbose")))
    told = [Outcome(each.host, _told(each.value), each.error) for each in outcomes]
    return session.finish(told, worst([judged_code(each) for each in outcomes]))


def _told(judged: Judged | None) -> Told | None:
    return Told(judged=judged) if judged else None


@verb(
    HOSTS,
    REACH,
    (
        Option("out", "evidence", "folder for one NAME.evidence a host"),
        Option("scrub", False, "hide names, serials, GUIDs and addresses; number the files"),
    ),
)
def capture(said: Said) -> ExitCode:
    """Save the evidence of nodes: for a ticket, or to judge it again with doctor --from.

    Examples:
      invoke capture --hosts gpu[001-004] --out evidence
      invoke capture --hosts gpu007 --scrub --out for-the-vendor
    """
    session = Session.begin("capture", said)
    with fleet(said) as opened:
        outcomes = capture_nodes(opened, Path(said.text("out")), scrubbed=said.flag("scrub"))
    for outcome in outcomes:
        if outcome.value is not None:
            session.say(str(outcome.value))
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    return worst([each.error.exit_code for each in outcomes if each.error])


@verb()
def checks(said: Said) -> ExitCode:  # noqa: ARG001 every verb has one signature
    """Every check, one line each: id, impact, and the property as it should be."""
    print(listing(ALL))
    return ExitCode.OK


@verb((Option("check", "", "id of a check", positional=True),))
def explain(said: Said) -> ExitCode:
    """Why a check matters, what is read for it, and what brings its property about.

    Examples:
      invoke explain peermem.stub
    """
    print(explain_check(named(said.text("check")), Painter(wants_colour(sys.stdout))))
    return ExitCode.OK


@verb(HOSTS, REACH, (Option("json", False, "as JSON"),))
def hosts(said: Said) -> ExitCode:
    """The hosts that a node set names, and how each would be reached.

    Examples:
      invoke hosts --hosts 'gpu[001-128]!gpu007'
      invoke hosts --inventory hosts.yml --hosts '@train&@rack1'
    """

    with fleet(said) as opened:
        rows = [
            (
                host.name,
                host.address or host.name,
                host.user or "-",
                str(host.port or "-"),
                ",".join(host.groups) or "-",
            )
            for host in opened.hosts
        ]
    keys = ("name", "address", "user", "port", "groups")
    if said.flag("json"):
        sys.stdout.write(dumps({"hosts": [dict(zip(keys, row, strict=True)) for row in rows]}))
    else:
        print("\n".join(columns([keys, *rows])))
    return ExitCode.OK
