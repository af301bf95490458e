"""What depends on modules that would be taken out of a node: what a reload has to stop at.

What the kernel would refuse itself counts as well: it would refuse amid the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain

from msgspec import Struct

from toolkit.facts.modules.module_users import Holding, Mount, User
from toolkit.plural import first_of

PEERMEM = "nvidia_peermem"
# Modules that we know to come back as they went. Others may carry what we cannot see.
KNOWN = frozenset(
    {"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nv_peer_mem"}
    | {"nvidia_fs", "gdrdrv", "mlx_compat", "mlxfw", "mlxdevm", "mlx5_core", "mlx5_ib"}
    | {"mlx5_vdpa", "mlx5_fwctl", "mlx4_core", "mlx4_ib", "mlx4_en", "ib_core", "ib_uverbs"}
    | {"ib_umad", "ib_cm", "iw_cm", "ib_ipoib", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw"}
    | {"ib_iser", "ib_isert", "ib_srp", "ib_srpt", "iscsi_tcp", "nvme_rdma", "nvmet_rdma"}
    | {"rpcrdma", "svcrdma", "xprtrdma", "irdma", "bnxt_re", "efa", "hfi1", "rdmavt", "smc"}
    | {"smc_diag", "rds_rdma", "ko2iblnd"}
)
_DEVICES = (  # which module has a device file open for its user; the first that matches
    (re.compile(r"/dev/infiniband/uverbs"), "ib_uverbs"),
    (re.compile(r"/dev/infiniband/(umad|issm)"), "ib_umad"),
    (re.compile(r"/dev/infiniband/rdma_cm"), "rdma_ucm"),
    (re.compile(r"/dev/nvidia-uvm"), "nvidia_uvm"),
    (re.compile(r"/dev/nvidia-modeset"), "nvidia_modeset"),
    (re.compile(r"/dev/nvidia-fs"), "nvidia_fs"),
    (re.compile(r"/dev/nvidia"), "nvidia"),
    (re.compile(r"/dev/gdrdrv"), "gdrdrv"),
)
_RDMA_TRANSPORTS = ("rpcrdma", "xprtrdma", "svcrdma")


class ObstacleKind(StrEnum):
    """What kind of thing depends on the modules; the operator's word for it in --over."""

    SSH = "ssh"
    ROUTE = "route"
    MOUNT = "mount"
    JOB = "job"
    DAEMON = "daemon"
    HOLDER = "holder"
    GUEST = "guest"
    KERNEL = "kernel"  # it would refuse, whatever the operator says
    UNKNOWN = "unknown"  # nobody can tell


# Whoever names one of these may go over it.
MAY_GO_OVER = (
    ObstacleKind.SSH,
    ObstacleKind.ROUTE,
    ObstacleKind.MOUNT,
    ObstacleKind.JOB,
    ObstacleKind.DAEMON,
    ObstacleKind.HOLDER,
)


class ReloadObstacle(Struct, frozen=True):
    """One thing that depends on a module that would go."""

    kind: ObstacleKind
    name: str  # "eth0", "/data", "python3", "ib_uverbs"
    text: str  # one sentence
    hint: str = ""

    @property
    def word(self) -> str:
        """What the operator says to go over it: "ssh:eth0"; "" where nobody may."""
        return f"{self.kind}:{self.name}" if self.kind in MAY_GO_OVER else ""


def obstacles(holding: Holding, gone: frozenset[str], *, ssh: bool) -> tuple[ReloadObstacle, ...]:
    """All that stands in the way, each once.

    :param gone: the modules that would be taken out.
    :param ssh: the node was reached by SSH, so it must know of a session of ours.
    """
    looks: tuple[Callable[[Holding, frozenset[str]], Iterator[ReloadObstacle]], ...] = (
        _ways,
        _mounts,
        _disks,
        _users,
        _kernel,
        _others,
    )
    found = list(chain.from_iterable(look(holding, gone) for look in looks))
    told = any(way.kind == "session" for way in holding.ways)
    if ssh and not told and _drives_nets(holding, gone):
        found.append(_unknown("the node does not tell by which interface our SSH session comes"))
    return tuple(dict.fromkeys(found))


def _unknown(text: str) -> ReloadObstacle:
    return ReloadObstacle(ObstacleKind.UNKNOWN, "", text, "reboot it in place of a reload")


def _carriers(holding: Holding, net: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The modules that drive a net device and those that it stands on.

    Empty where nobody can tell: a tunnel says nothing of what carries it.
    """
    if net == "lo":
        return {"builtin"}
    found = holding.nets.get(net)
    if found is None or net in seen:
        return set()
    lower = (_carriers(holding, each, seen | {net}) for each in found.lower)
    return set(found.modules).union(*lower)


def _drives_nets(holding: Holding, gone: frozenset[str]) -> bool:
    return any(gone & set(each.modules) for each in holding.nets.values())


_WAYS = {"session": "where our SSH session comes in", "route": "the default route"}


def _ways(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    ways = [way for kind in _WAYS for way in holding.ways if way.kind == kind]
    for way in ways:
        carriers = _carriers(holding, way.net)
        hit = min(carriers & gone, default="")
        if not carriers and _drives_nets(holding, gone):
            yield _unknown(f"nobody can tell what carries {way.net}, {_WAYS[way.kind]}")
        elif hit and way.kind == "route":
            text = f"the default route leads over {way.net}, which {hit} drives"
            yield ReloadObstacle(ObstacleKind.ROUTE, way.net, text)
        elif hit:
            text = f"our SSH session from {way.subject} comes over {way.net}, which {hit} drives"
            hint = f"come by another interface, or reboot it; or --over ssh:{way.net} --reboot"
            yield ReloadObstacle(ObstacleKind.SSH, way.net, text, hint)


def _mounts(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    for mount in holding.mounts:
        own, needs = gone & set(mount.modules), _by_transport(mount)
        hit = min(own, default="") or min(gone & needs, default="")
        if not hit and not mount.source.startswith("/dev/"):
            address = re.search(r"(?:^|,)addr=([^,]+)", mount.options)
            server = address[1] if address else mount.source.partition("@")[0]
            carriers = _carriers_to(holding, server)
            hit = min(carriers & gone, default="")
            if not carriers and not needs and _drives_nets(holding, gone):
                yield ReloadObstacle(
                    ObstacleKind.MOUNT,
                    mount.point,
                    f"{mount.point} ({mount.type}) is mounted, and nobody can tell over what",
                    f"umount {mount.point}",
                )
        if not hit and not mount.modules and mount.source.startswith("/dev/"):
            if _drives_nets(holding, gone):
                yield _unknown(f"nobody can tell what {mount.source}, mounted at {mount.point}, is")
        elif hit:
            what = "swap space" if mount.type == "swap" else f"mounted ({mount.type})"
            text = f"{mount.point} is {what} over {hit}"
            verb = "swapoff" if mount.type == "swap" else "umount"
            yield ReloadObstacle(ObstacleKind.MOUNT, mount.point, text, f"{verb} {mount.point}")


def _by_transport(mount: Mount) -> set[str]:
    """Modules that a file system of the network needs by its own words."""
    if mount.type.startswith("nfs") and re.search(r"(^|,)(proto=rdma|rdma)(,|$)", mount.options):
        return set(_RDMA_TRANSPORTS)
    if mount.type in {"cifs", "smb3"} and re.search(r"(^|,)rdma(,|$)", mount.options):
        return {"rdma_cm", "ib_core"}
    return {"ko2iblnd"} if "@o2ib" in mount.source else set()


def _carriers_to(holding: Holding, server: str) -> set[str]:
    """The modules that drive what leads to a server; empty where nobody can tell."""
    ways = (way for way in holding.ways if way.kind == "server" and way.subject == server)
    return set().union(*(_carriers(holding, way.net) for way in ways))


def _disks(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    for disk in holding.remote:
        if hit := min(gone & {disk.module, *_carriers_to(holding, disk.server)}, default=""):
            text = f"{disk.name} is a disk of a server ({disk.module}), over {hit}"
            yield ReloadObstacle(ObstacleKind.MOUNT, disk.name, text, "disconnect it first")


def uses(user: User) -> frozenset[str]:
    """The modules whose devices a process has open; nvidia_peermem has none of its own."""
    found = {
        module
        for device in user.devices
        for module in [next((name for word, name in _DEVICES if word.match(device)), "")]
    }
    # Who can register memory with an HCA may have registered that of a GPU.
    return frozenset(found | ({PEERMEM} if "ib_uverbs" in found else set()) - {""})


def _name(user: User) -> str:
    return user.name if "," not in user.name else str(user.pid)  # it joins words of --over


def job_word(user: User) -> str:
    """What the operator says to go over a job."""
    return f"{ObstacleKind.JOB}:{_name(user)}"


def _users(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    for user in holding.users:
        if uses(user) & gone:
            held = first_of(user.devices, 3)
            kind = ObstacleKind.DAEMON if user.daemon else ObstacleKind.JOB
            hint = "stop its service first" if user.daemon else "let it end, or drain the node"
            yield ReloadObstacle(kind, _name(user), f"{user} has {held} open", hint)


def _kernel(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    """What rmmod and modprobe would refuse."""
    for name in sorted(gone):
        module = holding.modules[name]
        more = module.refs - len(module.users)
        if not module.live:
            yield ReloadObstacle(
                ObstacleKind.KERNEL, name, f"{name} is half loaded or half unloaded", "reboot it"
            )
        elif module.refs < 0:
            yield ReloadObstacle(
                ObstacleKind.KERNEL, name, f"{name} cannot be unloaded at all", "reboot it"
            )
        elif more > 0:
            s = "s" * (more > 1)
            text = f"the kernel would not unload {name}: {more} reference{s} to it beside modules"
            yield ReloadObstacle(ObstacleKind.KERNEL, name, text, "end what uses it, or reboot it")
        if not holding.files.get(name, False):
            there = "its file is gone" if name in holding.files else "modules.dep has no file of it"
            text = f"{name} could not be loaded again: {there}"
            yield ReloadObstacle(
                ObstacleKind.KERNEL, name, text, "install it for the running kernel first"
            )


def _others(holding: Holding, gone: frozenset[str]) -> Iterator[ReloadObstacle]:
    """Who holds the modules beyond those that we know."""
    for name in sorted(gone - KNOWN):
        users = [each for each in sorted(gone) if name in holding.modules[each].users]
        if users:
            text = f"{name} uses {users[0]}, and is not known to come back as it went"
            yield ReloadObstacle(ObstacleKind.HOLDER, name, text)
    if holding.guests and "mlx5_core" in gone:
        text = f"virtual functions are lent to guests: {', '.join(holding.guests[:4])}"
        yield ReloadObstacle(
            ObstacleKind.GUEST, holding.guests[0], text, "shut the guests down first"
        )
