"""The throughput model's arithmetic, and the laws that it must keep whatever the inputs."""

from __future__ import annotations

from itertools import permutations

import pytest

from dev.run import ROOT
from toolkit.compat.throughput import Basis, Range, constants
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.model import Layer2, Term, least, mpi_latency, pcie, raw, reads, wire

C = constants()
SPEED = {3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def test_every_constant_names_its_source_and_how_sure_it_is() -> None:
    for row in C.rows.values():
        assert len(row.source) > 10, row.id
        assert 0 <= row.range.low <= row.range.value <= row.range.high, row.id
        assert bool(row.why_prior) == (row.basis is Basis.FITTED), row.id
    for cpu in C.cpus:
        assert len(cpu.source) > 10, cpu.id
        assert {cpu.same, cpu.same_read, cpu.cross} <= set(C.rows), cpu.id


def test_every_constant_is_used() -> None:
    """By the model, by a processor, or by the judgement of the model."""
    folders = ("toolkit/throughput", "toolkit/features/predict", "dev/accuracy")
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    code = "".join(path.read_text() for path in files)
    of_cpus = {name for cpu in C.cpus for name in (cpu.same, cpu.same_read, cpu.cross)}
    assert [name for name in C.rows if f'"{name}"' not in code and name not in of_cpus] == []


@pytest.mark.parametrize(
    ("gen", "lanes", "payload", "gigabytes"),
    [
        pytest.param(3, 8, 128, 6.5, id="gen3-x8-128"),
        pytest.param(3, 16, 256, 14.1, id="gen3-x16-256"),
        pytest.param(4, 16, 512, 29.6, id="gen4-x16-512"),
        pytest.param(5, 8, 256, 28.3, id="gen5-x8-256"),
        pytest.param(5, 16, 64, 45.0, id="gen5-x16-64"),
        pytest.param(5, 16, 256, 56.6, id="gen5-x16-256"),
        pytest.param(6, 16, 256, 110.0, id="gen6-x16-256"),
    ],
)
def test_payload_of_a_link(gen: int, lanes: int, payload: int, gigabytes: float) -> None:
    found = pcie(Link(SPEED[gen], lanes), Range.exactly(payload), C).value
    assert found == pytest.approx(gigabytes, rel=0.02)


def test_63_gigabytes_is_a_link_before_packets_and_nobody_measures_it() -> None:
    gen5 = Link(32.0, 16)
    assert raw(gen5, C) == pytest.approx(63.0, abs=0.1)
    assert pcie(gen5, Range.exactly(512), C).value < 60


@pytest.mark.parametrize(
    ("gbits", "mtu", "measured"),
    [
        pytest.param(100, 1024, 92.39, id="100G-mtu-1024"),
        pytest.param(400, 4096, 392.0, id="400G-mtu-4096"),
    ],
)
def test_roce_is_header_arithmetic_alone(gbits: float, mtu: float, measured: float) -> None:
    found = wire(Range.exactly(gbits), Range.exactly(mtu), Layer2.ETHERNET, C)
    assert found.value * 8 == pytest.approx(measured, rel=0.003)


def test_five_bit_tags_do_not_fill_400g_and_eight_bit_tags_do() -> None:
    trip = Range.exactly(1.0)
    assert reads(Range.exactly(32 * 512), trip).value == pytest.approx(16.4, abs=0.1)
    assert reads(Range.exactly(256 * 512), trip).value == pytest.approx(131, abs=1)


@pytest.mark.parametrize(("size", "row"), [(128, "latency-mpi-step"), (8192, "latency-rendezvous")])
def test_a_library_takes_a_step_more_from_that_size_on(size: int, row: str) -> None:
    def taken(size: int) -> float:
        return mpi_latency(size, Range.exactly(1e9), Range.exactly(1.0), C).value

    assert taken(size) - taken(size - 1) == pytest.approx(C[row].value, abs=1e-6)


def test_the_narrowest_term_limits_wherever_it_stands() -> None:
    terms = (
        Term(Range(10, 8, 12), "link", 20.0),
        Term(Range(30, 28, 32), "wire", 15.0),
        Term(Range(11, 4, 40), "memory", 40.0),
    )
    for order in permutations(terms):
        found = least([*order])
        assert (found.span, found.ceiling) == (Range(10, 4, 12), 15.0)
        assert found.said == "link, or memory"
