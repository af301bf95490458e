"""Which HCA of one node with which of the other, and which GPU at either end.

By topology, never by index: a GPU goes with the HCA that is nearest to it, an HCA with one of the
other node that it can reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface

from msgspec import Struct

from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.errors import read_or
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.node.node import Node
from toolkit.facts.pci.pairs import NamedPair
from toolkit.facts.rdma.devices import Kind, Port, RdmaDevice
from toolkit.facts.rdma.exercise import Buffer, End
from toolkit.want import Want


class ExerciseNode(Struct, frozen=True):
    """One node, as it was read for a test."""

    name: str
    node: Node
    look: Evidence  # of exercise.sh

    @property
    def tools(self) -> frozenset[str]:
        return frozenset(line.split(" ")[0] for line in _lines(self.look, "exercise-tools"))

    @property
    def uuids(self) -> dict[str, str]:
        """CUDA's own name of each GPU, by PCI address."""
        rows = (line.split(", ") for line in _lines(self.look, "exercise-gpus"))
        return {normal_address(row[0]): row[1].strip() for row in rows if len(row) == 2}

    @property
    def addresses(self) -> tuple[tuple[str, IPv4Interface], ...]:
        """Net device and IPv4 address of each, those of the machine itself left out."""
        found = []
        for line in _lines(self.look, "exercise-addresses"):
            words = line.split()
            if len(words) > 3 and words[2] == "inet":  # number, device, "inet", address
                try:
                    one = IPv4Interface(words[3])
                except ValueError:
                    continue
                if not one.ip.is_loopback and not one.ip.is_link_local:
                    found.append((words[1], one))
        return tuple(found)

    def leaf(self, device: RdmaDevice) -> str:
        """The switch at its port, by LLDP or the fabric's list; "" where none is told, or several.

        Source: lldpd src/client/kv_writer.c and display.c.
        """
        told = map(_NEIGHBOUR.fullmatch, _lines(self.look, "exercise-leaves"))
        found = {each[2] for each in told if each and each[1] in device.netdevs}
        own = self.node.node_guids.get(device.name, 0)  # one may not be told
        fabric = parse_fabric(_lines(self.look, FABRIC)).get(own, ())
        found |= {each[1] for each in map(_SWITCH.match, fabric) if each}
        return found.pop() if len(found) == 1 else ""


FABRIC = "exercise-fabric"
_NEIGHBOUR = re.compile(r"lldp\.(.+)\.chassis\.name=(.+)")
_SWITCH = re.compile(r'Switch\s+\d+ "S-[0-9a-f]+"\s+# "(.+)" (?:enhanced|base) port 0 ')
_AT_SWITCH = re.compile(r'\[\d+\](?:\[ext \d+\])?\s+"H-([0-9a-f]{1,16})"\[')


def parse_fabric(lines: Iterable[str]) -> dict[int, list[str]]:
    """Read what ibnetdiscover printed: by GUID of an HCA the lines of its switches and its own.

    Source: rdma-core infiniband-diags/ibnetdiscover.c, out_switch_detail and out_switch_port.
    """
    found: dict[int, list[str]] = {}
    switch = ""
    for line in lines:
        if _SWITCH.match(line):
            switch = line
        elif not line.strip():
            switch = ""
        elif switch and (port := _AT_SWITCH.match(line)):
            found.setdefault(int(port[1], 16), []).extend((switch, line, ""))
    return found


def fabric_frame(fabric: Mapping[int, list[str]], node: Node) -> Frame:
    """What the list of a fabric has of one node's HCAs, word for word."""
    none: dict[str, int] = {}
    own = (fabric.get(each, ()) for each in read_or(lambda: node.node_guids, none).values())
    text = "".join(f"{line}\n" for lines in own for line in lines)
    return Frame(FABRIC, State.OK, "ibnetdiscover", text)


class Rail(Struct, frozen=True):
    """A way between two ports, and what lies at its ends."""

    drive: End
    serve: End
    why: str  # by what the two ports were put together


def devices(view: ExerciseNode) -> tuple[RdmaDevice, ...]:
    """Those that jobs would use and that have a port that is up; Soft-RoCE for want of hardware."""
    found = read_or(lambda: view.node.rdma_devices, ())
    up = tuple(each for each in found if any(port.up for port in each.ports))
    hardware = tuple(each for each in up if each.kind is not Kind.SOFTWARE)
    meant = {each.address for each in read_or(lambda: view.node.compute_hcas, ())}
    return tuple(each for each in hardware if each.address in meant) or hardware or up


def rails(one: ExerciseNode, other: ExerciseNode, only: str = "") -> tuple[Rail, ...]:
    """Each HCA of one node with its counterpart, those that serve GPUs first.

    :param other: the same node again: then two HCAs of it, or one with itself.
    :param only: the RDMA device that is meant: "mlx5_0".
    """
    found = []
    for device in sorted(devices(one), key=lambda each: _distance(one, each)):
        if only and device.name != only:
            continue
        partner, why = _partner(one, device, other)
        if partner is None:
            continue
        address = _address(other, partner, one)
        drive, serve = _end(one, device, ""), _end(other, partner, address)
        if drive is not None and serve is not None:
            found.append(Rail(drive, serve, why))
    return tuple(found)


def _partner(
    one: ExerciseNode, device: RdmaDevice, other: ExerciseNode
) -> tuple[RdmaDevice | None, str]:
    layer = _up(device).link_layer
    fitting = [each for each in devices(other) if _up(each).link_layer == layer]
    if one.name == other.name:
        rest = [each for each in fitting if each.name != device.name]
        if rest:
            return rest[0], "another HCA of the same node"
        return device, "the same HCA: there is no other"
    near = [each for each in fitting if subnets(one, device) & subnets(other, each)]
    if layer == "Ethernet" and near:
        named = [each for each in near if each.name == device.name]
        return (named or near)[0], "one subnet"
    named = [each for each in fitting if each.name == device.name]
    if named:
        return named[0], "the same name"
    return (fitting[0], "the first of its kind") if fitting else (None, "")


def subnets(view: ExerciseNode, device: RdmaDevice) -> set[str]:
    names = {*device.netdevs, *device.uppers}
    return {str(each.network) for name, each in view.addresses if name in names}


def _address(server: ExerciseNode, device: RdmaDevice, client: ExerciseNode) -> str:
    """By which the client finds the server: one subnet, and not the same address at both."""
    if server.name == client.name:
        return "127.0.0.1"
    theirs = {each.ip for _, each in client.addresses}
    known: list[tuple[int, IPv4Address]] = []
    for name, each in server.addresses:
        if each.ip in theirs:
            continue  # bridges of containers have one address everywhere
        shared = any(each.network == one.network for _, one in client.addresses)
        own = name in {*device.netdevs, *device.uppers}
        known.append((0 if shared and own else 1 if shared else 2, each.ip))
    return str(min(known)[1]) if known else server.name


def _up(device: RdmaDevice) -> Port:
    return next(port for port in device.ports if port.up)


def _end(view: ExerciseNode, device: RdmaDevice, address: str) -> End | None:
    port = _up(device)
    gid = _gid(view, device, port) if port.link_layer == "Ethernet" else -1
    if gid is None:
        return None
    return End(view.name, device.name, port.number, gid, address=address)


def _gid(view: ExerciseNode, device: RdmaDevice, port: Port) -> int | None:
    """RoCE v2 by an IPv4 address, else by any that somebody gave; None without one."""
    table = [
        each
        for each in read_or(lambda: view.node.gids, ())
        if (each.device, each.port) == (device.name, port.number)
    ]
    second = [each for each in table if each.type in {"RoCE v2", ""} and each.routable]
    best = sorted(second, key=lambda each: (each.address.ipv4_mapped is None, each.index))
    return best[0].index if best else None


def _distance(view: ExerciseNode, device: RdmaDevice) -> tuple[int, str]:
    near = nearest_gpu(view, device.name)
    return (int(near.distance) if near else 99, device.name)


def nearest_gpu(view: ExerciseNode, hca: str) -> NamedPair | None:
    """The GPU that is nearest to an HCA; None where there is none, or nothing tells."""
    told = read_or(lambda: view.node.pairs.pairs, ())
    names = read_or(lambda: view.node.hca_names, {})
    ours = [each for each in told if hca in {each.hca, names.get(each.hca)}]
    return min(ours, key=lambda each: (each.distance, each.gpu), default=None)


def gpu_buffer(view: ExerciseNode) -> tuple[Buffer | None, str]:
    """By which path this node's GPU memory would be reached, or why it cannot be tried.

    dma-buf goes first, as NCCL has it: where both are there, that is what jobs use.
    """
    gpus = read_or(lambda: view.node.pairs.gpus, None)
    if not gpus:
        return None, "no GPU" if gpus is not None else "its GPUs were not read"
    tool = read_or(lambda: view.node.perftest, None)
    if tool is None:
        return None, "perftest is not installed"
    if tool.cuda is False:
        return None, "perftest was built without CUDA: Debian's and Ubuntu's packages are"
    gaps = {
        Buffer.DMABUF: read_or(lambda: dmabuf_gap(view.node, Want()), "not known"),
        Buffer.PEERMEM: read_or(lambda: peermem_gap(view.node), "not known"),
    }
    if tool.dmabuf is False and not gaps[Buffer.DMABUF]:
        gaps[Buffer.DMABUF] = "perftest was built without it"
    for buffer, gap in gaps.items():
        if not gap:
            return buffer, ""
    return None, "; ".join(f"{name}: {gap}" for name, gap in gaps.items())


def absent(view: ExerciseNode) -> str:
    """Why the node told nothing of its tools; "" where it did."""
    frame = view.look.frames.get("exercise-tools")
    return "" if frame is not None and frame.state is State.OK else "its tools were not read"


def _lines(evidence: Evidence, name: str) -> list[str]:
    frame = evidence.frames.get(name)
    return frame.text.split("\n")[:-1] if frame is not None and frame.state is State.OK else []
