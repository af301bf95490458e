"""The verb that lays nodes beside what they should be, for people and for cron."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolkit.change.drift import Drift
from toolkit.cli.changing import DELIVERED, shelf_of
from toolkit.cli.options import HOSTS, REACH, SAVED, WANT, Option, Said
from toolkit.cli.session import Session, fleet
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, worst
from toolkit.flow.drift import drift_all, drift_saved
from toolkit.flow.runs import read_saved
from toolkit.flow.textfile import read_textfile, textfile_at, write_textfile
from toolkit.report import drift as report
from toolkit.report.document import dumps
from toolkit.report.drift_document import document
from toolkit.report.textfile import exposition, failed, remembered

OUTPUT = (
    Option("json", False, "one JSON document on standard output (docs/drift.schema.json)"),
    Option("textfile", "", "write this *.prom for node_exporter's textfile collector as well"),
    Option("verbose", False, "what is as wanted too, and what to do about the rest", "v"),
)


@verb(HOSTS, REACH, WANT, OUTPUT, SAVED, DELIVERED)
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
    target = textfile_at(said.text("textfile")) if said.text("textfile") else None
    with _telling(target, session) as telling:
        outcomes = _drifts(session)
        code = worst([_code(each) for each in outcomes])
        telling.of(outcomes, code)
    session.say(report.text(outcomes, session.paint, verbose=said.flag("verbose")))
    text = dumps(document(outcomes, said.text("profile"), code, session.now))
    session.folder.keep("drift.json", text)
    if said.flag("json"):
        sys.stdout.write(text)
    session.kept()
    return code


def _drifts(session: Session) -> list[Outcome[Drift]]:
    said, want = session.said, session.want()
    shelf = shelf_of(session)
    if said.text("from_"):
        saved = read_saved(Path(said.text("from_")))
        return drift_saved(saved, want, session.today, shelf)
    with fleet(said) as opened:
        return drift_all(opened, want, session.today, session.folder, shelf)


def _code(outcome: Outcome[Drift]) -> ExitCode:
    return outcome.error.exit_code if outcome.error else outcome.get().exit_code


@dataclass(slots=True)
class _Telling:
    """What Prometheus is told of a run: of its hosts, or that it failed."""

    target: Path | None
    session: Session
    told: bool = False

    def of(self, outcomes: list[Outcome[Drift]], code: ExitCode) -> None:
        """Write what came of the hosts."""
        self.told = True
        if self.target is not None:
            before = remembered(read_textfile(self.target))
            write_textfile(self.target, exposition(outcomes, code, self.session.now, before))

    def of_failure(self) -> None:
        """Write that the run failed, so that nobody takes old values for new ones."""
        if self.target is not None and not self.told:
            before = remembered(read_textfile(self.target))
            write_textfile(self.target, failed(self.session.now, before))


@contextmanager
def _telling(target: Path | None, session: Session) -> Iterator[_Telling]:
    telling = _Telling(target, session)
    try:
        yield telling
    finally:
        telling.of_failure()
