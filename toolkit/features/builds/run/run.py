"""From what is asked for to what came of it: survey, graphs, cache, builds, gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolkit.built.io.store import Store
from toolkit.built.plan.gate import GateVerdict, judge_modules
from toolkit.built.plan.model import Built, Part
from toolkit.errors import Unsupported
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.io.executors import DASK, open_crew
from toolkit.features.builds.io.sandbox import Job
from toolkit.features.builds.plan.graph import Blocked, Graph, Step, make_graph
from toolkit.features.builds.plan.made import Need, Run, Work
from toolkit.features.builds.run.build import Ways, build, plan
from toolkit.features.builds.run.log import Logs
from toolkit.features.builds.run.places import Place
from toolkit.features.builds.run.scripts import gate_ground, make_job, recipe
from toolkit.progress import Progress, Silent
from toolkit.rollout.runs import RunFolder


@dataclass(frozen=True, slots=True)
class Options:
    """How a run goes about it."""

    jobs: int  # builds at once; 0 for as many as there are processors, or workers
    limit_s: float  # after which one is given up
    progress: Progress = field(default_factory=Silent)
    say: Callable[[str], None] = print  # hears of workers that died
    force: bool = False


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The graphs of a run, and the ground that they were made for."""

    ground: Ground
    works: tuple[Work, ...]


def graphs_for(place: Place, needs: Sequence[Need], parts: Sequence[Part], flags: str) -> Surveyed:
    """Survey the ground once, and make a graph for each need.

    :raises Unsupported: no kernel was named, and none there has headers: nothing is no success.
    """
    named = tuple(dict.fromkeys(kernel for need in needs for kernel in need.kernels))
    ground = place.survey(named)
    if needs and not named and not any(each.headers for each in ground.kernels):
        raise Unsupported(
            f"{place.title}: there are no kernel headers to build against",
            hint="install linux-headers-KERNEL (kernel-devel on RPM systems), or name a kernel,"
            " to hear what it lacks: --kernel RELEASE",
        )
    made_by = recipe()
    works = []
    for need in needs:
        graph = _foreign(need, ground) or make_graph(
            ground,
            need.kernels,
            parts=parts,
            driver=need.driver,
            ofed=need.ofed,
            flags=flags,
            recipe=made_by,
        )
        works.append(Work(need, graph))
    return Surveyed(ground, tuple(works))


def _foreign(need: Need, ground: Ground) -> Graph | None:
    """Kernels of two architectures may have one name: what is built here would not load there."""
    if need.arch in {"", ground.arch}:
        return None
    found = f"the nodes are {need.arch}, and it would be built on {ground.arch}"
    hint = f"build on a machine of their kind: --on HOST that is {need.arch}"
    return Graph((), tuple(Blocked(each, Part.PEERMEM, found, hint) for each in need.kernels))


def plan_in(surveyed: Surveyed, store: Store, *, force: bool) -> Run:
    """What would be built; nothing is."""
    return plan(surveyed.works, store, force=force)


def build_in(
    place: Place,
    surveyed: Surveyed,
    store: Store,
    folder: RunFolder,
    options: Options,
) -> Run:
    """Build what is not in the cache."""
    ground = surveyed.ground

    def job(step: Step, graph: Graph, built: dict[str, Built], log: str) -> Job:
        return make_job(
            step,
            graph,
            built,
            root=place.root,
            log=log,
            limit_s=options.limit_s,
            layer=place.layer,
        )

    def gate(built: Built, step: Step, graph: Graph, others: dict[str, Built]) -> GateVerdict:
        return judge_modules(built, gate_ground(ground, step, graph, others, built))

    ways = Ways(
        job,
        place.run_job,
        gate,
        store,
        Logs(folder, here=not place.executor.startswith(DASK)),
        options.progress,
        force=options.force,
    )
    with open_crew(place.executor, options.jobs, say=options.say) as crew:
        return build(surveyed.works, ways, crew)
