"""The verb that rehearses an upgrade."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from toolkit.cli.options import HOSTS, REACH, READS, SAVED, WANT, Option, Said, parted
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, code_of
from toolkit.evidence import Evidence
from toolkit.features.rehearse.plan import Rehearsal, rehearse_node
from toolkit.features.rehearse.show import rehearse_document, rehearse_report
from toolkit.report.document import dumps
from toolkit.upgrade import Upgrade
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.cli.upgrade import UPGRADE, upgrade_of, with_packages
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_all, read_saved

REHEARSE = (
    *UPGRADE,
    Option("firmware", "", "the firmware of HCAs of its line: 28.43.2566"),
    Option("json", False, "one JSON document on standard output (docs/rehearse.schema.json)"),
)


@verb(HOSTS, REACH, READS, WANT, SAVED, REHEARSE)
def rehearse(said: Said) -> ExitCode:
    """Tell what an upgrade would do to nodes, before anything is upgraded; change nothing.

    For each node: what has to be compiled again, in which order, and whether it does (by the
    table, which says who knows it); what restarts, and how often it boots; what to take along;
    the path that consumers take then; and each check that would answer otherwise.

    Exits 0 where all nodes keep what they have, 2 where one loses something, 3 where something
    is not known, 4 where a host is out of reach.

    Examples:
      invoke rehearse --hosts gpu[001-128] --driver 595.58 --ofed 26.04
      invoke rehearse --hosts gpu007 --kernel 6.8.0-90-generic
      invoke rehearse --from evidence/ --driver 595.58 --firmware 28.43.2566 --json
    """
    upgrade = upgrade_of(said)
    if upgrade == Upgrade():
        raise UsageError(
            "nothing is named that would be another version",
            hint="--driver, --ofed, --kernel or --firmware",
        )
    session = Session.begin("rehearse", said)
    wants, today = session.wants(), session.today

    def work(name: str, evidence: Evidence) -> Rehearsal:
        return rehearse_node(name, evidence, wants.of(name), upgrade, today)

    outcomes: list[Outcome[Rehearsal]]
    if said.text("from_"):
        outcomes = on_saved(read_all(map(Path, parted(said.text("from_"))), [], read_saved), work)
    else:
        with fleet(said) as opened:
            ask = partial(with_packages, upgrade)
            outcomes = read_each(opened, session.folder, work, more=ask)
    session.say(rehearse_report(outcomes, session.paint))
    code = session.ended(outcomes, code_of)
    if said.flag("json"):
        sys.stdout.write(dumps(rehearse_document(outcomes, upgrade, code, session.now)))
    return code
