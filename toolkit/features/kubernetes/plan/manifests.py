"""Manifests for Kubernetes: what reads nodes there, and what changes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit import __version__
from toolkit.features.kubernetes.plan.config_maps import ConfigMap, config_map
from toolkit.features.kubernetes.plan.terms import Terms
from toolkit.plan.templates import render_document

# What nsenter needs to get at the node's namespaces, and the reading of a node's own files and
# log; see docs/kubernetes.md, and the test that takes them away one by one.
CAPABILITIES = ("DAC_READ_SEARCH", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "SYSLOG")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One file of YAML: documents that belong together."""

    name: str  # "10-namespace.yaml": kubectl applies a folder in order of names
    text: str


def reading(terms: Terms, pod_files: Mapping[str, str]) -> tuple[Manifest, ...]:
    """All that reads nodes: namespace, accounts, the scripts, a DaemonSet.

    :param pod_files: of reach.pod.pod_files.
    :raises UsageError: the scripts do not go into a ConfigMap.
    """
    scripts = config_map("gdr-probe", pod_files)
    return (
        Manifest("10-namespace.yaml", _rendered("namespace", terms)),
        Manifest("20-accounts.yaml", _rendered("accounts", terms)),
        Manifest("30-scripts.yaml", rendered_map(terms, scripts)),
        Manifest("40-probe.yaml", _rendered("probe", terms, {"scripts": scripts.name})),
    )


def rendered_map(terms: Terms, made: ConfigMap) -> str:
    """A ConfigMap as YAML, its files word for word."""
    values = {"namespace": terms.namespace, "version": __version__, "name": made.name}
    files = [(name, _block(text)) for name, text in sorted(made.files.items())]
    head = render_document("kubernetes/config-map.yaml", values, rows={}, texts={})
    return head + "".join(f"  {name}: |2+\n{text}" for name, text in files) + "...\n"


def _block(text: str) -> str:
    """Lines below a key of ``data``. An empty one stays empty, and YAML takes it for the same."""
    lines = text.split("\n")[:-1]
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


def _rendered(template: str, terms: Terms, more: Mapping[str, str] | None = None) -> str:
    values = {
        "namespace": terms.namespace,
        "image": terms.image,
        "version": __version__,
        "confined": "yes" if terms.confined else "",
        **(more or {}),
    }
    rows = {
        "selected": [{"key": each.key, "value": each.value} for each in terms.selected],
        "tolerations": [
            {"key": each.key, "value": each.value, "effect": each.effect}
            for each in terms.tolerations
        ],
        "capabilities": [{"name": name} for name in CAPABILITIES],
    }
    return render_document(f"kubernetes/{template}.yaml", values, rows=rows, texts={})


def stream(manifests: tuple[Manifest, ...]) -> str:
    """All of them as one text for ``kubectl apply -f -``."""
    return "".join(each.text for each in manifests)
