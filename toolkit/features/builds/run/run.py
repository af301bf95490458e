"""From what is asked for to what came of it: needs, survey, graphs, cache, builds, gate.

What nodes need is built once for each kernel, driver and OFED, however many nodes have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.built.io.store import Store
from toolkit.built.plan.gate import GateVerdict, judge_modules
from toolkit.built.plan.model import Built, Part
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.modules.fixes import files_of
from toolkit.errors import NoEvidence, Outcome, Unparsable, Unsupported, read_or
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, Provider
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.features.builds.io.executors import DASK, open_crew
from toolkit.features.builds.io.sandbox import SandboxJob
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph, BuildStep, make_graph
from toolkit.features.builds.plan.outcome import BuildRun, Need, NeedGraph
from toolkit.features.builds.plan.wanted import P2P
from toolkit.features.builds.run.build import Logs, Ways, run_builds
from toolkit.features.builds.run.places import BuildPlace, gate_ground, make_job, recipe
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.progress import Progress, Silent
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each
from toolkit.want import PeerPath, Want

INBOX = "inbox"  # as a version of OFED: none is installed


class NodeNeeds(Struct, frozen=True):
    """What one node needs: a need for each kernel that it runs or boots next."""

    needs: tuple[Need, ...]
    remark: str = ""  # "" or a sentence: what could not be learnt


def needs_of(
    fleet: Fleet, folder: RunFolder, kernels: Sequence[str] = (), *, insist: bool = False
) -> list[Outcome[NodeNeeds]]:
    """Ask every node once.

    :param kernels: in place of those that the nodes run and boot next.
    :param insist: build for nodes that need none of it, too.
    """

    def work(host: Host, transport: Transport) -> NodeNeeds:
        evidence = collect(transport)
        folder.keep_evidence(host.name, evidence)
        return needs_of_node(host.name, evidence, kernels, insist=insist)

    return on_each(fleet, "reading", work)


def needs_of_node(
    host: str, evidence: Evidence, kernels: Sequence[str] = (), *, insist: bool = False
) -> NodeNeeds:
    """What one node needs, from its evidence; nothing where the kernel's own RDMA does dma-buf.

    :raises NoEvidence: its driver or its kernel is not known.
    """
    node = Node(evidence)
    # What DKMS would install decides over what happens to be loaded.
    driver = _by_dkms(node, node.driver_dkms) or str(node.driver.version if node.driver else "")
    if not driver:
        raise NoEvidence(
            f"{host}: no NVIDIA driver is loaded, and DKMS has none: nothing tells its version",
            hint="say what to build: --driver VERSION --kernel RELEASE, without --hosts",
        )
    path = taken(node, replace(Want(), path=None)).path
    if not insist and node.ofed.flavour is OfedFlavour.INBOX and path is PeerPath.DMABUF:
        why = "its path is dma-buf, by the open driver and the kernel's own RDMA modules"
        return NodeNeeds((), f"{host}: {why}: nothing is built for it (--part peermem insists)")
    wanted, remark = (tuple(kernels), "") if kernels else _kernels(host, node)
    ofed = _by_dkms(node, node.ofed_dkms)
    if not ofed:
        inbox = node.ofed.flavour is OfedFlavour.INBOX
        ofed = INBOX if inbox else str(node.ofed.version or "")
    need = Need((), driver, ofed, (host,), node.arch)
    return NodeNeeds(tuple(_for_kernel(node, need, each) for each in wanted), remark)


def _for_kernel(node: Node, need: Need, kernel: str) -> Need:
    """With what that kernel's nvidia.ko exports, where DKMS has not built it: then nobody shall."""
    need = replace(need, kernels=(kernel,))
    if node.driver_dkms:
        return need
    files = read_or(lambda: files_of(node, kernel, "nvidia"), [])
    at = {each.filename.removeprefix("/usr"): each.version for each in files}
    for each in read_or(lambda: node.exports_for(kernel), ()):
        if P2P in each.crcs and at.get(each.path.removeprefix("/usr")) == need.driver:
            rows = sorted(row for row in each.crcs.items() if row[0].startswith("nvidia_p2p_"))
            return replace(need, module=each.path, exports=tuple(rows))
    return need


def shared(found: Iterable[NodeNeeds]) -> tuple[Need, ...]:
    """The same needs of many nodes as one, in the order in which they came up."""
    nodes: dict[Need, list[str]] = {}
    for each in found:
        for need in each.needs:
            nodes.setdefault(replace(need, nodes=()), []).extend(need.nodes)
    return tuple(replace(need, nodes=tuple(names)) for need, names in nodes.items())


def _kernels(host: str, node: Node) -> tuple[tuple[str, ...], str]:
    """The kernel that runs and the one that boots next; a sentence where one is not known."""
    running = [node.kernel] if node.live else []
    try:
        return tuple(dict.fromkeys([*running, node.default_kernel])), ""
    except (NoEvidence, Unparsable) as why:
        if not running:
            raise
        return tuple(running), f"{host}: only for the kernel that runs: the next boot's: {why}"


def _by_dkms(node: Node, package: str) -> str:
    """The one version that DKMS has of a package; "" where it has none, or several."""
    found = {each.version for each in node.dkms if each.module == package} if package else set()
    return found.pop() if len(found) == 1 else ""


class BuildOptions(Struct, frozen=True):
    """How a run goes about it."""

    jobs: int  # builds at once; 0 for as many as there are processors, or workers
    limit_s: float  # after which one is given up
    progress: Progress = field(default_factory=Silent)
    say: Callable[[str], None] = print  # hears of workers that died
    force: bool = False


class Surveyed(Struct, frozen=True):
    """The graphs of a run, and the ground that they were made for."""

    ground: Ground
    works: tuple[NeedGraph, ...]


def graphs_for(
    place: BuildPlace, needs: Sequence[Need], parts: Sequence[Part], flags: str
) -> Surveyed:
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
            # The licence is held against that of the nodes where it is delivered.
            given=Provider(need.module, "nvidia", need.driver, "", dict(need.exports))
            if need.exports
            else None,
        )
        works.append(NeedGraph(need, graph))
    return Surveyed(ground, tuple(works))


def _foreign(need: Need, ground: Ground) -> BuildGraph | None:
    """Kernels of two architectures may have one name: what is built here would not load there."""
    if need.arch in {"", ground.arch}:
        return None
    found = f"the nodes are {need.arch}, and it would be built on {ground.arch}"
    hint = f"build on a machine of their kind: --on HOST that is {need.arch}"
    return BuildGraph(
        (), tuple(BlockedPart(each, Part.PEERMEM, found, hint) for each in need.kernels)
    )


def build_in(
    place: BuildPlace,
    surveyed: Surveyed,
    store: Store,
    folder: RunFolder,
    options: BuildOptions,
) -> BuildRun:
    """Build what is not in the cache."""
    ground = surveyed.ground

    def job(step: BuildStep, graph: BuildGraph, built: dict[str, Built], log: str) -> SandboxJob:
        return make_job(
            step,
            graph,
            built,
            root=place.root,
            log=log,
            limit_s=options.limit_s,
            layer=place.layer,
        )

    def gate(
        built: Built, step: BuildStep, graph: BuildGraph, others: dict[str, Built]
    ) -> GateVerdict:
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
        return run_builds(surveyed.works, ways, crew)
