"""The verb that saves evidence: of nodes, or of what other tools printed."""

from __future__ import annotations

import errno
import os
from copy import copy
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit import __version__
from toolkit.cli.options import BMC, HOSTS, INSIDE, REACH, READS, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, ToolkitError, Unwritten, UsageError, code_of, worst
from toolkit.evidence import Evidence
from toolkit.facts.text.scrub import Scrubber, scrub
from toolkit.groups import Renamed, numbered
from toolkit.hosts.host import Host
from toolkit.report.document import Told, document, dumps
from toolkit.report.text import errors
from toolkit.rollout.runs import safe_name
from toolkit.safe_file import private_folder, write_file
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet, site_file
from toolkit.verbs.cli.session import Session, fleet, refuse_inside
from toolkit.verbs.doctor import examine_saved, gather
from toolkit.verbs.each import on_each
from toolkit.verbs.incident import check_place, write_incident
from toolkit.verbs.pasted_logs import import_named
from toolkit.verbs.reading import read_node

Gathered = dict[str, Evidence | ToolkitError]


@verb(
    HOSTS,
    REACH,
    READS,
    BMC,
    WANT,
    (
        Option("out", "evidence", "folder for one NAME.evidence a host"),
        Option("scrub", False, "hide names, serials, GUIDs and addresses; number the files"),
        Option("import_", "", "in place of hosts: KIND=FILE,KIND=FILE of one node"),
        Option("incident", "", "write one FILE.tar.gz with evidence and verdicts instead"),
        Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
    ),
    INSIDE,
)
def capture(said: Said) -> ExitCode:
    """Save the evidence of nodes: for a ticket, or to judge it again with doctor --from.

    Examples:
      invoke capture --hosts gpu[001-004] --out evidence
      invoke capture --hosts gpu007 --scrub --out for-the-vendor
      invoke capture --hosts gpu[001-128] --incident ticket-4711.tar.gz
      invoke capture --hosts gpu007 --inside kubectl:train/worker-0 --out evidence
      invoke capture --import topo=topo.txt,dmesg=dmesg.txt --out evidence
    """
    said.not_dry("capture", "what is said of the nodes: doctor")
    if said.text("import_"):
        refuse_inside(said, "with --import no host is asked")
    session = Session.begin("capture", said)
    if said.text("incident"):
        return _incident(session)
    if said.text("import_"):
        name, evidence = import_named(said.text("import_"))
        file = save(name, evidence, Path(said.text("out")), scrubbed=said.flag("scrub"))
        session.say(str(file))
        return session.tell([Outcome(name, Told(written=(str(file),)))], ExitCode.OK)
    with fleet(said) as opened:
        outcomes = capture_nodes(opened, Path(said.text("out")), scrubbed=said.flag("scrub"))
    for outcome in outcomes:
        if outcome.value is not None:
            cut = "" if outcome.value.complete else " (cut off: what is missing is unknown)"
            session.say(f"{outcome.value.file}{cut}")
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    told = [e.map(lambda it: Told(written=(str(it.file),), complete=it.complete)) for e in outcomes]
    return session.tell(told, session.ended(outcomes, _captured))


def _captured(outcome: Outcome[Captured]) -> ExitCode:
    """Cut evidence counts as a host out of reach, as it does for doctor."""
    if outcome.error is not None:
        return outcome.error.exit_code
    return ExitCode.OK if outcome.get().complete else ExitCode.UNREACHABLE


def _incident(session: Session) -> ExitCode:
    """One file with the evidence of all hosts and what is said of it.

    Nothing that was captured is lost because a node is ill: the exit code is only of hosts
    out of reach.
    """
    said, wants = session.said, session.wants()
    file = Path(said.text("incident"))
    check_place(file)
    found = _gathered(said)
    scrubber = Scrubber(() if said.text("import_") else found)
    known = Renamed(wants, {safe_name(name): name for name in found})
    if said.flag("scrub"):
        gathered = _numbered(found, scrubber)
        known.number(found)
    else:
        gathered = {safe_name(name): each for name, each in found.items()}
    evidence = {name: each for name, each in gathered.items() if isinstance(each, Evidence)}
    outcomes = examine_saved(evidence.items(), known, session.today)
    told = [each.map(lambda judged: Told(judged=judged)) for each in outcomes]
    failed = _failed(gathered)
    told += [Outcome(name, error=each) for name, each in failed.items()]
    code = worst([code_of(each) for each in outcomes] + [e.exit_code for e in failed.values()])
    report = dumps(document("doctor", said.text("profile"), told, code, session.now))
    notes = {"report.json": report, "about.txt": _about(said, file.name)}
    if own := site_file(said.text("site")):
        site = own.read_text(encoding="utf-8")
        notes["site.toml"] = scrubber.text(site) if said.flag("scrub") else site
    write_incident(file, evidence, notes)
    session.say(str(file))
    for line in errors(_failed(found).items(), session.paint):
        session.say(line)
    return session.tell(
        [each.map(lambda told: replace(told, written=(str(file),))) for each in told],
        worst([each.exit_code for each in failed.values()]),
    )


def _failed(gathered: Gathered) -> dict[str, ToolkitError]:
    return {name: each for name, each in gathered.items() if isinstance(each, ToolkitError)}


def _gathered(said: Said) -> Gathered:
    """Evidence, or why there is none, by the name of the node."""
    if said.text("import_"):
        name, evidence = import_named(said.text("import_"))
        return {name: evidence}
    with fleet(said) as opened:
        return dict(gather(opened))


def _numbered(gathered: Gathered, scrubber: Scrubber) -> Gathered:
    """The same without what identifies a site: what stood in the way names hosts, too."""
    told_of: Gathered = {}
    for number, each in enumerate(gathered.values(), start=1):
        if isinstance(each, Evidence):
            told_of[numbered(number)] = scrubber.scrub(each)
        else:
            told = copy(each)
            told.args, told.hint = (scrubber.text(str(each)),), scrubber.text(each.hint)
            told_of[numbered(number)] = told
    return told_of


def _about(said: Said, name: str) -> str:
    site = " --site site.toml" if site_file(said.text("site")) else ""
    return (
        f"Made by gdr-toolkit {__version__} with the profile {said.text('profile')}.\n"
        f"Judge it again: invoke doctor --from {name} --profile {said.text('profile')}{site}\n"
    )


class Captured(Struct, frozen=True):
    """One file of evidence."""

    file: Path
    complete: bool = True  # False: the connection was lost or the probe ran out of time


def capture_nodes(fleet: Fleet, out: Path, *, scrubbed: bool) -> list[Outcome[Captured]]:
    """Write one ``NAME.evidence`` a host into ``out``; scrubbed ones are numbered, not named.

    :raises UsageError: ``out`` cannot be made or written to.
    """
    _make(out)
    if scrubbed:
        return _scrubbed(fleet, out)

    def work(host: Host, transport: Transport) -> Captured:
        return _write(out / f"{safe_name(host.name)}.evidence", read_node(fleet, host, transport))

    return on_each(fleet, "capturing", work)


def _scrubbed(fleet: Fleet, out: Path) -> list[Outcome[Captured]]:
    """One node after the other, so that a name has the same stand-in on all, run for run."""
    gathered = on_each(
        fleet, "capturing", lambda host, transport: read_node(fleet, host, transport)
    )
    scrubber = Scrubber(host.name for host in fleet.hosts)
    outcomes: list[Outcome[Captured]] = []
    for number, each in enumerate(gathered, start=1):
        if each.value is None:
            outcomes.append(Outcome(each.host, error=each.error))
            continue
        file = out / f"node{number:03d}.evidence"
        try:
            outcomes.append(Outcome(each.host, _write(file, scrubber.scrub(each.value))))
        except Unwritten as why:
            outcomes.append(Outcome(each.host, error=why))
    return outcomes


def save(name: str, evidence: Evidence, out: Path, *, scrubbed: bool) -> Path:
    """Write the evidence of one node that was put together from loose files.

    :raises UsageError: ``out`` cannot be made or written to.
    """
    _make(out)
    if scrubbed:  # the name is that of a file, and means nothing within
        return _write(out / "node001.evidence", scrub(evidence, "")).file
    return _write(out / f"{safe_name(name)}.evidence", evidence).file


def _make(out: Path) -> None:
    try:
        private_folder(out)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))
    except OSError as why:
        raise UsageError(
            f"{out}: {why.strerror}", hint="name a folder that can be written: --out DIR"
        ) from why


def _write(file: Path, evidence: Evidence) -> Captured:
    try:
        write_file(file, evidence.dump(), 0o600, errors="surrogateescape")
    except OSError as why:
        raise Unwritten(file, why) from why
    return Captured(file, evidence.complete)
