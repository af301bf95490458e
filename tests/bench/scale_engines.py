"""The ways to run our bundles over a fleet, as engines of the simulation, from the constants."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.bench.scale_sim import Engine, Piece, Run, Times, changes, readings, simulate

FILE = Path(__file__).with_name("scale_constants.toml")
CONTROLLER, CORES, JUDGES = "controller", "cores", "judges"
KINDS = frozenset({"measured", "documented", "assumed"})


@dataclass(frozen=True, slots=True)
class Constant:
    """One number, and how anybody knows it."""

    name: str
    value: float
    unit: str
    kind: str
    source: str


@cache
def constants() -> Mapping[str, Constant]:
    rows = tomllib.loads(FILE.read_text("utf-8"))
    return {name: Constant(name, **row) for name, row in rows.items()}


def c(name: str) -> float:
    return constants()[name].value


@dataclass(frozen=True, slots=True)
class Way:
    """An engine, with its own part of a turn and the centre's."""

    engine: Engine
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]  # of a look; of a change it is the same twice
    together: int = 1  # such engines side by side, each with its part of the nodes


def ssh(fanout: int) -> Way:
    """Our controller: one process of Python, so one core of it."""
    half = Piece(c("controller_node") / 2, (CONTROLLER,))
    return Way(Engine(f"one controller, {fanout} at once", fanout, 0.0, {CONTROLLER: 1}),
               (half,), (half,))  # fmt: skip


def slurm(nodes: int) -> Way:
    """A job array: tasks run on their nodes, and leave evidence that is judged in one place."""
    arrays = -(-nodes // int(c("slurm_array")))
    slots = min(nodes, arrays * int(c("slurm_array")))
    engine = Engine("Slurm array", slots, c("slurm_begin"), {JUDGES: 4})
    return Way(engine, (Piece(c("slurm_step")),), (Piece(c("judge_node"), (JUDGES,)),))


def awx(executors: int) -> Way:
    """Job slices over execution nodes of the least size, each with as many forks as fit."""
    forks = int((c("awx_node") - 2048) / c("awx_memory"))
    half = Piece(c("awx_fork") / 2, (CORES,))
    name = f"AWX, {executors} execution nodes"
    engine = Engine(name, forks * executors, 0.0, {CORES: 4 * executors, JUDGES: 4})
    return Way(engine, (half,), (half, Piece(c("judge_node"), (JUDGES,))))


def kubernetes(nodes: int) -> Way:
    """A DaemonSet a cluster; logs of its pods are judged in one place."""
    clusters = -(-nodes // int(c("kube_cluster")))
    each = -(-nodes // clusters)
    engine = Engine("Kubernetes DaemonSet", each, c("kube_begin"), {JUDGES: 4})
    judged = Piece(c("judge_node") * clusters, (JUDGES,))  # all clusters share the four
    return Way(engine, (Piece(c("kube_pod")),), (judged,), clusters)


def ways(nodes: int) -> Sequence[Way]:
    """Those that the tables compare for a fleet of this size."""
    executors = max(2, nodes // 5000)
    return (ssh(64), ssh(256), slurm(nodes), awx(executors), kubernetes(nodes))


def look(way: Way, nodes: int, *, seed: int = 1) -> Run:
    """Every node is read once; nobody counts as unavailable."""
    each = -(-nodes // way.together)
    turns = tuple(readings(each, c("probe"), before=way.before, after=way.after, seed=seed))
    return simulate(turns, way.engine, budget=each)


def times(**other: float) -> Times:
    """What a change takes on a node; some of it otherwise than the constants have it."""
    names = ("drain", "apply", "reboot", "settle")
    values = {f"{name}_s": c(name) for name in names} | {"fails": c("fails")} | other
    return Times(**values)


def change(way: Way, nodes: int, budget: int, taken: Times | None = None, *, seed: int = 1) -> Run:
    """Every node is drained, changed, rebooted and read again, within the budget.

    :param budget: of the whole fleet; clusters that cannot see one another share it out.
    """
    each, share = -(-nodes // way.together), max(1, budget // way.together)
    turns = changes(each, taken or times(), before=way.before, after=way.after * 2, seed=seed)
    return simulate(tuple(turns), way.engine, share)


def shared_machine(nodes: int, fanout: int, *, cores: int = 2, seed: int = 1) -> float:
    """Seconds of reading that ``scale_measure`` should find, on a machine that all share.

    The controller keeps one core at work and leaves the others to sshd. The turn is cut into four
    parts each, since both sides take turns many times.
    """
    parts = 4
    ours = Piece(c("controller_node") / parts, (CONTROLLER,))
    theirs = Piece(c("session_node") / parts, (CORES,))
    engine = Engine("here", fanout, 0.0, {CONTROLLER: 1, CORES: cores - 1})
    pieces = (ours, theirs) * parts
    turns = tuple(readings(nodes, 0.0, before=pieces, after=(), seed=seed))
    return simulate(turns, engine, budget=nodes).seconds
