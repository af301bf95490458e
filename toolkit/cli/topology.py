"""The verb that draws the PCIe tree of nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.session import Session, fleet
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, ToolkitError, worst
from toolkit.evidence import Evidence
from toolkit.flow.doctor import gather
from toolkit.flow.runs import read_saved
from toolkit.report.document import Json, dumps
from toolkit.report.text import errors
from toolkit.report.topology import SCHEMA, as_json, text
from toolkit.report.topology_view import View, view


@verb(
    HOSTS,
    REACH,
    SAVED,
    (Option("json", False, "one JSON document on standard output (docs/topology.schema.json)"),),
)
def topology(said: Said) -> ExitCode:
    """Draw the PCIe tree of nodes: GPUs, HCAs, how far apart, and what stands between them.

    Bridges that redirect peer traffic are named with the ACS bits that do so; the link that
    limits each pair, with its bandwidth. ACS needs root.

    Examples:
      invoke topology --hosts gpu007
      invoke topology --hosts demo-acs
      invoke topology --from evidence/gpu007.evidence --json
    """
    session = Session.begin("topology", said)
    views: list[View] = []
    failures: list[tuple[str, ToolkitError]] = []
    for name, evidence in _evidence(said):
        try:
            if isinstance(evidence, ToolkitError):
                raise evidence
            views.append(view(name, evidence))
        except ToolkitError as why:
            failures.append((name, why))
    session.say("\n\n".join(text(each, session.paint) for each in views))
    for line in errors(failures, session.paint):
        session.say(line)
    if said.flag("json"):
        wrong: list[Json] = [
            {"name": name, "error": str(why), "hint": why.hint} for name, why in failures
        ]
        sys.stdout.write(
            dumps({"schema": SCHEMA, "hosts": [as_json(each) for each in views], "errors": wrong})
        )
    return worst([why.exit_code for _, why in failures])


def _evidence(said: Said) -> Iterator[tuple[str, Evidence | ToolkitError]]:
    if said.text("from_"):
        yield from read_saved(Path(said.text("from_")))
        return
    with fleet(said) as opened:
        yield from gather(opened).items()
