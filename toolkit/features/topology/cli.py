"""The verb that draws the PCIe tree of nodes."""

from __future__ import annotations

import shlex
import sys

from toolkit.cli.options import HOSTS, REACH, SAVED, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, ToolkitError, UsageError, worst
from toolkit.facts.node.node import Node
from toolkit.features.predict.cli import evidence_of
from toolkit.features.predict.plan.totals import predict
from toolkit.features.topology.show.page import Drawn, page, tree_svg
from toolkit.features.topology.show.text import SCHEMA, as_json, text
from toolkit.features.topology.show.view import TopologyView, view
from toolkit.report.document import Json, dumps
from toolkit.report.text import errors
from toolkit.verbs.cli.session import Session


@verb(
    HOSTS,
    REACH,
    SAVED,
    (
        Option("svg", "", "draw the tree of one node into this file", file=True),
        Option("html", "", "draw the nodes, and where their bytes go, into this page", file=True),
        Option("json", False, "one JSON document on standard output (docs/topology.schema.json)"),
    ),
)
def topology(said: Said) -> ExitCode:
    """Draw the PCIe tree of nodes: GPUs, HCAs, how far apart, and what stands between them.

    Bridges that redirect peer traffic are named with the ACS bits that do so; the link that
    limits each pair, with its bandwidth. ACS needs root.

    Examples:
      invoke topology --hosts gpu007
      invoke topology --hosts demo-acs
      invoke topology --from evidence/gpu007.evidence --json
      invoke topology --hosts gpu007 --html gpu007.html
    """
    session = Session.begin("topology", said)
    views: list[TopologyView] = []
    drawn: list[Drawn] = []
    failures: list[tuple[str, ToolkitError]] = []
    for name, evidence in evidence_of(said):
        try:
            if isinstance(evidence, ToolkitError):
                raise evidence
            node = Node(evidence)
            views.append(view(name, node.sources))
        except ToolkitError as why:
            failures.append((name, why))
        else:
            if session.files:
                drawn.append(Drawn(views[-1], predict(node)))
    _draw(session, drawn, failures)
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


def _draw(session: Session, drawn: list[Drawn], failures: list[tuple[str, ToolkitError]]) -> None:
    """:raises UsageError: one picture is asked for, and there are several nodes."""
    said, made = session.said, []
    # Why there is no picture is told of each node, with its exit code.
    if said.text("svg") and drawn:
        if len(drawn) > 1:
            raise UsageError(
                f"--svg draws one node, and {len(drawn)} could be drawn",
                hint="name one with --hosts, or draw them all with --html FILE",
            )
        made += ["svg"] if session.deliver("svg", tree_svg(drawn[0])) else []
    if said.text("html"):
        lost = [f"{name}: {why}" for name, why in failures]
        asked = ("from_", "--from") if said.text("from_") else ("hosts", "--hosts")
        command = shlex.join(["./invokew", "topology", asked[1], said.text(asked[0])])
        whole = "".join(page(drawn, lost, command))
        made += ["html"] if session.deliver("html", whole) else []
    for each in made if drawn else ():
        session.remark(f"drawn in {said.text(each)}")
