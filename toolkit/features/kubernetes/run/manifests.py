"""Manifests for Kubernetes, written down; nothing is changed in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from toolkit.built.delivery_cache import Shelf
from toolkit.errors import Outcome, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.cluster import Cluster, parse_cluster
from toolkit.facts.node.node import Node
from toolkit.features.kubernetes.io.kubectl import Kubectl
from toolkit.features.kubernetes.io.pod import pod_files
from toolkit.features.kubernetes.plan.apply import Carrying, applying
from toolkit.features.kubernetes.plan.driver_owner import refuse_owned
from toolkit.features.kubernetes.plan.manifests import Manifest, reading
from toolkit.features.kubernetes.plan.terms import Terms, node_name
from toolkit.groups import Wants
from toolkit.plan.bundle import script
from toolkit.rollout.plan.batches import batches
from toolkit.safe_file import write_file
from toolkit.verbs.each import on_saved
from toolkit.verbs.pasted_logs import decoded, read_bytes
from toolkit.verbs.plan import Planned, plan_node, sealed


def reading_manifests(terms: Terms) -> tuple[Manifest, ...]:
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


def carrying(outcomes: Sequence[Outcome[Planned]], serial: str) -> tuple[Carrying, ...]:
    """The bundles that there are to carry out, each with its batch.

    :param serial: "1,10%,50%", as for a rollout.
    :raises UsageError: for what is none.
    """
    bundles = {
        each.host: each.value.bundle for each in outcomes if each.value and each.value.bundle
    }
    return tuple(
        Carrying(node, script(sealed(bundle)), number)
        for number, batch in enumerate(batches(list(bundles), serial), start=1)
        for node, bundle in bundles.items()
        if node in batch
    )


def applying_manifests(terms: Terms, carried: Sequence[Carrying]) -> tuple[Manifest, ...]:
    """Who may let bundles go, and a suspended Job for each; none where there is no bundle."""
    return applying(terms, pod_files(), carried) if carried else ()


def write_manifests(manifests: tuple[Manifest, ...], out: Path) -> list[Path]:
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
