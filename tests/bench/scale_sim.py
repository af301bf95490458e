"""A rollout over many nodes as discrete events: who waits for whom, and for how long.

    Turn      what one node's turn is made of: pieces of work on something shared, and delays
    Engine    what begins turns: how many at once, how fast, on what
    simulate  turns, engine, budget -> how long it takes, and how busy everything is

Chance is in the turns alone, and each node's is drawn from the seed and its own number: so the
same node is as slow for every engine, and a run is the same each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random


@dataclass(frozen=True, slots=True)
class Piece:
    """So many seconds on each of these at once; on nothing shared: a delay."""

    seconds: float
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One node, from the moment it is taken in hand."""

    pieces: tuple[Piece, ...]
    fails: bool = False  # at its end; it is unavailable from then on


@dataclass(frozen=True, slots=True)
class Engine:
    """What carries turns out."""

    name: str
    slots: int  # turns at once, at most
    begins_s: float = 0.0  # between two beginnings, at least
    places: Mapping[str, int] = field(default_factory=dict)  # shared things: how many at a time


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it."""

    seconds: float  # from the first beginning to the last end
    done: int
    failed: int
    left: int  # never begun: failures had used the budget up
    most_in_hand: int
    most_unavailable: int
    busy: Mapping[str, float]  # share of the time that each shared thing was at work


class _Shared:
    """Serves in the order of asking; as many at a time as it has places."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._free = {name: [0.0] * number for name, number in places.items()}
        self.worked = dict.fromkeys(places, 0.0)

    def end_of(self, piece: Piece, now: float) -> float:
        """When the piece will be through, where it is asked for now."""
        begin = max([now, *(self._free[name][0] for name in piece.on)])
        for name in piece.on:
            heapq.heapreplace(self._free[name], begin + piece.seconds)
            self.worked[name] += piece.seconds
        return begin + piece.seconds


def simulate(turns: Sequence[Turn], engine: Engine, budget: int) -> Run:
    """Carry the turns out, in their order.

    :param budget: so many nodes may be in hand or failed at once.
    """
    shared = _Shared(engine.places)
    events: list[tuple[float, int, int, int]] = []  # when, for ties, whose turn, which piece
    order = count()
    now = last_begin = 0.0
    begun = failed = in_hand = most_in_hand = most_unavailable = 0
    while True:
        while begun < len(turns) and in_hand < engine.slots and in_hand + failed < budget:
            last_begin = max(now, last_begin + engine.begins_s) if begun else now
            heapq.heappush(events, (last_begin, next(order), begun, 0))
            begun, in_hand = begun + 1, in_hand + 1
            most_in_hand = max(most_in_hand, in_hand)
            most_unavailable = max(most_unavailable, in_hand + failed)
        if not events:
            break
        now, _, whose, which = heapq.heappop(events)
        turn = turns[whose]
        if which < len(turn.pieces):
            through = shared.end_of(turn.pieces[which], now)
            heapq.heappush(events, (through, next(order), whose, which + 1))
        else:
            in_hand -= 1
            failed += turn.fails
    busy = {
        name: worked / now / engine.places[name] if now else 0.0
        for name, worked in shared.worked.items()
    }
    done, left = begun - failed, len(turns) - begun
    return Run(now, done, failed, left, most_in_hand, most_unavailable, busy)


@dataclass(frozen=True, slots=True)
class Times:
    """Of one node's change, in seconds: what the node takes, whoever asks it to."""

    drain_s: float  # mean; jobs that run end by themselves
    apply_s: float
    reboot_s: float
    settle_s: float
    spread: float = 0.3  # of what is not the drain: so much more or less, evenly
    fails: float = 0.0  # share of nodes


def changes(
    nodes: int, times: Times, *, before: Sequence[Piece], after: Sequence[Piece], seed: int
) -> Iterator[Turn]:
    """The turns of a rollout.

    :param before: what the engine does until the node is at work.
    :param after: what it does with what the node answers.
    """
    for number in range(nodes):
        dice = Random(f"{seed}/{number}")  # noqa: S311 chance, not secrecy
        drain = dice.expovariate(1 / times.drain_s) if times.drain_s else 0.0
        own = times.apply_s + times.reboot_s + times.settle_s
        own *= dice.uniform(1 - times.spread, 1 + times.spread)
        fails = dice.random() < times.fails
        yield Turn((*before, Piece(drain + own), *after), fails)


def readings(
    nodes: int, probe_s: float, *, before: Sequence[Piece], after: Sequence[Piece], seed: int
) -> Iterator[Turn]:
    """The turns of a look at a fleet; likewise."""
    for number in range(nodes):
        dice = Random(f"{seed}/{number}")  # noqa: S311 chance, not secrecy
        yield Turn((*before, Piece(probe_s * dice.uniform(0.7, 1.3)), *after))
