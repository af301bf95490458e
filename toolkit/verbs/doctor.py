"""Judge nodes; change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence, Frame
from toolkit.groups import Wants
from toolkit.verbs.each import Alike, on_each, on_saved, processes_for, spread_saved
from toolkit.want import Selection, Want

if TYPE_CHECKING:  # who judges what was saved reaches no node, and nodes are asked meanwhile
    from toolkit.checks.agreement import Agreement, SetVerdict, SmallSheets
    from toolkit.checks.judged import Judged
    from toolkit.checks.outliers import Sheet
    from toolkit.facts.text.foreign import Foreign
    from toolkit.rollout.runs import RunFolder
    from toolkit.verbs.access import Fleet


T = TypeVar("T")
Judging = Callable[[str, Evidence, Want], "Judged"]
Making = Callable[[], Callable[[str, Evidence, Want], T]]


class Gathered:
    """What nodes have of one another's, gathered while each is judged by itself."""

    def __init__(self, wants: Wants) -> None:
        self._wants = wants
        self._first: tuple[str, Evidence] | None = None
        self._sheets: SmallSheets | None = None
        self._agreement: Agreement | None = None
        self._turn = threading.Lock()

    def add(self, name: str, evidence: Evidence) -> None:
        """One node; may be called from many threads. The first waits for a second."""
        with self._turn:
            if self._first is None:
                self._first = name, evidence
                return
            if self._sheets is None:
                from toolkit.checks.agreement import SmallSheets  # noqa: PLC0415 one node needs none

                self._sheets = SmallSheets()
                self.take(self._sheets.make(*self._first))
            self.take(self._sheets.make(name, evidence))

    def take(self, sheet: Sheet) -> None:
        """The sheet of one node."""
        if self._agreement is None:
            from toolkit.checks.agreement import Agreement  # noqa: PLC0415 see above

            self._agreement = Agreement(self._wants)
        self._agreement.take(sheet)

    def verdicts(self, chosen: Selection) -> tuple[SetVerdict, ...]:
        found = self._agreement.verdicts() if self._agreement else ()
        return tuple(each for each in found if chosen.has(each.rule.id))


def has_between(judged: Judged) -> bool:
    """Whether a node was asked itself: texts of others are of a moment that nobody knows."""
    return judged.complete and not judged.text


def judging(today: date, also: tuple[Frame, ...] = (), gathered: Gathered | None = None) -> Judging:
    """Judges a node by its name, its evidence and what it should be.

    :param also: sources that were not read on the nodes, such as the log of their job.
    :param gathered: is given each node that somebody asked, for what they have between them.
    """
    from toolkit.checks.judged import judge_node  # noqa: PLC0415 while nodes are asked
    from toolkit.verbs.passport import sealed  # noqa: PLC0415 likewise

    alike = Alike()

    def work(name: str, evidence: Evidence, want: Want) -> Judged:
        judged = judge_node(name, sealed(evidence.plus(also), want), want, today)
        if gathered is not None and has_between(judged):
            gathered.add(name, evidence)
        return alike.judged(judged)

    return work


def judging_apart(
    today: date, also: tuple[Frame, ...] = ()
) -> Callable[[str, Evidence, Want], tuple[Judged, Sheet | None]]:
    """The same in a process of its own, with the sheet that is laid beside those of others."""
    from toolkit.checks.agreement import SmallSheets  # noqa: PLC0415 see above

    judge, sheets = judging(today, also), SmallSheets()

    def work(name: str, evidence: Evidence, want: Want) -> tuple[Judged, Sheet | None]:
        judged = judge(name, evidence, want)
        return judged, sheets.make(name, evidence) if has_between(judged) else None

    return work


def _made(wants: Wants, judge: Making[T]) -> Callable[[str, Evidence], T]:
    """The work on each node's evidence; what it will read of tables is read now."""
    from toolkit.verbs.reading import read_ahead  # noqa: PLC0415 while nodes are asked

    read_ahead(wants)
    work = judge()
    return lambda name, evidence: work(name, evidence, wants.of(name))


def examine(
    fleet: Fleet,
    wants: Wants,
    today: date,
    folder: RunFolder,
    *,
    also: tuple[Frame, ...] = (),
    gathered: Gathered | None = None,
    then: Callable[[], None] = lambda: None,
) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder.

    :param then: is called, in this thread, while nothing is left but to wait for nodes.
    """
    from toolkit.verbs.reading import read_meanwhile  # noqa: PLC0415 only who asks nodes pays for it

    processes = processes_for(fleet, wants)
    if processes < 2:
        here = partial(_made, wants, partial(judging, today, also, gathered))
        return read_meanwhile(fleet, folder, here, earlier=True, then=then)
    folder.settle()  # or each would make one

    def judge() -> Callable[[str, Evidence, Want], tuple[Judged, Sheet | None, str]]:
        work = judging_apart(today, also)
        return lambda *node: (*work(*node), folder.trouble)

    told = telling(gathered)

    def kept(found: tuple[Judged, Sheet | None, str]) -> Judged:
        folder.trouble = folder.trouble or found[2]
        return told(found[:2])

    apart = partial(_made, wants, judge)
    outcomes = read_meanwhile(fleet, folder, apart, earlier=True, then=then, processes=processes)
    return [each.map(kept) for each in outcomes]


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
    work = judging(today, also, gathered)
    return on_saved(saved, lambda name, evidence: work(name, evidence, wants.of(name)))


def examine_files(
    sources: Sequence[Path],
    aside: list[Foreign],
    wants: Wants,
    today: date,
    *,
    also: tuple[Frame, ...] = (),
    gathered: Gathered | None = None,
) -> list[Outcome[Judged]]:
    """The same of files and folders; of very many nodes in processes beside this one.

    :param aside: is given what was not understood.
    """
    from toolkit.verbs.saved import read_all, read_saved  # noqa: PLC0415 only they pay for it

    apart = spread_saved(sources, aside, wants, partial(judging_apart, today, also))
    if apart is None:
        found = read_all(sources, aside, read_saved)
        return examine_saved(found, wants, today, also=also, gathered=gathered)
    told = telling(gathered)
    return [each.map(told) for each in apart]


def telling(gathered: Gathered | None) -> Callable[[tuple[Judged, Sheet | None]], Judged]:
    """What a process of its own found out of a node becomes known here."""
    alike = Alike()

    def told(both: tuple[Judged, Sheet | None]) -> Judged:
        judged, sheet = both
        if gathered is not None and sheet is not None:
            gathered.take(sheet)
        return alike.judged(judged)

    return told
