"""Kubernetes: manifests written down, and bundles carried out as a rollout of suspended Jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path

from msgspec import Struct

from toolkit.built.delivery_cache import Shelf
from toolkit.checks.check import Status
from toolkit.errors import (
    ApplyError,
    ExitCode,
    LockedError,
    NoEvidence,
    Outcome,
    TransportError,
    Unwritten,
    UsageError,
)
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.kube import Cluster, parse_cluster
from toolkit.facts.node.node import Node
from toolkit.facts.text.pod_logs import parse_carried, parse_pod_logs
from toolkit.features.kubernetes.io import KubeCluster, Kubectl, pod_files
from toolkit.features.kubernetes.plan import (
    KubeManifest,
    NodeBundle,
    PodTerms,
    applying,
    node_name,
    reading,
    refuse_owned,
)
from toolkit.groups import Wants
from toolkit.hosts.host import Host, fold
from toolkit.plan.bundle import script
from toolkit.progress import Progress
from toolkit.rollout.claims import alive
from toolkit.rollout.journal import FILE, Event, Journal, JournalError
from toolkit.rollout.plan.batches import Phase, Standing, batches
from toolkit.rollout.run import Rolled, Rollout, Threads
from toolkit.rollout.runs import RunFolder, safe_name
from toolkit.safe_file import write_file
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.pasted_logs import decoded, read_bytes
from toolkit.verbs.plan import Planned, plan_node, sealed
from toolkit.verbs.provision import GONE
from toolkit.verbs.rollout import Agreed, join_budget, keep_journal, roll, write_first


def reading_manifests(terms: PodTerms) -> tuple[KubeManifest, ...]:
    """All that reads nodes."""
    return reading(terms, pod_files())


def cluster_of(saved: str, kubectl: Kubectl | None) -> Cluster | None:
    """What the cluster says of its operators, from a file or asked now; None where nobody said.

    :param saved: a file that ``kubectl get nodes,daemonsets -A -o json`` has written.
    :raises ToolkitError: it cannot be read, or the cluster does not answer.
    """
    if saved:
        return parse_cluster(decoded(read_bytes(Path(saved))))
    if kubectl is not None:
        return parse_cluster(kubectl.answer("get", "nodes,daemonsets.apps", "-A", "-o", "json"))
    return None


def plan_for_pods(
    saved: Iterable[tuple[str, Evidence]],
    wants: Wants,
    today: date,
    cluster: Cluster | None,
    shelf: Shelf | None = None,
) -> list[Outcome[Planned]]:
    """Plan for nodes of a cluster; one whose drivers an operator owns has that for its error."""

    def work(name: str, evidence: Evidence) -> Planned:
        node_name(name)
        refuse_owned(name, Node(evidence), cluster)
        return plan_node(name, evidence, wants.of(name), today, shelf, untried=True)

    return on_saved(saved, work)


def carrying(outcomes: Sequence[Outcome[Planned]], serial: str) -> tuple[NodeBundle, ...]:
    """The bundles that there are to carry out, each with its batch.

    :param serial: "1,10%,50%", as for a rollout.
    :raises UsageError: for what is none.
    """
    bundles = {
        each.host: each.value.bundle for each in outcomes if each.value and each.value.bundle
    }
    return tuple(
        NodeBundle(node, script(sealed(bundle)), number)
        for number, batch in enumerate(batches(list(bundles), serial), start=1)
        for node, bundle in bundles.items()
        if node in batch
    )


def applying_manifests(terms: PodTerms, carried: Sequence[NodeBundle]) -> tuple[KubeManifest, ...]:
    """Who may let bundles go, and a suspended Job for each; none where there is no bundle."""
    return applying(terms, pod_files(), carried) if carried else ()


def write_manifests(manifests: tuple[KubeManifest, ...], out: Path) -> list[Path]:
    """Each as a file below ``out``, a folder that holds no manifest yet.

    :raises UsageError: others' manifests would be applied with ours.
    :raises Unwritten: it cannot be written.
    """
    written = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        if others := sorted(each.name for each in out.glob("*.y*ml")):
            raise UsageError(
                f"{out}: holds {others[0]} already", hint="name a fresh folder with --out"
            )
        for each in manifests:
            write_file(out / each.name, each.text)
            written.append(out / each.name)
    except OSError as why:
        raise Unwritten(out, why) from why
    return written


VERB = "kubernetes"


class Brought(Struct, frozen=True):
    """What came of one node's turn."""

    left: str  # in a clause, what is still to be done there; "" where nothing is
    given_back: bool  # to whom schedules; false where another had cordoned it, and keeps it
    unknown: bool = False  # what is left is only that something could not be told

    @property
    def exit_code(self) -> ExitCode:
        if self.unknown:
            return ExitCode.UNKNOWN
        return ExitCode.FAILED if self.left else ExitCode.OK


class RolloutLimits(Struct, frozen=True):
    """How long is waited, in seconds, and whose nodes are taken."""

    drain_s: float = 600.0
    job_s: float = 3600.0
    taken: bool = False  # nodes that others have cordoned are taken as they are, and left cordoned
    emptydir: bool = False  # pods leave also where they lose what is in an emptyDir


class KubeWork(Struct, frozen=True):
    """What each turn of one run has in common."""

    cluster: KubeCluster
    carried: Mapping[str, NodeBundle]  # by node
    wants: Wants
    today: date
    folder: RunFolder
    journal: Journal
    limits: RolloutLimits

    @property
    def run(self) -> str:
        return self.journal.file.parent.name

    def take_turn(self, host: Host) -> Brought:
        """Out of service, bundle, look, back into service.

        :raises ToolkitError: what stood in the way; the journal has how far it got.
        """
        node = host.name
        ours = self._out_of_service(node)
        self._about_to(node, Phase.APPLYING)
        log = self.cluster.run_job(self.carried[node].name, self.limits.job_s)
        self.folder.keep(f"{node}.log", log)
        self._refuse_stopped(node, log)
        self._about_to(node, Phase.LOOKING)
        brought = _weighed(self._look_again(node, log))
        if brought.left or not ours:
            return brought
        self._about_to(node, Phase.UNDRAINING)
        return Brought("", given_back=self.cluster.uncordon(node, self.run))

    def _out_of_service(self, node: str) -> bool:
        """Whether it was this run that took it out, or one of ours before it that has ended."""
        seen = self.cluster.look(node)
        left = seen.run if seen.cordoned and self._has_ended(seen.run) else ""
        if seen.cordoned and seen.run != self.run and not left:
            if self.limits.taken:
                return False
            who = f"run {seen.run}" if seen.run else "somebody else"
            raise LockedError(
                f"{node}: was cordoned by {who}; nothing was touched",
                hint="once it is drained: --cordoned takes it as it is, and leaves it cordoned",
            )
        self._about_to(node, Phase.DRAINING)
        if not self.cluster.cordon(node, self.run, after=left):
            raise LockedError(
                f"{node}: was cordoned by somebody else meanwhile",
                hint=f"whoever did so gives it back: kubectl describe node {node}",
            )
        try:
            self.cluster.drain(node, self.limits.drain_s, emptydir=self.limits.emptydir)
        except TransportError as why:
            if left:  # in what state that run left it nobody knows
                raise ApplyError(
                    f"{node}: not drained, and left cordoned: {why}",
                    hint=f"drain it by hand, or give it back: kubectl uncordon {node}",
                ) from why
            self._about_to(node, Phase.UNDRAINING)
            self.cluster.uncordon(node, self.run)
            raise ApplyError(f"{node}: not drained, and given back: {why}", hint=why.hint) from why
        self._about_to(node, Phase.DRAINED)
        return True

    def _has_ended(self, run: str) -> bool:
        """Whether that is another run of this state folder, and its controller is gone."""
        place = self.journal.file.parent.with_name(safe_name(run)) if run else None
        if place is None or place.name in ("", self.run) or place.name != run:
            return False
        return (place / FILE).is_file() and not alive(place)

    def _refuse_stopped(self, node: str, log: str) -> None:
        """:raises ApplyError: the engine did not go through; in the node's own words."""
        carried = [e for e in parse_carried(log) if e.node == node]
        if carried and carried[-1].ended == 0 and carried[-1].evidence.complete:
            return
        frames = carried[-1].evidence.frames.values() if carried else ()
        bad = next((frame for frame in frames if frame.state is State.FAILED), None)
        told = _words(bad) if bad else log.strip().rpartition("\n")[2][:300]
        raise ApplyError(
            f"{node}: the bundle did not go through, and the node stays cordoned: {told}",
            hint=f"its log is kept; kubectl -n {self.cluster.namespace} logs "
            f"job/{self.carried[node].name}",
        )

    def _look_again(self, node: str, log: str) -> Planned:
        evidence = next((e.evidence for e in parse_pod_logs(log) if e.node == node), Evidence())
        if not evidence.complete:
            raise NoEvidence(
                f"{node}: was not read again, and stays cordoned",
                hint=f"look at it, then give it back: kubectl uncordon {node}",
            )
        self.folder.keep_evidence(node, evidence, "after")
        return plan_node(node, evidence, self.wants.of(node), self.today, untried=True)

    def _about_to(self, node: str, phase: Phase) -> None:
        self.journal.add(Event(node, phase.value))


def _weighed(found: Planned) -> Brought:
    """Whether a node may serve again: nothing is to be done, and every check is content."""
    judged = found.judged
    if not judged.gpus:  # it had some, or there had been no bundle for it
        return Brought(GONE, given_back=False)
    if not found.plan.empty:
        owed = "a reboot is owed" if found.plan.only_reboot else "more is to be done"
        return Brought(owed, given_back=False)
    if failed := [each.check.id for each in judged.having(Status.FAIL)]:
        return Brought(f"not as wanted: {', '.join(failed)}", given_back=False)
    unknown = [each.check.id for each in judged.having(Status.UNKNOWN)]
    left = f"not known: {', '.join(unknown)}" if unknown else ""
    return Brought(left, given_back=False, unknown=bool(left))


def _words(frame: Frame) -> str:
    return f"{frame.source}: {frame.text.strip() or f'status {frame.exit}'}"[:500]


def refuse_let_go(cluster: KubeCluster, carried: Sequence[NodeBundle]) -> None:
    """A Job runs once: what was let go before tells nothing of now, and may be at work still.

    :raises LockedError: that is so of one; nothing was touched.
    """
    gone = cluster.let_go()
    if found := [each for each in carried if each.name in gone]:
        jobs = " ".join(each.name for each in found)
        raise LockedError(
            f"{fold([each.node for each in found])}: the bundle was let go before; "
            "nothing was touched",
            hint="once it has ended: "
            f"kubectl -n {cluster.namespace} delete job {jobs}; then read the nodes again",
        )


def roll_out_pods(
    cluster: KubeCluster,
    carried: Sequence[NodeBundle],
    wants: Wants,
    today: date,
    *,
    folder: RunFolder,
    agreed: Agreed,
    limits: RolloutLimits,
    progress: Progress,
) -> Rolled[Brought]:
    """Let the Jobs go that lie suspended in the cluster, in the agreed terms.

    :raises LockedError: another controller's run is at work on one of the nodes.
    :raises JournalError: there is no journal to be had; nothing was touched.
    """
    hosts = tuple(Host(each.node) for each in carried)
    fleet = Fleet(hosts, _by_pods_alone, Access(progress=progress))
    with ExitStack() as stack:
        journal = keep_journal(stack, fleet, folder, agreed.about, alone=True)
        if journal is None:  # never: it is a must
            raise JournalError("no journal can be kept", hint="nothing was touched")
        told = {e.node: json.dumps({"job": e.name, "bundle": e.sum}) for e in carried}
        planned = [Event(node, Phase.PLANNED.value, detail=each) for node, each in told.items()]
        write_first(journal, agreed, planned)
        jobs = {each.node: each for each in carried}
        work = KubeWork(cluster, jobs, wants, today, folder, journal, limits)
        rollout = Rollout(
            agreed.terms,
            Standing(down=frozenset(cluster.out()) & frozenset(jobs)),
            {host.name: host for host in hosts},
            Threads(work.take_turn),
            lambda each: each.value is not None and not each.value.left,
            _ended,
            journal,
            agreed.brakes,
            progress,
            join_budget(stack, fleet, journal, agreed),
        )
        return roll(rollout, "bundles by pods")


def _by_pods_alone(host: Host) -> Transport:
    raise TransportError(
        f"{host.name}: is reached by pods alone", hint="change it over SSH: provision --hosts"
    )


def _ended(outcome: Outcome[Brought], well: bool) -> Event:
    told = {"error": str(outcome.error), "hint": outcome.error.hint} if outcome.error else {}
    if outcome.value is not None:
        told = {"left": outcome.value.left} if outcome.value.left else {}
    phase = (Phase.DONE if well else Phase.FAILED).value
    return Event(outcome.host, phase, detail=json.dumps(told, ensure_ascii=True))
