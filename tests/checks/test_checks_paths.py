"""The checks on the paths themselves: what the driver, the kernel and the HCAs can."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS
from tests.evidence.build import PROPRIETARY, rdma_core, without_module
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_consumers import LIBS
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.want import Want

OLD_KERNEL: dict[str, Override] = {
    "kernel-release": "5.4.0-200-generic\n",
    "ofed-info": ABSENT,
    "dkms-status": "",
    "rdma-modinfo": rdma_core("/lib/modules/5.4.0-200-generic/kernel", version=""),
}
NO_PEERMEM: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
DRIVER_460 = PROPRIETARY.replace("580.126.16", "460.106.00")

ROWS = [
    Row("healthy", "dmabuf.nic", PASS, "not tried", want=DMABUF),
    Row("of-the-other-path", "dmabuf.nic", NA, "not part of the peermem path"),
    Row(
        "kernel-before-5.12",
        "dmabuf.nic",
        FAIL,
        "kernel 5.4.0-200-generic cannot register",
        OLD_KERNEL,
        want=DMABUF,
    ),
    Row(
        "older-kernel-with-ofed",
        "dmabuf.nic",
        PASS,
        "mlx5 with doca-ofed RDMA on kernel 5.4",
        {"kernel-release": "5.4.0-200-generic\n"},
        want=DMABUF,
    ),
    Row(
        "rdma-core-before-34",
        "dmabuf.nic",
        FAIL,
        "libibverbs.so.1 has no ibv_reg_dmabuf_mr",
        {"verbs-libraries": f"{LIBS}/libibverbs.so.1 no\n"},
        want=DMABUF,
    ),
    Row(
        "a-second-library-has-it",
        "dmabuf.nic",
        PASS,
        "not tried",
        {"verbs-libraries": "/usr/lib64/libibverbs.so.1 no\n/usr/local/lib/libibverbs.so.1 yes\n"},
        want=DMABUF,
    ),
    Row(
        "library-in-containers-only",
        "dmabuf.nic",
        PASS,
        "not tried",
        {"verbs-libraries": ""},
        want=DMABUF,
    ),
    Row("no-rdma-device", "dmabuf.nic", FAIL, "no RDMA device", {"infiniband": ""}, want=DMABUF),
    Row(
        "another-provider",
        "dmabuf.nic",
        UNKNOWN,
        "HCAs driven by cxgb4: dma-buf there is not known",
        board=BOARD.but(HCAS[0], driver="cxgb4", ids=(0x1425, 0x5401))
        .but(HCAS[1], driver="cxgb4", ids=(0x1425, 0x5401))
        .but(HCAS[2], driver="cxgb4", ids=(0x1425, 0x5401)),
        want=DMABUF,
    ),
    Row("not-read", "dmabuf.nic", UNKNOWN, "denied", {"verbs-libraries": DENIED}, want=DMABUF),
    Row(
        "volta",
        "dmabuf.gpu",
        FAIL,
        f"older than Turing: {GPUS[0]}",
        board=BOARD.but(GPUS[0], ids=(0x10DE, 0x1DB1)),
        want=DMABUF,
    ),
    Row("healthy", "cuda.attrs", PASS, "driver 580.126.16: CUDA 13.0"),
    Row("healthy-for-dmabuf", "cuda.attrs", PASS, "CUDA 13.0", want=DMABUF),
    Row(
        "before-11.3",
        "cuda.attrs",
        FAIL,
        "driver 460.106.00: CUDA older than 11.3",
        {"nvidia-version": DRIVER_460},
    ),
    Row(
        "before-11.7",
        "cuda.attrs",
        FAIL,
        "driver 510.47.03: CUDA 11.6",
        {"nvidia-version": PROPRIETARY.replace("580.126.16", "510.47.03")},
        want=DMABUF,
    ),
    Row(
        "a-branch-whose-cuda-is-not-known",
        "cuda.attrs",
        PASS,
        "CUDA newer than is known here",
        {"nvidia-version": PROPRIETARY.replace("580.126.16", "610.10.01")},
        want=DMABUF,
    ),
    *(
        Row(
            f"the-first-that-has-it-{release}",
            "cuda.attrs",
            status,
            f"driver {release}.1.1",
            {"nvidia-version": PROPRIETARY.replace("580.126.16", f"{release}.1.1")},
            want=want,
        )
        for release, status, want in (
            ("515", PASS, DMABUF),
            ("510", FAIL, DMABUF),
            ("470", PASS, Want()),
            ("465", PASS, Want()),
            ("460", FAIL, Want()),
        )
    ),
    Row("no-driver", "cuda.attrs", NA, "see nvidia.present", {"nvidia-version": ABSENT}),
    Row("not-read", "cuda.attrs", UNKNOWN, "denied", {"nvidia-version": DENIED}),
    Row("dmabuf-wanted", "path.selected", PASS, "dmabuf", want=DMABUF),
    Row(
        "dmabuf-wanted-and-the-hca-cannot",
        "path.selected",
        FAIL,
        "dmabuf: /usr/lib",
        {"verbs-libraries": f"{LIBS}/libibverbs.so.1 no\n"},
        want=DMABUF,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_judgement(row: Row) -> None:
    holds(row)


def test_where_peermem_is_wanted_and_fails_dmabuf_is_named_as_the_way_out() -> None:
    verdict = judged(Row("", "path.selected", FAIL, "", NO_PEERMEM))
    assert verdict.finding.hint == "dmabuf is usable on this node: --profile dmabuf"


def test_a_lost_source_of_dmabuf_leaves_peermem_as_it_is() -> None:
    verdict = judged(Row("", "path.selected", PASS, "", {"verbs-libraries": DENIED}))
    assert verdict.status is PASS
    assert verdict.finding.details == ("dmabuf: not known (verbs-libraries: permission denied)",)
