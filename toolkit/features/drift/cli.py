"""The verb that lays nodes beside what they should be, for people and for cron."""

from __future__ import annotations

import sys
from pathlib import Path

from toolkit.cli.options import HOSTS, REACH, READS, SAVED, TEXTFILE, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, code_of
from toolkit.features.drift import show as report
from toolkit.features.drift.plan import Drift
from toolkit.features.drift.run import drift_all, drift_saved
from toolkit.features.drift.show import document
from toolkit.report.document import dumps
from toolkit.verbs.cli.plan import DELIVERED, shelf_of
from toolkit.verbs.cli.prometheus import Metrics, textfile
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.saved import read_saved

OUTPUT = (
    Option("json", False, "one JSON document on standard output (docs/drift.schema.json)"),
    TEXTFILE,
    Option("verbose", False, "what is as wanted too, and what to do about the rest", "v"),
)


@verb(HOSTS, REACH, READS, WANT, OUTPUT, SAVED, DELIVERED)
def drift(said: Said) -> ExitCode:
    """Wanted, on disk, in effect: what has drifted on each node; nothing is changed.

    Exits 0 when nothing has, 2 when something has, 3 when something could not be read, 4
    when a host is out of reach.

    Examples:
      invoke drift --hosts gpu[001-128]
      invoke drift --from evidence/ --json
      invoke drift --hosts gpu[001-128] --quiet --textfile /var/lib/gdr/gdr.prom
    """
    session = Session.begin("drift", said)
    with textfile(session, _metrics) as teller:
        outcomes = _drifts(session)
        code = session.ended(outcomes, code_of)
        teller.of(outcomes, code)
    session.say(report.text(outcomes, session.paint, verbose=said.flag("verbose")))
    text = dumps(document(outcomes, said.text("profile"), code, session.now))
    session.folder.keep("drift.json", text)
    if said.flag("json"):
        sys.stdout.write(text)
    if code is ExitCode.OK:
        session.healed(each.host for each in outcomes)
    session.kept()
    return code


def _metrics() -> Metrics:
    from toolkit.features.drift import show  # noqa: PLC0415 only who wants them pays for it

    return show


def _drifts(session: Session) -> list[Outcome[Drift]]:
    said, wants = session.said, session.wants()
    shelf = shelf_of(session)
    if said.text("from_"):
        saved = read_saved(Path(said.text("from_")))
        return drift_saved(saved, wants, session.today, shelf)
    with fleet(said) as opened:
        return drift_all(opened, wants, session.today, session.folder, shelf)
