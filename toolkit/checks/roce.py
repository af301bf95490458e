"""Can RoCE ports be reached, and do they carry full packets and know of priorities?"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.makers import serving
from toolkit.errors import NoEvidence
from toolkit.facts.node import Node
from toolkit.facts.rdma import Port, RdmaDevice
from toolkit.want import Role, Want

V2 = "RoCE v2"
FULL = 4096  # bytes: the largest MTU of InfiniBand's transport
ROOM = 4200  # of the net device: a full packet with its headers


def _up(node: Node, layer: str) -> Iterator[tuple[RdmaDevice, Port]]:
    """Ports that are up, of the HCAs that serve GPUs."""
    for device in serving(node):
        for port in device.ports:
            if port.up and port.link_layer == layer:
                yield device, port


@check(
    "rdma.gid",
    impact=Impact.BROKEN,
    source="/sys/class/infiniband/*/ports/*/gid_attrs; show_gids of Mellanox/mlnx-tools",
    fix="an address for the net device of the HCA, kept by the network configuration",
)
def gid(node: Node, want: Want) -> Finding:
    """Every RoCE port that is up has a RoCE v2 GID of an IP address.

    GIDs are made from the addresses of the net device. Without one, connections time out or
    ibv_modify_qp says "Invalid argument"; the GID of the link itself reaches no other subnet.
    """
    ports = list(_up(node, "Ethernet"))
    if not ports:
        return not_applicable("no RoCE port that is up")
    missing, versions = [], []
    for device, port in ports:
        own = [e for e in node.gids if (e.device, e.port) == (device.name, port.number)]
        if any(each.type == V2 and each.routable for each in own):
            continue
        versions.append(device.netdevs[0] if device.netdevs else "NETDEV")
        if any(each.type == V2 for each in own):
            missing.append(f"{device.name} port {port.number}: link-local alone")
        else:
            missing.append(f"{device.name} port {port.number}: none of {V2}")
    if missing:
        return failed(
            f"{len(missing)} of {len(ports)} RoCE ports without a {V2} GID of an IP address",
            expected=f"a {V2} GID of an IPv4 or IPv6 address",
            hint=f"give it an IP address, not of the link alone: ip address show {versions[0]}",
            details=tuple(missing),
        )
    return passed(f"{len(ports)} RoCE ports with a {V2} GID")


@check(
    "rdma.mtu",
    impact=Impact.SLOW,
    source="ibv_devinfo, active_mtu; /sys/class/net/*/mtu",
    fix="MTU 9000 on the net device, at both ends and on the switch; for InfiniBand, the "
    "subnet manager's partition",
)
def mtu(node: Node, want: Want) -> Finding:
    """Ports carry packets of 4096 bytes.

    RoCE takes the largest size that fits into the net device's MTU: 1500 leaves 1024, and
    throughput and message rate suffer. Both ends must agree.
    """
    small, told = [], 0
    for device, port in _up(node, "Ethernet"):
        why = _roce(node, device, port)
        told += 1
        small += [f"{device.name} port {port.number}: {why}"] if why else []
    untold = 0
    for device, port in _up(node, "InfiniBand"):
        active = port.active_mtu or _told_by_devinfo(node, device, port)
        untold += not active
        told += bool(active)
        if active and active < FULL:
            small.append(f"{device.name} port {port.number}: active_mtu {active}")
    if small:
        return failed(
            f"{len(small)} of {told} ports below {FULL} bytes",
            expected=f"active_mtu {FULL}; a RoCE net device has {ROOM} or more",
            details=tuple(small),
        )
    if not told:
        return not_applicable(
            "InfiniBand's MTU is told by ibv_devinfo alone, which is not there"
            if untold
            else "no port that is up, or none that tells its link layer"
        )
    return passed(f"{told} ports with {FULL} bytes")


def _roce(node: Node, device: RdmaDevice, port: Port) -> str:
    """What is wrong with the MTU of a RoCE port; "" for nothing.

    :raises NoEvidence: where neither the net device's nor the port's own is known.
    """
    if port.active_mtu:
        return f"active_mtu {port.active_mtu}" if port.active_mtu < FULL else ""
    own = {e.netdev for e in node.gids if (e.device, e.port) == (device.name, port.number)}
    names = [name for name in (*sorted(own - {""}), *device.netdevs) if name in node.net_devices]
    if not names:
        raise NoEvidence(f"{device.name}: its net device is not known", hint="ibdev2netdev")
    net = node.net_devices[names[0]]
    return f"{net.name} has MTU {net.mtu}" if net.mtu < ROOM else ""


def _told_by_devinfo(node: Node, device: RdmaDevice, port: Port) -> int:
    same = node.devinfo.get(device.name) if node.devinfo else None
    ports = same.ports if same else ()
    return next((one.active_mtu for one in ports if one.number == port.number), 0)


@check(
    "roce.qos",
    impact=Impact.SLOW,
    roles=frozenset({Role.BARE_METAL, Role.VM_HOST}),
    source="mlnx_qos of Mellanox/mlnx-tools; Mellanox/nic-configuration-operator, its defaults",
    fix="mlnx_qos -i NETDEV --trust dscp --pfc 0,0,0,1,0,0,0,0, kept by a unit or the NIC operator",
)
def qos(node: Node, want: Want) -> Finding:
    """A RoCE port trusts DSCP, so that its packets are in the priority meant for them.

    With trust pcp, packets without a VLAN tag fall into priority 0: PFC for another priority
    never works on them, and a busy fabric drops packets, which RoCE bears badly. A fabric
    that is lossy by choice lives with it: waive this check there. Judged is the first RoCE
    port that is up and carries no default route, for ports of one node are set alike; one
    that serves no GPU tells nothing of those that do.
    """
    set_ = node.qos
    if set_ is None:
        return not_applicable("no RoCE port that is up, or no mlnx_qos to tell its priorities")
    pfc = ", ".join(map(str, set_.lossless)) or "no priority"
    where = node.qos_command.split(" ")[-1]
    judged = serving(node)
    if any(where in each.netdevs for each in node.rdma_devices if each not in judged):
        return _elsewhere(node, where)
    if set_.trust != "dscp":
        return failed(
            f"{where}: trust {set_.trust}, PFC on {pfc}",
            expected="trust dscp",
            hint=f"mlnx_qos -i {where} --trust dscp --pfc 0,0,0,1,0,0,0,0",
            details=node.roce_ecn,
        )
    return passed(f"{where}: trust dscp, PFC on {pfc}", details=node.roce_ecn)


def _elsewhere(node: Node, where: str) -> Finding:
    """The port that was asked is for storage, or for the management of the node."""
    other = next((d.netdevs[0] for d, _ in _up(node, "Ethernet") if d.netdevs), "")
    if other:
        return unknown(f"{where} alone was asked, which serves no GPU", hint=f"mlnx_qos -i {other}")
    return not_applicable(f"no RoCE port that serves a GPU; {where} is for other things")
