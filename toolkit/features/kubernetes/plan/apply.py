"""Manifests that carry out bundles: for each node a Job that waits until somebody lets it go.

A Job is made suspended. Applying its manifest changes nothing on any node: whoever has cordoned
and drained the node lets its Job go, and nobody's pod is under it then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from toolkit import __version__
from toolkit.features.kubernetes.plan.config_maps import config_map, in_parts
from toolkit.features.kubernetes.plan.manifests import Manifest, rendered_map
from toolkit.features.kubernetes.plan.terms import Terms, node_name
from toolkit.plan.templates import render_document


@dataclass(frozen=True, slots=True)
class Carrying:
    """What is to be carried out on one node."""

    node: str
    script: str  # of change.bundle.script
    batch: int = 1  # the rollout's, counted from 1

    @property
    def sum(self) -> str:
        """SHA-256 of the script, as the pod will find it."""
        return sha256(self.script.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Of the Job: tells the node as far as 36 characters go, and the bundle."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.node)[:36].strip("-")
        told = sha256(f"{self.node}\0{self.sum}".encode()).hexdigest()[:10]
        return f"gdr-{slug}-{told}"


def applying(
    terms: Terms, pod_files: Mapping[str, str], carried: Sequence[Carrying]
) -> tuple[Manifest, ...]:
    """Who may let Jobs go, and for each node its bundle with its Job.

    :param pod_files: of reach.pod.pod_files: a node is read again once its bundle has ended.
    :raises UsageError: a name that no node has, or a bundle that no cluster should hold.
    """
    nodes = [{"name": node_name(each.node)} for each in carried]
    values = {"namespace": terms.namespace, "version": __version__}
    roller = render_document("kubernetes/roller.yaml", values, rows={"nodes": nodes}, texts={})
    scripts = config_map("gdr-probe", pod_files)
    jobs = (_job(terms, scripts.name, each) for each in carried)
    return (Manifest("50-roller.yaml", roller), *jobs)


def _job(terms: Terms, scripts: str, carried: Carrying) -> Manifest:
    parts = in_parts("gdr-bundle", carried.script)
    values = {
        "namespace": terms.namespace,
        "image": terms.image,
        "version": __version__,
        "name": carried.name,
        "node": carried.node,
        "sum": carried.sum,
        "batch": str(carried.batch),
        "scripts": scripts,
    }
    rows = {
        "parts": [{"name": part.name} for part in parts],
        "tolerations": [
            {"key": each.key, "value": each.value, "effect": each.effect}
            for each in terms.tolerations
        ],
    }
    job = render_document("kubernetes/apply.yaml", values, rows=rows, texts={})
    maps = "".join(rendered_map(terms, part) for part in parts)
    return Manifest(f"60-{carried.batch:04}-{carried.name}.yaml", maps + job)
