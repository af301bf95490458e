"""Modules that OFED has left empty."""

from __future__ import annotations

import pytest

from tests.evidence.build import module_state
from tests.evidence.frames import DENIED, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name


def loaded(*lines: str) -> dict[str, Override]:
    return {"module-state": module_state() + "".join(f"{line}\n" for line in lines)}


def held(module: str, version: str) -> dict[str, Override]:
    """Out of tree, and resting on ib_core."""
    return loaded(f"{module}/version:{version}", f"{module}/taint:O", f"ib_core/holder:{module}")


NVME = loaded("nvme_rdma/version:2.0.0", "nvme_rdma/initstate:live", "nvme_rdma/taint:OE")
ROWS = [
    Row("none-loaded", "ofed.dummies", NA, "no module with a version"),
    Row("nvme-over-rdma", "ofed.dummies", FAIL, "loaded and empty: nvme_rdma", NVME),
    # As every default build of 25.04 and 25.10 by DKMS brings it.
    Row(
        "with-a-version-of-its-own",
        "ofed.dummies",
        FAIL,
        "loaded and empty: irdma",
        loaded("irdma/version:5.7", "irdma/taint:OE"),
    ),
    Row("a-real-one", "ofed.dummies", PASS, "efa: not", held("efa", "2.13.1")),
    Row("a-real-one-of-that-version", "ofed.dummies", PASS, "rdma_rxe", held("rdma_rxe", "2.0.0")),
    Row(
        "the-kernels-own-with-that-version",
        "ofed.dummies",
        PASS,
        "smc: not",
        loaded("smc/version:2.0.0", "smc/taint:"),
    ),
    Row(
        "a-real-one-on-a-core-that-is-built-in",  # what is no module tells no holders
        "ofed.dummies",
        NA,
        "built in",
        {"module-state": "ib_core/version:1.0\nefa/version:2.13.1\nefa/taint:O\n"},
    ),
    Row("not-read", "ofed.dummies", UNKNOWN, "permission", {"module-state": DENIED}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_dummies(row: Row) -> None:
    holds(row)


def test_what_a_dummy_keeps_from_working_is_told() -> None:
    finding = judged(Row("", "ofed.dummies", FAIL, "", NVME)).finding
    assert finding.details == ("nvme_rdma: NVMe over RDMA",)
