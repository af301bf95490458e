"""One GPU with one HCA: with GPUDirect, without it, as a collective, and how soon."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.rows import Confidence
from toolkit.compat.throughput import Constants, Range
from toolkit.facts.pci.topology import Distance
from toolkit.plural import first_of
from toolkit.throughput.estimate import Estimate, Layer, estimate, lasting, left_open
from toolkit.throughput.inputs import LATENCY_SIZE, NOT_TOLD, LinkTold, Load, PairInputs
from toolkit.throughput.model import (
    Term,
    gpu_base,
    in_flight,
    least,
    line,
    mpi_latency,
    pcie,
    raw,
    reads,
    staged_latency,
    staged_messages,
    verbs_latency,
    wire,
)

NEAR = frozenset({Distance.PIX, Distance.PXB})
COHERENT = frozenset({Distance.C2C, Distance.P2C})
_NO_FASTER = "bounce through host memory, taken for no faster than GPUDirect"
_ROOT = frozenset({Distance.PHB, Distance.NODE})


class PairPrediction(Struct, frozen=True):
    """What one GPU does with one HCA; blocked says why the figures with GPUDirect are not now."""

    gpu: str
    hca: str
    name: str  # "mlx5_0"
    distance: Distance
    with_gdr: Estimate  # the HCA writes into GPU memory
    read: Estimate  # the HCA reads GPU memory
    collective: Estimate  # what a ring gets of the slower of both, shallow as NCCL's pipeline is
    without_gdr: Estimate  # through host memory
    latency: MessageLatency
    blocked: str  # "" where nothing that was read keeps GPUDirect from working
    nearest: bool  # no HCA is nearer to this GPU

    @property
    def now(self) -> Estimate:
        """What it does as it stands; the lower bound of both where that was not read."""
        if self.blocked:
            return self.without_gdr
        floor = min(self.with_gdr.low, self.without_gdr.low)
        return replace(self.with_gdr, low=floor) if self.untold else self.with_gdr

    @property
    def untold(self) -> bool:
        """Nothing that was read keeps GPUDirect from working, nor says that it works."""
        return not self.blocked and NOT_TOLD in self.with_gdr.assumptions


@lru_cache(maxsize=1024)  # nodes of a fleet have the same boards, at the same addresses
def predict_pair(told: PairInputs, load: Load, c: Constants) -> PairPrediction:
    written = _bandwidth(told, load, c, reading=False)
    fetched = _bandwidth(told, load, c, reading=True)
    ring = _collective(told, Load(), c)  # NCCL chooses sizes and depth itself
    # Through host memory by a library that pipelines its copies.
    own = link_term(told.gpu_link, told.payload, "GPU", c)
    copy = Term(own.span * c["copy-efficiency"], own.said)
    terms = [wire_term(told, c), link_term(told.hca_link, told.payload, "HCA", c)]
    if told.distance in COHERENT:
        staged = _of_pipeline(least(terms), c["staged-coherent"], load, told, c)
    else:
        staged = _of_pipeline(
            _under_iommu(told, [*terms, copy], copy, c), c["staged"], load, told, c
        )
    if staged.span.value > written.span.value:  # never above: a measurement tells which it is
        staged = Term(staged.span, _NO_FASTER)
    staged = Term(staged.span.at_most(written.span), staged.said)
    sure = _confidence(told)

    def made(term: Term, layer: Layer, confidence: Confidence) -> Estimate:
        found = estimate(term.span, term.said, layer, confidence, told.notes)
        return left_open(found) if told.wire.guessed else found

    return PairPrediction(
        told.gpu,
        told.hca,
        told.name,
        told.distance,
        made(written, Layer.VERBS, sure),
        made(fetched, Layer.VERBS, sure),
        made(ring, Layer.RING, sure),
        made(staged, Layer.MPI, Confidence.LOW),
        latency(told, LATENCY_SIZE, c),
        told.blocked,
        told.best,
    )


def wire_term(told: PairInputs, c: Constants) -> Term:
    carried = wire(told.wire.gbits, told.wire.mtu, told.wire.layer, c)
    return Term(carried, f"wire ({told.wire.said})", line(told.wire.gbits.high))


def link_term(link: LinkTold, payload: Range, end: str, c: Constants) -> Term:
    """:param end: whose link it is: "GPU"."""
    span = Range(
        pcie(link.value, payload, c).value,
        pcie(link.low, payload, c).low,
        pcie(link.high, payload, c).high,
    )
    words = [end, link.at] if link.at else [end]
    unsure = f"{link.value}, another not read" if link.at else "link not read"
    shown = str(link.value) if link.certain else unsure
    return Term(span, f"PCIe ({' '.join(words)}: {shown})", raw(link.high, c))


def _terms(told: PairInputs, c: Constants, *, reading: bool) -> tuple[list[Term], Term]:
    """All between an HCA and GPU memory; and the link of the GPU, which an IOMMU slows down."""
    terms = [link_term(told.hca_link, told.payload, "HCA", c)]
    own = link_term(told.gpu_link, told.payload, "GPU", c)
    factor, why = _factor(told, c, reading=reading)
    if told.distance not in COHERENT:
        terms.append(own)
        if why:
            terms.append(Term(own.span * factor, why, own.ceiling))
    if reading:
        near = told.distance in NEAR | COHERENT
        trip = c["round-trip-switch" if near else "round-trip-root"]
        words = f"reads on order ({told.tags.value:g} of {told.request.value:g} B)"
        terms.append(Term(reads(told.tags * told.request, trip), words))
    return terms, own


def gpu_side(told: PairInputs, c: Constants, *, reading: bool) -> Term:
    """What the HCA does with GPU memory, whatever its wire."""
    return _under_iommu(told, *_terms(told, c, reading=reading), c)


def copy_side(told: PairInputs, c: Constants) -> Term | None:
    """What the GPU's copies to and from host memory do; None where both share their memory."""
    if told.distance in COHERENT:
        return None
    own = link_term(told.gpu_link, told.payload, "GPU", c)
    copy = Term(own.span * c["copy-efficiency"], own.said)
    return _under_iommu(told, [copy], copy, c)


def _bandwidth(told: PairInputs, load: Load, c: Constants, *, reading: bool) -> Term:
    terms, own = _terms(told, c, reading=reading)
    found = _under_iommu(told, [wire_term(told, c), *terms], own, c)
    span = in_flight(load.size, load.depth, load.pairs, found.span, c, poster=told.wire.poster)
    said = found.said
    if span.value < found.span.value * 0.9:
        said = f"message size and depth ({load.size} B, {load.depth} in flight)"
    width = c["width-physics"]
    span = span.wider(width.low, width.high).no_higher(found.ceiling)
    if told.distance in NEAR and (told.redirects or told.translated) and load.shallow:
        # What a collective was seen to lose, a shallow queue may lose too: nobody published it.
        span = Range(span.value, span.low * c["acs-collective"].low, span.high)
    return Term(span, said, found.ceiling)


def _factor(told: PairInputs, c: Constants, *, reading: bool) -> tuple[Range, str]:
    """What the way through the processor leaves; no words where it does not lead there."""
    whole = Range.exactly(1)
    if told.distance in NEAR | COHERENT:
        return whole, ""
    cpu = told.cpu
    name = cpu.name if cpu else "processor not known"
    unknown = "path-unknown-read" if reading else "path-unknown"
    crossing = c[cpu.cross if cpu else "path-unknown-cross"]
    same = c[(cpu.same_read if reading else cpu.same) if cpu else unknown]
    if told.distance in _ROOT:
        return same, f"root complex ({name}): measure it"
    if reading:
        crossing = crossing.at_most(same)
    if told.distance is Distance.SYS:
        return crossing, f"between sockets ({name}): measure it"
    low = min(same.low, crossing.low)
    if told.distance is Distance.APART:
        span = Range(crossing.at_most(same).value, low, max(same.high, crossing.high))
        return span, f"root complex or sockets ({name}): measure it"
    return Range(same.value, low, 1.0), "a path that was not told"


def _under_iommu(told: PairInputs, terms: list[Term], own: Term, c: Constants) -> Term:
    """The narrowest term; an IOMMU that is not told of lowers the lower bound alone."""
    if told.translated is False or told.distance in COHERENT:
        return least(terms)
    client = told.cpu is not None and told.cpu.client and not told.ats
    share = c["iommu-client" if client else "iommu-server"]
    if told.ats is None:  # with ATS it would cost what it costs a server
        share = Range(share.value, share.low, max(share.high, c["iommu-server"].high))
    slowed = own.span * share
    found = least([*terms, Term(slowed, "IOMMU that translates", own.ceiling)])
    if told.translated:
        return found
    free = least(terms)
    return Term(Range(free.span.value, found.span.low, free.span.high), free.said, free.ceiling)


def _collective(told: PairInputs, load: Load, c: Constants) -> Term:
    """What NCCL's shallow pipeline gets: ACS redirect costs it what deep queues hide."""
    near = told.distance in NEAR
    client = told.cpu is not None and told.cpu.client
    # Below a switch the factor of collectives has a translating IOMMU in it.
    path = told if client or not near else replace(told, translated=False, redirects=())
    both = [_bandwidth(path, load, c, reading=reading) for reading in (False, True)]
    slower = min(both, key=lambda each: each.span.value)
    width, acs = c["width-physics"], c["acs-collective"]
    span = (slower.span * c["ring-efficiency"]).wider(width.low, width.high)
    span = span.at_most(both[0].span).no_higher(slower.ceiling)
    if not near:
        return Term(span, slower.said, slower.ceiling)
    if told.redirects or told.translated:
        return Term(span * acs, _detour(told), slower.ceiling)
    if told.redirects is None or told.translated is None:
        span = Range(span.value, span.low * acs.low, span.high)
    return Term(span, slower.said, slower.ceiling)


def _detour(told: PairInputs) -> str:
    """Why traffic below a switch climbs past it."""
    if not told.redirects:
        return "IOMMU that translates"
    return f"ACS redirect at {first_of(told.redirects)}"


def _of_pipeline(path: Term, share: Range, load: Load, told: PairInputs, c: Constants) -> Term:
    span = (
        in_flight(load.size, load.depth, load.pairs, path.span, c, poster=told.wire.poster) * share
    )
    launched = staged_messages(load.size, path.span * share, c)
    words = f"bounce through host memory, of {path.said}"
    if launched.value < span.value * 0.9:
        words = f"copies through host memory, a launch for each message of {load.size} B"
    return Term(span.at_most(launched), words)


def _confidence(told: PairInputs) -> Confidence:
    if told.distance not in NEAR | COHERENT:
        return told.cpu.confidence if told.cpu else Confidence.LOW
    return Confidence.MEDIUM if told.notes else Confidence.HIGH


# Latency of a small message by layer: figures of two layers are never one figure's two ends.
class MessageLatency(Struct, frozen=True):
    """One way, us, of a message of that size."""

    size: int  # bytes
    verbs: Estimate  # with GPUDirect
    mpi: Estimate  # with GPUDirect
    mapped: Estimate  # without, the library copies by gdrcopy
    memcpy: Estimate  # without, by cudaMemcpy

    def __iter__(self) -> Iterator[Estimate]:
        yield from (self.verbs, self.mpi, self.mapped, self.memcpy)


def latency(told: PairInputs, size: int, c: Constants) -> MessageLatency:
    carried = wire(told.wire.gbits, told.wire.mtu, told.wire.layer, c)
    path = link_term(told.gpu_link, told.payload, "GPU", c).span
    base, library = gpu_base(c), c["latency-mpi"]
    if told.distance > Distance.PXB or told.redirects or told.translated:
        base, library = (each + c["latency-beyond-switch"] for each in (base, library))
    if told.wire.datagrams:
        base, library = (each + c["latency-srd"] for each in (base, library))
    width = c["width-physics"]
    spans = {
        Layer.VERBS: verbs_latency(size, path, carried, base).wider(width.low, width.high),
        Layer.MPI: mpi_latency(size, carried, library, c),
        Layer.MAPPED: staged_latency(size, carried, library, c["latency-mapped"], c),
        Layer.MEMCPY: staged_latency(size, carried, library, c["latency-memcpy"], c),
    }
    made = {
        layer: lasting(estimate(span, _WHY[layer], layer, _SURE[layer], told.notes))
        for layer, span in spans.items()
    }
    return MessageLatency(
        size, made[Layer.VERBS], made[Layer.MPI], made[Layer.MAPPED], made[Layer.MEMCPY]
    )


_WHY = {
    Layer.VERBS: "the HCAs and a switch at either end",
    Layer.MPI: "the library",
    Layer.MAPPED: "copies by the processor",
    Layer.MEMCPY: "two launches of cudaMemcpy",
}
_SURE = {
    Layer.VERBS: Confidence.MEDIUM,
    Layer.MPI: Confidence.LOW,
    Layer.MAPPED: Confidence.LOW,
    Layer.MEMCPY: Confidence.LOW,
}
