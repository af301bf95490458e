"""A run's part in the one budget of interruption that all runs of a state folder share.

    with Budget.open(runs, run, limit) as budget:
        answer = budget.ask(hosts)          those granted count as in hand from now on
        budget.ended("gpu007", events, ...)   given back, or left with its reason

Whoever has changes made by other ways uses the same: a claim on the run (reach.claims) is what
tells that it lives. ``set_aside`` is for engines that count for themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import ToolkitError, UsageError
from toolkit.plural import counted
from toolkit.rollout.budget_store import FILE, Book, BudgetError, BudgetRow, Moment
from toolkit.rollout.claims import alive
from toolkit.rollout.events import steps_of
from toolkit.rollout.journal import Event, Journal, stamp
from toolkit.rollout.plan.batches import Past, pasts
from toolkit.rollout.plan.budget import (
    NOBODY,
    Answer,
    Books,
    CountedAs,
    Share,
    ask,
    clears,
    left_by,
    of_the_living,
)

Unavailable = Callable[[], Mapping[str, str]]  # nodes that others report unavailable: name -> why
_FRESH_S = 5.0  # so old may be what others reported


def nobody() -> Mapping[str, str]:
    """Nobody reports anything."""
    return NOBODY


def node_name(host: str) -> str:
    """By what a host counts: its name without user, as Slurm and Kubernetes call it, too."""
    return host.rpartition("@")[2]


class Budget(Struct):
    """One run's part, from ``open`` to ``close``."""

    runs: Path
    run: str
    book: Book
    reported: Unavailable = nobody
    _known: Mapping[str, str] = field(default_factory=dict)
    _until: float = float("-inf")  # when to ask others again

    @classmethod
    def open(
        cls,
        runs: Path,
        run: str,
        limit: int | None,
        *,
        lost: Iterable[str] = (),
        reported: Unavailable = nobody,
    ) -> Budget:
        """Take part. The run must have been claimed: that is how others know that it lives.

        :param limit: so many nodes may be unavailable at once; None where nobody said.
        :param lost: hosts that the run cannot reach, and that count while it lives.
        :param reported: what else is unavailable, asked again while the run goes on.
        :raises BudgetError: the books cannot be used.
        """
        budget = cls(runs, run, Book(runs), reported)
        with budget.book.moment() as moment:
            budget._settle(moment, run)  # what a killed controller of this run left
            moment.tell(run, limit)
            held = {row.node for row in moment.rows()}
            for node in map(node_name, lost):
                if node not in held:
                    moment.put(BudgetRow(node, run, CountedAs.LOST, "", stamp()))
        return budget

    def __enter__(self) -> Budget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The run ends: what it leaves behind stays in the books, with its reason."""
        try:
            with self.book.moment() as moment:
                self._settle(moment, self.run)
        except ToolkitError:
            return  # whoever comes next finds us dead, and settles it by our journal
        finally:
            self.book.close()

    def ask(self, hosts: Iterable[str], away: Iterable[str] = ()) -> Answer:
        """Take shares for these hosts, as far as there are any: what is granted is in hand.

        :param away: hosts that the run itself knows to be unavailable: failed, out of reach.
        :raises ToolkitError: the books, or what others report, cannot be read.
        """
        names = {node_name(host): host for host in hosts}
        known = {node_name(each): f"known to run {self.run}" for each in away}
        answer = self._take(tuple(names), known)
        if answer.halt and self._known:  # what ends a run is not judged by what was so before
            self._until = float("-inf")
            answer = self._take(tuple(names), known)
        return replace(answer, granted=tuple(names[node] for node in answer.granted))

    def _take(self, nodes: tuple[str, ...], known: Mapping[str, str]) -> Answer:
        if time.monotonic() >= self._until:
            self._known = self.reported()
            self._until = time.monotonic() + _FRESH_S
        away = {**known, **self._known}
        with self.book.moment() as moment:
            answer = ask(self._books(moment), nodes, away)
            for node in answer.granted:
                moment.put(BudgetRow(node, self.run, CountedAs.IN_HAND, "", stamp()))
        return answer

    def ended(
        self, host: str, events: Iterable[Event], *, well: bool, answered: bool, harm: str = ""
    ) -> None:
        """The host's turn is over: give its share back, or leave it with its reason.

        :param events: what was done to it, as the journal has it.
        :param answered: the turn came to its end, and the node was looked at.
        :param harm: in a clause, what is worse there than before; "" for nothing.
        :raises BudgetError: the books cannot be written.
        """
        node, past = node_name(host), pasts(steps_of(events)).get(host, Past())
        left = None if well else left_by(past, answered=answered)
        if left is None and harm and not well:
            left = CountedAs.LEFT, harm
        with self.book.moment() as moment:
            moment.drop(node, self.run)
            if left is not None:
                moment.put(BudgetRow(node, self.run, left[0], left[1], stamp()))
            elif well:
                _clear(moment, {node}, clears(past))

    def well(self, hosts: Iterable[str]) -> None:
        """Nothing is to be done on these: they were found as wanted, and serve.

        What was taken out of service is out of it all the same.
        """
        nodes = set(map(node_name, hosts))
        with self.book.moment() as moment:
            _clear(moment, nodes, frozenset({CountedAs.LEFT}))

    def _books(self, moment: Moment) -> Books:
        """What holds now; what the dead left is settled first."""
        told, rows = moment.told(), moment.rows()
        ours = {row.run for row in rows if of_the_living(_share(row))}
        dead = {run for run in {*told, *ours} - {self.run} if not alive(self.runs / run)}
        for run in dead:
            self._settle(moment, run)
        limits = {run: most for run, most in told.items() if run not in dead}
        shares = tuple(map(_share, moment.rows() if dead else rows))
        return Books(shares, {run: most for run, most in limits.items() if most is not None})

    def _settle(self, moment: Moment, run: str) -> None:
        """What a run that is over had in hand is free, or left: by what its journal says."""
        rows = [row for row in moment.rows() if row.run == run and of_the_living(_share(row))]
        left_of = (
            _left_of(self.runs / run) if any(row.held == CountedAs.IN_HAND for row in rows) else {}
        )
        for row in rows:
            moment.drop(row.node, run)
            left = left_of.get(row.node) if isinstance(left_of, dict) else left_of
            if row.held == CountedAs.IN_HAND and left is not None:
                moment.put(BudgetRow(row.node, run, left[0], left[1], stamp()))
        moment.forget(run)


def release(runs: Path, hosts: Iterable[str]) -> list[Share]:
    """Give back what no living run holds: an operator has seen to these nodes.

    :param hosts: names of nodes, or of what was set aside.
    :returns: what was given back.
    :raises UsageError: a living run is at work on one of them, or one is not in the books.
    """
    book = Book(runs)
    try:
        with book.moment() as moment:
            rows = moment.rows()
            chosen = [row for row in rows if row.node in set(map(node_name, hosts))]
            for row in chosen:
                if of_the_living(_share(row)) and alive(runs / row.run):
                    raise UsageError(
                        f"{row.node}: run {row.run} is at work there",
                        hint="wait for it, or stop it",
                    )
                moment.drop(row.node, row.run)
            if missing := sorted(set(map(node_name, hosts)) - {row.node for row in chosen}):
                raise UsageError(
                    f"{', '.join(missing)}: nothing of the budget is held there",
                    hint="look at what is held: budget",
                )
        return list(map(_share, chosen))
    finally:
        book.close()


def set_aside(runs: Path, engine: str, count: int, why: str) -> None:
    """Take ``count`` of the budget for an engine that counts for itself, until it is released.

    :param engine: by which it is released: "kubernetes/gdr-apply". What it had is replaced.
    :raises BudgetError: there is no room for so many, or the books cannot be used.
    """
    book = Book(runs)
    try:
        with book.moment() as moment:
            moment.drop(engine, "")
            books = _standing(moment, runs)
            room = books.room()
            if room is not None and count > room:
                taken = len(books.nodes) + books.aside
                raise BudgetError(
                    f"{engine}: no more than {books.limit} may be unavailable, and "
                    f"{counted(taken, 'node', 'is', 'are')} by then: no room for {count}",
                    hint="nothing was set aside; who holds what: budget",
                )
            moment.put(BudgetRow(engine, "", CountedAs.ASIDE, why, stamp(), count))
    finally:
        book.close()


def books_of(runs: Path) -> Books:
    """What is held now, for those who only look. What the dead left shows as they left it.

    :raises BudgetError: the books cannot be read.
    """
    if not (runs / FILE).exists():
        return Books()
    book = Book(runs)
    try:
        with book.moment() as moment:
            return _standing(moment, runs)
    finally:
        book.close()


def _standing(moment: Moment, runs: Path) -> Books:
    told = moment.told().items()
    limits = {run: most for run, most in told if most is not None and alive(runs / run)}
    return Books(tuple(map(_share, moment.rows())), limits)


def _left_of(folder: Path) -> dict[str, tuple[CountedAs, str]] | tuple[CountedAs, str]:
    """By node, why it is left; one answer for all of them where the journal cannot be read."""
    try:
        with Journal.open(folder) as journal:
            found = pasts(steps_of(journal.story().events))
    except ToolkitError:
        return CountedAs.LEFT, "its journal cannot be read"
    left = {node_name(host): left_by(past, answered=False) for host, past in found.items()}
    return {node: why for node, why in left.items() if why is not None}


def _clear(moment: Moment, nodes: set[str], kinds: frozenset[CountedAs]) -> None:
    for row in moment.rows():
        if row.node in nodes and row.held in kinds:
            moment.drop(row.node, row.run)


def _share(row: BudgetRow) -> Share:
    """:raises BudgetError: it is held for a reason that we do not know."""
    try:
        held = CountedAs(row.held)
    except ValueError:
        raise BudgetError(
            f"the books of the budget have {row.node} as {row.held!r}, which nobody here knows",
            hint="nothing was begun; a later version of this wrote it: use that one",
        ) from None
    return Share(row.node, row.run, held, row.why, row.since, row.count)
