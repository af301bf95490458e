"""Read nodes for what they have; change nothing.

The verb that learns what the nodes of a site have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from toolkit.checks.learned import Had, Learned, had, learn
from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, worst
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.expect import show as report
from toolkit.features.slurm.run.nodes import node_name
from toolkit.report.document import dumps
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_saved


def had_all(fleet: Fleet, folder: RunFolder) -> list[Outcome[Had]]:
    """Ask every node once; of its evidence, kept in the run's folder, only a summary remains."""
    return read_each(fleet, folder, lambda name, evidence: had(name, Node(evidence)))


def had_saved(saved: Iterable[tuple[str, Evidence]]) -> list[Outcome[Had]]:
    """The same of evidence that was saved earlier; one node's at a time is held."""
    return on_saved(saved, lambda name, evidence: had(name, Node(evidence)))


def gres_of(fleet: Fleet) -> dict[str, int]:
    """GPUs by host, as Slurm's Gres has them; none where Slurm was not asked."""
    nodes = fleet.slurm.nodes if fleet.slurm else {}
    told = {host.name: nodes[node_name(host)].gpus for host in fleet.hosts} if nodes else {}
    return {name: gpus for name, gpus in told.items() if gpus is not None}


@verb(
    HOSTS,
    REACH,
    SAVED,
    (Option("json", False, "one JSON document on standard output (docs/expect.schema.json)"),),
)
def expect(said: Said) -> ExitCode:
    """Write what most nodes of each kind have, as the site's file would say it; change nothing.

    Nodes that differ from their kind are named in comments. Exits 0 when none does, 2 when some
    do, 3 when something that most tell could not be read on a node, 4 when a host is out of reach.

    Examples:
      invoke expect --hosts gpu[001-128] > expect.toml
      invoke expect --hosts @h100 --via slurm > expect.toml
      invoke expect --from evidence/ --json
    """
    session = Session.begin("expect", said)
    gres: dict[str, int] = {}
    if said.text("from_"):
        outcomes = had_saved(read_saved(Path(said.text("from_"))))
    else:
        with fleet(said) as opened:
            outcomes = had_all(opened, session.folder)
            gres = gres_of(opened)
    kinds = learn([each.value for each in outcomes if each.value is not None], gres)
    failed = [(each.host, each.error) for each in outcomes if each.error is not None]
    code = worst([*(error.exit_code for _, error in failed), _code(kinds)])
    text = report.text(kinds, failed)
    session.say(text.rstrip("\n"))
    session.folder.keep("expect.toml", text)
    if said.flag("json"):
        sys.stdout.write(dumps(report.document(kinds, failed, code, session.now)))
    session.kept()
    return code


def _code(kinds: tuple[Learned, ...]) -> ExitCode:
    if any(each.dissents for each in kinds):
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if any(each.unread for each in kinds) else ExitCode.OK
