"""One budget of interruption for all who change nodes at once. Decides; does nothing.

    Share     a node that is unavailable by the doing of one of our runs, or known so to it
    Books     all shares, and the most that each living run was told may be unavailable
    ask       books and a node -> it may be begun; or for whom to wait; or why waiting is idle
    left_by   what a run that has ended, or died, did to one node -> why that still counts

The law: when a node is begun, those that are unavailable by then, this one among them, are no
more than what *any* living run was told. Whoever is strictest is obeyed by all. A node that is
unavailable already costs nothing more. Nobody waits for whom will never give anything back: a
run waits only while another, or itself, has nodes in hand, and those end by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.rollout.plan.batches import ENDED, NOT_BEGUN, Past, Phase

NOBODY: Mapping[str, str] = {}
_ACTS = frozenset({Phase.APPLYING, Phase.REBOOTING})


class CountedAs(StrEnum):
    """Why a node counts."""

    IN_HAND = "in hand"  # a living run is at work on it
    LOST = "out of reach"  # for a living run, which found it so; it counts until that run ends
    LEFT = "left midway"  # a run ended, or died, and nobody knows that the node serves
    OUT = "out of service"  # taken out by a run's --drain, and not given back
    ASIDE = "set aside"  # for an engine that counts for itself; of no node in particular


class Share(Struct, frozen=True):
    """One row of the books."""

    node: str  # host's name without its user; of ASIDE the engine's: "kubernetes/gdr-apply"
    run: str
    held: CountedAs
    why: str = ""  # one clause
    since: str = ""  # ISO 8601, UTC
    count: int = 1  # nodes; other than 1 only where set aside


class Books(Struct, frozen=True):
    """What is held of the budget. Shares of the dead are settled before: see flow.budget."""

    shares: tuple[Share, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)  # by living run, the asking one too

    @property
    def limit(self) -> int | None:
        """What all obey; None where nobody was told of a limit."""
        return min(self.limits.values(), default=None)

    @property
    def nodes(self) -> frozenset[str]:
        """Those that count by name."""
        return frozenset(s.node for s in self.shares if s.held is not CountedAs.ASIDE)

    @property
    def aside(self) -> int:
        return sum(share.count for share in self.shares if share.held is CountedAs.ASIDE)

    def room(self, away: Mapping[str, str] = NOBODY) -> int | None:
        """How many nodes that serve may be begun now; None for any number.

        :param away: unavailable, and not in the books: by name, why.
        """
        if self.limit is None:
            return None
        return max(0, self.limit - len(self.nodes | away.keys()) - self.aside)


class Answer(Struct, frozen=True):
    """Which nodes may be begun. Where none may, one of ``wait`` and ``halt`` says why."""

    granted: tuple[str, ...] = ()
    wait: str = ""  # a clause: for whom
    halt: str = ""  # a clause: nobody living will give anything back


def ask(books: Books, nodes: Sequence[str], away: Mapping[str, str] = NOBODY) -> Answer:
    """Which of ``nodes`` may be begun, the first of them first.

    :param away: nodes that are unavailable, and not in the books: what others report, what the
        asking run itself knows; by name, why.
    """
    limit, known = books.limit, books.nodes | away.keys()
    if limit is None:
        return Answer(tuple(nodes))
    left = limit - len(known) - books.aside
    granted: list[str] = []
    for node in nodes if left >= 0 else ():
        cost = node not in known
        if left >= cost:
            left -= cost
            granted.append(node)
    if granted or not nodes:
        return Answer(tuple(granted))
    if in_hand := [share for share in books.shares if share.held is CountedAs.IN_HAND]:
        by_run = Counter(share.run for share in in_hand)
        who = ", ".join(f"run {run} has {counted(n, 'node')} in hand" for run, n in by_run.items())
        return Answer(wait=f"waits for the budget of {limit}: {who}")
    taken = len(known) + books.aside
    reasons = "; ".join(_reasons(books, away))
    are = counted(taken, "node", "is", "are")
    return Answer(halt=f"{are} unavailable, and no more than {limit} may be: {reasons}")


def _reasons(books: Books, away: Mapping[str, str]) -> list[str]:
    """Each reason once, with its nodes."""
    found: dict[str, list[str]] = {}
    for share in books.shares:
        why = f"{share.held} by {share.run}" if share.run else str(share.held)
        found.setdefault(f"{why}{share.why and f' ({share.why})'}", []).append(share.node)
    for node, why in away.items():
        if node not in books.nodes:
            found.setdefault(why, []).append(node)
    return [f"{fold(nodes)} {why}" for why, nodes in sorted(found.items())]


def left_by(past: Past, *, answered: bool) -> tuple[CountedAs, str] | None:
    """Why a node still counts once its run has nothing more to do with it; None: it does not.

    :param answered: its turn came to its end, and the node was looked at since.
    """
    if past.last in ENDED | NOT_BEGUN:
        return None
    before = [step.phase for step in past.steps if step.phase is not Phase.FAILED]
    amid = before[-1].value if before else ""
    if past.maybe_out:
        return CountedAs.OUT, f"ended amid {amid}, and was not given back"
    if not answered and _ACTS.intersection(before):
        return CountedAs.LEFT, f"ended amid {amid}"
    return None


def clears(past: Past) -> frozenset[CountedAs]:
    """What of earlier runs is settled once this one has brought a node to its end well."""
    gave_back = any(step.phase is Phase.UNDRAINING for step in past.steps)
    return frozenset({CountedAs.LEFT, CountedAs.OUT} if gave_back else {CountedAs.LEFT})


def of_the_living(share: Share) -> bool:
    """Whether a share counts only while its run's controller lives."""
    return share.held in {CountedAs.IN_HAND, CountedAs.LOST}
