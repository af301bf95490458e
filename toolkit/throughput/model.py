"""The throughput model: bandwidth and latency from links, wire, size and depth.

Bandwidths in GB/s (10^9 bytes a second, one way), times in us, sizes in bytes, rates in Gb/s;
1 GB/s is 1000 bytes a us. Every function grows with each bandwidth that it is given, so that
the bounds of a range go through it as its value does. Constants: compat/data/throughput.toml.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.compat.throughput import Constants, Range
from toolkit.facts.pci.pcie_caps import Link

_NEARLY = 0.9  # what lies that much below another is another limit
_PACKET = 4096  # bytes: the largest MTU, of which each end holds one back
_PIECES = 1 << 20  # bytes from which a library cuts: two of UCX's UCX_RNDV_FRAG_SIZE
_MPI_STEP, _MPI_RENDEZVOUS = 128, 8192  # bytes from which a library copies, and asks first


class Layer2(StrEnum):
    """What the wire is."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"
    UNKNOWN = ""


class Term(Struct, frozen=True):
    """One thing that could limit, and the words for it."""

    span: Range
    said: str
    ceiling: float = float("inf")  # what physics does not let any measurement exceed


def least(terms: list[Term]) -> Term:
    """The narrowest: its words, and the bounds that all of them leave.

    Where another might be narrower, as far as is known, it is named as well.
    """
    span, ceiling = terms[0].span, terms[0].ceiling
    for each in terms[1:]:
        span, ceiling = span.at_most(each.span), min(ceiling, each.ceiling)
    first = min(terms, key=lambda each: each.span.value)
    others = [e for e in terms if e is not first and e.span.low < first.span.value * _NEARLY]
    rival = min(others, key=lambda each: each.span.low, default=None)
    return Term(span, f"{first.said}, or {rival.said}" if rival else first.said, ceiling)


def raw(link: Link, c: Constants) -> float:
    """A link after line coding and before packets; FLITs count as line coding."""
    if link.speed <= 32:
        return link.gigabytes
    return link.speed * link.width / 8 * c["flit-share"].value


def pcie(link: Link, payload: Range, c: Constants) -> Range:
    """What a link carries in packets of at most that payload."""
    flits = link.speed > 32
    overhead = c["flit-overhead" if flits else "tlp-overhead"].value
    # A FLIT has room of its own for acknowledgements and credits.
    upkeep = Range.exactly(1) if flits else c["link-upkeep"]
    share = payload.map(lambda size: size / (size + overhead))
    return (share * upkeep * raw(link, c)).no_higher(raw(link, c))


def reads(asked: Range, round_trip: Range) -> Range:
    """What a reader gets that has so many bytes on order at a time.

    :param asked: tags times the size of one request.
    """
    return asked.over(round_trip) * 1e-3


def line(gbits: float) -> float:
    """A rate without any overhead."""
    return gbits / 8


def wire(gbits: Range, mtu: Range, layer: Layer2, c: Constants) -> Range:
    """Payload of a wire.

    :param mtu: of RoCE: 1024, 2048 or 4096; InfiniBand's efficiency does not tell them apart.
    """
    roce = mtu.map(lambda size: size / (size + c["roce-overhead"].value))
    match layer:
        case Layer2.ETHERNET:
            share = roce
        case Layer2.INFINIBAND:
            share = c["ib-efficiency"]
        case Layer2.UNKNOWN:
            fabric = c["ib-efficiency"]
            share = Range(
                min(roce.value, fabric.value),
                min(roce.low, fabric.low),
                max(roce.high, fabric.high),
            )
    return gbits.map(line) * share


def pipelined(size: float, bandwidth: Range, gap: Range, power: Range) -> Range:
    """Messages of one size with many in flight: the gap between two, or their bytes, decides.

    :param power: how far the two overlap: at 1 they add up, far above it the larger alone counts.
    """

    def rate(bound: float, between: float, power: float) -> float:
        if not bound:
            return 0.0
        transfer = size / bound / 1e3
        # Scaled, for the powers of long transfers leave the range of floats.
        larger = max(transfer, between)
        both: float = (between / larger) ** power + (transfer / larger) ** power
        return size / (larger * float(both ** (1 / power))) / 1e3

    return Range(
        rate(bandwidth.value, gap.value, power.value),
        rate(bandwidth.low, gap.high, power.low),
        rate(bandwidth.high, gap.low, power.high),
    )


def windowed(size: float, depth: int, pairs: int, bandwidth: Range, latency: Range) -> Range:
    """So many messages in flight on so many queue pairs: each window waits for its answer."""

    def rate(bound: float, wait: float) -> float:
        if not bound:
            return 0.0
        window = depth * size
        return min(bound, pairs * window / (wait + window / bound / 1e3) / 1e3)

    return Range(
        rate(bandwidth.value, latency.value),
        rate(bandwidth.low, latency.high),
        rate(bandwidth.high, latency.low),
    )


MANY = 64  # messages in flight from which the window no longer counts


class Poster(StrEnum):
    """Who hands messages to the HCA, as far as it tells how many a second one core gets rid of."""

    CORE = ""
    GUEST = "guest"  # its doorbell is a write through the hypervisor's mapping
    BROADCOM = "broadcom"


def in_flight(
    size: float,
    depth: int,
    pairs: int,
    bandwidth: Range,
    c: Constants,
    *,
    poster: Poster = Poster.CORE,
) -> Range:
    """Bandwidth of messages of one size at a depth, under verbs.

    Fewer than many in flight are bounded by their window as well.
    """
    power, gap = c["message-gap-power"], c["message-gap"]
    match poster:
        case Poster.GUEST:
            gap = c["message-gap-guest"]
        case Poster.BROADCOM:  # adds up in full
            gap, power = c["message-gap-broadcom"], Range(power.low, power.low, power.high)
    many = pipelined(size, bandwidth, gap, power)
    if depth >= MANY:
        return many
    return many.at_most(windowed(size, depth, pairs, bandwidth, c["window-latency"]))


def mpi_messages(size: float, bandwidth: Range, c: Constants) -> Range:
    """The same under an MPI library with its usual window of 64."""
    return pipelined(size, bandwidth, c["mpi-gap"], c["message-gap-power"])


def staged_messages(size: float, bandwidth: Range, c: Constants) -> Range:
    """Through host memory: each message waits for the launch of its copies.

    Where a library maps GPU memory for small ones, no launch is between them; of large ones,
    which it cuts in pieces, launches overlap with the bytes.
    """
    if size >= _PIECES:
        return bandwidth
    launch, mapped, power = (
        c["latency-memcpy"],
        c["mpi-gap"] + c["latency-mapped"],
        c["message-gap-power"],
    )
    gap = Range(launch.value, min(mapped.low, launch.low), launch.high)
    return pipelined(size, bandwidth, gap, Range(power.high, power.low, power.high))


def synchronous(size: float, c: Constants) -> Range:
    """Where a library waits for each copy: its launch, and then its bytes."""
    alone = Range.exactly(1)  # nothing of the two overlaps
    return pipelined(size, c["staged-unpipelined"], c["latency-memcpy"], alone)


def verbs_latency(size: float, path: Range, on_wire: Range, base: Range) -> Range:
    """One way: what a small message takes, a packet at either end, the bytes on the wire.

    :param path: of the PCIe path; and ``on_wire`` of the wire, GB/s.
    """
    packet, message = Range.exactly(2 * min(size, _PACKET)), Range.exactly(size)
    return base + (packet.over(path) + message.over(on_wire)) * 1e-3


def gpu_base(c: Constants) -> Range:
    """Between GPUs a switch at either end adds to what host memory takes."""
    return c["latency-verbs-host"] + c["latency-switch"] * 2


def mpi_latency(size: float, on_wire: Range, base: Range, c: Constants) -> Range:
    time = base + Range.exactly(size).over(on_wire) * 1e-3
    if size >= _MPI_STEP:
        time = time + c["latency-mpi-step"]
    if size >= _MPI_RENDEZVOUS:
        time = time + c["latency-rendezvous"]
    return time


def staged_latency(size: float, on_wire: Range, base: Range, adder: Range, c: Constants) -> Range:
    """Through host memory, one piece after the other: slower than that GPUDirect never is."""
    copies = on_wire.at_most(c["staged-unpipelined"])
    waits = Range(size / copies.value / 1e3, size / on_wire.high / 1e3, size / copies.low / 1e3)
    direct = mpi_latency(size, on_wire, base, c)
    time = base + adder + waits
    return Range(
        max(time.value, direct.value), max(time.low, direct.low), max(time.high, direct.high)
    )
