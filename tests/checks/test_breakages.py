"""The known breakages: each on a node that meets it, and on one that is next to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from tests.checks.test_checks_gds import LOADED
from tests.evidence.board import BOARD, GPUS, HCAS, Board
from tests.evidence.build import (
    DRIVER,
    GUEST_CPU,
    HEALTHY,
    KERNEL,
    OPEN,
    PROPRIETARY,
    gpu_rows,
    groups,
    modinfo,
    module_state,
    node,
    rdma_core,
    without_module,
)
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_consumers import LIBS, nccl, ucx_info
from tests.evidence.platforms import ALTRA, GRACE
from tests.unit.judged import TODAY
from toolkit.checks.all import BY_ID
from toolkit.checks.breakages import MATCHES, known
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.compat.reader import shipped
from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.want import PeerPath, Want

DMABUF = Want(path=PeerPath.DMABUF)
NEWER = "6.8.0-64-generic"
OFA = "/usr/src/ofa_kernel"


def driver(version: str, text: str = OPEN) -> dict[str, Override]:
    return {"nvidia-version": text.replace(DRIVER, version)}


def stub(kernel: str = KERNEL) -> dict[str, Override]:
    """nvidia-peermem without the peer-memory interface."""
    path = f"/lib/modules/{kernel}/updates/dkms/nvidia-peermem.ko"
    return {
        "peermem-modinfo": modinfo(path, depends="nvidia"),
        "peermem-resolve": f"insmod {path}\n",
        "module-state": without_module("nvidia_peermem"),
    }


INBOX: dict[str, Override] = {
    "ofed-info": ABSENT,
    "dkms-status": f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
    "rdma-modinfo": rdma_core(f"/lib/modules/{KERNEL}/kernel/drivers", version=""),
    "kallsyms": "",
}
UBUNTU_68 = {**INBOX, "kernel-release": f"{NEWER}\n"}
PRECOMPILED: dict[str, Override] = {
    **stub(),
    "nvidia-modinfo": modinfo(
        f"/lib/modules/{KERNEL}/kernel/nvidia-580-open/nvidia.ko", depends=""
    ),
}
RHEL_PRECOMPILED = PRECOMPILED | {
    "nvidia-modinfo": modinfo(
        f"/lib/modules/{KERNEL}/extra/drivers/video/nvidia/nvidia.ko", depends=""
    )
}
ARM: dict[str, Override] = {
    "arch": "aarch64\n",
    "sources": f"{OFA}\n{OFA}/aarch64/{KERNEL}\n",
    "symvers": "",
}
OVERRIDDEN: dict[str, Override] = {"nvidia-params": "GrdmaPciTopoCheckOverride: 1\n"}
EL98: dict[str, Override] = {
    "os-release": 'ID="rocky"\nVERSION_ID="9.8"\nPRETTY_NAME="Rocky"\n',
    "kernel-release": "5.14.0-687.5.1.el9_8.x86_64\n",
}
ORDERED: dict[str, Override] = {
    "dkms-confs": 'nvidia-1/dkms.conf:PACKAGE_NAME="nvidia"\n'
    'nvidia-1/dkms.conf:PACKAGE_VERSION="1"\n'
    'nvidia-1/dkms.conf:BUILD_DEPENDS[0]="mlnx-ofed-kernel"\n',
    "dkms-version": "dkms-3.0.11\n",
}
HELD = "rmmod: ERROR: Module ib_uverbs is in use by: nvidia_peermem\n"
PODS = (
    "runtime:containerd\n"
    "run/nvidia/validations/.driver-ctr-ready:GPU_DIRECT_RDMA_ENABLED=true\n"
    "driver-root:/run/nvidia/driver\nofed:ready\nofed:newer\n"
)
DISAGREES = (
    "[    9.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
)
SECURE: dict[str, Override] = {"efi-secureboot": "   1\n"}
ENROLLED = "/var/lib/shim-signed/mok/MOK.der is already enrolled\n"


@dataclass(frozen=True, slots=True)
class Met:
    """One node, and whether it meets the breakage."""

    id: str
    claim: str
    met: bool
    frames: Mapping[str, Override] = field(default_factory=dict)
    board: Board = BOARD
    want: Want = field(default_factory=Want)
    found: str = ""


CLOSED = driver(DRIVER, PROPRIETARY)
ROWS = [
    Met("B01", "old-nccl-closed-driver", True, {**CLOSED, "libraries": nccl("2.22.3")},
        found="nccl 2.22.3 with OFED 25.10-1.7.1"),
    Met("B01", "old-ucx-closed-driver", True, {**CLOSED, "ucx-info": ucx_info("1.17.0")}),
    Met("B01", "asked-for", True, {**CLOSED, "libraries": "", "ucx-info": ABSENT},
        want=Want(consumers=(("nccl", "2.18"),))),
    Met("B01", "old-nccl-takes-dmabuf", False, {"libraries": nccl("2.22.3")}),
    Met("B01", "new-nccl", False, CLOSED),
    Met("B01", "old-ofed", False, {**CLOSED, "libraries": nccl("2.22.3"),
        "ofed-info": "MLNX_OFED_LINUX-24.01-0.3.3.1:\n",
        "memory-peers": "/sys/kernel/mm/memory_peers/nv_mem/version\n"}),
    Met("B01", "peermem-not-loaded", False, {**CLOSED, "libraries": nccl("2.22.3"),
        "module-state": without_module("nvidia_peermem")}),
    Met("B01", "ucx-without-cuda", False, {**CLOSED, "libraries": "",
        "ucx-info": ucx_info("1.17.0", "--without-cuda")}),
    Met("B01", "no-version", False, {**CLOSED, "libraries": f"{LIBS}/libnccl.so.2\n"}),
    Met("B01", "ofed-without-a-version", False, {**CLOSED, "ofed-info": ABSENT,
        "rdma-modinfo": rdma_core(version="")} | {"libraries": nccl("2.22.3")}),
    Met("B01", "neither-dmabuf", True, {"libraries": nccl("2.12.12")}),
    Met("B02", "held-by-ib_uverbs", True),
    Met("B02", "held-by-ib_core", False, {"module-state": module_state(
        ib_core="ib_uverbs mlx5_ib nvidia_peermem", ib_uverbs="rdma_ucm mlx5_ib")}),
    Met("B03", "generic-6.8", True, UBUNTU_68, found=NEWER),
    Met("B03", "generic-5.15", False, INBOX),
    *(Met("B03", flavour, True, UBUNTU_68 | {"kernel-release": f"6.8.0-1024-{flavour}\n"})
      for flavour in ("aws", "azure", "gcp", "oracle", "aws-64k", "azure-fde")),
    Met("B03", "nvidia-64k", False, UBUNTU_68 | {"kernel-release": "6.8.0-1023-nvidia-64k\n"}),
    Met("B03", "nvidia-flavour", False, UBUNTU_68 | {"kernel-release": "6.8.0-1023-nvidia\n"}),
    Met("B03", "with-ofed", False, {"kernel-release": f"{NEWER}\n"}),
    Met("B03", "debian", False, UBUNTU_68 | {"os-release": "ID=debian\nVERSION_ID=13\n"}),
    Met("B03", "exported-all-the-same", False, UBUNTU_68 | {"kallsyms": HEALTHY["kallsyms"]}),
    Met("B04", "precompiled-stub", True, PRECOMPILED, found="/kernel/nvidia-580-open/nvidia.ko"),
    Met("B04", "kmod-nvidia-of-rhel", True, RHEL_PRECOMPILED, found="/extra/drivers/video/nvidia"),
    Met("B04", "stub-by-dkms", False, stub()),
    Met("B04", "precompiled-without-ofed", False, {**INBOX, **PRECOMPILED}),
    Met("B05", "left-behind", True, {"dkms-status": f"nvidia/{DRIVER}: added\n"}),
    Met("B05", "still-registered", False),
    Met("B05", "nothing-there", False,
        {"dkms-status": f"nvidia/{DRIVER}: added\n", "dkms-tree": "/var/lib/dkms/nvidia\n"}),
    Met("B06", "arm-without-default", True, ARM),
    Met("B06", "x86", False, ARM | {"arch": "x86_64\n"}),
    Met("B06", "nothing-of-ofed-to-build-with", False, ARM | {"sources": ""}),
    Met("B07", "altra", True, driver("580.65.06"), ALTRA, found="Ampere Altra"),
    Met("B07", "older-driver", False, driver("575.57.08"), ALTRA),
    Met("B07", "overridden", False, driver("580.65.06") | OVERRIDDEN, ALTRA),
    Met("B07", "xeon", False, driver("580.65.06")),
    Met("B07", "a-guest", False, driver("580.65.06") | {"cpu": GUEST_CPU}, ALTRA),
    Met("B08", "coherent", True, driver("595.44.02") | OVERRIDDEN, GRACE),
    Met("B08", "before-595", False, driver("590.48.01") | OVERRIDDEN, GRACE),
    Met("B08", "not-overridden", False, driver("595.44.02"), GRACE),
    Met("B08", "not-coherent", False, driver("595.44.02") | OVERRIDDEN),
    Met("B09", "translated", True, driver("595.84") | {"iommu-groups": groups("DMA-FQ")},
        want=DMABUF),
    Met("B09", "peermem-wanted", False, driver("595.84") | {"iommu-groups": groups("DMA-FQ")}),
    Met("B09", "identity", False, driver("595.84"), want=DMABUF),
    Met("B09", "older-driver", False, {"iommu-groups": groups("DMA-FQ")}, want=DMABUF),
    Met("B10", "closed-driver", True,
        {**CLOSED, "dkms-status": f"nvidia-fs/2.24.2, {KERNEL}, x86_64: installed\n"}),
    Met("B10", "on-disk-alone", True, {**CLOSED, "companion-modinfo":
        "@nvidia-fs\nfilename:       /lib/modules/x/nvidia-fs.ko\nversion:        2.17.5\n"}),
    Met("B10", "running-alone", True, {**CLOSED, "companion-modinfo": "",
        "gds": LOADED}),
    Met("B10", "open-driver", False,
        {"dkms-status": f"nvidia-fs/2.24.2, {KERNEL}, x86_64: installed\n"}),
    Met("B10", "older", False,
        {**CLOSED, "dkms-status": f"nvidia-fs/2.15.1, {KERNEL}, x86_64: installed\n"}),
    Met("B11", "doca-3.2-on-9.8", True, EL98),
    Met("B11", "lts-3.2.2-on-9.8", True, EL98 | {"ofed-info": "OFED-internal-25.10-2.4.1:\n"}),
    Met("B11", "lts-3.2.3-on-9.8", False, EL98 | {"ofed-info": "OFED-internal-25.10-3.1.8:\n"}),
    Met("B11", "doca-3.3-on-9.8", False, EL98 | {"ofed-info": "OFED-internal-26.01-1.0.0:\n"}),
    Met("B11", "doca-3.5-on-9.8", False, EL98 | {"ofed-info": "OFED-internal-26.07-0.7.7:\n"}),
    Met("B11", "doca-3.2-on-9.6", False,
        {"os-release": str(EL98["os-release"]).replace("9.8", "9.6"),
         "kernel-release": "5.14.0-570.12.1.el9_6.x86_64\n"}),
    Met("B11", "not-by-dkms", False, EL98 | {"dkms-status": f"nvidia/{DRIVER}: added\n"}),
    Met("B11", "the-kernel-is-there-and-does-not-run", True, EL98 | {
        "kernel-release": "5.14.0-570.12.1.el9_6.x86_64\n",
        "kernels": "@5.14.0-570.12.1.el9_6.x86_64\nimage\n@5.14.0-687.5.1.el9_8.x86_64\nimage\n"},
        found="and 5.14.0-687.5.1.el9_8.x86_64 is installed"),
    Met("B12", "legacy-on-6.8", True,
        {"kernel-release": f"{NEWER}\n", "legacy": "/usr/src/nvidia-peer-memory-1.3\n"}),
    Met("B12", "legacy-on-5.15", False, {"legacy": "/usr/src/nvidia-peer-memory-1.3\n"}),
    Met("B12", "no-legacy", False, {"kernel-release": f"{NEWER}\n"}),
    Met("B13", "old-dkms", True, ORDERED, found="dkms 3.0.11"),
    Met("B13", "new-dkms", False, ORDERED | {"dkms-version": "dkms-3.1.4\n"}),
    Met("B13", "no-order-asked-for", False, {"dkms-version": "dkms-3.0.11\n"}),
    Met("B14", "held", True, {"openibd-log": f"Unloading ib_uverbs [FAILED]\n{HELD}"},
        found="in use by: nvidia_peermem"),
    Met("B14", "went-well", False),
    Met("B15", "ofed-pod-newer", True, {"containers": PODS, "dmesg": DISAGREES}),
    Met("B15", "no-pods", False, {"dmesg": DISAGREES}),
    Met("B15", "they-agree", False, {"containers": PODS}),
    Met("B15", "ofed-pod-as-old", True,
        {"containers": PODS.replace("ofed:newer\n", ""), "dmesg": DISAGREES}),
    Met("B15", "ofed-by-packages", False,
        {"containers": PODS.partition("ofed:")[0], "dmesg": DISAGREES}),
    Met("B16", "gb10", True, board=BOARD.without(GPUS[1]).but(GPUS[0], ids=(0x10DE, 0x2E12))),
    Met("B16", "h100", False),
    Met("B17", "geforce", True,
        {"nvidia-smi": gpu_rows().replace("H100 80GB HBM3", "GeForce RTX 4090")}),
    Met("B17", "h100", False),
    Met("B18", "bare-metal", True, board=BOARD.but(HCAS[0], ats=True), found=HCAS[0]),
    Met("B18", "there-and-off", False, board=BOARD.but(HCAS[0], ats=False)),
    Met("B18", "guest", False, {"cpu": GUEST_CPU}, BOARD.but(HCAS[0], ats=True)),
    Met("B19", "no-g++", True, {"tools": "gcc\nmake\nld\n"}),
    Met("B19", "with-g++", False),
    Met("B19", "nothing-is-built", False, {"tools": "gcc\n", "dkms-status": ""}),
    Met("B19", "no-tool-was-found", False, {"tools": ""}),
    Met("B20", "secure-boot-no-key", True, SECURE, found="DKMS has no key"),
    Met("B20", "secure-boot-enrolled", False, {**SECURE, "mok-key": ENROLLED}),
    Met("B20", "secure-boot-not-enrolled", True,
        {**SECURE, "mok-key": ENROLLED.replace("already", "not")}, found="is not enrolled"),
    Met("B20", "secure-boot-the-first-without-signatures", True,
        {**SECURE, "ofed-info": "OFED-internal-25.10-0.5.5:\n"}),
    Met("B20", "secure-boot-off", False),
    Met("B20", "older-ofed", False, {**SECURE, "ofed-info": "MLNX_OFED_LINUX-24.10-2.1.8.0:\n"}),
]  # fmt: skip


def met(row: Met) -> dict[str, str]:
    seen = Node(node(row.frames, board=row.board))
    return {each.id: each.found for each in known(seen, row.want)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.id}-{row.claim}")
def test_a_breakage_is_met_where_its_cause_is_and_nowhere_else(row: Met) -> None:
    found = met(row)
    assert (row.id in found) is row.met, found
    assert row.found in found.get(row.id, "")


def test_a_breakage_that_a_site_adds_is_met_by_no_rule_and_ends_nothing() -> None:
    own = replace(shipped().breakages[0], id="X01")
    want = Want(compat=shipped().having(breakages=(own, *shipped().breakages)))
    assert [each.id for each in known(Node(node()), want)] == ["B02"]


@pytest.mark.parametrize("name", [each.id for each in shipped().breakages])
def test_every_breakage_has_been_seen_to_match_and_not_to(name: str) -> None:
    assert {row.met for row in ROWS if row.id == name} == {True, False}
    assert name in MATCHES


def test_every_function_has_its_row() -> None:
    assert set(MATCHES) == {each.id for each in shipped().breakages}


def test_breakages_explain_checks_that_there_are() -> None:
    assert {name for each in shipped().breakages for name in each.checks} <= set(BY_ID)


def test_a_healthy_node_meets_none_that_would_be_a_fault() -> None:
    assert set(met(Met("", "", False))) == {"B02"}


def test_b02_is_never_a_failure_of_ours() -> None:
    """Others look for nvidia_peermem among the users of ib_core, and raise a false alarm."""
    judged = judge_node("gpu01", node(), Want(), TODAY)
    assert [each.id for each in judged.known] == ["B02"]
    assert judged.known[0].checks == ()
    assert judged.having(Status.FAIL) == ()
    assert "B02" not in report([Outcome("gpu01", judged)], Painter(False), verbose=True)


@pytest.mark.parametrize("key", list(node().frames))
def test_what_was_not_read_matches_nothing(key: str) -> None:
    assert {each.id for each in known(Node(node({key: DENIED})), Want())} <= {"B02"}


def test_nothing_at_all_matches_nothing() -> None:
    assert known(Node(Evidence()), Want()) == ()


def test_the_way_out_stands_below_the_failure_that_it_explains() -> None:
    judged = judge_node("gpu01", node(UBUNTU_68 | stub(NEWER)), Want(), TODAY)
    text = report([Outcome("gpu01", judged)], Painter(False))
    blocks = re.split(r"\n(?=\S)", text)
    paragraph = next(each for each in blocks if each.startswith("broken   ib.peer_sym"))
    assert "known     B03: Ubuntu's kernels from 6.8 on, but for linux-nvidia" in paragraph
    assert "way out: dma-buf with the open driver; or, with the" in paragraph
    explained = shipped().breakage("B03").checks
    heads = [each.split()[1] for each in blocks if "known     B03" in each]
    assert set(heads) <= set(explained)
    assert judged.known[0].id == "B03"
