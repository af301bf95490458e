"""What loose files tell of containers, and of what gives them their devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolkit.checks.check import Finding, Status, failed, unknown
from toolkit.facts.node.node import Node
from toolkit.plural import counted

if TYPE_CHECKING:
    from toolkit.facts.nccl.pasted_containers import Asked

_SHARE = "rdma system set netns shared, before any container starts; else rdma dev set NAME netns"


def containers_told(node: Node) -> Finding | None:
    """Of one container, of pods, of a node's resources, of a plugin; None where none is told of."""
    looks = (
        _pods,
        _driver,
        _plugin,
        _offers,
        _inspected,
        _namespaces,
    )  # each rests on those before it
    found = [each for look in looks if (each := look(node)) is not None]
    ill = [each for each in found if each.status is Status.FAIL]
    if ill:
        return replace(ill[0], details=(*ill[0].details, *(each.found for each in ill[1:])))
    if not found:
        return None
    return unknown("; ".join(each.found for each in found), hint=found[0].hint)


def _pods(node: Node) -> Finding | None:
    """Whether the pods of the operators are up: what waits for one that is ill follows from it."""
    if not node.pod_list:
        return None
    from toolkit.facts.kube import CHAIN, without_replaced  # noqa: PLC0415 few texts list pods

    known = (each for each in without_replaced(node.pod_list) if each.rank < len(CHAIN))
    ours = sorted(known, key=lambda each: each.rank)
    ill = [each for each in ours if each.ill]
    if ill:
        first = ill[0]
        behind = [each for each in ours if not each.well and each.rank > first.rank]
        waiting = f"; {counted(len(behind), 'pod')} behind it not up" if behind else ""
        return failed(
            f"{CHAIN[first.rank][0]} is not up: {first.words}{waiting}",
            expected="each Running, all of its containers ready",
            hint=f"kubectl logs {first.name} --all-containers --previous, in its namespace; "
            "kubectl describe pod; what waits for it comes up behind it",
            details=tuple(each.words for each in ours if not each.well and each is not first),
        )
    if not ours:
        told = (
            f"no pod of the GPU or the network operator among {counted(len(node.pod_list), 'pod')}"
        )
        return unknown(told, hint="kubectl get pods -A -o wide")
    late = [each.words for each in ours if each.waits]
    up = f"{len(ours) - len(late)} of {counted(len(ours), 'pod')} of the operators up"
    return unknown(
        f"{up}; still starting: {late[0]}" if late else up,
        hint="kubectl describe node tells what each offers; kubectl exec POD -- ibv_devinfo",
    )


_HELD = (
    "lsmod tells who holds it: with the node drained end the GPU's users (fuser /dev/nvidia*), "
    "unload what stands above it (gdrdrv; nvme_rdma and rpcrdma by UNLOAD_STORAGE_MODULES=true), "
    "then delete the pod; a reboot does it too"
)
_FETCH = (
    "the pod's way to the packages: proxy, mirror, entitlement; or a precompiled driver's image"
)


def _driver(node: Node) -> Finding | None:
    if node.driver_pod is None:
        return None
    up, why = node.driver_pod
    if why:
        held = " use" in why or "unload" in why or "already running" in why
        return failed(
            f"the driver's container: {why}",
            expected="the driver loaded, and its container waiting",
            hint=_HELD
            if held
            else _FETCH
            if re.search("download|find a match|resolve host", why)
            else "the lines before it, and kubectl logs --previous",
        )
    told = "came up" if up else "does not say how it ended"
    return unknown(f"the driver's container {told}", hint="kubectl logs of all its containers")


def _offers(node: Node) -> Finding | None:
    short = [each for each in node.offered if each.allocatable < each.capacity]
    if short:
        first = short[0]
        return failed(
            f"{first.node or 'a node'}: {first.allocatable} of {first.capacity} {first.resource} "
            "allocatable",
            expected="as many as the node has",
            hint="kubectl logs of that resource's device plugin there; it calls them unhealthy",
            details=tuple(
                f"{e.node}: {e.allocatable} of {e.capacity} {e.resource}" for e in short[1:]
            ),
        )
    gone = [each.resource for each in node.offered if not each.capacity]
    if gone:
        why = f"0 {gone[0]}: its device plugin has none, or has gone from this node"
        return unknown(why, hint="kubectl get pods -A -o wide; kubectl logs of the device plugin")
    if not node.offered:
        return None
    words = ", ".join(f"{each.allocatable} {each.resource}" for each in node.offered)
    return unknown(
        f"Kubernetes offers {words}", hint="kubectl describe pod of one that asks for it"
    )


def _plugin(node: Node) -> Finding | None:
    log = node.plugin_log
    if log is None:
        return None
    if log.empty:
        return failed(
            f"the device plugin offers none of {', '.join(log.empty)}",
            expected="a device for each resource that it is configured with",
            hint="the driver's pod first (mofed, nvidia-driver); then the selectors of its "
            "configuration against lspci -nn and ibdev2netdev of the node",
            details=log.left_out,
        )
    if log.left_out and not log.offered:
        return unknown(
            f"the device plugin leaves out {len(log.left_out)} that match: {log.left_out[0]}",
            hint="are they bound to a driver, and RDMA devices (rdma link)? else narrow the "
            "selectors",
        )
    words = f"the device plugin offers {', '.join(log.offered)}" if log.offered else ""
    if log.left_out:
        words += f", and leaves out {len(log.left_out)} that match: {log.left_out[0]}"
    return unknown(
        words or "the device plugin says of no resource what it offers",
        hint="kubectl describe node tells what is allocatable",
    )


def _namespaces(node: Node) -> Finding | None:
    shared = node.shared_netns
    if shared is None:
        return None
    if shared:
        return unknown(
            "every network namespace sees the RDMA devices (netns shared)",
            hint="in the container: ibv_devinfo, ls -l /dev/infiniband",
        )
    return unknown(
        "RDMA devices are exclusive to their network namespace: a container sees those alone that "
        "were moved into its own",
        hint=f"in the container: rdma dev; {_SHARE}",
    )


def _inspected(node: Node) -> Finding | None:
    return _asked(node.asked_containers) if node.asked_containers else None


def _asked(asked: tuple[Asked, ...]) -> Finding:
    ill = {each.name: why for each in asked if (why := _ill(each))}
    if ill:
        claims = "DynamicResources" in next(iter(ill.values()))
        return failed(
            f"{next(iter(ill))}: {next(iter(ill.values()))}",
            expected="the devices of RDMA that it asks for, and memory that it may lock",
            hint="kubectl get resourceclaim; kubectl logs of that driver's kubelet plugin there"
            if claims
            else "a device plugin's resource and IPC_LOCK for a pod; --device /dev/infiniband "
            "--ulimit memlock=-1 (or --cap-add IPC_LOCK) for a container",
            details=tuple(f"{name}: {why}" for name, why in [*ill.items()][1:]),
        )
    told = "; ".join(f"{each.name}: {_words(each)}" for each in asked)
    return unknown(told, hint="in it: ulimit -l, ls /dev/infiniband, ibv_devinfo")


def _ill(each: Asked) -> str:
    if each.trouble:
        return each.trouble
    if each.gpus and each.rdma is False and each.wants:
        return f"{each.wants} asks for RDMA, and no device of it was given"
    if each.rdma and not each.pins and each.memlock is not None and 0 <= each.memlock < _PINNED:
        return f"memlock {each.memlock} bytes, and no CAP_IPC_LOCK"
    return ""


_PINNED = 1 << 30  # bytes; buffers of a job are larger


def _words(each: Asked) -> str:
    named = (("GPUs", each.gpus), ("devices of RDMA", each.rdma), ("CAP_IPC_LOCK", each.pins))
    told = [f"{'' if has else 'no '}{what}" for what, has in named if has is not None]
    if each.gpus and each.rdma is False:
        told[1] += " (within one node it needs none; to others it has TCP alone)"
    if each.memlock is not None:
        told.append(f"memlock {'unlimited' if each.memlock < 0 else each.memlock}")
    elif not each.pins:
        told.append("what it may lock is its runtime's limit")
    return ", ".join(told)
