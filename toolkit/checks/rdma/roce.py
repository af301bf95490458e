"""Can RoCE ports be reached, and do they carry full packets and know of priorities?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.containers import perhaps_in_pods
from toolkit.checks.rdma.makers import serving
from toolkit.checks.rdma.pasted_ports import drops_told
from toolkit.compat.reader import maker
from toolkit.errors import NoEvidence
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Port, RdmaDevice
from toolkit.facts.rdma.roce import Ecn, Qos
from toolkit.plural import counted
from toolkit.want import Role, Want

V2 = "RoCE v2"
FULL = 4096  # bytes: the largest MTU of InfiniBand's transport
ADDRESSES = "They may live in pods"
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
    Where pods are given their network by SR-IOV, macvlan or host-device, addresses live in the
    pods and no port of the host has one; where some ports have one, the others lack theirs.
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
    told = {(e.device, e.port) for e in node.gids if not e.type}
    if missing and told & {(device.name, port.number) for device, port in ports}:
        return unknown("the RoCE version of a GID is not told: this kernel has no gid_attrs")
    if len(missing) == len(ports) and (why := perhaps_in_pods(node)):
        return not_applicable(f"no RoCE port has an IP address. {ADDRESSES}: {why}")
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
    fix="MTU 9000 on the net device, at both ends and on the switch, with the node drained (it "
    "interrupts the port); for InfiniBand, the subnet manager's partition",
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


_AGREED = (
    "agree with whoever runs the switch on trust, PFC and ECN first, for both ends must have the "
    "same; a change resets the buffers of a live port, so on an idle one: "
)


@check(
    "roce.qos",
    impact=Impact.SLOW,
    roles=frozenset({Role.BARE_METAL, Role.VM_HOST}),
    source="mlnx_qos of Mellanox/mlnx-tools; IEEE 802.1Qbb and 802.1Qau; /sys/class/net/*/ecn of "
    "mlnx-ofa_kernel",
    fix=f"{_AGREED}mlnx_qos -i NETDEV --trust dscp; then PFC for the one priority that the switch "
    "keeps lossless, or, where the fabric is lossy by design (Spectrum-X), ECN and no PFC",
)
def qos(node: Node, want: Want) -> Finding:
    """Every RoCE port that serves a GPU trusts DSCP, and something keeps it from dropping packets.

    With trust pcp, packets without a VLAN tag fall into priority 0: PFC for another priority
    never works on them, and a busy fabric drops packets, which RoCE bears badly. PFC on no
    priority is right in a fabric that is lossy by design, and then congestion control must be
    on: ECN as notification point and as reaction point for the same priority. All ports are to
    keep the same priorities lossless, for a job's traffic goes by each. None of it is judged
    against the switch, which has to agree and is not asked. A priority with PFC that drops all
    the same (ethtool -S) has too small a buffer, or a receiver that cannot keep up.
    """
    asked = node.qos_asked
    if not asked:
        return drops_told(node) or _by_text(node.said_qos)
    others = {each for each in node.rdma_devices if each not in serving(node)}
    elsewhere = {net for each in others for net in each.netdevs}
    judged = [net for net in asked if net not in elsewhere]
    missed = _not_asked(node)
    told = {net: _judged(node.qos(net), node.roce_ecn.get(net)) for net in judged}
    wrong = [net for net in judged if told[net].wrong]
    details = tuple(f"{net}: {each.found}" for net, each in told.items())
    if wrong:
        return failed(
            f"{len(wrong)} of {len(judged)} RoCE ports asked: {wrong[0]}: {told[wrong[0]].found}",
            expected="trust dscp, and PFC on a priority or ECN on",
            hint=f"{_AGREED}mlnx_qos -i {wrong[0]} --help",
            details=details,
        )
    if missed:
        found = f"{', '.join(missed)}: not asked; {', '.join(asked)} alone"
        return unknown(found, hint=f"mlnx_qos -i {missed[0]}")
    if not judged:
        return not_applicable(f"no RoCE port that serves a GPU; {', '.join(asked)} is for others")
    open_ = [net for net in judged if told[net].unread]
    if open_:
        return unknown(f"{open_[0]}: {told[open_[0]].unread}", hint=told[open_[0]].ask)
    well = passed(f"{counted(len(judged), 'RoCE port')}: {told[judged[0]].found}")
    return replace(_unlike(told) or well, details=details)


def _by_text(said: Mapping[str, Qos]) -> Finding:
    """What mlnx_qos was asked, of the ports of which somebody did."""
    if not said:
        return not_applicable("no RoCE port that is up, or no mlnx_qos to tell its priorities")
    told = {net: _judged(has, None) for net, has in said.items()}
    details = tuple(f"{net}: {each.found}" for net, each in told.items())
    wrong = [net for net, each in told.items() if each.wrong]
    if wrong:
        return failed(
            f"{len(wrong)} of {counted(len(told), 'port')}: {wrong[0]}: {told[wrong[0]].found}",
            expected="trust dscp, and PFC on a priority or ECN on",
            hint=f"{_AGREED}mlnx_qos -i NETDEV --help",
            details=details,
        )
    if unlike := _unlike(told):
        return replace(unlike, details=details)
    if open_ := next((each for each in told.values() if each.unread), None):
        return unknown(open_.unread, hint=open_.ask or "mlnx_qos -i NETDEV of every RoCE port")
    return unknown(f"well on {'; '.join(details)}", hint="mlnx_qos -i of the other RoCE ports")


_ASK_ECN = "mlxconfig -d DEVICE query | grep ROCE_CC: the priorities with congestion control"


class _Told(Struct, frozen=True):
    found: str  # "trust dscp, PFC on 3"
    wrong: bool = False
    unread: str = ""  # what keeps it from being judged
    ask: str = ""  # and what would tell
    lossless: tuple[int, ...] = ()  # priorities with PFC


def _unlike(told: Mapping[str, _Told]) -> Finding | None:
    """Ports that keep other priorities lossless than most of them do; None where all agree."""
    counts = Counter(each.lossless for each in told.values())
    if len(counts) < 2:
        return None
    usual = counts.most_common(1)[0][0]
    odd = [net for net, each in told.items() if each.lossless != usual]
    return failed(
        f"{len(odd)} of {len(told)} RoCE ports unlike the others: {odd[0]}: {told[odd[0]].found}",
        expected="PFC on the same priorities on all",
        hint=f"{_AGREED}mlnx_qos -i {odd[0]} --help",
    )


def _judged(has: Qos, ecn: Ecn | None) -> _Told:
    pfc = ", ".join(map(str, has.lossless)) or "no priority"
    found = f"trust {has.trust}, PFC on {pfc}"
    if has.trust == "none":
        return _Told(
            found, lossless=has.lossless, unread=f"{found}: its driver does not tell the trust"
        )
    if has.trust != "dscp":
        return _Told(found, wrong=True)
    if ecn is None:
        lossy = "" if has.lossless else f"{found}, and its driver does not tell whether ECN is on"
        return _Told(found, lossless=has.lossless, unread=lossy, ask=_ASK_ECN)
    both = ", ".join(map(str, sorted(ecn.notifies & ecn.reacts)))
    found += f", ECN on {both or 'no priority'}"
    return _Told(found, wrong=not has.lossless and not both, lossless=has.lossless)


def _not_asked(node: Node) -> list[str]:
    """Net devices of RoCE ports that serve GPUs and were not asked, though mlnx_qos is there.

    The port that the node itself lives on is not asked, and other makers have tools of their own.
    """
    asked, own, missed = node.qos_asked, node.own_interfaces, []
    for device, _ in _up(node, "Ethernet"):
        function = node.pci.functions.get(device.address)
        provider = maker(function.vendor, function.device) if function else None
        if provider is not None and not provider.qos.startswith("mlnx_qos"):
            continue
        names = {*device.netdevs, *device.uppers}
        if device.netdevs and not names & asked.keys() and not names & own.keys():
            missed.append(device.netdevs[0])
    return missed
