"""Kubernetes: manifests with which pods read nodes and carry out bundles; pure.

A Job is made suspended. Applying its manifest changes nothing on any node: whoever has cordoned
and drained the node lets its Job go, and nobody's pod is under it then.

ConfigMaps are immutable, named by what they hold, and no larger than one may be. Source:
Kubernetes, pkg/apis/core/validation, ValidateConfigMap: the values of one may have 1 MiB in all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import asdict

from toolkit import __version__
from toolkit.errors import NoEvidence, Unsupported, UsageError
from toolkit.facts.kube import Cluster
from toolkit.facts.node.node import Node
from toolkit.plan.templates import render_document

_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NODE = re.compile(rf"(?=.{{1,253}}\Z){_NAME}(?:\.{_NAME})*")  # a DNS subdomain
_NAMESPACE = re.compile(_NAME)
_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,252})/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Selected(Struct, frozen=True):
    """A label that nodes must have; with a value, that one."""

    key: str
    value: str = ""


class Toleration(Struct, frozen=True):
    """A taint that keeps no pod of ours away."""

    key: str
    value: str = ""
    effect: str = ""  # "" for each


class PodTerms(Struct, frozen=True):
    """What holds for every pod of ours."""

    image: str  # with its digest: what runs as root on nodes is named to the byte
    namespace: str = "gdr-toolkit"
    selected: tuple[Selected, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    confined: bool = False  # capabilities in place of privileged, for the probe alone


def parse_terms(
    image: str, namespace: str, select: str, tolerate: str, *, confined: bool = False
) -> PodTerms:
    """The terms, from what was said.

    :param select: "nvidia.com/gpu.present=true,rack": labels that nodes must have, all of them.
    :param tolerate: "nvidia.com/gpu,team=ml:NoSchedule": taints.
    :raises UsageError: one sentence, for the first that cannot be so.
    """
    if not image:
        raise UsageError(
            "no image is named for the pods",
            hint="any small one with sh and nsenter: --image REGISTRY/busybox@sha256:DIGEST",
        )
    if not _IMAGE.fullmatch(image):
        raise UsageError(
            f"--image {image!r} has no digest: what runs as root on nodes is named to the byte",
            hint="NAME@sha256:DIGEST, as the registry tells it: docker buildx imagetools inspect",
        )
    if not _NAMESPACE.fullmatch(namespace):
        raise UsageError(
            f"--namespace {namespace!r} is no name of one",
            hint="small letters, digits and dashes, 63 at most",
        )
    return PodTerms(
        image, namespace, tuple(_selected(select)), tuple(_tolerations(tolerate)), confined
    )


def node_name(name: str) -> str:
    """The name, where Kubernetes could have a node of it.

    :raises UsageError: it could not.
    """
    if not _NODE.fullmatch(name):
        raise UsageError(
            f"{name}: Kubernetes has no node of that name",
            hint="name evidence by its node: read it from logs of pods (docs/kubernetes.md)",
        )
    return name


def _words(said: str) -> Iterator[str]:
    return (word.strip() for word in said.split(",") if word.strip())


def _selected(said: str) -> Iterator[Selected]:
    for word in _words(said):
        key, _, value = word.partition("=")
        if not (_KEY.fullmatch(key) and _VALUE.fullmatch(value)):
            raise UsageError(
                f"--select {word!r} is no label", hint="KEY or KEY=VALUE, apart by commas"
            )
        yield Selected(key, value)


def _tolerations(said: str) -> Iterator[Toleration]:
    for word in _words(said):
        taint, _, effect = word.partition(":")
        key, _, value = taint.partition("=")
        known = effect in ("", *_EFFECTS)
        if not (known and _KEY.fullmatch(key) and _VALUE.fullmatch(value)):
            raise UsageError(
                f"--tolerate {word!r} is no taint",
                hint=f"KEY, KEY=VALUE or KEY=VALUE:EFFECT; effects: {', '.join(_EFFECTS)}",
            )
        yield Toleration(key, value, effect)


LIMIT = 1 << 20  # bytes that the values of one ConfigMap may have
PART = 900 << 10  # bytes of one part: room for what an API server or a proxy lays on top
PARTS = 16  # so many for one node: etcd is no place for more
_PLAIN = re.compile(r"(?:[\t -~]*\n)*")


class ConfigMap(Struct, frozen=True):
    """One of them; its name tells its content."""

    name: str
    files: Mapping[str, str]


def config_map(stem: str, files: Mapping[str, str]) -> ConfigMap:
    """A ConfigMap of a few files.

    :raises UsageError: they are too many bytes for one.
    """
    size = sum(len(text.encode()) for text in files.values())
    if size > LIMIT:
        raise UsageError(
            f"{stem}: {size} bytes, and a ConfigMap holds {LIMIT}",
            hint="carry out this plan over SSH: provision --hosts",
        )
    for name, text in files.items():
        if not _PLAIN.fullmatch(text):
            raise UsageError(
                f"{stem}, {name}: holds bytes that YAML cannot carry as they stand",
                hint="carry out this plan over SSH: provision --hosts",
            )
    told = "\0".join(f"{name}\0{text}" for name, text in sorted(files.items()))
    return ConfigMap(f"{stem}-{sha256(told.encode()).hexdigest()[:10]}", files)


def in_parts(stem: str, text: str) -> tuple[ConfigMap, ...]:
    """One script, cut at ends of lines: ``bundle.000`` and so on, to be joined in that order.

    :raises UsageError: it is larger than what a cluster's own memory is for.
    """
    parts = list(_cut(text))
    if len(parts) > PARTS:
        size = len(text.encode()) >> 20
        raise UsageError(
            f"{stem}: a bundle of {size} MiB is no load for a cluster's API server",
            hint="deliver modules as a package or in the image of the node (docs/delivery.md)",
        )
    files = [{f"bundle.{number:03}": part} for number, part in enumerate(parts)]
    return tuple(config_map(stem, each) for each in files)


def _cut(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.split("\n")[:-1]:
        length = len(line.encode()) + 1
        if lines and size + length > PART:
            yield "".join(lines)
            lines, size = [], 0
        lines.append(line + "\n")
        size += length
    yield "".join(lines)


# What nsenter needs to get at the node's namespaces, and the reading of a node's own files and
# log; see docs/kubernetes.md, and the test that takes them away one by one.
CAPABILITIES = ("DAC_READ_SEARCH", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "SYSLOG")


class KubeManifest(Struct, frozen=True):
    """One file of YAML: documents that belong together."""

    name: str  # "10-namespace.yaml": kubectl applies a folder in order of names
    text: str


def reading(terms: PodTerms, pod_files: Mapping[str, str]) -> tuple[KubeManifest, ...]:
    """All that reads nodes: namespace, accounts, the scripts, a DaemonSet.

    :param pod_files: of reach.pod.pod_files.
    :raises UsageError: the scripts do not go into a ConfigMap.
    """
    scripts = config_map("gdr-probe", pod_files)
    return (
        KubeManifest("10-namespace.yaml", _rendered("namespace", terms)),
        KubeManifest("20-accounts.yaml", _rendered("accounts", terms)),
        KubeManifest("30-scripts.yaml", rendered_map(terms, scripts)),
        KubeManifest("40-probe.yaml", _rendered("probe", terms, {"scripts": scripts.name})),
    )


def rendered_map(terms: PodTerms, made: ConfigMap) -> str:
    """A ConfigMap as YAML, its files word for word."""
    values = {"namespace": terms.namespace, "version": __version__, "name": made.name}
    whole = render_document("kubernetes/config-map.yaml", values, rows={}, texts={})
    for name, text in sorted(made.files.items()):
        # An empty line stays empty, and YAML takes it for the same.
        lines = (f"    {line}\n" if line else "\n" for line in text.split("\n")[:-1])
        whole += "".join([f"  {name}: |2+\n", *lines])
    return whole + "...\n"


def _rendered(template: str, terms: PodTerms, more: Mapping[str, str] | None = None) -> str:
    values = {
        "namespace": terms.namespace,
        "image": terms.image,
        "version": __version__,
        "confined": "yes" if terms.confined else "",
        **(more or {}),
    }
    rows = {
        "selected": [asdict(each) for each in terms.selected],
        "tolerations": [asdict(each) for each in terms.tolerations],
        "capabilities": [{"name": name} for name in CAPABILITIES],
    }
    return render_document(f"kubernetes/{template}.yaml", values, rows=rows, texts={})


def stream(manifests: tuple[KubeManifest, ...]) -> str:
    """All of them as one text for ``kubectl apply -f -``."""
    return "".join(each.text for each in manifests)


class NodeBundle(Struct, frozen=True):
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
    terms: PodTerms, pod_files: Mapping[str, str], carried: Sequence[NodeBundle]
) -> tuple[KubeManifest, ...]:
    """Who may let Jobs go, and for each node its bundle with its Job.

    :param pod_files: of reach.pod.pod_files: a node is read again once its bundle has ended.
    :raises UsageError: a name that no node has, or a bundle that no cluster should hold.
    """
    nodes = [{"name": node_name(each.node)} for each in carried]
    values = {"namespace": terms.namespace, "version": __version__}
    roller = render_document("kubernetes/roller.yaml", values, rows={"nodes": nodes}, texts={})
    scripts = config_map("gdr-probe", pod_files)
    jobs = (_job(terms, scripts.name, each) for each in carried)
    return (KubeManifest("50-roller.yaml", roller), *jobs)


def _job(terms: PodTerms, scripts: str, carried: NodeBundle) -> KubeManifest:
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
        "tolerations": [asdict(each) for each in terms.tolerations],
    }
    job = render_document("kubernetes/apply.yaml", values, rows=rows, texts={})
    maps = "".join(rendered_map(terms, part) for part in parts)
    return KubeManifest(f"60-{carried.batch:04}-{carried.name}.yaml", maps + job)


def refuse_owned(name: str, node: Node, cluster: Cluster | None) -> None:
    """Before anything is planned for a node of a cluster.

    :param cluster: None where only the node's own evidence tells.
    :raises Unsupported: an operator of NVIDIA's owns the driver or OFED there.
    :raises NoEvidence: it cannot be told.
    """
    if cluster and name not in cluster.labels:
        raise NoEvidence(
            f"{name}: that cluster has no such node: who owns its drivers is not known",
            hint="is it the right one? kubectl get nodes; evidence goes by the node's name there",
        )
    here = node.containers
    if here.driver_container or (cluster and cluster.driver_of(name)):
        by = cluster.driver_of(name) if cluster else ""
        raise Unsupported(
            f"{name}: the GPU Operator owns the driver{by and f' ({by})'}: its pods load, unload "
            "and rebuild nvidia and nvidia-peermem, so no bundle of ours is carried out there",
            hint="driver.rdma.enabled and useHostMofed in the ClusterPolicy are its word for it; "
            "nodes with a driver of their own: nvidia.com/gpu.deploy.driver=pre-installed",
        )
    if here.ofed_container or (cluster and cluster.ofed_of(name)):
        by = cluster.ofed_of(name) if cluster else ""
        raise Unsupported(
            f"{name}: the Network Operator owns OFED{by and f' ({by})'}: its pods replace "
            "mlx5_core and ib_core when they start, so no bundle of ours is carried out there",
            hint="ofedDriver in the NicClusterPolicy is its word for it",
        )
