"""Whose the drivers of a node are: its own, or an operator's, and then not ours to change."""

from __future__ import annotations

from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.cluster import Cluster
from toolkit.facts.node.node import Node


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
