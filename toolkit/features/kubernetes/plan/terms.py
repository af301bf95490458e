"""What an operator says of pods, as data: image, nodes that are meant, taints that are borne."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.errors import UsageError

_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NODE = re.compile(rf"(?=.{{1,253}}\Z){_NAME}(?:\.{_NAME})*")  # a DNS subdomain
_NAMESPACE = re.compile(_NAME)
_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,252})/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62})")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Selected:
    """A label that nodes must have; with a value, that one."""

    key: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that keeps no pod of ours away."""

    key: str
    value: str = ""
    effect: str = ""  # "" for each


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every pod of ours."""

    image: str  # with its digest: what runs as root on nodes is named to the byte
    namespace: str = "gdr-toolkit"
    selected: tuple[Selected, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    confined: bool = False  # capabilities in place of privileged, for the probe alone


def parse_terms(
    image: str, namespace: str, select: str, tolerate: str, *, confined: bool = False
) -> Terms:
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
    return Terms(
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
