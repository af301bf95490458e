"""Laws of the prediction that hold for any inputs, whatever the constants are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws import tried
from toolkit.compat.throughput import Range, constants
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.plan.totals import NodeInputs, Prediction, predict_inputs
from toolkit.throughput.estimate import Estimate
from toolkit.throughput.inputs import HcaWire, LinkTold, Load, PairInputs
from toolkit.throughput.model import Layer2, line, raw
from toolkit.throughput.pair import PairPrediction, predict_pair

C = constants()
SPEEDS, WIDTHS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0), (1, 2, 4, 8, 16)
SIZES, MTUS = (128.0, 256.0, 512.0, 1024.0, 4096.0), (256.0, 512.0, 1024.0, 2048.0, 4096.0)
EXACT = Range.exactly

links = st.builds(
    lambda speed, width: LinkTold.known(Link(speed, width), "0000:18:00.0"),
    st.sampled_from(SPEEDS),
    st.sampled_from(WIDTHS),
)
ranges = st.sampled_from([EXACT(256.0), Range(256, 128, 512), EXACT(512.0)])
wires = st.builds(
    HcaWire,
    st.sampled_from([EXACT(25.0), EXACT(100.0), EXACT(400.0), EXACT(800.0), Range(200, 25, 800)]),
    st.sampled_from(Layer2),
    st.sampled_from([EXACT(1024.0), EXACT(4096.0), Range(4096, 1024, 4096)]),
)
inputs = st.builds(
    PairInputs,
    gpu=st.just("0000:18:00.0"),
    hca=st.just("0000:19:00.0"),
    name=st.just("mlx5_0"),
    distance=st.sampled_from(Distance),
    gpu_link=links,
    hca_link=links,
    payload=ranges,
    tags=st.sampled_from([EXACT(32.0), EXACT(256.0), EXACT(768.0)]),
    request=st.sampled_from([EXACT(128.0), EXACT(512.0), EXACT(4096.0)]),
    wire=wires,
    cpu=st.sampled_from([None, *C.cpus]),
    redirects=st.sampled_from([None, (), ("0000:17:00.0 (ReqRedir)",)]),
    translated=st.sampled_from([None, False, True]),
    best=st.just(True),
)
loads = st.builds(
    Load,
    size=st.integers(1, 1 << 30),
    depth=st.integers(1, 512),
    pairs=st.integers(1, 8),
)
CHEAP = tried(60)


def figures(found: PairPrediction) -> list[Estimate]:
    return [found.with_gdr, found.read, found.collective, found.without_gdr]


def grows(told: list[PairInputs], load: Load) -> None:
    """Every bandwidth of each is at least that of the one before."""
    rows = [figures(predict_pair(each, load, C)) for each in told]
    for before, after in pairwise(rows):
        for low, high in zip(before, after, strict=True):
            assert low.value <= high.value * (1 + 1e-9)


@CHEAP
@given(inputs, loads)
def test_a_figure_lies_in_its_interval_and_names_its_limit(told: PairInputs, load: Load) -> None:
    found = predict_pair(told, load, C)
    for each in [*figures(found), *found.latency]:
        assert 0 <= each.low <= each.value <= each.high
        assert each.limit


@CHEAP
@given(inputs, loads)
def test_no_bound_of_physics_is_exceeded(told: PairInputs, load: Load) -> None:
    top = min(line(told.wire.gbits.high), raw(told.hca_link.high, C))
    if told.distance not in {Distance.C2C, Distance.P2C}:
        top = min(top, raw(told.gpu_link.high, C))
    for each in figures(predict_pair(told, load, C)):
        assert each.high <= top * (1 + 1e-9)


@CHEAP
@given(inputs, loads)
def test_without_is_never_faster_and_a_blocked_pair_does_that(told: PairInputs, load: Load) -> None:
    found = predict_pair(replace(told, blocked="as asked"), load, C)
    assert found.now == found.without_gdr
    assert found.without_gdr.value <= found.with_gdr.value
    assert found.without_gdr.high <= found.with_gdr.high


@CHEAP
@given(inputs, loads)
def test_more_lanes_are_never_slower(told: PairInputs, load: Load) -> None:
    speed = told.gpu_link.value.speed
    wider = [LinkTold.known(Link(speed, width), "") for width in WIDTHS]
    grows([replace(told, gpu_link=link, hca_link=link) for link in wider], load)


@CHEAP
@given(inputs, loads)
def test_a_newer_generation_is_never_slower(told: PairInputs, load: Load) -> None:
    width = told.gpu_link.value.width
    newer = [LinkTold.known(Link(speed, width), "") for speed in SPEEDS]
    grows([replace(told, gpu_link=link, hca_link=link) for link in newer], load)


@CHEAP
@given(inputs, loads)
def test_larger_packets_are_never_slower(told: PairInputs, load: Load) -> None:
    grows([replace(told, payload=EXACT(size)) for size in SIZES], load)
    grows([replace(told, wire=replace(told.wire, mtu=EXACT(mtu))) for mtu in MTUS], load)


@CHEAP
@given(inputs, loads)
def test_a_faster_port_and_more_reads_are_never_slower(told: PairInputs, load: Load) -> None:
    rates = [replace(told.wire, gbits=EXACT(rate)) for rate in (10.0, 100.0, 200.0, 400.0)]
    grows([replace(told, wire=wire) for wire in rates], load)
    grows([replace(told, tags=EXACT(tags)) for tags in (32.0, 256.0, 768.0)], load)
    grows([replace(told, request=EXACT(size)) for size in (128.0, 512.0, 4096.0)], load)


@CHEAP
@given(inputs, loads)
def test_larger_messages_and_deeper_queues_are_never_slower(told: PairInputs, load: Load) -> None:
    for larger in (
        [replace(load, size=size) for size in (1, 64, 4096, 65536, 1 << 20, 1 << 30)],
        [replace(load, depth=depth) for depth in (1, 2, 8, 63, 64, 128)],
    ):
        rows = [figures(predict_pair(told, each, C)) for each in larger]
        for before, after in pairwise(rows):
            for low, high in zip(before, after, strict=True):
                assert low.value <= high.value * (1 + 1e-9)


@CHEAP
@given(inputs, loads)
def test_redirect_and_translation_are_never_faster(told: PairInputs, load: Load) -> None:
    clear = replace(told, redirects=(), translated=False)
    grows([replace(clear, redirects=("a bridge",)), clear], load)
    grows([replace(clear, translated=True), clear], load)
    both = replace(clear, redirects=("a bridge",), translated=True)
    grows([both, replace(clear, redirects=("a bridge",))], load)


@CHEAP
@given(inputs, loads)
def test_what_is_not_known_only_widens(told: PairInputs, load: Load) -> None:
    known = replace(told, redirects=(), translated=False, payload=EXACT(256.0))
    unknown = replace(known, redirects=None, translated=None, payload=Range(256, 128, 512))
    for sure, wide in zip(
        figures(predict_pair(known, load, C)), figures(predict_pair(unknown, load, C)), strict=True
    ):
        assert wide.low <= sure.low * (1 + 1e-9)
        assert wide.high >= sure.high * (1 - 1e-9)


@CHEAP
@given(inputs, loads, st.integers(1, 8))
def test_more_hcas_are_never_slower(told: PairInputs, load: Load, count: int) -> None:
    def of(number: int) -> Prediction:
        """So many GPUs, each with an HCA of its own."""
        pairs = tuple(
            replace(told, gpu=f"gpu{n}", hca=f"hca{n}", name=f"mlx5_{n}") for n in range(number)
        )
        serving = frozenset(each.hca for each in pairs)
        return predict_inputs(NodeInputs(pairs, serving, Range(400, 200, 600), "PCI tree"), load, C)

    fewer, more = of(count).total, of(count + 1).total
    assert fewer is not None
    assert more is not None
    assert fewer.with_gdr.value <= more.with_gdr.value * (1 + 1e-9)
    assert fewer.without_gdr.value <= more.without_gdr.value * (1 + 1e-9)
    # Where GPUDirect is known to fail one way, a ring has none of it, and memory carries.
    assert not more.with_gdr.value or more.without_gdr.value <= more.with_gdr.value * (1 + 1e-9)
