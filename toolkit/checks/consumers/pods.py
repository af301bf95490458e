"""Do pods start the jobs of this node, rather than logins and services of its own?"""

from __future__ import annotations

from toolkit.facts.nccl.daemons import SCHEDULERS
from toolkit.facts.node.node import Node

# Where a kubelet is, Ray comes in pods of its own.
_ON_THE_HOST = SCHEDULERS - {"raylet"}
PODS = "pods start the jobs here (a kubelet, and no scheduler's daemon)"
NOT_ASKED = "no scheduler's daemon starts jobs here, and this evidence tells of no kubelet"


def in_pods(node: Node) -> str:
    """Why what holds for logins and services of the host is not what jobs get; "" where it is.

    :raises NoEvidence: where the daemons of a node with a kubelet cannot be seen.
    """
    return (
        PODS if node.companions_probed and node.containers.kubelet and not _scheduled(node) else ""
    )


def perhaps_in_pods(node: Node) -> str:
    """The same, or that evidence of an older probe leaves it open."""
    if not node.companions_probed or node.containers.kubelet is False:
        return ""
    if _scheduled(node):
        return ""
    return PODS if node.containers.kubelet else NOT_ASKED


def _scheduled(node: Node) -> bool:
    """A scheduler's daemon runs on the host, or systemd starts slurmd there."""
    if node.unit_times is not None and "slurmd.service" in dict(node.starters):
        return True
    return any(each.name in _ON_THE_HOST for each in node.daemons)
