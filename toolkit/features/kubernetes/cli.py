"""Kubernetes: the verb that has pods run our probe and our bundles; --roll carries them out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from toolkit.cli.options import SAVED, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, Unwritten, UsageError, code_of, worst
from toolkit.features.kubernetes.io import KubeCluster, Kubectl
from toolkit.features.kubernetes.plan import KubeManifest, NodeBundle, PodTerms, parse_terms, stream
from toolkit.features.kubernetes.run import (
    Brought,
    RolloutLimits,
    applying_manifests,
    carrying,
    cluster_of,
    plan_for_pods,
    reading_manifests,
    refuse_let_go,
    roll_out_pods,
    write_manifests,
)
from toolkit.plural import counted
from toolkit.report.document import Json, Told
from toolkit.report.plan_text import plan_lines
from toolkit.report.progress import listener
from toolkit.report.table import clean, columns
from toolkit.report.text import errors
from toolkit.rollout.run import Rolled
from toolkit.verbs.cli.plan import DELIVERED, DIFF, shelf_of, told_of
from toolkit.verbs.cli.rollout import ROLLOUT, agreed_of
from toolkit.verbs.cli.session import Session, consent
from toolkit.verbs.plan import Planned
from toolkit.verbs.saved import read_saved

_OF_ROLLOUTS = {"serial", "max_unavailable", "window", "stop_file", "reason"}
ROLL = (
    Option("roll", False, "carry the bundles out: cordon, drain, run, look, uncordon, by kubectl"),
    Option("cordoned", False, "take nodes that others cordoned as they are; leave them cordoned"),
    Option("delete_emptydir_data", False, "evict also pods that lose what is in an emptyDir"),
    Option("drain_timeout", 600, "seconds that pods may take to leave a node", was="drain_limit"),
    Option("job_timeout", 3600, "seconds that a bundle may take", was="job_limit"),
    *(each for each in ROLLOUT if each.name in _OF_ROLLOUTS),
    Option("max_fail", "", "begin no further node after so many failures: 3, or 25%"),
    Option("fanout", 64, "nodes at once", "f"),
    Option("yes", False, "do not ask", "y"),
    Option("quiet", False, "no progress", "q"),
)


def rolled(
    session: Session,
    kubectl: Kubectl,
    terms: PodTerms,
    carried: Sequence[NodeBundle],
    codes: Sequence[ExitCode],
    *,
    planned: Sequence[Outcome[Told]],
) -> ExitCode:
    """Put the Jobs into the cluster, suspended, and let them go one after the other.

    :param codes: of the planning, of all nodes.
    :param planned: what a document tells of all nodes before.
    """
    said = session.said
    cluster = KubeCluster(kubectl, terms.namespace)
    agreed = replace(
        agreed_of(session, [each.node for each in carried]), alone=True, reported=cluster.out
    )
    refuse_let_go(cluster, carried)
    nodes = counted(len(carried), "node")
    consent(f"drain and change {nodes} of the cluster {clean(kubectl.where())}?", said)
    manifests = (*reading_manifests(terms), *applying_manifests(terms, carried))
    cluster.put(stream(tuple(each for each in manifests if each.name != "40-probe.yaml")))
    result = roll_out_pods(
        cluster,
        carried,
        session.wants(),
        session.today,
        folder=session.folder,
        agreed=agreed,
        limits=_limits(said),
        progress=listener(sys.stderr, quiet=said.flag("quiet")),
    )
    _say_rolled(session, result)
    ends = [ExitCode.INTERRUPTED] if result.interrupted else []
    told = [_after_turn(each, result.outcomes.get(each.host)) for each in planned]
    return session.tell(told, worst([*codes, *ends, *map(code_of, result.outcomes.values())]))


def _limits(said: Said) -> RolloutLimits:
    return RolloutLimits(
        float(said.number("drain_timeout", 600)),
        float(said.number("job_timeout", 3600)),
        said.flag("cordoned"),
        said.flag("delete_emptydir_data"),
    )


def _say_rolled(session: Session, result: Rolled[Brought]) -> None:
    outcomes = result.outcomes.values()
    for each in outcomes:
        if each.value is not None:
            session.say(f"{each.host}: {_outcome_text(each.value)}")
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    if result.halt:
        session.remark(f"stopped: {result.halt}")
    session.kept()


def _after_turn(planned: Outcome[Told], ended: Outcome[Brought] | None) -> Outcome[Told]:
    """A node after its turn: the verdicts that it was planned by are those of before."""
    if ended is None:
        return planned
    if ended.value is None or planned.value is None:
        return Outcome(planned.host, error=ended.error or planned.error)
    steps = (_outcome_text(ended.value),)
    before = planned.value.judged
    return Outcome(planned.host, replace(planned.value, judged=None, before=before, steps=steps))


def _outcome_text(brought: Brought) -> str:
    if brought.left:
        return f"carried out; {brought.left}, and the node stays cordoned"
    return "as wanted" + ("" if brought.given_back else "; cordoned by others, and left so")


PODS = (
    Option("image", "", "small image with sh and nsenter, by digest: NAME@sha256:DIGEST"),
    Option("namespace", "gdr-toolkit", "the namespace of all that is rendered"),
    Option(
        "select",
        "nvidia.com/gpu.present=true",
        "labels that nodes must have: KEY or KEY=VALUE, apart by commas",
    ),
    Option("tolerate", "nvidia.com/gpu", "taints that keep no pod of ours away: KEY=VALUE:EFFECT"),
    Option("confined", False, "the probe with capabilities in place of privileged"),
    Option("out", "", "folder for the manifests, one file each; standard output unless given"),
)
APPLY = (
    Option("apply", False, "for each node of --from that needs one, its bundle as a suspended Job"),
    Option("check", False, "plan, and say who owns drivers; render nothing, exit 7 for changes"),
    Option("cluster", "", "file of: kubectl get nodes,daemonsets -A -o json; tells of operators"),
    Option("kubeconfig", "", "ask this cluster for the same, by kubectl"),
    Option("context", "", "the context of --kubeconfig; its current one unless given"),
    Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
)


@verb(PODS, APPLY, ROLL, WANT, SAVED, (DIFF,), DELIVERED)
def kubernetes(said: Said) -> ExitCode:
    """Manifests with which Kubernetes reads nodes, and changes them; --roll alone changes any.

    A DaemonSet runs the probe on each node; the logs of its pods are evidence for --from.
    With --apply each node of that evidence has its bundle as a Job that is suspended: let it
    go once the node is cordoned and drained. With --roll that is done, node by node in batches,
    by kubectl. Exits 6 where an operator owns a node's drivers.

    Examples:
      invoke kubernetes --image REGISTRY/busybox@sha256:DIGEST --out manifests
      kubectl apply --server-side -f manifests
      kubectl -n gdr-toolkit logs -l app.kubernetes.io/name=gdr-probe --prefix --tail=-1 > pods.log
      invoke doctor --from pods.log
      invoke kubernetes --check --from pods.log --kubeconfig ~/.kube/config
      invoke kubernetes --apply --from pods.log --serial 1,10% --image ... --out bundles
      invoke kubernetes --roll --from pods.log --kubeconfig FILE --serial 1,10% --image ...
    """
    for name in ("roll", "out"):
        if said.flag(name):
            said.not_dry(f"kubernetes --{name}", f"leave out --{name}: what it would do is printed")
    session = Session.begin("kubernetes", said)
    if said.flag("apply") or said.flag("check") or said.flag("roll"):
        return _bundles(session)
    for name in ("from_", "serial", "cluster", "kubeconfig", "context"):
        if said.text(name):
            option = name.strip("_")
            raise UsageError(
                f"--{option} is about bundles, and the probe needs none", hint="say --apply"
            )
    given = _give(session, reading_manifests(terms_of(said)))
    return session.tell([], ExitCode.OK, {"manifests": given})


def _refuse_lacking(said: Said) -> None:
    """:raises UsageError: what bundles need was not named."""
    if not said.text("from_"):
        raise UsageError(
            "no evidence to plan from", hint="read the nodes first, then --from pods.log"
        )
    if said.flag("roll") and not said.text("kubeconfig"):
        raise UsageError("--roll needs a cluster", hint="name it: --kubeconfig FILE")
    if said.text("context") and not said.text("kubeconfig"):
        raise UsageError(
            "--context is one of a --kubeconfig, and none was named",
            hint="name the file: --kubeconfig FILE",
        )


def _bundles(session: Session) -> ExitCode:
    said = session.said
    _refuse_lacking(said)
    # Before nodes are judged: what could only fail after it.
    terms = None if said.flag("check") else terms_of(said)
    kubectl = kubectl_of(said)
    cluster = cluster_of("" if said.flag("roll") else said.text("cluster"), kubectl)
    if cluster is None:
        session.remark(
            "no cluster was asked: whose drivers an operator owns is told by the nodes alone; "
            "--cluster FILE or --kubeconfig FILE"
        )
    saved = read_saved(Path(said.text("from_")))
    outcomes = plan_for_pods(saved, session.wants(), session.today, cluster, shelf_of(session))
    carried = carrying(outcomes, said.text("serial"))
    alone = terms is None or said.text("out") or said.flag("roll")  # no manifests on stdout
    out = sys.stdout if alone else sys.stderr
    if not said.flag("json"):
        print(_told(session, outcomes, carried), file=out)
    codes = [_code(each, pending=terms is None) for each in outcomes]
    told = told_of(outcomes, {})
    if terms is not None and carried and kubectl is not None and said.flag("roll"):
        return rolled(session, kubectl, terms, carried, codes, planned=told)
    more: dict[str, Json] = {
        "jobs": [{"batch": each.batch, "node": each.node, "job": each.name} for each in carried]
    }
    if terms is not None and carried:
        try:
            more["manifests"] = _give(session, applying_manifests(terms, carried))
        except Unwritten as why:
            codes.append(session.unwritten(why))
            more["manifests"] = []
    return session.tell(told, worst(codes), more)


def kubectl_of(said: Said) -> Kubectl | None:
    """The cluster that was named; None for none."""
    if not said.text("kubeconfig"):
        return None
    return Kubectl(said.text("kubeconfig"), context=said.text("context"))


def _told(
    session: Session, outcomes: Sequence[Outcome[Planned]], carried: Sequence[NodeBundle]
) -> str:
    plans = [(each.host, each.value.plan) for each in outcomes if each.value]
    lines = plan_lines(plans, session.paint, diffs=session.said.flag("diff"))
    if carried:
        rows = [(str(each.batch), each.node, each.name) for each in carried]
        lines += [*columns([("batch", "node", "job"), *rows]), ""]
    failed = ((each.host, each.error) for each in outcomes)
    return "\n".join([*lines, *errors(failed, session.paint)]).rstrip()


def _code(outcome: Outcome[Planned], *, pending: bool) -> ExitCode:
    if outcome.error is not None:
        return outcome.error.exit_code
    plan = outcome.get().plan
    if plan.blocked:
        return ExitCode.UNKNOWN
    return ExitCode.PENDING if pending and not plan.empty else ExitCode.OK


def _give(session: Session, manifests: tuple[KubeManifest, ...]) -> list[Json]:
    """Onto standard output, or into a folder whose files are named there.

    :returns: the same for a document, which holds the text of what is in no file.
    """
    out = session.said.text("out")
    if out:
        for file in write_manifests(manifests, Path(out)):
            session.say(str(file))
        session.remark(f"next: kubectl apply --server-side -f {out}")
        return [{"name": e.name, "path": str(Path(out) / e.name), "text": None} for e in manifests]
    if not session.said.flag("json"):
        sys.stdout.write(stream(manifests))
    return [{"name": each.name, "path": None, "text": each.text} for each in manifests]


def terms_of(said: Said) -> PodTerms:
    """:raises UsageError: for what Kubernetes would not take."""
    return parse_terms(
        said.text("image"),
        said.text("namespace"),
        said.text("select"),
        said.text("tolerate"),
        confined=said.flag("confined"),
    )
