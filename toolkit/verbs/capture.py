"""Save the evidence of nodes, for a ticket or for judging it again elsewhere."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import Outcome, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.text.scrub import Scrubber, scrub
from toolkit.hosts.host import Host
from toolkit.rollout.runs import safe_name
from toolkit.safe_file import private_folder, write_file
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each
from toolkit.verbs.reading import read_node


@dataclass(frozen=True, slots=True)
class Captured:
    """One file of evidence."""

    file: Path
    complete: bool = True  # False: the connection was lost or the probe ran out of time


def capture(fleet: Fleet, out: Path, *, scrubbed: bool) -> list[Outcome[Captured]]:
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
