"""Judge nodes; change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.flow.access import Fleet
from toolkit.flow.each import on_each, on_saved
from toolkit.flow.runs import RunFolder
from toolkit.hosts import Host
from toolkit.reach.collect import collect
from toolkit.reach.transport import Transport
from toolkit.want import Want


def examine(fleet: Fleet, want: Want, today: date, folder: RunFolder) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder."""

    def work(host: Host, transport: Transport) -> Judged:
        evidence = collect(transport)
        folder.keep_evidence(host.name, evidence)
        return judge_node(host.name, evidence, want, today)

    return on_each(fleet, "reading", work)


def gather(fleet: Fleet) -> dict[str, Evidence | ToolkitError]:
    """Ask every node once; its evidence, or why there is none, by host name."""
    outcomes = on_each(fleet, "reading", lambda _, transport: collect(transport))
    return {each.host: each.error or each.get() for each in outcomes}


def examine_saved(
    saved: Iterable[tuple[str, Evidence]], want: Want, today: date
) -> list[Outcome[Judged]]:
    """Judge evidence that was saved earlier, with no host."""
    return on_saved(saved, lambda name, evidence: judge_node(name, evidence, want, today))
