"""What runs the job, judged with the node under it: the judges of ``containers.inside_*``.

Sources: Linux drivers/infiniband/core/umem.c (memlock, CAP_IPC_LOCK) and uverbs_main.c (who may
open); NVIDIA/nccl src/misc/ibvsymbols.cc, src/misc/mlx5/mlx5dvsymbols.cc, src/plugin/plugin_open.cc
and its user guide, Troubleshooting; linux-rdma/rdma-core libibverbs/dynamic_driver.c.
"""

from __future__ import annotations

from toolkit.checks.check import Finding, failed, not_applicable, passed, unknown
from toolkit.checks.rdma.makers import makers, serving
from toolkit.compat.reader import numbers
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.nccl.containers import Looked, Providers
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import AMAZON
from toolkit.facts.pci.platform import is_data_direct
from toolkit.facts.rdma.devices import Kind
from toolkit.plural import counted
from toolkit.want import Want

_PINNED = 1 << 30  # bytes; buffers of a job are larger
_RANKS = 2  # one alone shares memory with none
_ENOUGH = "1 GiB or more there"
_SHARED = 1 << 30  # bytes: what NCCL's user guide gives docker
_SHARE = "rdma system set netns shared"
_LOOKED = "it is looked at from outside, and not opened"
# How each kind is given what it lacks; the first is for those that nobody has a word of.
_DEVICES = {
    "": "give it the nodes below /dev/infiniband",
    "docker": "docker run --device=/dev/infiniband, or NVIDIA_MOFED=enabled with --runtime=nvidia",
    "podman": "podman run --device=/dev/infiniband",
    "kubectl": "ask for a device plugin's resource of RDMA in the pod's limits",
    "enroot": "the hook 99-mellanox.sh of enroot mounts them: MELLANOX_VISIBLE_DEVICES=all",
    "slurm": "the hook 99-mellanox.sh of enroot mounts them: MELLANOX_VISIBLE_DEVICES=all",
}
_LOCKS = {
    "": "memlock unlimited for whatever starts it",
    "docker": "docker run --ulimit memlock=-1, or --cap-add=IPC_LOCK",
    "podman": "podman run --ulimit memlock=-1:-1, or --cap-add=IPC_LOCK",
    "kubectl": "securityContext.capabilities.add: [IPC_LOCK] in the container",
    "slurm": "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK",
}
_SHM = {
    "": "a larger /dev/shm",
    "docker": "docker run --shm-size=1g, or --ipc=host",
    "podman": "podman run --shm-size=1g, or --ipc=host",
    "kubectl": "a volume emptyDir of medium Memory, mounted at /dev/shm",
}
_GPUS = {
    "": "the NVIDIA Container Toolkit gives them: NVIDIA_VISIBLE_DEVICES",
    "docker": "docker run --gpus all",
    "podman": "podman run --device nvidia.com/gpu=all",
    "kubectl": "ask for nvidia.com/gpu in the pod's limits",
}


def _by(hints: dict[str, str], looked: Looked) -> str:
    return hints.get(looked.kind, hints[""])


def _looked(node: Node) -> Looked:
    assert node.inside is not None  # containers._within has asked
    return node.inside


def _not_run(looked: Looked) -> Finding:
    a = "an image" if looked.kind == "image" else "a folder"
    return not_applicable(f"{a} is not run: {looked}")


def devices(node: Node, want: Want) -> Finding:
    looked = _looked(node)
    if not looked.runs:
        return _not_run(looked)
    needed = [each.name for each in serving(node) if each.kind is not Kind.SOFTWARE]
    if not needed:
        return not_applicable("no RDMA device; see rdma.devices")
    here, seen = node.inside_uverbs, node.inside_rdma
    if not here:
        return failed(
            f"{looked}: no /dev/infiniband/uverbs* in it, and {len(needed)} HCAs on the node",
            expected="the uverbs nodes of the HCAs that it is to use",
            hint=_by(_DEVICES, looked),
        )
    shut = {path: why for path, why in here.items() if why not in {"ok", "not tried"}}
    if shut:
        path, why = next(iter(shut.items()))
        return failed(
            f"{looked}: {counted(len(shut), 'uverbs node')} cannot be opened: {path}: {why}",
            expected="each uverbs node in it may be opened",
            hint=_of_shut(node, looked, why),
            details=tuple(f"{path}: {why}" for path, why in shut.items()),
        )
    if not set(seen) & set(needed):
        return failed(
            f"{looked}: its network namespace sees none of the HCAs ({', '.join(needed)})",
            expected="RDMA devices in it",
            hint=f"{_SHARE}; or rdma dev set DEVICE netns NAME",
        )
    beside = [each for each in needed if each not in seen]
    details = [f"not seen in it: {', '.join(beside)}"] if beside else []
    if "/dev/infiniband/rdma_cm" not in node.inside_nodes:
        details.append("no /dev/infiniband/rdma_cm: UCX and MPI by connection manager lack it")
    if looked.outside:
        details.append(_LOOKED)
    nodes, hcas = counted(len(here), "uverbs node"), counted(len(needed) - len(beside), "HCA")
    return passed(f"{looked}: {nodes}, {hcas}", details=tuple(details))


def _of_shut(node: Node, looked: Looked, why: str) -> str:
    """The cgroup and an exclusive namespace say the same word; the user's rights another."""
    if "ermission denied" in why:
        return "run it as a user who may: ls -l /dev/infiniband in it"
    try:
        exclusive = node.containers.shared_netns is False
    except (NoEvidence, Unparsable):
        exclusive = False
    if exclusive:
        return f"RDMA devices are exclusive to their network namespace: {_SHARE}"
    return f"its cgroup does not allow it, a mount alone gives no right: {_by(_DEVICES, looked)}"


def memlock(node: Node, want: Want) -> Finding:
    looked, here = _looked(node), None
    if not looked.runs:
        return _not_run(looked)
    here = node.inside_leader
    if here.memlock is None or here.ipc_lock is None:
        return unknown(f"{looked}: its limits were not told", hint="in it: ulimit -l")
    pins = here.ipc_lock and not here.mapped
    limit = "unlimited" if here.memlock < 0 else f"{here.memlock} bytes"
    lost = "; CAP_IPC_LOCK counts for nothing in a user namespace" if here.ipc_lock else ""
    if pins:
        return passed(f"{looked}: CAP_IPC_LOCK", details=(f"memlock {limit}",))
    if 0 <= here.memlock < _PINNED:
        return failed(
            f"{looked}: memlock {limit}, and no CAP_IPC_LOCK in effect{lost}",
            expected="memlock unlimited, or CAP_IPC_LOCK",
            hint=_by(_LOCKS, looked),
        )
    return passed(f"{looked}: memlock {limit}")


def shm(node: Node, want: Want) -> Finding:
    looked = _looked(node)
    if not looked.runs:
        return _not_run(looked)
    if len(node.inside_gpus) < _RANKS:
        return not_applicable(f"{looked}: fewer than two GPUs: no ranks there share memory")
    size = node.inside_shm
    if size is None:
        return failed(f"{looked}: no tmpfs on /dev/shm", expected=_ENOUGH, hint=_by(_SHM, looked))
    if 0 <= size < _SHARED:
        return failed(
            f"{looked}: /dev/shm has {size >> 20} MiB", expected=_ENOUGH, hint=_by(_SHM, looked)
        )
    return passed(f"{looked}: /dev/shm {'without a limit' if size < 0 else f'{size >> 20} MiB'}")


def cuda(node: Node, want: Want) -> Finding:
    looked, here = _looked(node), node.inside_cuda
    if node.driver is None:
        return not_applicable("no NVIDIA driver is loaded: see nvidia.present")
    running = str(node.driver.version)
    others = [(path, version) for path, version in here if version not in {"", running}]
    if others:
        path, version = others[0]
        return failed(
            f"{looked}: {path} is of driver {version}, and {running} runs",
            expected=f"libcuda of driver {running}, which the container toolkit mounts",
            hint="take the driver's packages out of the image: it is to bring CUDA, and no driver",
        )
    if here:
        return passed(f"{looked}: {here[0][0]}, {here[0][1] or 'of an unknown driver'}")
    if not looked.runs:
        return passed(f"{looked}: no driver's library in it, as it should be")
    stub = "; the stub of CUDA's toolkit is for linking alone" if node.inside_stub else ""
    nodes = "" if node.inside_gpus else ", and no /dev/nvidia*"
    return failed(
        f"{looked}: no libcuda.so.1{nodes}{stub}",
        expected="the driver's libraries and GPUs in it",
        hint=_by(_GPUS, looked),
    )


def provider(node: Node, want: Want) -> Finding:
    looked, here, told = _looked(node), node.inside_providers, node.inside_drivers
    needed = _needed(node, want)
    if not here.libibverbs:
        return failed(
            f"{looked}: no libibverbs.so.1 in it: NCCL takes TCP",
            expected="libibverbs and the providers of the HCAs",
            hint=_PACKAGES,
            details=("looked for where libraries usually lie, and where its loader is told",),
        )
    names = {name for name, _ in here.providers}
    missing = [name for name in needed if name not in names]
    if missing:
        return failed(
            f"{looked}: libibverbs has no provider for {', '.join(missing)}: "
            f"no lib{missing[0]}-rdmav*.so",
            expected="the provider of each maker's HCAs",
            hint=_PACKAGES,
        )
    strange = [file for name in needed if (file := here.refused(name))]
    if strange:
        return failed(
            f"{looked}: {here.libibverbs[0]} does not look for {strange[0]}: "
            "it is of another rdma-core, with another private interface",
            expected="libibverbs and its providers of one rdma-core",
            hint="install both from one repository, and mount neither from the node",
        )
    unsaid = [name for name in needed if name not in told]
    if unsaid:
        return failed(
            f"{looked}: libibverbs is not told of {', '.join(unsaid)}: "
            f"no /etc/libibverbs.d/{unsaid[0]}.driver",
            expected="a .driver file for each provider",
            hint="install rdma-core whole; a copy of its libraries alone has none",
        )
    return passed(f"{looked}: {', '.join(needed)}{_of(here)}")


_PACKAGES = "in the image: apt install ibverbs-providers libibverbs1, or dnf install libibverbs"


def _of(here: Providers) -> str:
    return f", rdma-core {here.release}" if here.release else ""


def _needed(node: Node, want: Want) -> list[str]:
    """The providers of rdma-core that the node's HCAs ask for.

    :raises NoEvidence: there is none, or their maker is not known.
    """
    found = makers(node, want.compat)
    strange = [driver for driver, each in found.items() if each is None]
    if strange or not found:
        raise NoEvidence(
            f"whose HCAs the node has is not known: {', '.join(strange) or 'none was seen'}"
        )
    return [each.id for each in found.values() if each is not None]


def rdma_core(node: Node, want: Want) -> Finding:
    looked, here = _looked(node), node.inside_providers
    if not here.libibverbs:
        return not_applicable(f"{looked}: no libibverbs; see inside.provider")
    without = [each.path for each in node.verbs if each.dmabuf is False]
    if without:
        return failed(
            f"{looked}: {without[0]} has no ibv_reg_dmabuf_mr{_of(here)}",
            expected="rdma-core 34 or newer",
            hint=_NEWER,
        )
    rows = [each for each in makers(node, want.compat).values() if each and each.library]
    if not here.release:
        return unknown(
            f"{looked}: {here.libibverbs[0]} does not tell its release",
            hint="try it there: verify --register --inside",
        )
    old = [e for e in rows if numbers(here.release) < numbers(e.library)]
    if old:
        return failed(
            f"{looked}: rdma-core {here.release}: its provider {old[0].id} registers no dma-buf",
            expected=f"rdma-core {old[0].library} or newer",
            hint=_NEWER,
        )
    return passed(f"{looked}: rdma-core {here.release}")


_NEWER = (
    "a base image with a newer rdma-core; NCCL takes peermem meanwhile where the node has it: "
    "NCCL_DMABUF_ENABLE=0"
)


def data_direct(node: Node, want: Want) -> Finding:
    looked = _looked(node)
    functions = [each for each in node.pci.functions.values() if is_data_direct(each)]
    if not functions:
        return not_applicable("no data-direct function")
    here = node.inside_mlx5
    if not here:
        return not_applicable(f"{looked}: no libmlx5; see inside.provider")
    unread = [each.path for each in here if each.dmabuf is None]
    if unread:
        return unknown(f"{looked}: {unread[0]} could not be read")
    without = [each.path for each in here if not each.dmabuf]
    if without:
        return failed(
            f"{looked}: {without[0]} has no mlx5dv_get_data_direct_sysfs_path (MLX5_1.25)",
            expected="a libmlx5 by which NCCL finds the data-direct functions of this node",
            hint="a base image with a newer rdma-core, or DOCA-OFED's",
        )
    return passed(f"{looked}: {here[0].path}")


def plugin(node: Node, want: Want) -> Finding:
    looked, settings = _looked(node), node.settings
    there = [each.path for each in node.libraries if each.name == "nccl-plugin"]
    asked = settings.get("NCCL_NET_PLUGIN")
    name = asked.value if asked else ""
    if asked and name and name.lower() not in {"none", "static_plugin"} and "/" not in name:
        # As plugin_open.cc does: the name itself, then one made of it.
        files = {name, f"libnccl-net-{name}.so"}
        if not any(path.rpartition("/")[2].partition(".so")[0] + ".so" in files for path in there):
            return failed(
                f"{looked}: {asked.name}={name} in {asked.file}: no libnccl-net-{name}.so in it",
                expected="the plugin that is asked for",
                hint="install it in the image, or take the variable out: NCCL has its own",
            )
    if any(each.vendor == AMAZON for each in node.hcas) and not there:
        return failed(
            f"{looked}: no libnccl-net-ofi.so in it, and the node's network is EFA",
            expected="aws-ofi-nccl",
            hint="install aws-ofi-nccl in the image: NCCL itself has no EFA, and takes TCP",
        )
    if not asked and not there:
        return not_applicable(f"{looked}: no plugin of NCCL, and none is asked for")
    return passed(f"{looked}: {', '.join(there) or f'{name}, by its path'}")


def files(node: Node, want: Want) -> Finding:
    looked, named = _looked(node), node.inside_named
    missing = [(name, path) for name, path, there in named if not there]
    if missing:
        return failed(
            f"{looked}: {missing[0][0]}={missing[0][1]}: no such file in it",
            expected="each file that a setting names",
            hint="mount it into the container, or take the setting out",
            details=tuple(f"{name}={path}" for name, path in missing),
        )
    if not named:
        return not_applicable(f"{looked}: no setting names a file")
    return passed(f"{looked}: {', '.join(path for _, path, _ in named)}")
