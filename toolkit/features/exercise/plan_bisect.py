"""Bisect: which part makes runs fall short, found with the fewest runs. Pure.

Every end is run once, each rail with another partner. A good run clears both of its ends. What
fell short is run again, with ends that are known to be good: the innocent one of two is cleared
by that, and a part is named once four runs with good partners fell short and none came right.
So a run that was disturbed names nobody: it would have to be disturbed four times.

A wider part is named in place of its ends where none of these came right: the node of several
HCAs, the leaf, the subnet or the rail of several nodes. A narrower one where host memory did well
on the same ports: then it is the GPU, or its way to the HCA.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct, field

from toolkit.features.exercise.plan_pairs import Ends, Norms, PairEnd, PairRun, PairWays, meetings

PROOF = 4  # runs with good partners that fell short
_MEET = 3  # runs of two good ends that fall short together
_TRIES = 8  # runs of one end at most, beside its first
_EMPTY = 3  # rounds in which nothing was left to be run first, before that is over


class PartKind(StrEnum):
    LEAF = "leaf"
    SUBNET = "subnet"  # its leaf, where each leaf is one
    RAIL = "rail"  # the HCAs of one name
    NODE = "node"
    HCA = "HCA"  # or its cable, or its port of the leaf
    GPU = "GPU"  # or its way to the HCA


class NamedPart(Struct, frozen=True):
    """What makes runs fall short."""

    kind: PartKind
    name: str  # "gpu017 mlx5_3"
    ends: tuple[PairEnd, ...]
    share: float  # of what it should be, the median of its runs that fell short
    runs: int  # that fell short, with good partners


class PairLedger(Struct):
    """What the runs so far say of each end."""

    threshold: float
    runs: list[PairRun] = field(default_factory=list)
    norms: Norms = field(default_factory=lambda: Norms(()))
    good: set[PairEnd] = field(default_factory=set)
    short: dict[PairEnd, list[PairRun]] = field(default_factory=dict)  # that fell short, by end
    void: list[PairRun] = field(default_factory=list)  # that came to nothing

    def learn(self, runs: Iterable[PairRun]) -> None:
        """Judge all runs again: what most of the set reach is known better now."""
        self.runs += runs
        self.norms = Norms(self.runs)
        self.good, self.short, self.void = set(), defaultdict(list), []
        for run in self.runs:
            share = self.norms.worst(run)
            if share is None:
                self.void.append(run)
            elif share >= self.threshold:
                self.good.update(run.ends)
            else:
                for end in run.ends:
                    self.short[end].append(run)

    def proof(self, end: PairEnd) -> list[PairRun]:
        """Runs that fell short though the other end is good."""
        return [run for run in self.short.get(end, ()) if self.good.intersection(run.ends) - {end}]

    def named(self) -> list[NamedPart]:
        """The parts that are known by now to make runs fall short, the widest of each."""
        found: list[NamedPart] = []
        left = {end for end in self.short if end not in self.good}
        wide: tuple[tuple[PartKind, Callable[[PairEnd], str]], ...] = (
            (PartKind.LEAF, lambda end: end.leaf),
            (PartKind.SUBNET, lambda end: end.subnet),
            (PartKind.RAIL, lambda end: end.hca),
            (PartKind.NODE, lambda end: end.host),
        )
        for kind, of in wide:
            for part in list(self._whole(kind, of, left)):
                found.append(part)
                left.difference_update(part.ends)
        proofs = {end: self.proof(end) for end in sorted(left)}
        return found + [self._end(*each) for each in proofs.items() if len(each[1]) >= PROOF]

    def _whole(
        self, kind: PartKind, of: Callable[[PairEnd], str], left: set[PairEnd]
    ) -> Iterator[NamedPart]:
        """Parts of which every end that was run falls short."""
        parts: dict[str, set[PairEnd]] = defaultdict(set)
        for end in left:
            parts[of(end)].add(end)
        well = {of(end) for end in self.good}
        for name, ends in sorted(parts.items()):
            if not name or name in well or len(ends) < 2:
                continue
            proofs = [self.proof(end) for end in ends]
            proof = [run for each in proofs for run in each]
            # One run of an end may have been disturbed; that of many ends at once is no chance.
            least = 1 if len(ends) >= PROOF else 2
            proven = min(map(len, proofs)) >= least
            if kind is not PartKind.NODE:
                hosts = {end.host for end in ends}
                beside = {end.host for end in self.good}
                proven = len({end.host for end in ends if self.proof(end)}) >= PROOF
                if not proven and hosts <= beside:
                    # There may be no good partner. Several runs that share no end would need a
                    # fault each, and all of these nodes do well over their other HCAs.
                    proof = _apart(run for end in sorted(ends) for run in self.short[end])
                    proven = len(proof) >= PROOF
            if proven:
                yield NamedPart(kind, name, tuple(sorted(ends)), self._share(proof), len(proof))

    def _end(self, end: PairEnd, proof: list[PairRun]) -> NamedPart:
        host = [self.norms.worst(run, gpu=False) for run in proof]
        well = [share for share in host if share is not None and share >= self.threshold]
        if end.gpu and len(well) == len(proof):
            name = f"{end.host} {end.gpu}"
            return NamedPart(PartKind.GPU, name, (end,), self._share(proof), len(proof))
        return NamedPart(PartKind.HCA, str(end), (end,), self._share(proof), len(proof))

    def _share(self, runs: list[PairRun]) -> float:
        shares = sorted(share for run in runs if (share := self.norms.worst(run)) is not None)
        return shares[len(shares) // 2]

    def open(self, named: Iterable[NamedPart]) -> list[PairRun]:
        """Runs that fell short, and no part that was named explains, and that never came right."""
        blamed = {end for part in named for end in part.ends}
        once = {id(run): run for runs in self.short.values() for run in runs}
        right = {frozenset(run.ends) for run in self.runs if self._right(run)}
        return [
            run
            for run in once.values()
            if not blamed.intersection(run.ends) and frozenset(run.ends) not in right
        ]

    def _right(self, run: PairRun) -> bool:
        share = self.norms.worst(run)
        return share is not None and share >= self.threshold

    def unsteady(self, named: Iterable[NamedPart]) -> list[PairRun]:
        """Runs that fell short and came right when the same ends were run again."""
        still = {id(run) for run in self.open(named)}
        blamed = {end for part in named for end in part.ends}
        once = {id(run): run for runs in self.short.values() for run in runs}
        return [
            run
            for run in once.values()
            if id(run) not in still and not blamed.intersection(run.ends)
        ]


class Bisect(Struct):
    """The rounds, each by what came of those before."""

    hosts: list[str]
    ways: PairWays
    ledger: PairLedger
    _met: set[PairEnd] = field(default_factory=set)
    _turn: int = 0
    _empty: int = 0  # rounds on end in which nothing was left

    def drop(self, host: str) -> None:
        """The host takes no further part: a job began, or it is out of reach."""
        if host in self.hosts:
            self.hosts.remove(host)

    def next(self) -> tuple[Ends, ...]:
        """The pairs of the next round, none of which share a node; none once all is known."""
        if len(self.hosts) < 2:
            return ()
        return self._first() or self._again()

    def _first(self) -> tuple[Ends, ...]:
        """Every end once, as many as can be at a time."""
        while self._empty < _EMPTY:
            pairs = meetings(self.hosts, self._turn)
            self._turn += 1
            found = [each for one, other in pairs if (each := self._fresh(one, other))]
            self._met.update(end for ends in found for end in ends)
            if found:
                self._empty = 0
                return tuple(found)
            self._empty += 1
        return ()

    def _fresh(self, one: str, other: str) -> Ends | None:
        """A rail of which neither end was run; else one of which one end was not."""
        ways = self.ways(one, other)
        for most in (0, 1):
            for ends in ways:
                if len(self._met.intersection(ends)) <= most:
                    return ends
        return None

    def _again(self) -> tuple[Ends, ...]:
        """What fell short, with ends that are good; then good ends that fell short together."""
        ledger, busy = self.ledger, set[str]()
        named = ledger.named()
        blamed = {end for part in named for end in part.ends}
        found: list[Ends] = []

        def take(ends: Ends | None) -> None:
            hosts = {end.host for end in ends} if ends else set()
            if ends and not hosts & busy and hosts <= known:
                busy.update(hosts)
                found.append(ends)

        known = set(self.hosts)
        suspects = [end for end in ledger.short if end not in ledger.good and end not in blamed]
        for end in sorted(suspects, key=lambda each: (-len(ledger.proof(each)), each)):
            if len(ledger.short[end]) <= _TRIES and end.host not in busy:
                take(self._with_good(end, busy))
        counts: dict[frozenset[PairEnd], int] = defaultdict(int)
        for run in ledger.runs:
            counts[frozenset(run.ends)] += 1
        contested = [run for run in ledger.open(named) if ledger.good.issuperset(run.ends)]
        for run in (*contested, *ledger.void):
            most = _MEET if run.figures else 2
            if counts[frozenset(run.ends)] < most:
                take(run.ends)
        return tuple(found)

    def _with_good(self, end: PairEnd, busy: set[str]) -> Ends | None:
        """The end with a counterpart that is good, with which it was not run if there is one."""
        if end.host not in self.hosts:
            return None
        runs = self.ledger.short[end]
        tried = {host for run in runs for host in run.hosts}
        at = (self.hosts.index(end.host) + len(runs)) % len(self.hosts)
        known: Ends | None = None  # good, and run with it before
        unknown: Ends | None = None  # neither: of two bad pairs the good ends may meet so
        for host in (*self.hosts[at:], *self.hosts[:at]):
            if host == end.host or host in busy or (host in tried and known):
                continue
            ends = next((each for each in self.ways(end.host, host) if end in each), None)
            if ends is None:
                continue
            if self.ledger.good.intersection(ends):
                if host not in tried:
                    return ends
                known = ends
            elif host not in tried:
                unknown = unknown or ends
        return known or unknown


def _apart(runs: Iterable[PairRun]) -> list[PairRun]:
    """As many of them as share no node, one after the other."""
    found: list[PairRun] = []
    for run in runs:
        if not any(run.hosts & other.hosts for other in found):
            found.append(run)
    return found


def possible(ends: int, hosts: int) -> int:
    """Runs of each end with each other node."""
    return ends * (hosts - 1) // 2


class FixedRounds(Struct):
    """Rounds that are known beforehand, whatever comes of them."""

    rounds: Iterator[tuple[Ends, ...]]
    ledger: PairLedger
    dropped: set[str] = field(default_factory=set)

    def drop(self, host: str) -> None:
        self.dropped.add(host)

    def next(self) -> tuple[Ends, ...]:
        for found in self.rounds:
            left = tuple(e for e in found if not self.dropped & {end.host for end in e})
            if left:
                return left
        return ()
