"""Exercise: what a test proves of itself, and what the same tests came to in earlier runs.

Which port moved the bytes, in which memory they lay, by which way: bandwidth alone proves little,
for a library that falls back to host memory, or to another port, may still look fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from toolkit.errors import read_or
from toolkit.facts.nccl.nccl_log import network_edges, parse_nccl_log
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Kind, RdmaDevice
from toolkit.facts.rdma.exercise import End, Measured, Role, Said, Test
from toolkit.facts.rdma.hca_health import Moved
from toolkit.facts.rdma.perftest import Memory, parse_perftest_memory
from toolkit.facts.rdma.roce import Gid
from toolkit.throughput.estimate import Unit

_ABOVE = 1.02  # of the line's rate: clocks differ
_NEARLY = 0.9  # of the bytes: counters are read a moment before and after
_WRITES = frozenset({"ib_write_bw", "ib_send_bw", "ib_send_lat", "ib_write_lat", "ucx_perftest"})


class ProofState(StrEnum):
    SHOWN = "shown"
    REFUTED = "refuted"  # what was to be tested was not what happened
    OPEN = "open"  # nothing that was read tells


class Point(Struct, frozen=True):
    """One thing that was to be shown."""

    proof: ProofState
    words: str


def by_ports(measured: Measured, moved_bytes: int, mtu: int) -> Iterator[Point]:
    """Whether the ports that were meant moved the bytes.

    :param moved_bytes: at least so many; a duration's margins are not counted.
    :param mtu: bytes of a packet, for ports that count packets alone.
    """
    test = measured.test
    if test.serve is None:
        return
    if test.looped:
        yield Point(ProofState.OPEN, "loopback inside one port, which need not count it")
        return
    for role, end in test.ends:
        said = measured.said.get(role)
        if said is None or said.uncounted:
            why = said.uncounted if said else "its evidence is not here"
            yield Point(ProofState.OPEN, f"counters of {end.host}: {why}")
            continue
        yield _by_port(test, role, said, moved_bytes, mtu=mtu)


def _by_port(test: Test, role: Role, said: Said, wanted: int, *, mtu: int) -> Point:
    end = dict(test.ends)[role]
    sends = (role is Role.DRIVE) == (test.tool in _WRITES)
    own = next((e for e in said.ports if (e.device, e.port) == (end.hca, end.port)), None)
    if own is None or not own.told:
        return Point(ProofState.OPEN, f"{end.hca} of {end.host} counts nothing that can be read")
    count = _count(own, mtu, sends=sends)
    verb = "sent" if sends else "received"
    if count is None:
        return Point(ProofState.OPEN, f"{end.hca} of {end.host}: what it {verb} is not known")
    if count >= wanted * _NEARLY:
        return Point(ProofState.SHOWN, f"{end.hca} of {end.host} {verb} {_size(count)}")
    others = [
        each.device
        for each in said.ports
        if each is not own and (_count(each, mtu, sends=sends) or 0) >= wanted * _NEARLY / 2
    ]
    least = f"{end.hca} of {end.host} {verb} {_size(count)} of {_size(wanted)}"
    if others:
        return Point(ProofState.REFUTED, f"{least}: {', '.join(others)} moved them")
    if test.within:
        return Point(ProofState.OPEN, f"{least}: within one node they need not reach a port")
    return Point(ProofState.REFUTED, f"{least}: they went another way")


def _count(port: Moved, mtu: int, *, sends: bool) -> int | None:
    data = port.sent if sends else port.received
    packets = port.sent_packets if sends else port.received_packets
    if data is not None:
        return data
    return packets * mtu if packets is not None and mtu else None  # UCX tells of no MTU


def by_machine(measured: Measured, nodes: Mapping[str, Node]) -> Iterator[Point]:
    """Whether two names are one machine: then nothing went between two.

    Virtual machines that go on from one snapshot share a boot id: GIDs tell them apart.
    """
    hosts = {end.host for _, end in measured.test.ends}
    boots = {said.boot_id for said in measured.said.values()}
    gids = {_gids(node) for name, node in nodes.items() if name in hosts}
    one = len(boots) == 1 and boots != {""} and len(gids) < 2
    if one and len(hosts) == len(measured.said) == 2:
        yield Point(
            ProofState.REFUTED, f"{' and '.join(sorted(hosts))} are one machine by two names"
        )


def _gids(node: Node) -> frozenset[str]:
    found: tuple[Gid, ...] = read_or(lambda: node.gids, ())
    return frozenset(str(each.address) for each in found)


def by_line(test: Test, value: float, nodes: Mapping[str, Node]) -> Iterator[Point]:
    """Whether the ports could have carried it at all.

    :param value: GB/s. Within one port more than its line may go round.
    """
    for _, end in () if test.looped else test.ends:
        line = _line(end, nodes.get(end.host))
        if line and value > line * _ABOVE:
            words = f"{value:.1f} GB/s is more than {end.hca} of {end.host} carries ({line:.1f})"
            yield Point(ProofState.REFUTED, f"{words}: it went another way")
            return


def _line(end: End, node: Node | None) -> float:
    """GB/s by the rate of its port; 0 where that was not read, or is software's."""
    found: tuple[RdmaDevice, ...] = () if node is None else read_or(lambda: node.rdma_devices, ())
    own = [each for each in found if each.name == end.hca and each.kind is not Kind.SOFTWARE]
    return max((port.gbits / 8 for each in own for port in each.ports), default=0.0)


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def by_memory(measured: Measured) -> Iterator[Point]:
    """Whether each end of a run of perftest really had its buffer where it was asked to."""
    for role, end in measured.test.ends:
        if not end.buffer.gpu:
            continue
        said = measured.said.get(role)
        if said is None or not said.text.strip():
            yield Point(ProofState.OPEN, f"{end.host}: it does not say where its buffer lay")
        else:
            yield from _by_memory(end, *parse_perftest_memory(said.text))


def _by_memory(end: End, memory: Memory, cuda: str) -> Iterator[Point]:
    if memory is Memory.HOST:
        yield Point(ProofState.REFUTED, f"{end.host}: its buffer lay in host memory")
    elif memory is Memory.MANAGED:
        yield Point(
            ProofState.REFUTED,
            f"{end.host}: its buffer was managed memory, which an HCA reaches on the host",
        )
    else:
        where = f"PCI bus {cuda}" if cuda else "the GPU"
        yield Point(ProofState.SHOWN, f"{end.host}: its buffer lay in {memory}, {where}")
    bus = ":".join(end.gpu.split(":")[1:]).split(".")[0].upper()
    if cuda and bus and cuda != bus:
        yield Point(
            ProofState.REFUTED, f"{end.host}: it took the GPU at {cuda}, asked was {end.gpu}"
        )


def by_nccl(text: str) -> Iterator[Point]:
    """Whether NCCL itself says that it used GPUDirect, for each channel over the network."""
    log = parse_nccl_log(text)
    edges = list(network_edges(log))
    if not edges:
        yield Point(ProofState.OPEN, "no channel went over the network, as far as NCCL tells")
        return
    staged = [each for each in edges if not each.gdr]
    if not staged:
        yield Point(ProofState.SHOWN, f"NCCL: {len(edges)} channels, each with GPUDirect RDMA")
        return
    reasons = [f"HCA {each.name} cannot" for each in log.hcas if not each.enabled]
    reasons += [
        f"GPU {each.gpu} with HCA {each.hca}: distance {each.distance} > {each.limit}"
        for each in log.decisions
        if not each.enabled
    ]
    why = f": {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
    yield Point(
        ProofState.REFUTED,
        f"NCCL: {len(staged)} of {len(edges)} channels went through host memory{why}",
    )


def by_ucx(lanes: tuple[tuple[str, str], ...], test: Test) -> Iterator[Point]:
    """Whether UCX says that it went by the HCA that was asked for."""
    if not lanes:
        yield Point(ProofState.OPEN, "UCX does not say by what it went")
    elif any(name == "tcp" for name, _ in lanes):
        yield Point(ProofState.REFUTED, "UCX went by TCP")
    elif not any(device == test.drive.hca for _, device in lanes):
        named = ", ".join(sorted({device for _, device in lanes}))
        yield Point(ProofState.REFUTED, f"UCX went by {named}, asked was {test.drive.hca}")
    else:
        yield Point(
            ProofState.SHOWN, f"UCX: {', '.join(f'{name} on {dev}' for name, dev in lanes)}"
        )
        if test.gpu:
            yield Point(ProofState.OPEN, "UCX: whether it copied through host memory is not told")


class EarlierPart(Struct, frozen=True):
    """One end of a test, as far as it tells whether two tests are the same."""

    role: str  # "serve"
    host: str
    hca: str
    port: str
    buffer: str  # "GPU memory, by dma-buf"
    gpu: str  # "0000:18:00.0"; "" for host memory


class SameTest(Struct, frozen=True):
    """By what a test is known again: its tool and its ends, whatever its number."""

    tool: str
    kind: str
    size: int  # bytes of a message
    parts: tuple[EarlierPart, ...]


class Earlier(Struct, frozen=True):
    """One test of an earlier run."""

    run: str  # the folder's name
    when: str  # "2026-11-20T09:00:00+00:00"
    same: SameTest  # what must be equal for two tests to be the same
    gpu: bool  # data of a GPU was moved at either end
    value: float
    unit: str
    status: str
    simulated: bool = False  # nothing was moved
    fell_back: bool = False  # what was to be tested was not what happened

    @property
    def title(self) -> str:
        """ "ib_write_bw, GPU, deep queue (simulated)"."""
        told = f"{self.same.tool}, {'GPU' if self.gpu else 'host'}, {self.same.kind}"
        return told + " (simulated)" * self.simulated


def in_short(test: Test) -> str:
    """ "ib_write_bw, GPU, deep queue": figures of one name are comparable."""
    return f"{test.tool}, {'GPU' if test.gpu else 'host'}, {test.kind}"


def same(test: Test) -> SameTest:
    parts = tuple(
        EarlierPart(role.value, end.host, end.hca, str(end.port), end.buffer.value, end.gpu)
        for role, end in test.ends
    )
    return SameTest(test.tool, test.kind.value, test.size, parts)


def parse_kept(run: str, told: dict[str, Any]) -> Iterator[Earlier]:
    """Tests that came to a figure.

    :param run: the name of the folder that kept it.
    :param told: Any, as it may be of another version.
    :raises KeyError, TypeError, ValueError, AttributeError: where it is.
    """
    for each in told["results"]:
        if each["value"] is None:
            continue
        parts = tuple(
            EarlierPart(
                role, *(str(end[name]) for name in ("host", "hca", "port", "buffer", "gpu"))
            )
            for role, end in each["ends"].items()
        )
        yield Earlier(
            run=run,
            when=str(told["time"]),
            same=SameTest(str(each["tool"]), str(each["kind"]), int(each["size"]), parts),
            gpu=bool(each["gpu"]),
            value=float(each["value"]),
            unit=Unit(each["unit"]).value,  # of another version: no figure that can be told
            status=str(each["status"]),
            simulated=bool(told.get("simulated")),
            fell_back=any(point["proof"] == ProofState.REFUTED for point in each.get("points", ())),
        )
