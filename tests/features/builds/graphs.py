"""Graphs of composed grounds."""

from __future__ import annotations

from tests.unit.grounds import DRIVER, KERNEL, OFED, Survey
from toolkit.built.plan.model import Part
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph, BuildStep, make_graph

HERE = (f"x86_64/{KERNEL}",)  # OFED's folder for the kernel
INSTALLED = Survey(folders=HERE, driver=DRIVER, status=(
    f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed",
    f"nvidia-current-open/{DRIVER}, {KERNEL}, x86_64: installed",
))  # fmt: skip
ALL = [Part.OFED, Part.DRIVER, Part.PEERMEM]


def graph_of(ground: Ground, *parts: Part, driver: str = "", ofed: str = "") -> BuildGraph:
    return make_graph(ground, (KERNEL,), parts=parts, driver=driver, ofed=ofed, recipe="r")


def parts_of(graph: BuildGraph) -> list[Part]:
    return [step.inputs.part for step in graph.steps]


def step_of(graph: BuildGraph, part: Part) -> BuildStep:
    [step] = [each for each in graph.steps if each.inputs.part is part]
    return step


def blocked_of(graph: BuildGraph, part: Part) -> BlockedPart:
    [found] = [each for each in graph.blocked if each.part is part]
    return found
