"""Three kernels and one that is excluded, by two drivers, with and without OFED."""

from __future__ import annotations

import pytest

from tests.builds.matrix import Result, Row, Way, rows, table
from toolkit.built.plan.gate import Refused

pytestmark = pytest.mark.builds
LONG = True


@pytest.fixture(scope="module")
def matrix() -> list[Row]:
    found = rows()
    print(f"\n{table(found)}")
    return found


def plain(matrix: list[Row], *, ofed: bool, way: Way) -> list[Row]:
    """The rows of kernels that the drivers want."""
    return [
        row
        for row in matrix
        if row.cell.ofed is ofed and row.cell.way is way and "-rt-" not in row.cell.kernel
    ]


def test_with_ofed_every_module_is_real_and_accepted(matrix: list[Row]) -> None:
    found = plain(matrix, ofed=True, way=Way.OURS)
    assert len(found) == 6
    assert [(row.result, row.gate, row.why) for row in found] == [
        (Result.BUILT, "accepted", "")
    ] * 6, table(found)


def test_without_ofed_the_vendors_way_builds_stubs_and_each_is_refused_by_name(
    matrix: list[Row],
) -> None:
    found = plain(matrix, ofed=False, way=Way.VENDOR)
    assert len(found) == 6
    for row in found:
        assert row.result is Result.BUILT, table(found)
        assert row.verdict is not None
        assert not row.verdict.accepted
        assert {each.cause for each in row.verdict.refusals} == {Refused.STUB}
        assert "-peermem.ko: a stub: it does not import ib_register_peer_memory_client" in row.why


def test_without_ofed_our_way_builds_nothing_and_says_what_is_missing(matrix: list[Row]) -> None:
    found = plain(matrix, ofed=False, way=Way.OURS)
    assert len(found) == 6
    for row in found:
        assert row.result is Result.BLOCKED, table(found)
        assert row.why.startswith("nothing exports ib_register_peer_memory_client")
        assert row.why.endswith("nvidia-peermem would be a stub")


def test_a_real_time_kernel_is_excluded_not_failed(matrix: list[Row]) -> None:
    found = [row for row in matrix if "-rt-" in row.cell.kernel]
    told = {(row.cell.way, row.result, row.why.removeprefix(row.cell.kernel)) for row in found}
    assert told == {
        (Way.OURS, Result.BLOCKED, " is a real-time kernel, which the driver refuses"),
        (Way.VENDOR, Result.EXCLUDED, "BUILD_EXCLUSIVE does not match"),
    }


def test_no_cell_is_red(matrix: list[Row]) -> None:
    assert [row for row in matrix if row.result is Result.FAILED] == []
