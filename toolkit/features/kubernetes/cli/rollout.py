"""The verb kubernetes --roll: bundles are carried out, batch by batch, by kubectl."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from toolkit.cli.options import Option
from toolkit.errors import ExitCode, Outcome, worst
from toolkit.features.kubernetes.io.kubectl import Kubectl
from toolkit.features.kubernetes.io.node import Cluster
from toolkit.features.kubernetes.plan.apply import Carrying
from toolkit.features.kubernetes.plan.manifests import stream
from toolkit.features.kubernetes.plan.terms import Terms
from toolkit.features.kubernetes.run.manifests import applying_manifests, reading_manifests
from toolkit.features.kubernetes.run.rollout import Brought, Limits, refuse_let_go, roll_out_pods
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.report.progress import listener
from toolkit.report.table import clean
from toolkit.report.text import errors
from toolkit.verbs.cli.rollout import ROLLOUT, agreed_of
from toolkit.verbs.cli.session import Session, consent

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
    terms: Terms,
    carried: Sequence[Carrying],
    codes: Sequence[ExitCode],
    *,
    planned: Sequence[Outcome[Told]],
) -> ExitCode:
    """Put the Jobs into the cluster, suspended, and let them go one after the other.

    :param codes: of the planning, of all nodes.
    :param planned: what a document tells of all nodes before.
    """
    said = session.said
    cluster = Cluster(kubectl, terms.namespace)
    agreed = agreed_of(session, [each.node for each in carried])
    agreed = replace(agreed, alone=True, reported=cluster.out)
    limits = Limits(
        float(said.number("drain_timeout", 600)),
        float(said.number("job_timeout", 3600)),
        said.flag("cordoned"),
        said.flag("delete_emptydir_data"),
    )
    refuse_let_go(cluster, carried)
    where = clean(kubectl.where())
    consent(f"drain and change {counted(len(carried), 'node')} of the cluster {where}?", said)
    manifests = (*reading_manifests(terms), *applying_manifests(terms, carried))
    wanted = tuple(each for each in manifests if each.name != "40-probe.yaml")
    cluster.put(stream(wanted))
    result = roll_out_pods(
        cluster,
        carried,
        session.wants(),
        session.today,
        folder=session.folder,
        agreed=agreed,
        limits=limits,
        progress=listener(sys.stderr, quiet=said.flag("quiet")),
    )
    outcomes = list(result.outcomes.values())
    for each in outcomes:
        if each.value is not None:
            session.say(f"{each.host}: {_told(each.value)}")
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    if result.halt:
        session.remark(f"stopped: {result.halt}")
    session.kept()
    ends = [ExitCode.INTERRUPTED] if result.interrupted else []
    told = [_after(each, result.outcomes.get(each.host)) for each in planned]
    return session.tell(told, worst([*codes, *ends, *map(_code, outcomes)]))


def _after(planned: Outcome[Told], ended: Outcome[Brought] | None) -> Outcome[Told]:
    """A node after its turn: the verdicts that it was planned by are those of before."""
    if ended is None:
        return planned
    if ended.value is None or planned.value is None:
        return Outcome(planned.host, error=ended.error or planned.error)
    steps = (_told(ended.value),)
    before = planned.value.judged
    return Outcome(planned.host, replace(planned.value, judged=None, before=before, steps=steps))


def _told(brought: Brought) -> str:
    if brought.left:
        return f"carried out; {brought.left}, and the node stays cordoned"
    return "as wanted" + ("" if brought.given_back else "; cordoned by others, and left so")


def _code(outcome: Outcome[Brought]) -> ExitCode:
    return outcome.error.exit_code if outcome.error else outcome.get().exit_code
