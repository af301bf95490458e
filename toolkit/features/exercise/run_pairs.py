"""Run pairs of a set, round by round: as many at once as may be, and none on a node with a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import Outcome, TransportError, UsageError
from toolkit.evidence import Evidence, Frame
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Role, Test, frames_of, parse_exercise
from toolkit.features.exercise.plan_bisect import PairLedger
from toolkit.features.exercise.plan_judge import JudgedTest, judge
from toolkit.features.exercise.plan_pairs import Ends, PairRun, PairSet, RanPair
from toolkit.features.exercise.plan_rails import ExerciseNode
from toolkit.features.exercise.run import NodeReading, answers, begun, look_frames
from toolkit.hosts.host import Host
from toolkit.rollout.budget import Budget
from toolkit.rollout.journal import Event, Journal
from toolkit.rollout.plan.batches import Phase
from toolkit.ssh.transport import Result, Sink, Transport, quiet
from toolkit.verbs.access import Fleet
from toolkit.verbs.budget_run import Counting
from toolkit.verbs.rollout import join_budget, keep_journal

_POLL_S = 0.25  # of the main thread, which alone heeds signals


class PairRounds(Protocol):
    """Who is run against whom, by what came of it so far."""

    ledger: PairLedger

    def next(self) -> tuple[Ends, ...]:
        """Pairs of which no two share a node; none once all is known."""

    def drop(self, host: str) -> None:
        """The host takes no further part."""


class PairTerms(Struct, frozen=True):
    """How results are judged, and whether jobs are heeded."""

    threshold: float
    wanted: float | None = None  # GB/s for deep tests, in place of the prediction
    over_jobs: bool = False


class PairsRan(Struct):
    """What came of all rounds."""

    evidence: dict[str, Evidence]
    runs: list[RanPair] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # by host, why it took no further part
    troubles: list[str] = field(default_factory=list)
    halt: str = ""  # why the rest was not run, as a clause
    interrupted: bool = False

    @property
    def results(self) -> tuple[JudgedTest, ...]:
        return tuple(each for run in self.runs for each in run.results)


def taking_part(
    looked: Sequence[Outcome[NodeReading]], held: Mapping[str, str], *, over_jobs: bool
) -> tuple[dict[str, ExerciseNode], dict[str, str]]:
    """The nodes that may be run; and of the others, why not.

    :param held: by host, why a scheduler would not have us there.
    """
    views, left = {}, dict[str, str]()
    for each in looked:
        if each.host in held and not over_jobs:
            left[each.host] = held[each.host]
        elif each.value is None:
            left[each.host] = str(each.error).removeprefix(f"{each.host}: ")
        elif each.value.busy and not over_jobs:
            left[each.host] = each.value.busy
        else:
            views[each.host] = ExerciseNode(each.host, Node(each.value.evidence), each.value.look)
    return views, left


class _Answer(Struct, frozen=True):
    """One pair's run: what was measured, the frames to keep, and who takes no further part."""

    number: int
    ends: Ends
    results: tuple[JudgedTest, ...] = ()
    frames: Mapping[str, tuple[Frame, ...]] = field(default_factory=dict)
    left: tuple[str, str] | None = None
    troubles: tuple[str, ...] = ()


class _Stoppable(Struct, frozen=True):
    """A way to a node on which nothing begins any more once all is over."""

    inner: Transport
    over: threading.Event

    @property
    def name(self) -> str:
        return self.inner.name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        if self.over.is_set():
            raise TransportError(f"{self.name}: interrupted", hint="run it again")
        return self.inner.run(script, limit_s=limit_s, sink=sink)

    def close(self) -> None:
        self.inner.close()


class _Runner(Struct):
    """The state that the threads of a round share."""

    fleet: Fleet
    pairs: PairSet
    terms: PairTerms
    hosts: dict[str, Host]
    over: threading.Event = field(default_factory=threading.Event)
    _open: list[Transport] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, ends: Ends, number: int) -> _Answer:
        """All tests of one pair, over a connection to either end."""
        tests = self.pairs.tests(ends, number).tests
        self.fleet.access.progress.note(ends[0].host, f"{ends[0].hca} with {ends[1]}")
        ways: dict[Role, Transport] = {}
        try:
            for role, end in tests[0].ends if tests else ():
                opened = _Stoppable(self.fleet.connect(self.hosts[end.host]), self.over)
                with self._lock:
                    self._open.append(opened)
                ways[role] = opened
            return self._tested(_Answer(number, ends), tests, ways)
        finally:
            for way in ways.values():
                way.close()
                with self._lock:
                    self._open.remove(way)

    def _tested(
        self, none: _Answer, tests: Sequence[Test], ways: Mapping[Role, Transport]
    ) -> _Answer:
        frames: dict[str, tuple[Frame, ...]] = {}
        troubles: list[str] = []
        results: tuple[JudgedTest, ...] = ()
        nodes = {end.host: self.pairs.views[end.host].node for end in none.ends}
        for test in tests:
            if self.over.is_set():
                break
            found = None if self.terms.over_jobs else begun(test, ways)
            if found and not self.over.is_set():
                return replace(none, results=results, frames=frames, left=found)
            for role, answer in answers(test, ways).items():
                host = dict(test.ends)[role].host
                told: Iterable[Frame] = ()
                if isinstance(answer, TransportError):
                    troubles.append(f"{test.number}. {test.title}: {answer}")
                else:
                    told = answer.frames.values()
                frames[host] = (*frames.get(host, ()), *frames_of(test, role, told))
            kept = {
                host: Evidence({each.key: each for each in own}, True)
                for host, own in frames.items()
            }
            measured = parse_exercise(kept)
            threshold, wanted = self.terms.threshold, self.terms.wanted
            results = judge(measured, nodes, threshold=threshold, wanted=wanted)
            if results[0].value is None:
                break  # host memory does not get through: nor will a GPU's, after minutes of it
        return replace(none, results=results, frames=frames, troubles=tuple(troubles))

    def stop(self) -> None:
        """End what runs: a tool that nobody listens to is ended by its own node."""
        self.over.set()
        with self._lock:
            for way in self._open:
                way.close()


def run_pairs(
    fleet: Fleet,
    looked: Sequence[Outcome[NodeReading]],
    pairs: PairSet,
    rounds: PairRounds,
    *,
    terms: PairTerms,
    how: Counting,
) -> PairsRan:
    """Run rounds until all is known, a stop file is there or Ctrl-C; keep what each end said.

    :raises UsageError: fewer than two nodes may be unavailable at once.
    :raises LockedError: another controller's run is at work on one of the hosts.
    """
    if how.agreed.terms.budget < 2:
        raise UsageError(
            "a pair takes two nodes, and no more than 1 may be unavailable at once",
            hint="--max-unavailable 2, or more",
        )
    read = {each.host: each.value for each in looked if each.value is not None}
    ran = PairsRan({host: each.evidence.plus(look_frames(each)) for host, each in read.items()})
    runner = _Runner(fleet, pairs, terms, {host.name: host for host in fleet.hosts})
    with ExitStack() as stack:
        agreed = how.agreed
        journal = keep_journal(stack, fleet, how.folder, agreed.about, alone=agreed.alone)
        act = _Rounds(runner, ran, rounds, how, journal, join_budget(stack, fleet, journal, agreed))
        if journal is not None:
            journal.add_batches(agreed.terms.batches)
        act.write(pairs.views, Phase.PLANNED)
        try:
            act.all()
        except KeyboardInterrupt:
            ran.interrupted = True
        finally:
            act.keep(ran.evidence)
        if journal is not None:
            journal.end_turn(ran.halt or ("interrupted" if ran.interrupted else "ended"), 0)
    return ran


class _Rounds(Struct):
    """Begins pairs as the budget allows, and gathers what comes of them."""

    runner: _Runner
    ran: PairsRan
    rounds: PairRounds
    how: Counting
    journal: Journal | None
    budget: Budget | None
    number: int = 0  # of runs begun
    _changed: set[str] = field(default_factory=set)  # hosts whose evidence is to be kept anew

    def all(self) -> None:
        progress = self.runner.fleet.access.progress
        at = 0
        while not self.ran.halt and (chosen := self.rounds.next()):
            at += 1
            progress.begin(f"round {at}", len(chosen))
            try:
                found: list[PairRun] = []
                for batch in self._batches(list(chosen)):
                    found += self._batch(batch, at)
                self.rounds.ledger.learn(found)
            finally:
                progress.finish()  # on Ctrl-C too: a board that stays hides the cursor
            self.keep(self._changed)

    def _batches(self, waiting: list[Ends]) -> Iterator[list[Ends]]:
        """Those that may begin now, until none is left or nothing may begin any more."""
        most = min(self.how.agreed.terms.budget // 2, self.runner.fleet.access.fanout)
        while waiting and not self.ran.halt:
            self.ran.halt = self.how.agreed.brakes.pulled()
            chosen = self._granted(waiting[:most]) if not self.ran.halt else []
            if chosen:
                yield chosen
                waiting = [each for each in waiting if each not in chosen]
            elif not self.ran.halt:
                time.sleep(_POLL_S)

    def _granted(self, wanted: list[Ends]) -> list[Ends]:
        """Pairs both of whose nodes have a share of the budget."""
        if self.budget is None:
            return wanted
        answer = self.budget.ask(end.host for ends in wanted for end in ends)
        granted = {*answer.granted}
        chosen = [ends for ends in wanted if granted.issuperset(end.host for end in ends)]
        self._give_back(granted - {end.host for ends in chosen for end in ends})
        self.ran.halt = answer.halt
        if not chosen and not answer.halt:
            self.runner.fleet.access.progress.note("", answer.wait or "waits for two shares")
        return chosen

    def _give_back(self, hosts: Iterable[str]) -> None:
        if self.budget is not None:
            for host in hosts:  # neither better nor worse than it was
                self.budget.ended(host, (), well=False, answered=True)

    def _batch(self, batch: list[Ends], at: int) -> list[PairRun]:
        """Run these pairs at once; of Ctrl-C what was measured by then is kept."""
        hosts = [end.host for ends in batch for end in ends]
        self.write(hosts, Phase.BEGUN)
        ended: list[_Answer] = []
        begun: list[int] = []  # by themselves: a signal may come before we know of a future,
        over: list[int] = []  # or the crew of a thread

        def run(ends: Ends, number: int) -> None:
            begun.append(number)
            try:
                ended.append(self.runner.run(ends, number))
            finally:
                over.append(number)

        crew = ThreadPoolExecutor(len(batch), thread_name_prefix="gdr-pair")
        futures: list[Future[None]] = []
        try:
            for ends in batch:
                self.number += 1
                futures.append(crew.submit(run, ends, self.number))
            left = set(futures)
            while left:
                left = wait(left, timeout=_POLL_S, return_when=FIRST_COMPLETED).not_done
        except BaseException:
            self.runner.stop()
            raise
        finally:
            crew.shutdown(cancel_futures=True)
            while len(over) < len(begun):
                time.sleep(_POLL_S)
            found = [self._learned(each, at) for each in sorted(ended, key=lambda e: e.number)]
            self._give_back(hosts)
            self.write(hosts, Phase.DONE)
        for future in futures:
            future.result()  # a bug of ours is told as one
        return found

    def _learned(self, answer: _Answer, at: int) -> PairRun:
        self.ran.troubles += answer.troubles
        for host, frames in answer.frames.items():
            self.ran.evidence[host] = self.ran.evidence[host].plus(frames)
            self._changed.add(host)
        if answer.left is not None:
            host, why = answer.left
            self.ran.left[host] = why
            self.rounds.drop(host)
        self.runner.fleet.access.progress.done(
            answer.ends[0].host, answer.left[1] if answer.left else ""
        )
        ran = RanPair(answer.number, at, answer.ends, answer.results)
        self.ran.runs.append(ran)
        return ran.run

    def write(self, hosts: Iterable[str], phase: Phase) -> None:
        if self.journal is not None:
            self.journal.add(*(Event(host, phase.value) for host in hosts))

    def keep(self, hosts: Iterable[str]) -> None:
        for host in sorted(hosts):
            self.how.folder.keep_evidence(host, self.ran.evidence[host])
        self._changed = set()
