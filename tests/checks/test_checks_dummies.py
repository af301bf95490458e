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


@pytest.mark.parametrize(
    ("module", "serves"),
    [
        *(
            ("efa", "EFA"),
            ("hfi1", "Omni-Path"),
            ("irdma", "Intel HCAs"),
            ("mana_ib", "Azure MANA"),
        ),
        *(("mlx4_ib", "ConnectX-3"), ("qedr", "Marvell HCAs"), ("ocrdma", "Emulex HCAs")),
        *(("iw_cxgb4", "Chelsio HCAs"), ("usnic_verbs", "Cisco usNIC"), ("smc_diag", "SMC-R")),
        *(("rdma_rxe", "Soft-RoCE"), ("nvmet_rdma", "NVMe targets over RDMA"), ("smc", "SMC-R")),
        *(("rpcrdma", "NFS over RDMA"), ("xprtrdma", "NFS over RDMA")),
        *(("svcrdma", "NFS servers over RDMA"), ("9pnet_rdma", "9P over RDMA")),
        *(("rds_rdma", "RDS over RDMA"), ("ib_srp", "SRP"), ("ib_srpt", "SRP targets")),
        *(("ib_iser", "iSER"), ("ib_isert", "iSER targets"), ("ib_mthca", "InfiniHost")),
        *(("ib_qib", "QLogic HCAs"), ("rdmavt", "Omni-Path")),
        ("ib_ucm", "the old ib_ucm interface"),
    ],
)
def test_each_module_that_may_be_empty_is_known_by_what_it_serves(module: str, serves: str) -> None:
    empty = loaded(f"{module}/version:2.0.0", f"{module}/taint:OE")
    finding = judged(Row("", "ofed.dummies", FAIL, "", empty)).finding
    assert (finding.status, finding.details) == (FAIL, (f"{module}: {serves}",))
