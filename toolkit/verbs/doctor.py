"""Judge nodes; change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from toolkit.checks.consumers.taken import taken
from toolkit.checks.judged import Judged, judge_node
from toolkit.checks.kernel.forecast import Foreseen, forecast
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence, Frame
from toolkit.facts.node.node import Node
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each, on_saved
from toolkit.verbs.earlier import earlier_ports
from toolkit.verbs.intern import Alike
from toolkit.verbs.passport import sealed
from toolkit.verbs.reading import read_node
from toolkit.want import Want


def examine(
    fleet: Fleet,
    wants: Wants,
    today: date,
    folder: RunFolder,
    *,
    also: tuple[Frame, ...] = (),
) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder.

    :param also: sources that were not read on the nodes, such as the log of their job.
    """
    alike = Alike()

    def work(host: Host, transport: Transport) -> Judged:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        want = wants.of(host.name)
        before = earlier_ports(folder.path.parent, host.name, evidence, but=folder.path)
        given = sealed(evidence.plus((*also, *before)), want)
        return alike.judged(judge_node(host.name, given, want, today))

    return on_each(fleet, "reading", work)


def gather(fleet: Fleet) -> dict[str, Evidence | ToolkitError]:
    """Ask every node once; its evidence, or why there is none, by host name."""
    outcomes = on_each(fleet, "reading", lambda host, transport: read_node(fleet, host, transport))
    return {each.host: each.error or each.get() for each in outcomes}


def examine_saved(
    saved: Iterable[tuple[str, Evidence]],
    wants: Wants,
    today: date,
    *,
    also: tuple[Frame, ...] = (),
) -> list[Outcome[Judged]]:
    """Judge evidence that was saved earlier, with no host."""
    alike = Alike()

    def work(name: str, evidence: Evidence) -> Judged:
        want = wants.of(name)
        return alike.judged(judge_node(name, sealed(evidence.plus(also), want), want, today))

    return on_saved(saved, work)


def foresee(
    fleet: Fleet, wants: Wants, today: date, folder: RunFolder, release: str
) -> list[Outcome[Foreseen]]:
    """Ask every node once, and judge it as it would be after booting another kernel.

    :param release: kernel release; "" for that of each node's next boot.
    """

    def work(host: Host, transport: Transport) -> Foreseen:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        return _foreseen(host.name, evidence, wants.of(host.name), today, release)

    return on_each(fleet, "reading", work)


def foresee_saved(
    saved: Iterable[tuple[str, Evidence]], wants: Wants, today: date, release: str
) -> list[Outcome[Foreseen]]:
    """The same from evidence that was saved earlier, with no host."""

    def work(name: str, evidence: Evidence) -> Foreseen:
        return _foreseen(name, evidence, wants.of(name), today, release)

    return on_saved(saved, work)


def _foreseen(name: str, evidence: Evidence, want: Want, today: date, release: str) -> Foreseen:
    judged = judge_node(name, evidence, want, today)
    node = Node(evidence)
    return Foreseen(judged, forecast(node, taken(node.fresh(), want), release))
