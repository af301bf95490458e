"""From a node's evidence to what the model is told; what was not read widens, and is noted."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from toolkit.compat.gpus import chip
from toolkit.compat.throughput import Constants, CpuClass, Range
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.facts.nccl.nccl_xml import Device
from toolkit.facts.node.node import Node
from toolkit.facts.pci.acs import names_of
from toolkit.facts.pci.functions import NVIDIA, PciFunction
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.pairs import NamedPair
from toolkit.facts.pci.pcie_caps import Express, Link
from toolkit.facts.pci.topology import Hop
from toolkit.facts.rdma.devices import RdmaDevice
from toolkit.throughput.inputs import NOT_TOLD, LinkTold, PairInputs
from toolkit.throughput.pair import COHERENT, NEAR
from toolkit.throughput.ports import HcaKind, wire_of

_SLOWEST, _FASTEST = Link(8.0, 8), Link(32.0, 16)  # where nothing tells of a link


class Gaps(Struct, frozen=True):
    """What keeps GPUDirect from working, as whoever judges nodes has found."""

    path: str | None = None  # why neither path is usable; "" where one is, None where not read
    of_gpu: Callable[[str], str] = field(default=lambda _: "")  # what its kind says against a GPU


class KnownNode(Struct, frozen=True):
    """What all pairs of a node share, each read once."""

    node: Node
    devices: dict[str, RdmaDevice]  # by address, and by name
    functions: dict[str, PciFunction]  # with config space where it was read
    groups: dict[str, Domain] | None
    cpu: CpuClass | None
    gaps: Gaps
    nccl: dict[str, Device]  # by name and address, where NCCL's file is the source
    unsure: tuple[str, ...] = field(default=())  # notes for every pair


def know(node: Node, c: Constants, gaps: Gaps) -> KnownNode:
    none: tuple[RdmaDevice, ...] = ()
    devices = {each.address: each for each in read_or(lambda: node.rdma_hardware, none)}
    devices |= {each.name: each for each in devices.values()}
    tree = read_or(lambda: node.pci_config, None) or read_or(lambda: node.pci, None)
    cpu = read_or(lambda: node.cpu, None)
    kind = c.cpu(cpu.vendor, cpu.family, cpu.number) if cpu else None
    unsure = () if gaps.path is not None else (NOT_TOLD,)
    if read_or(lambda: node.is_guest, otherwise=False):
        unsure = (*unsure, "a guest's PCI tree is not the machine's: distances may be made up")
    groups = read_or(lambda: node.iommu_groups, None)
    functions = tree.functions if tree else {}
    told = read_or(lambda: node.nccl_topology, None) if tree is None else None
    if told is not None and kind is None:
        kind = c.cpu(*told.processor)
    ends = (*told.gpus, *told.hcas) if told is not None else ()
    nccl = {name: each for each in ends for name in (each.name, each.address)}
    return KnownNode(node, devices, functions, groups, kind, gaps, nccl, unsure)


def read_pair(known: KnownNode, pair: NamedPair, c: Constants, *, best: bool) -> PairInputs:
    """Everything of one pair that the model wants."""
    notes = list(known.unsure)
    gpu, hca = known.functions.get(pair.gpu), known.functions.get(pair.hca)
    device = known.devices.get(pair.hca)
    if hca is None and device is not None:
        hca = known.functions.get(device.address)
    gpu_side, hca_side = _sides(pair)
    payload, tags, request = _packets(gpu, hca, c, notes)
    blocked = known.gaps.path or known.gaps.of_gpu(pair.gpu)
    redirects, translated = _redirects(known, pair, notes), _translated(known, hca, notes)
    ats = _translates_itself(hca)
    if translated and ats is None and known.cpu is not None and known.cpu.client:
        notes.append("ATS of the HCA not read: with it the IOMMU may cost nothing")
    if pair.distance not in NEAR | COHERENT and known.cpu is None:
        notes.append("processor not known: its root complex may carry far less")
    return PairInputs(
        pair.gpu,
        pair.hca,
        device.name if device else pair.hca,
        pair.distance,
        _link(gpu_side, _End(pair.gpu, gpu, known.nccl.get(pair.gpu)), c, notes),
        _link(hca_side, _End(pair.hca, hca, known.nccl.get(pair.hca)), c, notes),
        payload,
        tags,
        request,
        wire_of(known.node, device, _kind(hca, known.nccl.get(pair.hca)), c, notes),
        known.cpu,
        redirects,
        translated,
        ats,
        _uplink(pair),
        blocked,
        tuple(dict.fromkeys(notes)),
        best,
    )


def _sides(pair: NamedPair) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
    """The links of either end, up to what both share."""
    if pair.path is None:
        return (), ()
    hops, path = pair.path.hops, pair.path
    own = {path.gpu.address, *path.gpu.parents}
    mine = tuple(each for each in hops if each.lower.address in own)
    return mine, tuple(each for each in hops if each not in mine)


class _End(Struct, frozen=True):
    """One end of a pair, as far as each source tells of it."""

    name: str
    function: PciFunction | None
    nccl: Device | None

    @property
    def own(self) -> Link:
        """The link of the device itself: a lone block of lspci, or NCCL's file."""
        if self.nccl is not None:
            return self.nccl.link
        if self.function is None:
            return Link(0.0, 0)
        # An idle GPU has trained down, and wakes with traffic.
        now, top = self.function.now, self.function.best
        return Link(max(now.speed, top.speed) if self.function.is_gpu else now.speed, now.width)

    @property
    def architecture(self) -> str:
        """Of a GPU; "" for anything else."""
        if self.function is not None:
            device = self.function.device if self.function.is_gpu else 0
        else:
            device = self.nccl.ids[1] if self.nccl and self.nccl.ids[0] == NVIDIA else 0
        found = chip(device) if device else None
        return found.architecture if found else ""


def _link(hops: tuple[Hop, ...], end: _End, c: Constants, notes: list[str]) -> LinkTold:
    """The narrowest link that tells its bandwidth, else what the kind of GPU has at best."""
    told = [each for each in hops if each.now.gigabytes]
    if told:
        found = min(told, key=lambda each: each.now.gigabytes)
        if len(told) == len(hops):
            return LinkTold.known(found.now, found.lower.address)
        notes.append(f"not every link above {end.name} was read")
        low = min(_SLOWEST, found.now, key=lambda each: each.gigabytes)
        return LinkTold(found.now, low, found.now, found.lower.address)
    if end.own.gigabytes:
        return LinkTold.known(end.own, end.name)
    notes.append(f"link of {end.name} not read")
    speed = c.links.get(end.architecture, 0.0)
    if speed:
        return LinkTold(Link(speed, 16), Link(speed, 8), Link(speed, 16), "")
    return LinkTold(Link(16.0, 16), _SLOWEST, _FASTEST, "")


def _kind(function: PciFunction | None, nccl: Device | None) -> HcaKind:
    if function is not None:
        return HcaKind((function.vendor, function.device))
    return HcaKind(nccl.ids, nccl.gbits) if nccl is not None else HcaKind()


def _packets(
    gpu: PciFunction | None, hca: PciFunction | None, c: Constants, notes: list[str]
) -> tuple[Range, Range, Range]:
    """Payload of one packet; how many reads the HCA has on order, and of how many bytes."""
    mine, theirs = _express(gpu), _express(hca)
    sizes = [each.payload for each in (mine, theirs) if each is not None]
    if len(sizes) == 2:
        payload = Range.exactly(min(sizes))
    elif sizes:
        payload = Range(sizes[0], min(sizes[0], c["payload-assumed"].low), sizes[0])
        notes.append("packet size read of one end alone: no more than that")
    else:
        payload = c["payload-assumed"]
        notes.append(f"packet sizes not read: {payload.low:g} to {payload.high:g} bytes")
    if theirs is None:
        notes.append("tags and read requests of the HCA not read")
        return payload, Range(256, 32, 768), Range(512, 128, 4096)
    tags = 768 if theirs.tags_10bit else 256 if theirs.tags_8bit else 32
    return payload, Range.exactly(tags), Range.exactly(theirs.read_request)


def _express(function: PciFunction | None) -> Express | None:
    if function is None:
        return None
    return read_or(function.express, None)


def _redirects(known: KnownNode, pair: NamedPair, notes: list[str]) -> tuple[str, ...] | None:
    """Bridges between the two that redirect; () beyond switches, where there is none."""
    if pair.distance not in NEAR:
        return ()
    path = pair.path
    if path is None:
        notes.append("ACS not read")
        return None
    found, unread = [], False
    for bridge in path.bridges:
        try:
            registers = known.functions.get(bridge.address, bridge).acs_registers()
        except (NoEvidence, Unparsable):
            unread = True
            continue
        if registers is not None and registers.redirects:
            found.append(f"{bridge.address} ({names_of(registers.redirects)})")
    if unread:
        notes.append("ACS not read of every bridge" if found else "ACS not read")
    return tuple(found) if found or not unread else None


def _translated(known: KnownNode, hca: PciFunction | None, notes: list[str]) -> bool | None:
    if known.groups is not None:
        domain = known.groups.get(hca.group) if hca is not None and hca.group else None
        if domain is Domain.IDENTITY or (domain is not None and domain.translated):
            return domain.translated
        if not known.groups or (hca is not None and not hca.group):
            return False
    notes.append("IOMMU domain of the HCA not read")
    return None


def _translates_itself(hca: PciFunction | None) -> bool | None:
    try:
        found = hca.ats() if hca is not None else None
    except (NoEvidence, Unparsable):
        return None
    return None if hca is None else found is not None and found.enabled


def _uplink(pair: NamedPair) -> str:
    """The upper end of what both sides share."""
    if pair.path is None:
        return ""
    shared = [
        ours
        for ours, theirs in zip(pair.path.gpu.parents, pair.path.hca.parents, strict=False)
        if ours == theirs and not ours.startswith("pci")
    ]
    return shared[0] if shared else ""
