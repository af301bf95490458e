"""Judge nodes; change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import TYPE_CHECKING

from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence, Frame
from toolkit.groups import Wants
from toolkit.verbs.each import Alike, on_each, on_saved
from toolkit.verbs.passport import sealed

if TYPE_CHECKING:  # who judges what was saved reaches no node
    from toolkit.rollout.runs import RunFolder
    from toolkit.verbs.access import Fleet


def judging(
    wants: Wants, today: date, also: tuple[Frame, ...] = ()
) -> Callable[[str, Evidence], Judged]:
    """Judges a node by its name and its evidence.

    :param also: sources that were not read on the nodes, such as the log of their job.
    """
    alike = Alike()

    def work(name: str, evidence: Evidence) -> Judged:
        want = wants.of(name)
        return alike.judged(judge_node(name, sealed(evidence.plus(also), want), want, today))

    return work


def examine(
    fleet: Fleet, wants: Wants, today: date, folder: RunFolder, *, also: tuple[Frame, ...] = ()
) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder."""
    from toolkit.verbs.reading import read_each  # noqa: PLC0415 only who asks nodes pays for it

    return read_each(fleet, folder, judging(wants, today, also), earlier=True)


def gather(fleet: Fleet) -> dict[str, Evidence | ToolkitError]:
    """Ask every node once; its evidence, or why there is none, by host name."""
    from toolkit.verbs.reading import read_node  # noqa: PLC0415 only who asks nodes pays for it

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
    return on_saved(saved, judging(wants, today, also))
