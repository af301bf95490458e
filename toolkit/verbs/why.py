"""Why a check says what it says: judged as doctor does, with the plan that would mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.plan.plan import Plan
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each, on_saved
from toolkit.verbs.earlier import earlier_ports
from toolkit.verbs.passport import sealed
from toolkit.verbs.plan import plan_node
from toolkit.verbs.reading import read_node
from toolkit.want import Want


@dataclass(frozen=True, slots=True)
class Explained:
    """One node, all that its verdicts rest on, and what provision would do."""

    judged: Judged
    evidence: Evidence
    want: Want
    plan: Plan | None  # None where none can be made
    unplanned: str = ""  # why


def look(fleet: Fleet, wants: Wants, today: date, folder: RunFolder) -> list[Outcome[Explained]]:
    """Ask each node once; nothing is changed."""

    def work(host: Host, transport: Transport) -> Explained:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        before = earlier_ports(folder.path.parent, host.name, evidence, but=folder.path)
        return explained(host.name, evidence.plus(before), wants.of(host.name), today)

    return on_each(fleet, "reading", work)


def look_saved(
    saved: Iterable[tuple[str, Evidence]], wants: Wants, today: date
) -> list[Outcome[Explained]]:
    """The same from evidence that was saved earlier, with no host."""
    return on_saved(saved, lambda name, found: explained(name, found, wants.of(name), today))


def explained(name: str, evidence: Evidence, want: Want, today: date) -> Explained:
    """Judge one node, and plan for it where its distribution has rules."""
    given = sealed(evidence, want)
    judged = judge_node(name, given, want, today)
    if judged.text:
        return Explained(judged, given, want, None, "what tools printed is no node to plan for")
    try:
        return Explained(judged, given, want, plan_node(name, given, want, today).plan)
    except ToolkitError as why:
        return Explained(judged, given, want, None, f"{why}; {why.hint}".rstrip("; "))
