"""What ``kubectl describe node`` tells of its GPUs, and of what else it has to give.

Sources: kubernetes/kubectl pkg/describe/describe.go, describeNode; NVIDIA/gpu-feature-discovery,
the label nvidia.com/gpu.count; kubelet's device manager, GetCapacity: a device that its plugin
calls unhealthy stays in Capacity and leaves Allocatable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

# Administrators name resources of RDMA as they like; these words stand in most of the names.
RDMA_NAME = re.compile(r"rdma|hca|roce|mlnx|sriov|ib_?dev|infiniband|efa\b|nic\b", re.IGNORECASE)
_COUNT = re.compile(r"\bnvidia\.com/gpu\.count=(\d+)\b")
_GPUS = re.compile(r"^\s+nvidia\.com/gpu:\s+(\d+)\s*$", re.MULTILINE)
_NODES = re.compile(r"^(?=Name: +\S+[ \t]*\nRoles: )", re.MULTILINE)
_RESOURCE = re.compile(r"^\s+([a-z0-9.-]+/[\w.-]+):\s+(\d+k?)\s*$", re.MULTILINE)
_SHARED = re.compile(r"^\s+nvidia\.com/(?:mig-|gpu\.shared)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KubeGpus:
    """How many GPUs a node has and offers."""

    name: str  # the node's
    capacity: int
    allocatable: int
    found: int = 0  # by GPU feature discovery; 0 where it is not told, or GPUs are shared out

    @property
    def gone(self) -> str:
        """What shows that a GPU is no longer offered; "" where nothing does."""
        if self.allocatable < self.capacity:
            return f"{self.allocatable} of {self.capacity} GPUs allocatable"
        if 0 < self.capacity < self.found:
            return f"{self.capacity} GPUs, and the label nvidia.com/gpu.count says {self.found}"
        return ""


def parse_kube_node(text: str) -> KubeGpus | None:
    """The GPUs of the node; None where it offers none. Of several the first that lacks one.

    :raises Unparsable: where a list of its resources is not whole.
    """
    found = [gpus for each in _NODES.split(text) if each.strip() and (gpus := _of_one(each))]
    return next((each for each in found if each.gone), found[0] if found else None)


def _lists(text: str) -> tuple[str, dict[str, str]]:
    """The node's name, and its lists of resources.

    :raises Unparsable: where they are not whole.
    """
    name = re.search(r"^\s*Name:\s+(\S+)", text, re.MULTILINE)
    parts = re.split(r"^\s*(Capacity|Allocatable|System Info):[ \t]*$", text, flags=re.MULTILINE)
    lists = dict(zip(parts[1::2], parts[2::2], strict=True))
    if text.strip() and "Allocatable" not in lists:
        raise Unparsable("kubectl describe node", name[0].strip() if name else "no Allocatable")
    return name[1] if name else "", lists


def _of_one(text: str) -> KubeGpus | None:
    name, lists = _lists(text)
    counts = [_GPUS.search(lists.get(each, "")) for each in ("Capacity", "Allocatable")]
    if (counts[0] is None) != (counts[1] is None):
        raise Unparsable("kubectl describe node", f"GPUs of {name or 'a node'}")
    if counts[0] is None or counts[1] is None:
        return None
    label = _COUNT.search(text)
    found = int(label[1]) if label and not _SHARED.search(text) else 0
    return KubeGpus(name, int(counts[0][1]), int(counts[1][1]), found)


@dataclass(frozen=True, slots=True)
class Offered:
    """One resource of RDMA that a node has."""

    node: str
    resource: str  # "rdma/hca_shared_devices_a"
    capacity: int
    allocatable: int


def parse_offered(text: str) -> tuple[Offered, ...]:
    """The resources of RDMA of each node in ``kubectl describe node``, by their usual names.

    :raises Unparsable: where a list of resources is not whole.
    """
    found = []
    for each in _NODES.split(text):
        name, lists = _lists(each)
        can = dict(_RESOURCE.findall(lists.get("Allocatable", "")))
        for resource, count in _RESOURCE.findall(lists.get("Capacity", "")):
            if not RDMA_NAME.search(resource) or resource.startswith("nvidia.com/gpu"):
                continue
            if resource not in can:
                raise Unparsable("kubectl describe node", f"{resource} is not allocatable: cut?")
            found.append(Offered(name, resource, _size(count), _size(can[resource])))
    return tuple(found)


def _size(count: str) -> int:
    """Of a quantity: 1000 is printed as "1k"."""
    return int(count.removesuffix("k")) * (1000 if count.endswith("k") else 1)
