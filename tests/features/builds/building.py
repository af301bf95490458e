"""Graphs and builds of a fleet that is not there: for tests of what carries them out."""

from __future__ import annotations

import gzip
import threading
from base64 import encodebytes
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from toolkit.built.io.store import Store
from toolkit.built.plan.gate import GateVerdict
from toolkit.built.plan.gate_rules import Refusal, Refused
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.features.builds.io.executor import Crew
from toolkit.features.builds.io.sandbox import SandboxJob
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep
from toolkit.features.builds.plan.outcome import BuildRun, Need, NeedGraph, StepResult
from toolkit.features.builds.run.build import Logs, Ways, run_builds
from toolkit.progress import Progress, Silent
from toolkit.rollout.runs import RunFolder

KERNEL = "6.1.0-49-amd64"
NAMES = {Part.OFED: "mlnx-ofed-kernel", Part.DRIVER: "nvidia-current-open"}
MODULES = {Part.OFED: "ib_uverbs.ko", Part.DRIVER: "nvidia.ko"}
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def step(
    part: Part, *after: Part, kernel: str = KERNEL, given: bool = False, version: str = "535.261.03"
) -> BuildStep:
    inputs = Inputs(
        part,
        NAMES.get(part, f"nvidia-{part}" if part is Part.PEERMEM else part),
        version,
        kernel,
        "x86_64",
        source="a" * 64,
        headers="b" * 64,
        compiler="gcc-12 12.2.0",
        symvers="c" * 64,
        flags="",
        recipe="d" * 64,
    )
    return BuildStep(inputs, after, "it is not there", given=given)


def graph(*steps: BuildStep) -> BuildGraph:
    return BuildGraph(steps, ())


def work(*steps: BuildStep, nodes: tuple[str, ...] = ()) -> NeedGraph:
    return NeedGraph(Need((steps[0].inputs.kernel,), nodes=nodes), graph(*steps))


def module(inputs: Inputs) -> str:
    return MODULES.get(inputs.part, f"{inputs.package}.ko")


def printed(*files: BuiltFile, failed: str = "", status: int = 2, lines: str = "") -> str:
    """What build.sh prints: all steps, or those up to one that failed."""
    frames = [("begin ok gdr-toolkit/1", "")]
    for name in ("prepare", "make", "gate", "pack"):
        frames.append((f"{name}.output ok {name}", lines))
        if name == failed:
            frames.append((f"{name} failed:{status} {name}", ""))
            break
        frames.append((f"{name} ok {name}", ""))
    for file in files if not failed else ():
        packed = encodebytes(gzip.compress(file.data, mtime=0)).decode()
        frames.append((f"file.{file.name} ok {len(file.data)} {file.sha256}", packed))
    frames.append((f"end ok {len(frames) - 1}", ""))  # the first is not counted
    return "".join(
        f"= {head}\n" + "".join(f"|{line}\n" for line in text.split("\n") if line)
        for head, text in frames
    )


@dataclass(slots=True)
class Fakes:
    """Ways that build nothing: they keep count, and say what they were told to say."""

    folder: Path
    said: Mapping[str, str | Exception] = field(default_factory=dict)  # by title
    refused: frozenset[str] = frozenset()  # titles
    progress: Progress = field(default_factory=Silent)
    force: bool = False
    before: Callable[[SandboxJob], object] = str  # runs as a job begins
    ran: list[str] = field(default_factory=list)  # titles, as they began
    upstream: dict[str, list[str]] = field(default_factory=dict)  # titles that each was given
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def store(self) -> Store:
        return Store(self.folder / "cache")

    def ways(self) -> Ways:
        runs = RunFolder(self.folder / "runs", "build", WHEN)
        return Ways(
            self._job, self._run, self._gate, self.store, Logs(runs), self.progress,
            force=self.force,
        )  # fmt: skip

    def _job(
        self, step: BuildStep, graph: BuildGraph, built: Mapping[str, Built], log: str
    ) -> SandboxJob:
        needed = [each.inputs.digest for each in graph.upstream(step) if not each.given]
        self.upstream[step.inputs.title] = [built[each].inputs.title for each in needed]
        return SandboxJob(step.inputs.title, "", module(step.inputs), 60, log)

    def _run(self, job: SandboxJob) -> str:
        with self.lock:
            self.ran.append(job.title)
        self.before(job)
        said = self.said.get(job.title, printed(BuiltFile(job.script, job.title.encode())))
        if isinstance(said, Exception):
            raise said
        return said

    def _gate(
        self, built: Built, step: BuildStep, graph: BuildGraph, others: Mapping[str, Built]
    ) -> GateVerdict:
        if built.inputs.title in self.refused:
            refusal = Refusal(built.modules[0].name, Refused.STUB, "it is a stub", "build OFED")
            return GateVerdict((), (refusal,))
        return GateVerdict(tuple(each.name for each in built.modules), ())


def build_all(fakes: Fakes, *works: NeedGraph, jobs: int = 2) -> BuildRun:
    with ThreadPoolExecutor(jobs) as executor:
        return run_builds(works, fakes.ways(), Crew(executor, jobs))


def states(run: BuildRun) -> list[str]:
    return [str(made.state) for made in run.made]


def of(run: BuildRun, part: Part) -> StepResult:
    return next(made for made in run.made if made.step.inputs.part is part)
