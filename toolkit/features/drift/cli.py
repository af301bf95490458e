"""Drift: the verb that lays nodes beside what they should be, for people and for cron."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date

from toolkit.built.delivery_cache import Shelf, at_hand
from toolkit.checks.judged import judge_node
from toolkit.cli.options import HOSTS, REACH, READS, SAVED, TEXTFILE, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, code_of
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.drift import show as report
from toolkit.features.drift.plan import Drift
from toolkit.features.drift.plan_properties import drift_of
from toolkit.features.drift.show import document
from toolkit.groups import Wants
from toolkit.plan.plan import Plan, make_plan
from toolkit.report.document import dumps
from toolkit.verbs.cli.nodes import each_node
from toolkit.verbs.cli.plan import DELIVERED, shelf_of
from toolkit.verbs.cli.prometheus import textfile
from toolkit.verbs.cli.session import Session
from toolkit.verbs.plan import aimed
from toolkit.want import Want


def drift_node(
    host: str, evidence: Evidence, want: Want, today: date, shelf: Shelf | None = None
) -> Drift:
    """One node's drift, from its evidence.

    :param shelf: modules that were built elsewhere, and may be delivered.
    :raises Unsupported: there is no rule for its distribution.
    """
    judged = judge_node(host, evidence, want, today)
    node = Node(evidence)
    if not judged.gpus:
        return drift_of(node, judged, Plan())
    verdicts, want = aimed(node, judged, want)
    plan = make_plan(node, verdicts, want, today=today, builts=at_hand(shelf, node, want))
    return drift_of(node.fresh(), judged, plan)


def drifting(
    wants: Wants, today: date, shelf: Shelf | None = None
) -> Callable[[str, Evidence], Drift]:
    """Lays a node, by its name and evidence, beside what it should be."""
    return lambda name, evidence: drift_node(name, evidence, wants.of(name), today, shelf)


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
    with textfile(session, lambda: report) as teller:
        work = drifting(session.wants(), session.today, shelf_of(session))
        outcomes = each_node(session, work)
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
