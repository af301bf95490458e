"""Show every node of a fleet to somebody who looks, and let its evidence go; change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import TypeVar

from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.facts.text.scrub import Scrubber
from toolkit.groups import Wants, numbered
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.doctor import gather
from toolkit.verbs.each import on_saved
from toolkit.verbs.passport import sealed
from toolkit.verbs.reading import read_each

T = TypeVar("T")
Look = Callable[[str, Evidence], T]


def look_at(fleet: Fleet, wants: Wants, folder: RunFolder, look: Look[T]) -> list[Outcome[T]]:
    """Ask every node once and keep its evidence in the run's folder.

    :param look: is called from many threads.
    """

    def work(name: str, evidence: Evidence) -> T:
        return look(name, sealed(evidence, wants.of(name)))

    return read_each(fleet, folder, work)


def look_at_saved(
    saved: Iterable[tuple[str, Evidence]], wants: Wants, look: Look[T]
) -> list[Outcome[T]]:
    """The same of evidence that was saved earlier; one node's at a time is held."""
    return on_saved(saved, lambda name, evidence: look(name, sealed(evidence, wants.of(name))))


def look_at_scrubbed(fleet: Fleet, wants: Wants, look: Look[T]) -> list[Outcome[T]]:
    """Ask every node once; what identifies the site is hidden, and nothing else is kept.

    One node after the other, so that a name has the same stand-in on all, run for run.
    """
    gathered = gather(fleet)
    scrubber = Scrubber(gathered)
    outcomes: list[Outcome[T]] = []
    for number, each in enumerate(gathered.values(), start=1):
        name = numbered(number)
        if isinstance(each, Evidence):
            hidden = [(name, scrubber.scrub(each))]
            outcomes += look_at_saved(hidden, wants, look)
        else:
            outcomes.append(Outcome(name, error=_hidden(each, scrubber)))
    return outcomes


def _hidden(error: ToolkitError, scrubber: Scrubber) -> ToolkitError:
    """What stood in the way names hosts, too."""
    told = copy(error)
    told.args, told.hint = (scrubber.text(str(error)),), scrubber.text(error.hint)
    return told


def scrubbed(
    names: Iterable[str], saved: Iterable[tuple[str, Evidence]]
) -> Iterator[tuple[str, Evidence]]:
    """Saved evidence without what identifies the site, numbered.

    :param names: of all nodes: what one says of another is hidden from the first on.
    """
    scrubber = Scrubber(names)
    for number, (_, evidence) in enumerate(saved, start=1):
        yield numbered(number), scrubber.scrub(evidence)
