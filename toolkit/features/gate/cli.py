"""The verb that writes a gate."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import asdict

from toolkit.cli.options import HOSTS, REACH, READS, SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import (
    ExitCode,
    NoEvidence,
    Outcome,
    ToolkitError,
    Unparsable,
    UsageError,
    code_of,
)
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.gate.plan import Expected, alike, expected, script
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.document import Json, dumps
from toolkit.report.text import report
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.doctor import examine_saved, gather
from toolkit.verbs.saved import read_saved

SCHEMA = "gdr-toolkit/gate/1"
GATE = (
    Option("out", "gate.sh", "file to write, of POSIX sh", file=True),
    Option("json", False, "its rows as one JSON document (docs/gate.schema.json)"),
)


@verb(HOSTS, REACH, READS, WANT, SAVED, GATE)
def gate(said: Said) -> ExitCode:
    """Write a gate: one file of shell that a scheduler asks before each job, in a moment.

    It holds how these nodes are: kernel and its arguments, modules, GPUs, IOMMU, ACS, ports,
    memlock, and that no Xid asks for a repair. They have to pass first, and to be alike. The file
    needs no Python and no network; it is Slurm's Prolog or HealthCheckProgram, a plugin of
    node-problem-detector, or tells a HealthEvent of NVSentinel: see docs/gate.md.

    Exits 0 when it was written, 2 where a node fails, 3 where something that decides was not
    read, 4 where a host is out of reach.

    Examples:
      invoke gate --hosts gpu[001-128] --out gate.sh
      invoke gate --from evidence/ --out /etc/slurm/prolog.d/gdr-gate.sh
    """
    session = Session.begin("gate", said)
    found = _evidence(session)
    read = {host: each for host, each in found.items() if isinstance(each, Evidence)}
    outcomes = examine_saved(read.items(), session.wants(), session.today)
    outcomes += [Outcome(h, None, why) for h, why in found.items() if isinstance(why, ToolkitError)]
    code = session.ended(outcomes, code_of)
    if code is not ExitCode.OK or not read:
        session.say(report(outcomes, session.paint))
        session.remark("no gate was written: every node of it has to pass first")
        return _told(session, code, list(found), ())
    tables = {host: _table(host, each) for host, each in read.items()}
    table = alike(tables)
    if "out" in session.files:
        session.files["out"].mode = 0o755
    session.deliver("out", script(table, fold(tables), session.today.isoformat()))
    session.remark(f"{said.text('out')}: {counted(len(table), 'row')}, as {fold(tables)}")
    return _told(session, code, list(tables), table)


def _told(
    session: Session, code: ExitCode, hosts: list[str], table: tuple[Expected, ...]
) -> ExitCode:
    if session.said.flag("json"):
        rows: list[Json] = [asdict(each) for each in table]
        time = session.now.isoformat(timespec="seconds")
        told: dict[str, Json] = {"schema": SCHEMA, "time": time, "exit_code": int(code)}
        sys.stdout.write(dumps(told | {"hosts": [*hosts], "rows": rows}))
    return code


def _evidence(session: Session) -> Mapping[str, Evidence | ToolkitError]:
    if source := session.said.text("from_"):
        return dict(read_saved(Path(source)))
    with fleet(session.said) as opened:
        return gather(opened)


def _table(host: str, evidence: Evidence) -> tuple[Expected, ...]:
    """:raises UsageError: something that decides was not read there."""
    try:
        return expected(Node(evidence))
    except (NoEvidence, Unparsable) as why:
        raise UsageError(f"{host}: what decides was not read: {why}", hint=why.hint) from why
