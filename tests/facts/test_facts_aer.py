"""NUMA nodes, and the errors that PCI Express functions counted."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.firmware.cpu_setup import count_nodes
from toolkit.facts.pci.kernel_log import AerCounts, Errors, parse_aer


@pytest.mark.parametrize(("text", "count"), [("0\n", 1), ("0-1\n", 2), ("0,8\n", 2), ("0-3,8", 5)])
def test_numa_nodes(text: str, count: int) -> None:
    assert count_nodes(text) == count


@pytest.mark.parametrize("text", ["", "\n", "0-", "node0", "0 1"])
def test_another_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        count_nodes(text)


def test_errors_by_function() -> None:
    lines = (
        "uptime:360", "functions:2", "0000:18:00.0/aer_dev_fatal:TOTAL_ERR_FATAL 1",
        "0000:18:00.0/aer_dev_correctable:TOTAL_ERR_COR 7",
    )  # fmt: skip
    assert parse_aer("\n".join(lines) + "\n") == AerCounts(
        360, 2, {"0000:18:00.0": Errors(correctable=7, fatal=1)}
    )
