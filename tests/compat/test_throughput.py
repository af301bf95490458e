"""The arithmetic of ranges, and the table of constants that predictions rest on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolkit.compat.throughput import Basis, Range, _constant, _cpu, _range, constants

ONE, TWO = Range(4, 2, 6), Range(2, 1, 4)
NUMBERS = st.floats(0.001, 1e6)
RANGES = (
    st.lists(NUMBERS, min_size=3, max_size=3)
    .map(sorted)
    .map(lambda three: Range(three[1], three[0], three[2]))
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Range.exactly(3), Range(3, 3, 3)),
        (Range.together([ONE, TWO]), Range(6, 3, 10)),
        (Range.together(iter([])), Range(0, 0, 0)),
        (ONE * TWO, Range(8, 2, 24)),
        (ONE * 2, Range(8, 4, 12)),
        (ONE + TWO, Range(6, 3, 10)),
        (ONE.map(lambda each: each + 1), Range(5, 3, 7)),
        (ONE.over(TWO), Range(2, 0.5, 6)),
        (ONE.at_most(TWO), Range(2, 1, 4)),
        (ONE.at_most(Range(3, 3, 7)), Range(3, 2, 6)),
        (ONE.no_higher(5), Range(4, 2, 5)),
        (ONE.no_higher(1), Range(1, 1, 1)),
        (ONE.wider(0.25, 2), Range(4, 1, 8)),
        (ONE.wider(0.75, 1.25), Range(4, 2, 6)),
    ],
)
def test_arithmetic_of_ranges(found: Range, expected: Range) -> None:
    assert found == expected


@given(RANGES, RANGES)
def test_a_value_never_leaves_its_range(one: Range, two: Range) -> None:
    for each in (one * two, one + two, one.over(two), one.at_most(two), one.wider(0.5, 2)):
        assert 0 <= each.low <= each.value * (1 + 1e-9)
        assert each.value <= each.high * (1 + 1e-9)


@pytest.mark.parametrize("bounds", [[-1, 0, 1], [2, 1, 3], [1, 3, 2], [0, -1, 1]])
def test_a_range_whose_bounds_do_not_hold(bounds: list[float]) -> None:
    with pytest.raises(ValueError, match=r"throughput: x: .* does not hold"):
        _range("x", bounds)
    assert _range("x", [0, 0, 0]) == Range(0, 0, 0)


ROW: dict[str, Any] = {
    "id": "x", "basis": "vendor", "source": "s", "confidence": "M", "value": 2,
}  # fmt: skip
FIT = {"basis": "fitted", "prior": 1.0, "why_prior": "w"}


def test_a_constant_of_the_table() -> None:
    found = _constant(ROW)
    assert (found.id, found.unit, found.basis, str(found.confidence)) == (
        "x",
        "",
        Basis.VENDOR,
        "M",
    )
    assert (found.source, found.range, found.prior, found.prior_of) == (
        "s",
        Range(2, 2, 2),
        None,
        "",
    )
    more = _constant(ROW | {"low": 1, "high": 5, "unit": "GB/s"})
    assert (more.range, more.unit) == (Range(2, 1, 5), "GB/s")
    fit = _constant(ROW | FIT)
    assert (fit.prior, fit.why_prior, fit.basis) == (1.0, "w", Basis.FITTED)
    other = _constant(ROW | {"basis": "fitted", "prior_of": "y", "why_prior": "w"})
    assert (other.prior, other.prior_of) == (None, "y")
    assert _constant(ROW | FIT | {"prior": 0.0}).prior == 0
    assert (fit.prior_bounds, fit.also) == (None, ())
    unsure = _constant(ROW | FIT | {"prior_low": 0.5, "prior_high": 2, "also": [3, 4]})
    assert (unsure.prior_bounds, unsure.also) == ((0.5, 2), (3, 4))


@pytest.mark.parametrize(
    "odd",
    [
        {"basis": "fitted"},
        {"prior": 1.0, "why_prior": "w"},
        {"basis": "fitted", "prior": 1.0},
        {"basis": "fitted", "why_prior": "w"},
        {"why_prior": "w"},
        FIT | {"prior_of": "y"},
    ],
)
def test_a_prior_belongs_to_a_fit(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="throughput: x: a prior with its reason"):
        _constant(ROW | odd)


CPU: dict[str, Any] = {
    "id": "amd", "vendor": "AuthenticAMD", "family": 25, "models": [1, 2], "name": "n",
    "source": "s", "confidence": "H", "same": "a", "same_read": "b", "cross": "c",
}  # fmt: skip


def test_a_class_of_processors() -> None:
    found = _cpu(CPU)
    assert (found.models, found.memory, found.client) == ((1, 2), 0.0, False)
    assert (found.same, found.same_read, found.cross) == ("a", "b", "c")
    assert _cpu(CPU | {"memory": 300, "client": True}).memory == 300
    assert _cpu(CPU | {"client": True}).client
    one, other = found, _cpu(CPU | {"id": "any", "models": [], "family": 26})
    table = replace(constants(), cpus=(one, other))
    assert table.cpu("AuthenticAMD", 25, 2) is one
    assert table.cpu("AuthenticAMD", 25, 3) is None
    assert table.cpu("AuthenticAMD", 26, 3) is other
    assert table.cpu("GenuineIntel", 25, 2) is None


def test_other_values_keep_the_distance_of_their_bounds() -> None:
    table = constants()
    row = next(each for each in table.rows.values() if each.range.low < each.range.value)
    other = table.but({row.id: row.range.value * 2})
    doubled = other[row.id]
    assert doubled.value == row.range.value * 2
    assert doubled.low == pytest.approx(row.range.low * 2)
    assert doubled.high == pytest.approx(row.range.high * 2)
    assert table[row.id] == row.range
    assert table.but({row.id: Range(5, 1, 9)})[row.id] == Range(5, 1, 9)
    zero = replace(table, rows={"x": _constant(ROW | {"value": 0, "high": 3})}).but({"x": 5})
    assert zero["x"] == Range(5, 0, 3)


def test_what_we_ship_is_read_with_its_numbers() -> None:
    table = constants()
    assert all(name == row.id for name, row in table.rows.items())
    assert all(isinstance(vendor, int) and rate > 1 for (vendor, _), rate in table.rates.items())
    assert all(speed >= 8 for speed in table.links.values())
    assert {each.vendor for each in table.cpus} >= {"AuthenticAMD", "GenuineIntel"}
    assert constants() is table
