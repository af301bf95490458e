"""Judge nodes; change nothing."""

from __future__ import annotations

import threading
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
    from toolkit.checks.agreement import Agreement, SetVerdict
    from toolkit.rollout.runs import RunFolder
    from toolkit.verbs.access import Fleet


class Gathered:
    """What nodes have of one another's, gathered while each is judged by itself."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._first: tuple[str, Evidence] | None = None
        self._agreement: Agreement | None = None
        self._turn = threading.Lock()

    def add(self, name: str, evidence: Evidence) -> None:
        """One node; may be called from many threads. The first waits for a second."""
        with self._turn:
            if self._agreement is None and self._first is None:
                self._first = name, evidence
                return
            if self._agreement is None and self._first is not None:
                from toolkit.checks.agreement import Agreement  # noqa: PLC0415 one node needs none

                self._agreement = Agreement(self._wants)
                self._agreement.add(*self._first)
            if self._agreement is not None:
                self._agreement.add(name, evidence)

    def verdicts(self) -> tuple[SetVerdict, ...]:
        return self._agreement.verdicts() if self._agreement else ()


def judging(
    wants: Wants,
    today: date,
    also: tuple[Frame, ...] = (),
    gathered: Gathered | None = None,
) -> Callable[[str, Evidence], Judged]:
    """Judges a node by its name and its evidence.

    :param also: sources that were not read on the nodes, such as the log of their job.
    :param gathered: is given each node that somebody asked, for what they have between them.
    """
    alike = Alike()

    def work(name: str, evidence: Evidence) -> Judged:
        want = wants.of(name)
        judged = judge_node(name, sealed(evidence.plus(also), want), want, today)
        if gathered is not None and judged.complete and not judged.text:
            gathered.add(name, evidence)
        return alike.judged(judged)

    return work


def examine(
    fleet: Fleet,
    wants: Wants,
    today: date,
    folder: RunFolder,
    *,
    also: tuple[Frame, ...] = (),
    gathered: Gathered | None = None,
) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder."""
    from toolkit.verbs.reading import read_each  # noqa: PLC0415 only who asks nodes pays for it

    return read_each(fleet, folder, judging(wants, today, also, gathered), earlier=True)


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
    gathered: Gathered | None = None,
) -> list[Outcome[Judged]]:
    """Judge evidence that was saved earlier, with no host."""
    return on_saved(saved, judging(wants, today, also, gathered))
