"""Carry graphs of builds out: the cache first, then as much at once as the order allows.

One thread decides; executors work. A build is begun by whoever holds its lock in the cache,
so that of two processes one builds and the other takes what it made. The log of a build grows
while it runs, and is kept in the run's folder.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.built.delivery_cache import find, to_entry
from toolkit.built.io.store import Store
from toolkit.built.plan.gate import GateVerdict
from toolkit.built.plan.model import BuildFailure, Built
from toolkit.errors import ToolkitError
from toolkit.features.builds.io.executor import Crew
from toolkit.features.builds.io.sandbox import SandboxJob
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep
from toolkit.features.builds.plan.outcome import (
    BuildRun,
    BuildState,
    NeedGraph,
    StepResult,
    read_outcome,
    running,
)
from toolkit.progress import Progress, Silent
from toolkit.rollout.runs import RunFolder
from toolkit.safe_file import FileLock

_ENOUGH = 65536  # bytes of a log looked at in one go


class Logs:
    """The logs of a run."""

    def __init__(self, folder: RunFolder, *, here: bool = True) -> None:
        """:param here: builds run on this machine, and can write into our folder."""
        self._folder, self._here = folder, here
        self._begun: Counter[str] = Counter()

    def begin(self, title: str) -> Log:
        """A log of its own for each build: against two releases of OFED, two have one title."""
        stem = title.replace(" for ", ".").replace("/", "-")
        self._begun[stem] += 1
        name = f"{stem}.{self._begun[stem]}.log" if self._begun[stem] > 1 else f"{stem}.log"
        file = self._folder.file(name) if self._here else None
        return Log(self._folder, name, file)


class Log:
    """One log."""

    def __init__(self, folder: RunFolder, name: str, file: Path | None) -> None:
        self._folder, self._name, self._file = folder, name, file
        self._read = 0

    @property
    def path(self) -> str:
        """Where the build is to write it; "" for nowhere."""
        return str(self._file or "")

    def step(self) -> str:
        """The step that has begun since the last call; "" for none."""
        steps = [step for line in self._new() if (step := running(line))]
        return steps[-1] if steps else ""

    def end(self, text: str) -> None:
        """Keep what a person can read of all that was printed."""
        self._folder.keep(self._name, "\n".join([*readable(text), ""]))

    def _new(self) -> Iterator[str]:
        if self._file is None:
            return
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._read)
                data = stream.read(_ENOUGH)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        # A line longer than what is read in one go is none of a step's beginning.
        self._read += whole or (len(data) if len(data) == _ENOUGH else 0)
        yield from data[:whole].decode("utf-8", "replace").split("\n")


def readable(text: str) -> Iterator[str]:
    """The frames of a build without the files that it left: steps, and what they printed."""
    shown = True
    for line in text.split("\n"):
        if line.startswith("= "):
            shown = not line.startswith("= file.")
            yield line
        elif line.startswith("|") and shown:
            yield line[1:]


_TICK_S = 0.2  # how often logs and other processes are looked at

MakeJob = Callable[
    [BuildStep, BuildGraph, dict[str, Built], str], SandboxJob
]  # the last: the log's path
Gate = Callable[[Built, BuildStep, BuildGraph, dict[str, Built]], GateVerdict]
RunJob = Callable[[SandboxJob], str]


class Ways(Struct, frozen=True):
    """How a run does what it does; tests have ways of their own."""

    make_job: MakeJob
    run_job: RunJob  # for processes and Dask a function of a module: it is pickled
    gate: Gate
    store: Store
    logs: Logs
    progress: Progress = field(default_factory=Silent)
    force: bool = False  # build what is in the cache, too


def plan_builds(works: Sequence[NeedGraph], store: Store, *, force: bool = False) -> BuildRun:
    """What a run would do; nothing is built, and nothing held."""
    made = {}
    for _, step in _units(works):
        found = None if step.given or force else find(store, step.inputs)
        state = BuildState.GIVEN if step.given else BuildState.PLANNED
        if found and found.built:
            state = BuildState.CACHED
        notes = (found.trouble,) if found and found.trouble else ()
        built = found.built if found else None
        made[step.inputs.digest] = StepResult(step, state, built, notes=notes)
    return BuildRun(tuple(made.values()), tuple(works))


def run_builds(works: Sequence[NeedGraph], ways: Ways, crew: Crew) -> BuildRun:
    """Have everything that is not there built, each step after those that it rests on.

    What fails stops what rests on it, and nothing else.
    """
    units = _units(works)
    ways.progress.begin("building", sum(not step.given for _, step in units))
    run = _Run(units, ways, crew)
    try:
        return BuildRun(run.go(), tuple(works))
    finally:
        run.let_go()
        ways.progress.finish()


def _units(works: Sequence[NeedGraph]) -> tuple[tuple[BuildGraph, BuildStep], ...]:
    # Each step once: nodes with the same inputs share one build.
    found = {s.inputs.digest: (w.graph, s) for w in reversed(works) for s in w.graph.steps}
    order = [step.inputs.digest for work in works for step in work.graph.steps]
    return tuple(found[digest] for digest in dict.fromkeys(order))


class _Unit(Struct):
    """A step on its way."""

    graph: BuildGraph
    step: BuildStep
    notes: list[str] = field(default_factory=list)
    begun: float = 0.0
    before: int = 0  # to be built anew: the entry of the cache that is not to be taken
    waited: bool = False  # for another process
    held: FileLock | None = None
    log: Log | None = None

    @property
    def digest(self) -> str:
        return self.step.inputs.digest

    @property
    def title(self) -> str:
        return self.step.inputs.title


class _Run:
    def __init__(
        self, units: Sequence[tuple[BuildGraph, BuildStep]], ways: Ways, crew: Crew
    ) -> None:
        self._ways, self._crew = ways, crew
        self._order = [step.inputs.digest for _, step in units]
        mark = ways.store.mark if ways.force else lambda _: 0
        self._units = tuple(_Unit(g, s, before=mark(s.inputs.digest)) for g, s in units)
        self._open = list(self._units)
        self._running: dict[Future[str], _Unit] = {}
        self._made: dict[str, StepResult] = {}

    def go(self) -> tuple[StepResult, ...]:
        while self._open or self._running:
            moved = False
            for unit in list(self._open):
                if self._advance(unit):
                    self._open.remove(unit)
                    moved = True
            if not moved:
                self._listen()
        return tuple(self._made[digest] for digest in self._order)

    def let_go(self) -> None:
        """Whatever is still held: after Ctrl-C others may build it."""
        for unit in self._units:
            if unit.held is not None:
                unit.held.let_go()

    def _advance(self, unit: _Unit) -> bool:
        """Whether the step is through, or under way; False: its turn has not come."""
        upstream = [self._made.get(s.inputs.digest) for s in unit.graph.upstream(unit.step)]
        if unit.step.given:
            self._done(unit, StepResult(unit.step, BuildState.GIVEN))
            return True
        if any(made is None for made in upstream):
            return False
        missing = next((made for made in upstream if made and not made.there), None)
        if missing is not None:
            why = f"{missing.step.inputs.title} is not there: {missing.state}"
            self._done(unit, StepResult(unit.step, BuildState.SKIPPED, why=why))
            return True
        return self._taken(unit) or self._begun(unit)

    def _taken(self, unit: _Unit) -> bool:
        store = self._ways.store
        if self._ways.force and store.mark(unit.digest) == unit.before:
            return False
        found = find(store, unit.step.inputs)
        if found.trouble:
            unit.notes.append(found.trouble)
        if found.built is None:
            return False
        state = BuildState.SHARED if unit.waited else BuildState.CACHED
        self._done(unit, self._judged(unit, found.built, state))
        return True

    def _begun(self, unit: _Unit) -> bool:
        """Whether it is being built by us now."""
        if len(self._running) >= self._crew.at_once:
            return False
        try:
            unit.held = self._ways.store.hold(unit.digest)
        except OSError as why:
            self._done(unit, self._no_room(unit, "no lock could be made", why))
            return True
        if unit.held is None:
            if not unit.waited:
                unit.waited = True
                unit.notes.append("another process was building it; its result was waited for")
            self._ways.progress.note(unit.title, "waiting for another process that builds it")
            return False
        # Between our look and our lock another process may have been quicker.
        if self._taken(unit):
            unit.held.let_go()
            return True
        unit.begun = time.monotonic()
        unit.log = self._ways.logs.begin(unit.title)
        job = self._ways.make_job(unit.step, unit.graph, self._built(), unit.log.path)
        self._ways.progress.note(unit.title, "begun")
        self._running[self._crew.executor.submit(self._ways.run_job, job)] = unit
        return True

    def _built(self) -> dict[str, Built]:
        return {digest: made.built for digest, made in self._made.items() if made.built}

    def _listen(self) -> None:
        """Wait a moment for something to end; tell meanwhile what the logs say."""
        if not self._running:
            time.sleep(_TICK_S)
            return
        ended, _ = wait(self._running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        for unit in self._running.values():
            if unit.log and (step := unit.log.step()):
                self._ways.progress.note(unit.title, step)
        for future in ended:
            unit = self._running.pop(future)
            made = self._ended(unit, future)
            self._done(unit, replace(made, seconds=time.monotonic() - unit.begun))
            if unit.held is not None:
                unit.held.let_go()

    def _ended(self, unit: _Unit, future: Future[str]) -> StepResult:
        try:
            text = future.result()
        except ToolkitError as why:
            return StepResult(unit.step, BuildState.LOST, error=why)
        except Exception as why:  # a bug of ours in one build takes no other with it
            bug = ToolkitError(
                f"{unit.title}: a bug of ours: {type(why).__name__}: {why}",
                hint="attach the run's folder to a bug report",
            )
            bug.__cause__ = why
            return StepResult(unit.step, BuildState.LOST, error=bug)
        if unit.log:
            unit.log.end(text)
        outcome = read_outcome(text, unit.step.inputs)
        if isinstance(outcome, BuildFailure):
            state = BuildState.EXCLUDED if outcome.excluded else BuildState.FAILED
            return StepResult(unit.step, state, failure=outcome)
        made = self._judged(unit, outcome, BuildState.BUILT)
        if made.there:
            try:
                self._ways.store.keep(to_entry(outcome), replace=self._ways.force)
            except OSError as why:
                return self._no_room(unit, "it was built, and could not be kept", why)
        return made

    def _judged(self, unit: _Unit, built: Built, state: BuildState) -> StepResult:
        """What comes from the cache is judged again: the gate may have learnt since."""
        verdict = self._ways.gate(built, unit.step, unit.graph, self._built())
        if verdict.passed:
            return StepResult(unit.step, state, built, verdict=verdict)
        return StepResult(unit.step, BuildState.REFUSED, verdict=verdict)

    def _no_room(self, unit: _Unit, what: str, why: OSError) -> StepResult:
        failure = BuildFailure(
            unit.step.inputs,
            "keep",
            0,
            f"{what} in {self._ways.store.folder}: {why.strerror}",
            action="make room there, or name another folder with --cache DIR",
        )
        return StepResult(unit.step, BuildState.FAILED, failure=failure)

    def _done(self, unit: _Unit, made: StepResult) -> None:
        self._made[unit.digest] = replace(made, notes=(*unit.notes, *made.notes))
        if not unit.step.given:
            self._ways.progress.done(unit.title, "" if made.there else str(made.state))
