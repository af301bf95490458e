"""What an exit status of dkms means, by its version."""

from __future__ import annotations

import pytest

from toolkit.checks.kernel.build_failures import dkms_exit
from toolkit.compat.reader import shipped


@pytest.mark.parametrize(
    ("status", "version", "row"),
    [
        (1, "3.0.10", "dkms-1"),
        (1, "3.1.4", "dkms-1"),
        (1, "3.1.5", "dkms-1-since-3.1.5"),
        (9, "2.8.7", "dkms-9"),
        (9, "3.0.13", "dkms-9-since-3.0.13"),
        (10, "2.8.1", "dkms-10"),
        (13, "3.4.3", "dkms-13"),
        (21, "3.2.2-1", "dkms-21"),
        (77, "3.0.10", "dkms-77"),
        (9, "", "dkms-9-since-3.0.13"),
    ],
)
def test_an_exit_status_means_what_that_version_means(status: int, version: str, row: str) -> None:
    found = dkms_exit(status, version)
    assert found is not None
    assert found.id == row


@pytest.mark.parametrize(
    ("status", "version"), [(0, "3.2"), (13, "3.0.10"), (11, "2.8.8"), (99, "")]
)
def test_a_status_that_a_version_does_not_know_means_nothing(status: int, version: str) -> None:
    assert dkms_exit(status, version) is None


@pytest.mark.parametrize(
    "version", ["2.8.1", "2.8.7", "3.0.10", "3.0.13", "3.1.5", "3.2.2", "3.4.3"]
)
def test_no_version_means_two_things_by_one_status(version: str) -> None:
    rows = [row for row in shipped().dkms_exits if row.covers(version)]
    assert len({row.status for row in rows}) == len(rows)
