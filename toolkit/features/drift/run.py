"""Lay nodes beside what they should be; change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from toolkit.built.delivery_cache import Shelf, at_hand
from toolkit.checks.judged import judge_node
from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.drift.plan import Drift
from toolkit.features.drift.plan_properties import drift_of
from toolkit.groups import Wants
from toolkit.plan.plan import Plan, make_plan
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.plan import aimed
from toolkit.verbs.reading import read_each
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


def drift_all(
    fleet: Fleet, wants: Wants, today: date, folder: RunFolder, shelf: Shelf | None = None
) -> list[Outcome[Drift]]:
    """Ask every node once, and lay it beside what it should be."""

    def work(name: str, evidence: Evidence) -> Drift:
        return drift_node(name, evidence, wants.of(name), today, shelf)

    return read_each(fleet, folder, work)


def drift_saved(
    saved: Iterable[tuple[str, Evidence]], wants: Wants, today: date, shelf: Shelf | None = None
) -> list[Outcome[Drift]]:
    """The same from evidence that was saved earlier, with no host."""

    def work(name: str, evidence: Evidence) -> Drift:
        return drift_node(name, evidence, wants.of(name), today, shelf)

    return on_saved(saved, work)
