"""Which IOMMU groups may get another domain while the node runs, and what stands in the way.

The kernel changes the domain of a group from 5.11 on, where no driver holds its devices; before
6.4 of groups of one device alone; and from DMA to DMA-FQ, from 5.15 on, under its drivers. What
it would refuse stops us as well, and before a driver was taken off. Source:
Documentation/ABI/testing/sysfs-kernel-iommu_groups; drivers/iommu/iommu.c, iommu_group_store_type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from toolkit.errors import ExitCode, NoEvidence, Unsupported
from toolkit.facts.modules.module_users import Way
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.iommu_groups import CarriedDevice, Domains, Group, GroupDevice
from toolkit.features.reload.plan_obstacles import ObstacleKind, ReloadObstacle, uses

WANTED = (Domain.IDENTITY, Domain.DMA, Domain.DMA_FQ)
_SEVERAL = (6, 4)  # "iommu: Cleanup iommu_change_dev_def_domain()": groups of several devices
_LAZY = (5, 15)  # DMA-FQ can be asked for
_LEAVE_DMA_ALONE = frozenset({"pcieport"})  # drivers that do no DMA, so that 6.4 lets them stay
_GIVEN = "vfio-pci"
_DRIVER = re.compile(r"[A-Za-z0-9_.+-]+")
BY_REBOOT = "boot with iommu=pt in place of it: provision --reboot"


class Switch(Struct, frozen=True):
    """One group, and what would be done to it."""

    group: Group
    to: Domain
    obstacles: tuple[ReloadObstacle, ...] = ()

    @property
    def same(self) -> bool:
        return self.group.domain is self.to

    @property
    def ready(self) -> bool:
        return not self.same and not self.obstacles

    @property
    def live(self) -> bool:
        """Whether its drivers stay where they are."""
        return self.group.domain is Domain.DMA and self.to is Domain.DMA_FQ

    @property
    def word(self) -> str:
        """What domains.sh is told: number, type, each device with the driver to take off."""
        pairs = (f"{e.address}={'' if self.live else _taken(e)}" for e in self.group.devices)
        return f"{self.group.number}/{self.to.value}/{','.join(pairs)}"


class Switching(Struct, frozen=True):
    """One node, before or after."""

    switches: tuple[Switch, ...]
    steps: tuple[str, ...] = ()  # what was done, a line a step
    done: bool = False  # the groups that were ready have their domain

    @property
    def ready(self) -> tuple[Switch, ...]:
        return tuple(each for each in self.switches if each.ready)

    @property
    def refused(self) -> tuple[Switch, ...]:
        return tuple(each for each in self.switches if each.obstacles)

    @property
    def exit_code(self) -> ExitCode:
        kinds = {each.kind for switch in self.refused for each in switch.obstacles}
        if kinds - {ObstacleKind.UNKNOWN}:
            return ExitCode.STOPPED
        if kinds:
            return ExitCode.UNKNOWN
        return ExitCode.PENDING if self.ready and not self.done else ExitCode.OK


def _taken(device: GroupDevice) -> str:
    return "" if device.driver in _LEAVE_DMA_ALONE else device.driver


def switches(
    domains: Domains, to: Domain, addresses: tuple[str, ...] = (), *, ssh: bool
) -> tuple[Switch, ...]:
    """What would be done on one node: every group of an HCA, or of the devices that were named.

    :param ssh: the node was reached by SSH, so it must know of a session of ours.
    :raises Unsupported: a device that was named is in no group.
    :raises NoEvidence: the node lists no devices of a group, and what is meant may be there.
    """
    chosen = [each for each in domains.groups if _chosen(each, addresses)]
    there = {device.address for group in chosen for device in group.devices}
    lost = sorted(set(addresses) - there)
    if lost or not chosen:
        _must_list(domains)
    if lost:
        raise Unsupported(
            f"{lost[0]} is in no IOMMU group", hint="ls /sys/kernel/iommu_groups/*/devices"
        )
    return tuple(_switch(domains, group, to, ssh=ssh) for group in chosen)


def _must_list(domains: Domains) -> None:
    silent = [each.number for each in domains.groups if not each.devices]
    if silent:
        raise NoEvidence(
            f"/sys/kernel/iommu_groups: {len(silent)} of {len(domains.groups)} groups list no "
            "device, so nobody can tell which is an HCA's",
            hint="nothing was changed; see: ls /sys/kernel/iommu_groups/*/devices",
        )


def back(domains: Domains, *, ssh: bool) -> tuple[Switch, ...]:
    """What takes back all that was changed in this boot.

    :raises NoEvidence: the node lists no devices of a group, and what was changed may be there.
    """
    known = {each.value: each for each in WANTED}
    if set(domains.before) - {each.address for g in domains.groups for each in g.devices}:
        _must_list(domains)
    told = [
        (group, known[domains.before[device.address]])
        for group in domains.groups
        for device in group.devices
        if domains.before.get(device.address) in known
    ]
    found = {group.number: _switch(domains, group, to, ssh=ssh) for group, to in told}
    return tuple(each for each in found.values() if not each.same)


def _chosen(group: Group, addresses: tuple[str, ...]) -> bool:
    if addresses:
        return any(device.address in addresses for device in group.devices)
    return any(device.hca for device in group.devices)


def _switch(domains: Domains, group: Group, to: Domain, *, ssh: bool) -> Switch:
    switch = Switch(group, to)
    if switch.same:
        return switch
    found = [*_kernel(domains, switch)]
    if not switch.live:
        addresses = frozenset(device.address for device in group.devices)
        carried = tuple(each for each in domains.carried if each.below(addresses))
        found += [
            *_drivers(group),
            *_ways(domains, carried, ssh=ssh),
            *_disks(domains, carried),
            *_users(domains, carried),
        ]
    return Switch(group, to, tuple(dict.fromkeys(found)))


def _kernel(domains: Domains, switch: Switch) -> Iterator[ReloadObstacle]:
    """What the kernel would refuse whatever the drivers do."""
    group, kernel = switch.group, domains.kernel
    name = f"group {group.number}"
    if not group.writable:
        yield _refuses(name, f"the kernel takes no other domain for {name}: 5.11 does")
    elif switch.to is Domain.DMA_FQ and not kernel.at_least(*_LAZY):
        yield _refuses(name, f"{kernel} knows no DMA-FQ: 5.15 does")
    elif len(group.devices) > 1 and not switch.live and not kernel.at_least(*_SEVERAL):
        several = f"{name} has {len(group.devices)} devices"
        yield _refuses(name, f"{several}, and {kernel} changes groups of one alone: 6.4 does more")
    if group.domain not in WANTED:
        yield _refuses(name, f"{name} is {group.domain}, which is its user's affair")


def _refuses(name: str, text: str) -> ReloadObstacle:
    return ReloadObstacle(ObstacleKind.KERNEL, name, text, BY_REBOOT)


def _drivers(group: Group) -> Iterator[ReloadObstacle]:
    """Whose driver would have to let go, and may not."""
    for each in group.devices:
        if not _taken(each):
            continue
        if each.driver == _GIVEN:
            text = f"{each.address} is given to a guest"
            yield ReloadObstacle(
                ObstacleKind.GUEST, each.address, text, "shut the guest down first"
            )
        elif not each.network or not _DRIVER.fullmatch(each.driver):
            text = f"{each.address} is {each.driver}'s: only network cards are taken from theirs"
            hint = f"take it off by hand, where nobody needs it: {each.driver}/unbind"
            yield ReloadObstacle(ObstacleKind.HOLDER, each.address, text, hint)
        if each.functions:
            text = f"{each.functions} virtual functions hang on {each.address}"
            yield ReloadObstacle(
                ObstacleKind.GUEST, each.address, text, "take them away first: sriov_numvfs"
            )


def _ways(
    domains: Domains, carried: tuple[CarriedDevice, ...], *, ssh: bool
) -> Iterator[ReloadObstacle]:
    """Our session, the default route and servers that are reached over its net devices."""
    nets = frozenset(each.name for each in carried if each.kind == "net")
    if not nets:
        return
    holding = domains.holding
    if ssh and not any(way.kind == "session" for way in holding.ways):
        yield _unknown("the node does not tell by which interface our SSH session comes")
    for way in holding.ways:
        stands = _stands_on(domains, way.net)
        if not stands:
            yield _unknown(f"nobody can tell over what {way.subject} is reached ({way.kind})")
        elif stands & nets:
            yield _way(way)


def _way(way: Way) -> ReloadObstacle:
    match way.kind:
        case "session":
            text = f"our SSH session from {way.subject} comes over {way.net}"
            return ReloadObstacle(
                ObstacleKind.SSH, way.net, text, "come by another interface, or reboot it"
            )
        case "route":
            return ReloadObstacle(
                ObstacleKind.ROUTE, way.net, f"the default route leads over {way.net}"
            )
    return ReloadObstacle(
        ObstacleKind.MOUNT, way.subject, f"{way.subject} is mounted over {way.net}", "umount"
    )


def _stands_on(domains: Domains, net: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """The net device and those below it; none where nobody can tell: a tunnel is silent."""
    if net == "lo":
        return frozenset({net})
    found = domains.holding.nets.get(net)
    if found is None or net in seen:
        return frozenset()
    return frozenset({net}).union(*(_stands_on(domains, e, seen | {net}) for e in found.lower))


def _disks(domains: Domains, carried: tuple[CarriedDevice, ...]) -> Iterator[ReloadObstacle]:
    for each in carried:
        if each.kind == "block":
            yield ReloadObstacle(
                ObstacleKind.MOUNT, each.name, f"the disk {each.name} is on it", BY_REBOOT
            )
    if not any(each.kind in {"infiniband", "net"} for each in carried):
        return
    for disk in domains.holding.remote:
        text = f"{disk.name} is a disk of a server ({disk.module})"
        yield ReloadObstacle(ObstacleKind.MOUNT, disk.name, text, "disconnect it first")
    for mount in domains.holding.mounts:
        asked = re.search(r"(^|,)(proto=)?rdma(,|$)", mount.options)
        if asked is not None or "@o2ib" in mount.source:
            text = f"{mount.point} is mounted ({mount.type}) by RDMA"
            yield ReloadObstacle(ObstacleKind.MOUNT, mount.point, text, f"umount {mount.point}")


def _users(domains: Domains, carried: tuple[CarriedDevice, ...]) -> Iterator[ReloadObstacle]:
    """Who has an RDMA device open, where the group has one: which one is not told apart."""
    if not any(each.kind == "infiniband" for each in carried):
        return
    for user in domains.holding.users:
        if uses(user) & {"ib_uverbs", "ib_umad", "rdma_ucm"}:
            kind = ObstacleKind.DAEMON if user.daemon else ObstacleKind.JOB
            hint = "stop its service first" if user.daemon else "let it end, or drain the node"
            text = f"{user} has {', '.join(user.devices[:3])} open"
            yield ReloadObstacle(kind, user.name, text, hint)


def _unknown(text: str) -> ReloadObstacle:
    return ReloadObstacle(ObstacleKind.UNKNOWN, "", text, BY_REBOOT)
