"""Judge nodes; change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence, Frame
from toolkit.facts.text.foreign import Foreign
from toolkit.groups import Wants
from toolkit.verbs.each import Alike, on_each, on_saved, spread_saved
from toolkit.verbs.passport import sealed
from toolkit.verbs.saved import read_all, read_saved
from toolkit.want import Want

if TYPE_CHECKING:  # who judges what was saved reaches no node
    from toolkit.rollout.runs import RunFolder
    from toolkit.verbs.access import Fleet


def judging(today: date, also: tuple[Frame, ...] = ()) -> Callable[[str, Evidence, Want], Judged]:
    """Judges a node by its name, its evidence and what it should be.

    :param also: sources that were not read on the nodes, such as the log of their job.
    """
    alike = Alike()

    def work(name: str, evidence: Evidence, want: Want) -> Judged:
        return alike.judged(judge_node(name, sealed(evidence.plus(also), want), want, today))

    return work


def examine(
    fleet: Fleet, wants: Wants, today: date, folder: RunFolder, *, also: tuple[Frame, ...] = ()
) -> list[Outcome[Judged]]:
    """Ask every node once and judge it; the evidence goes into the run's folder."""
    from toolkit.verbs.reading import read_each  # noqa: PLC0415 only who asks nodes pays for it

    work = judging(today, also)
    return read_each(fleet, folder, lambda n, e: work(n, e, wants.of(n)), earlier=True)


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
    work = judging(today, also)
    return on_saved(saved, lambda name, evidence: work(name, evidence, wants.of(name)))


def examine_files(
    sources: Sequence[Path],
    aside: list[Foreign],
    wants: Wants,
    today: date,
    *,
    also: tuple[Frame, ...] = (),
) -> list[Outcome[Judged]]:
    """The same of files and folders; of very many nodes in processes beside this one.

    :param aside: is given what was not understood.
    """
    apart = spread_saved(sources, aside, wants, partial(judging, today, also))
    if apart is None:
        return examine_saved(read_all(sources, aside, read_saved), wants, today, also=also)
    alike = Alike()
    return [each.map(alike.judged) for each in apart]
