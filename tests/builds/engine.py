"""Builds by the real engine in sandboxes, one step after the other, without a cache."""

from __future__ import annotations

from pathlib import Path

from tests.builds.sandbox import Sandbox
from toolkit.built.plan.gate import GateVerdict, judge_modules
from toolkit.built.plan.model import BuildFailure, Built, Part
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.io.sandbox import run_job
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep, make_graph
from toolkit.features.builds.plan.outcome import read_outcome
from toolkit.features.builds.run.places import gate_ground, make_job, recipe, survey

LIMIT_S = 500  # a driver's conftest on a machine that others use too


def graph_of(box: Sandbox, kernel: str, *parts: Part, flags: str = "") -> tuple[Ground, BuildGraph]:
    """What the survey of a sandbox amounts to for one kernel."""
    ground = survey(str(box.root), (kernel,))
    return ground, make_graph(ground, (kernel,), parts=parts, flags=flags, recipe=recipe())


def step_of(graph: BuildGraph, part: Part) -> BuildStep:
    [step] = [each for each in graph.steps if each.inputs.part is part]
    return step


def build_step(
    box: Sandbox, graph: BuildGraph, step: BuildStep, built: dict[str, Built], log: str = ""
) -> Built | BuildFailure:
    job = make_job(step, graph, built, root=str(box.root), log=log, limit_s=LIMIT_S)
    return read_outcome(run_job(job), step.inputs)


def build_all(box: Sandbox, ground: Ground, graph: BuildGraph) -> dict[Part, Built]:
    """Everything of one kernel that is not given; each through the gate."""
    assert not graph.blocked, graph.blocked
    built: dict[str, Built] = {}
    for step in graph.steps:
        if step.given:
            continue
        came = build_step(box, graph, step, built)
        assert isinstance(came, Built), came
        verdict = judged(ground, graph, step, built, came)
        assert verdict.passed, verdict.refusals
        built[came.inputs.digest] = came
    return {each.inputs.part: each for each in built.values()}


def judged(
    ground: Ground, graph: BuildGraph, step: BuildStep, others: dict[str, Built], came: Built
) -> GateVerdict:
    return judge_modules(came, gate_ground(ground, step, graph, others, came))


def state_of(box: Sandbox) -> dict[str, tuple[int, int, int]]:
    """All that is different from the tree below, with what would tell of a change."""
    found = {}
    for path in sorted(Path(box.upper).rglob("*")):
        told = path.lstat()
        found[str(path.relative_to(box.upper))] = (told.st_mode, told.st_size, told.st_mtime_ns)
    return found
