"""Containers: can they be given RDMA, and did the operators' pods start in the right order?"""

from __future__ import annotations

from typing import cast

from toolkit.checks.check import (
    BOTH_PATHS,
    Check,
    Finding,
    Impact,
    Judge,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.nccl.containers import SCHEDULERS
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want


@check(
    "ctr.rdma_devices",
    impact=Impact.BROKEN,
    source="NVIDIA/nvidia-container-toolkit internal/discover/mofed.go; rdma-system(8); "
    "Mellanox/k8s-rdma-shared-dev-plugin",
    fix="modprobe -a ib_uverbs rdma_ucm; then restart the device plugin, for pods that start anew",
)
def rdma_devices(node: Node, want: Want) -> Finding:
    """Where containers run, the node has all that an RDMA container is given.

    That is a uverbs node for each RDMA device, and rdma_cm; the toolkit passes them on with
    NVIDIA_MOFED=enabled, Kubernetes by a device plugin. A container must also be allowed to
    pin memory: by its runtime's memlock limit, or by CAP_IPC_LOCK. In exclusive mode
    (rdma system show) it sees a device only if that was moved into its namespace. Of a container
    or pod that was inspected it is asked what that was given; of kubectl's lists and of device
    plugins' logs, whether what gives containers their devices is up and offers some.
    """
    if node.tells_containers and (told := _told(node)):
        return told
    here = node.containers
    if not here.runtimes:
        return not_applicable("no container runtime runs here")
    if not node.rdma_devices:
        return not_applicable("no RDMA device; see rdma.devices")
    uverbs = [path for path in node.rdma_nodes if "/uverbs" in path]
    missing = []
    if len(uverbs) < len(node.rdma_devices):
        missing.append(f"{len(uverbs)} uverbs nodes for {len(node.rdma_devices)} RDMA devices")
    if not any(path.endswith("/rdma_cm") for path in node.rdma_nodes):
        missing.append("no /dev/infiniband/rdma_cm")
    details = [
        f"{name}: memlock {limit}; its RDMA containers need CAP_IPC_LOCK"
        for name, limit in dict.fromkeys(here.memlock)
        if limit != "unlimited"
    ]
    if here.shared_netns is False:
        details.append("RDMA devices are exclusive to their network namespace")
    if missing and not node.nodes_whole:
        listed = f"in what was listed of /dev/infiniband {'; '.join(missing)}"
        return unknown(listed, hint="ls -l /dev/infiniband, whole, with the next prompt")
    if missing:
        expected = "a uverbs node for each device, and rdma_cm"
        return failed("; ".join(missing), expected=expected, details=tuple(details))
    return passed(f"{', '.join(here.runtimes)}: {len(uverbs)} uverbs", details=tuple(details))


def _told(node: Node) -> Finding | None:
    from toolkit.checks.consumers.pasted_pods import containers_told  # noqa: PLC0415 few texts tell of them

    return containers_told(node)


@check(
    "ctr.peermem_sidecar",
    impact=Impact.BROKEN,
    paths=frozenset({PeerPath.PEERMEM}),
    source="NVIDIA/gpu-driver-container; gpu-operator issues 251, 609, 1696, 2619, 2844, 2868",
    fix="driver.rdma.enabled=true in the ClusterPolicy; with the node drained (it unloads the "
    "driver), delete the GPU driver's pod there, which comes back",
)
def peermem_sidecar(node: Node, want: Want) -> Finding:
    """Where the driver came from a container, nvidia-peermem came with it.

    The GPU operator builds it within the driver's pod, if driver.rdma.enabled says so. Where
    the DOCA driver's pod is newer than the GPU driver's, nvidia-peermem was built against
    symbols that are gone, and its container crashes over and over (B15). modprobe on the
    node finds no such module: it is the pod that must be restarted.
    """
    here = node.containers
    if not here.operator:
        return not_applicable("no trace of the GPU operator")
    if not here.driver_container:
        return not_applicable("the GPU operator uses the node's own driver")
    state = node.module_state.get("nvidia_peermem")
    if state is not None and state.initstate == "live":
        return passed(
            "loaded by the driver's container",
            details=("the DOCA driver's pod is newer: the next restart fails (B15)",)
            if here.ofed_newer
            else (),
        )
    if here.rdma_enabled is False:
        dmabuf = node.driver is not None and node.driver.flavor is Flavor.OPEN
        return failed(
            "the driver's container was told not to load it: GPU_DIRECT_RDMA_ENABLED is false",
            expected="driver.rdma.enabled=true in the ClusterPolicy",
            hint="or use dma-buf, which the open driver can: --profile dmabuf" if dmabuf else "",
        )
    if here.ofed_newer:
        return failed(
            "B15: not loaded, and the DOCA driver's pod is newer than the GPU driver's",
            expected="nvidia-peermem loaded",
            hint="drain the node (the driver is unloaded), delete the GPU driver's pod there: it "
            "comes back and builds against the new OFED",
        )
    return failed(
        "not loaded by the driver's container",
        expected="nvidia-peermem loaded",
        hint="logs of the container nvidia-peermem-ctr in the GPU driver's pod",
    )


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


NOT_LOOKED = "no container was looked into: --inside"


def _within(
    name: str,
    impact: Impact,
    title: str,
    *,
    source: str,
    fix: str,
    paths: frozenset[PeerPath] = BOTH_PATHS,
) -> Check:
    """By the judge of that name, which is imported where a container was looked into.

    :param title: with what else ``explain`` prints below it.
    """

    def judge(node: Node, want: Want) -> Finding:
        if node.inside is None:
            return not_applicable(NOT_LOOKED)
        from toolkit.checks.consumers import inside  # noqa: PLC0415 only they pay for it

        return cast("Judge", getattr(inside, name))(node, want)

    judge.__doc__ = title
    return check(f"inside.{name}", impact=impact, source=source, fix=fix, paths=paths)(judge)


INSIDE = (
    _within(
        "devices",
        Impact.BROKEN,
        """What runs the job has the node's RDMA devices, and may open them.

        A node of a device may be in it in vain: its cgroup, the rights of its user, or a network
        namespace of its own (rdma system show: exclusive) forbid to open it. Each is opened for
        reading and closed again. Without one NCCL says "NET/IB : No device found." and takes TCP.
        """,
        source="Linux drivers/infiniband/core/uverbs_main.c, ib_uverbs_open; rdma-system(8)",
        fix="the nodes below /dev/infiniband given to it, by its runtime or a device plugin",
    ),
    _within(
        "memlock",
        Impact.BROKEN,
        """What runs the job may pin as much memory as it asks for.

        The limit is its runtime's, whatever logins and services of the node have. CAP_IPC_LOCK
        passes it by, but not in a user namespace (enroot, rootless podman), since the kernel asks
        for it in the first one. Else ibv_create_cq and ibv_reg_mr fail: "Cannot allocate memory".
        """,
        source="Linux drivers/infiniband/core/umem.c, ib_umem_get; user_namespaces(7)",
        fix="memlock unlimited, or CAP_IPC_LOCK outside of user namespaces",
    ),
    _within(
        "shm",
        Impact.BROKEN,
        """The ranks in it have shared memory enough.

        Runtimes give 64 MiB where nobody says otherwise; NCCL's ranks of one node share segments
        there, and abort with "unhandled system error" where it is full.
        """,
        source="NCCL user guide, Troubleshooting, Shared memory; NVIDIA/nccl src/misc/shmutils.cc",
        fix="--shm-size=1g or --ipc=host; in a pod an emptyDir of medium Memory at /dev/shm",
    ),
    _within(
        "cuda",
        Impact.BROKEN,
        """What runs the job has the libcuda of the driver that runs.

        The container toolkit mounts it from the node. One that an image brings along is of another
        driver sooner or later; the toolkit's stub is for linking alone.
        """,
        source="NVIDIA Container Toolkit, architecture; CUDA Compatibility, forward compatibility",
        fix="the GPUs given to it by the NVIDIA Container Toolkit; no driver's packages in the "
        "image",
    ),
    _within(
        "provider",
        Impact.BROKEN,
        """The image has the provider library of this node's HCAs.

        libibverbs loads what /etc/libibverbs.d names, as libNAME-rdmav*.so; an HCA without provider
        is no device to it, and NCCL takes TCP. Which one is needed is the node's to say. The number
        behind rdmav is of the interface between both: libibverbs looks for its own alone.
        """,
        source="linux-rdma/rdma-core libibverbs/dynamic_driver.c; NVIDIA/nccl "
        "src/misc/ibvsymbols.cc",
        fix="rdma-core whole in the image: libibverbs, its providers, and their .driver files",
    ),
    _within(
        "rdma_core",
        Impact.BROKEN,
        """The image's rdma-core can register dma-buf memory with this node's HCAs.

        libibverbs has had ibv_reg_dmabuf_mr since 34, providers have it since releases of their
        own. What the node has installed is nothing to the job.
        """,
        paths=frozenset({PeerPath.DMABUF}),
        source="rdma-core libibverbs/CMakeLists.txt; toolkit/compat/data/providers.toml",
        fix="a base image whose rdma-core has the call: 34 for mlx5, efa 38, irdma 45, bnxt_re 48",
    ),
    _within(
        "data_direct",
        Impact.SLOW,
        """The image's libmlx5 can take the data-direct functions of this node.

        Without mlx5dv_get_data_direct_sysfs_path NCCL says "dlvsym failed on" it at the level INFO,
        and takes the slower way by the processor.
        """,
        source="NVIDIA/nccl src/misc/mlx5/mlx5dvsymbols.cc, MLX5_1.25",
        fix="a base image with a newer rdma-core, or DOCA-OFED's",
    ),
    _within(
        "plugin",
        Impact.BROKEN,
        "The network plugin that is asked for, or that the node's network needs, is in the image.",
        source="NVIDIA/nccl src/plugin/plugin_open.cc; aws/aws-ofi-nccl",
        fix="the plugin in the image, or NCCL_NET_PLUGIN taken out",
    ),
    _within(
        "files",
        Impact.SLOW,
        """Each file that a setting of NCCL names is there in the container.

        A topology file of the provider lies on the node, and NCCL in a container looks for it
        there: it reads no topology then, and takes GPUs and HCAs for farther apart than they are.
        """,
        source="NVIDIA/nccl src/graph/xml.cc, src/misc/param.cc",
        fix="the file mounted into the container, or the setting taken out",
    ),
)
