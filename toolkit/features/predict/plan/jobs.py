"""What jobs do meanwhile: the bandwidth of each communicator against what its nodes' paths carry.

Held against sound nodes, so that what a node's own evidence says against it is a suspect and no
excuse: GPUDirect that cannot work, a bridge that redirects, an IOMMU that translates. Beside it
what NCCL's RAS says of ranks: lost, in error, or left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.checks.traffic.verdict import REACHED, SHORT
from toolkit.compat.throughput import Constants, Range
from toolkit.facts.nccl.inspector import CommunicatorRun
from toolkit.facts.nccl.nccl_tests import CollectiveRun
from toolkit.facts.nccl.ras import RasKind, RasLook, RasTrouble
from toolkit.features.predict.plan.totals import NodeInputs, NodeTotal, Prediction, predict_inputs
from toolkit.features.predict.plan.what_if import parse_wishes, with_wishes
from toolkit.plural import counted
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import Load

_LARGE = 64 << 20  # bytes below which launches count, and no bandwidth is told
_LESS = 0.9  # what a node loses before it is a suspect
_RINGS = frozenset({"allreduce", "allgather", "reducescatter", "broadcast", "reduce"})


class JobNode(Struct, frozen=True):
    """One node as it stands, and as it would be without what its evidence says against it."""

    told: NodeInputs
    now: Prediction
    sound: Prediction


class JobVerdict(Struct, frozen=True):
    run: CommunicatorRun
    status: Status
    why: str  # in one sentence, for who reads nothing else
    carried: Estimate | None  # of the slowest of its nodes; None where nothing is told
    suspects: tuple[str, ...] = ()  # "gpu017 (acs.redirect)"

    @property
    def ratio(self) -> float | None:
        return self.run.bus / self.carried.value if self.carried else None


class JobState(Struct, frozen=True):
    """What is told of a job beside its bandwidth."""

    job: str
    status: Status
    why: str
    suspects: tuple[str, ...] = ()  # "gpu017 (rank 21)"


def job_node(told: NodeInputs, now: Prediction, c: Constants) -> JobNode:
    sound = with_wishes(told, parse_wishes("acs=off,iommu=pt,gdr=on"))
    return JobNode(told, now, predict_inputs(sound, Load(), c))


def of_nccl_tests(run: CollectiveRun, name: str) -> CommunicatorRun:
    """A test that somebody ran, as if it were the only communicator of a job."""
    largest, hosts = run.largest, tuple(dict.fromkeys(each.host for each in run.gpus))
    return CommunicatorRun(
        "all", "", run.test, largest.size, largest.best, len(run.gpus), run.nodes, hosts, 1, name
    )


def judge_job(run: CommunicatorRun, nodes: Mapping[str, JobNode], c: Constants) -> JobVerdict:
    """:param nodes: by their names; a job's are found by name, or by what stands before a dot."""
    known = {host: node for host in run.hosts if (node := _found(nodes, host))}

    def unknown(why: str) -> JobVerdict:
        return JobVerdict(run, Status.UNKNOWN, why, None)

    if run.nodes < 2:
        return JobVerdict(run, Status.NA, "within one node", None)
    if run.test.lower().replace("_", "") not in _RINGS:
        return unknown("no ring: not predicted")
    if run.size < _LARGE:
        return unknown("messages too small to tell: 64 MiB and more do")
    totals = {host: node.sound.total for host, node in known.items() if node.sound.total}
    if not totals:
        return unknown(f"no evidence of its nodes: {', '.join(run.hosts[:3]) or 'not named'}")
    bounds = {host: _carried(total, run, c) for host, total in totals.items()}
    slowest = min(bounds, key=lambda host: bounds[host].value)
    carried = bounds[slowest]
    if carried.open:
        return unknown(f"the rate of {slowest}'s HCAs is not told: --what-if rate=400 says it")
    ratio = run.bus / carried.value
    status, words = Status.UNKNOWN, "less than expected, and within what is not known"
    if ratio >= REACHED:
        status, words = Status.PASS, "as it should"
    elif ratio < SHORT and run.bus < carried.low:
        status, words = Status.FAIL, "short"
    suspects = () if status is Status.PASS else _suspects(known, bounds, slowest)
    missing = [host for host in run.hosts if host not in totals]
    if missing:
        status = Status.UNKNOWN if status is Status.FAIL else status  # one of them may be the bound
        words += f"; no evidence of {', '.join(missing[:3])}"
    return JobVerdict(run, status, words, carried, suspects)


def _found(nodes: Mapping[str, JobNode], host: str) -> JobNode | None:
    short = host.partition(".")[0]
    return nodes.get(host) or nodes.get(short)


def _carried(total: NodeTotal, run: CommunicatorRun, c: Constants) -> Estimate:
    """What the HCAs carry of a communicator that has so many ranks on a node."""
    spread = c["ring-efficiency-many"].over(c["ring-efficiency"])
    share = min(1.0, run.ranks / run.nodes / len(total.hcas))
    found = total.with_gdr
    span = Range(found.value, found.low, found.high) * share
    if run.nodes > 2:
        span *= spread
    return replace(found, value=span.value, low=span.low, high=span.high)


def _suspects(
    known: Mapping[str, JobNode], bounds: Mapping[str, Estimate], slowest: str
) -> tuple[str, ...]:
    """What a node's evidence has against it; else which node bounds the others."""
    found = []
    for host, node in known.items():
        reasons = _reasons(node)
        if reasons:
            found.append(f"{host} ({', '.join(reasons)})")
    most = max(each.value for each in bounds.values())
    if not found and bounds[slowest].value < _LESS * most:
        found.append(f"{slowest} ({bounds[slowest].limit})")
    return tuple(found)


def _reasons(node: JobNode) -> tuple[str, ...]:
    """By the checks' names, of what makes the node slower than it would be."""
    sound = {(each.gpu, each.hca): each for each in node.sound.nearest}
    told = {(each.gpu, each.hca): each for each in node.told.pairs}
    reasons: dict[str, None] = {}
    for each in node.now.nearest:
        key = (each.gpu, each.hca)
        if each.blocked:
            reasons[f"without GPUDirect: {each.blocked}"] = None
        elif each.collective.value < _LESS * sound[key].collective.value:
            reasons["acs.redirect" if told[key].redirects else "iommu.passthrough"] = None
    return tuple(reasons)


def judge_ras(job: str, looks: tuple[RasLook, ...], names: Mapping[str, str]) -> JobState:
    """What RAS answered last, beside what it answered before.

    Ranks that differ are no fault where they move on: a job is not halted while it is asked.

    :param looks: one or more, the oldest first.
    :param names: of nodes by address.
    """
    last, before = looks[-1], looks[:-1]
    known = before[-1].troubles if before else ()
    soft = [each for each in last.troubles if each.kind is RasKind.MISMATCH]
    stuck = [each for each in soft if each in known]
    hard = [each for each in last.troubles if each not in soft] + stuck
    if not hard and not last.whole and before:
        return judge_ras(job, before, names)  # the next one is being written
    of = f"{counted(last.communicators, 'communicator')} of {last.ranks} ranks at most"
    told = "; ".join(dict.fromkeys(each.words for each in hard or soft))
    if hard:
        halted = f"not moved on over {len(looks)} answers: " * bool(stuck)
        return JobState(job, Status.FAIL, halted + told, _who(hard, names))
    if not last.whole:
        return JobState(job, Status.UNKNOWN, "its answer ends midway: ask again")
    if soft and not before:
        why = f"{of}: {told}; it may move on while it is asked: keep a second answer, too"
        return JobState(job, Status.UNKNOWN, why, _who(soft, names))
    if not last.communicators:
        return JobState(job, Status.NA, "no communicator, and no process that was lost")
    moves = "; ranks differ, and move on" if soft else ""
    return JobState(job, Status.PASS, f"{of}: all answer, none has an error{moves}")


def _who(troubles: Iterable[RasTrouble], names: Mapping[str, str]) -> tuple[str, ...]:
    """Nodes of those that stand out, with their ranks."""
    found: dict[str, dict[str, None]] = {}
    for one in (one for each in troubles for one in each.who if one.host):
        found.setdefault(names.get(one.host, one.host), {})[one.said] = None
    return tuple(f"{host} ({', '.join(said)})" for host, said in found.items())
