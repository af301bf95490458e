"""GPUDirect Storage: nvidia-fs, P2PDMA mode, and what gdscheck said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, Board, Fn
from tests.evidence.build import CONFIG, GUEST_CPU, KERNEL, PROPRIETARY, groups, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.evidence.platforms import GRACE
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.errors import Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.gpu.gds import NvidiaFs, parse_cufile, parse_gds, parse_gdscheck
from toolkit.facts.node.node import Node
from toolkit.want import Want

LOADED = (
    "sys/module/nvidia_fs/version:2.24.2\n"
    "sys/module/nvidia_fs/initstate:live\n"
    "proc/driver/nvidia-fs/version:version: 2.24\n"
)
PATCHED = (
    "0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n"
    "0000000000000000 T nvme_v1_register_nvfs_dma_ops\t[nvme]\n"
)
BUILT_IN = "0000000000000000 r p2pdma_pgmap_ops\n"
P2PDMA = 'etc/cufile.json:            "use_pci_p2pdma": true,\n'
STATIC = 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\n'
NEW = "6.8.0-45-generic\n"
# All that P2PDMA mode rests on.
READY: dict[str, Override] = {
    "cufile": P2PDMA,
    "nvidia-params": STATIC,
    "kernel-release": NEW,
    "gds": "sys/module/nvme_core/parameters/multipath:N\n",
}
DRIVE = "0000:c1:00.0"
ON_GRACE = sorted({each.group for each in GRACE.functions if each.group})
SPARK = BOARD.but(GPUS[0], ids=(0x10DE, 0x2E12)).without(GPUS[1])
DRIVES = BOARD.plus(Fn(DRIVE, "pci0000:c0", (0x144D, 0xA80A), 0x010802, "nvme", "40"))


def on_disk(version: str) -> str:
    path = f"/lib/modules/{KERNEL}/updates/dkms/nvidia-fs.ko"
    return f"@gdrdrv\n@nvidia-fs\nfilename:       {path}\nversion:        {version}\n"


ROWS: list[Row] = [
    Row("not-installed", "gds.nvidia_fs", NA, "not installed"),
    Row("loaded", "gds.nvidia_fs", PASS, "nvidia-fs 2.24.2", {"gds": LOADED}),
    Row("on-disk-alone", "gds.nvidia_fs", FAIL, "nvidia-fs 2.24.2 is on disk and not loaded",
        {"companion-modinfo": on_disk("2.24.2")}),
    Row("the-gate-of-the-licence", "gds.nvidia_fs", FAIL, "B10: nvidia-fs 2.17.5 does not load",
        {"companion-modinfo": on_disk("2.17.5"), "nvidia-version": PROPRIETARY}),
    Row("before-the-gate", "gds.nvidia_fs", FAIL, "on disk and not loaded",
        {"companion-modinfo": on_disk("2.17.3"), "nvidia-version": PROPRIETARY}),
    Row("no-gate-on-arm", "gds.nvidia_fs", FAIL, "on disk and not loaded",
        {"companion-modinfo": on_disk("2.17.5"), "nvidia-version": PROPRIETARY,
         "arch": "aarch64\n"}),
    Row("not-built-for-this-kernel", "gds.nvidia_fs", FAIL, f"not built for {KERNEL}",
        {"dkms-status": "nvidia-fs/2.24.2: added\n"}),
    Row("p2pdma-needs-none", "gds.nvidia_fs", NA, "set to P2PDMA",
        {"cufile": P2PDMA, "companion-modinfo": on_disk("2.24.2")}),
    Row("unread", "gds.nvidia_fs", UNKNOWN, "permission denied", {"gds": DENIED}),
    Row("no-modinfo-proves-no-absence", "gds.nvidia_fs", UNKNOWN, "not there",
        {"companion-modinfo": ABSENT}),
    Row("odd-parameter", "gds.nvidia_fs", UNKNOWN, "cannot read",
        {"gds": "sys/module/nvme_core/parameters/multipath:maybe\n"}),
    Row("nothing-loaded", "gds.iommu", NA, "not loaded"),
    Row("passed-through", "gds.iommu", PASS, "passed through: 3",
        {"gds": LOADED, "iommu-groups": groups("identity", "10", "11", "40")}, board=DRIVES),
    Row("no-iommu", "gds.iommu", PASS, "no IOMMU",
        {"gds": LOADED, "iommu-groups": "", "iommu-units": ""}),
    Row("a-drive-is-translated", "gds.iommu", FAIL, "translated: 1 of the GPUs and NVMe drives",
        {"gds": LOADED,
         "iommu-groups": groups("identity", "10", "11") + groups("DMA-FQ", "40")}, board=DRIVES),
    Row("a-group-without-type", "gds.iommu", UNKNOWN, f"domain type of {DRIVE}",
        {"gds": LOADED, "iommu-groups": groups("identity", "10", "11")}, board=DRIVES),
    Row("a-guest", "gds.iommu", NA, "in a guest", {"gds": LOADED, "cpu": GUEST_CPU}),
    Row("grace-translates", "gds.iommu", PASS, "as Grace wants it: 1",
        {"gds": LOADED, "iommu-groups": groups("DMA", *ON_GRACE)}, board=GRACE),
    Row("grace-passed-through", "gds.iommu", FAIL, "passed through: 1",
        {"gds": LOADED, "iommu-groups": groups("identity", *ON_GRACE)}, board=GRACE),
    Row("grace-without-smmu", "gds.iommu", FAIL, "no SMMU",
        {"gds": LOADED, "iommu-groups": "", "iommu-units": ""}, board=GRACE),
    Row("grace-in-no-group", "gds.iommu", UNKNOWN, "that tells its domain",
        {"gds": LOADED, "iommu-groups": ""},
        board=Board(tuple(replace(each, group="") for each in GRACE.functions))),
    Row("gb10-has-no-part-in-it", "gds.iommu", NA, "not supported by design",
        {"gds": LOADED, "iommu-groups": groups("DMA")}, board=SPARK),
    Row("nobody-asks", "gds.p2pdma", NA, "no cufile.json"),
    Row("switched-off", "gds.p2pdma", NA, "no cufile.json",
        {"cufile": P2PDMA.replace("true", "false")}),
    Row("all-there", "gds.p2pdma", PASS, "static BAR1", READY),
    Row("backported", "gds.p2pdma", PASS, "static BAR1",
        {**READY, "kernel-release": KERNEL + "\n", "kallsyms": BUILT_IN}),
    Row("old-kernel", "gds.p2pdma", FAIL, "1 of its needs", {**READY, "kernel-release": KERNEL}),
    Row("multipath", "gds.p2pdma", FAIL, "1 of its needs",
        {**READY, "gds": "sys/module/nvme_core/parameters/multipath:Y\n"}),
    Row("no-static-bar", "gds.p2pdma", FAIL, "2 of its needs",
        {**READY, "nvidia-params": 'RegistryDwords: ""\n'}),
    Row("proprietary-driver", "gds.p2pdma", FAIL, "1 of its needs",
        {**READY, "nvidia-version": PROPRIETARY}),
    Row("kernel-without-it", "gds.p2pdma", FAIL, "1 of its needs",
        {**READY, "kernel-config": CONFIG.replace("CONFIG_PCI_P2PDMA=y\n", "")}),
    Row("unread", "gds.p2pdma", UNKNOWN, "no answer", {**READY, "nvidia-params": TIMEOUT}),
    Row("odd-setting", "gds.p2pdma", UNKNOWN, "cannot read",
        {"cufile": 'etc/cufile.json: "use_pci_p2pdma": perhaps\n'}),
    Row("nothing-loaded", "gds.nvme", NA, "not loaded"),
    Row("patched", "gds.nvme", PASS, "nvme", {"gds": LOADED, "kallsyms": PATCHED}),
    Row("in-use", "gds.nvme", PASS, "wekafsio",
        {"gds": LOADED + "proc/driver/nvidia-fs/modules:wekafsio: 1\n"}),
    Row("the-kernel's-own", "gds.nvme", FAIL, "no storage driver knows nvidia-fs; 1 NVMe",
        {"gds": LOADED}, board=DRIVES),
    Row("unread", "gds.nvme", UNKNOWN, "permission denied", {"gds": LOADED, "kallsyms": DENIED}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_gpudirect_storage_is_judged(row: Row) -> None:
    holds(row)


def test_what_p2pdma_lacks_is_listed() -> None:
    frames: dict[str, Override] = {**READY, "nvidia-params": 'RegistryDwords: ""\n'}
    finding = BY_ID["gds.p2pdma"](Node(node(frames)), Want()).finding
    assert finding.details == ("missing: RMForceStaticBar1=1", "missing: RmForceDisableIomapWC=1")


# --- gdscheck, given as a loose file ---

GOOD = """\
 GDS release version: 1.13.1.3
 nvidia_fs version:  2.25 libcufile version: 2.12
 Platform: x86_64
 =====================
 DRIVER CONFIGURATION:
 =====================
 NVMe P2PDMA        : Unsupported
 NVMe               : Supported
 Userspace RDMA     : Unsupported
 --Mellanox PeerDirect : Enabled
 --rdma library        : Not Loaded (libcufile_rdma.so)
 =========
 GPU INFO:
 =========
 GPU index 0 NVIDIA H100 80GB HBM3 bar:1 bar size (MiB):131072 supports GDS, IOMMU State: Disabled
 ==============
 PLATFORM INFO:
 ==============
 IOMMU: disabled
 Platform verification succeeded
"""
REFUSED = """\
 GDS release version (beta): 0.9.0.1
 nvidia_fs version:  2.3 libcufile version: 2.3
 cuFile CONFIGURATION:
 NVMe           : Supported
 GPU INFO:
 GPU 0 Quadro P400 does not have supported architecture, has 6 requires >= 6
 Platform verification failed
"""


def said(check: str, text: str) -> Finding:
    frame = Frame("gdscheck", State.OK, "imported", text)
    return BY_ID[check](Node(Evidence({"gdscheck": frame}, True)), Want()).finding


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        pytest.param(GOOD, PASS, "gdscheck 1.13.1.3: platform verified, NVMe", id="verified"),
        pytest.param(REFUSED, FAIL, "does not have supported architecture", id="old-gpu"),
        pytest.param(GOOD.replace(": Supported", ": Unsupported"), FAIL, "no kind of storage",
                     id="no-storage"),
        pytest.param(GOOD.partition(" GPU INFO")[0], UNKNOWN, "came to no end", id="cut-short"),
        pytest.param("bash: gdscheck: command not found\n", UNKNOWN, "cannot read", id="nothing"),
    ],
)  # fmt: skip
def test_gdscheck_is_believed(text: str, status: Status, words: str) -> None:
    finding = said("gds.nvidia_fs", text)
    assert finding.status is status
    assert words in finding.found


@pytest.mark.parametrize(
    "why",
    [
        "nvidia-fs.ko driver not loaded",
        "NVMe Driver not registered with nvidia-fs",
        "cuInit Failed, error CUDA_ERROR_NO_DEVICE",
        "Unsupported block device a",
        "Inc-bar-usage failed: size 1048576 remaining bytes 0",
        "error creating udev_device for block device a",
        "error allocating nvfs handle, size: 64",
        "NVMe: GDS not supported or disabled by config",
    ],
)
def test_the_last_that_cufile_logged_is_found_and_the_others_are_listed(why: str) -> None:
    head = " 09-11-2026 08:00:01:7 [pid=4 tid=4] "
    first, second = "running in compatible mode", "error allocating nvfs handle, size: 7"
    lines = [f"{head}NOTICE  a:7 {first}\n", f"{head}WARN  a:8 {second}\n"]
    text = "".join((*lines, *lines, f"{head}ERROR  cufio-fs:199 {why}\n"))
    log = Evidence({"cufile-log": Frame("cufile-log", State.OK, "imported", text)}, True)
    finding = BY_ID["gds.nvidia_fs"](Node(log), Want()).finding
    assert (finding.status, finding.found) == (FAIL, f"cuFile: {why}")
    assert finding.details == (first, second)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(GOOD, PASS, id="off"),
        pytest.param(GOOD.replace("IOMMU: disabled", "IOMMU: enabled"), UNKNOWN, id="on"),
        pytest.param(REFUSED, UNKNOWN, id="not-told-where-verification-fails"),
    ],
)
def test_gdscheck_tells_of_the_iommu_only_whether_it_is_on(text: str, status: Status) -> None:
    assert said("gds.iommu", text).status is status


def test_userspace_rdma_is_not_the_state_of_peerdirect() -> None:
    found = parse_gdscheck(GOOD)
    assert found.storage == {"NVMe P2PDMA": False, "NVMe": True, "Userspace RDMA": False}
    assert found.nvidia_fs == "2.25"
    assert found.verified


# --- parsers ---


def test_a_node_without_nvidia_fs_has_none() -> None:
    assert parse_gds("") == NvidiaFs(False)


def test_the_first_cufile_counts() -> None:
    text = P2PDMA + 'usr/local/cuda-12.8/gds/cufile.json: "use_pci_p2pdma" : false,\n'
    assert parse_cufile(text) == {"use_pci_p2pdma": True}


def test_a_setting_of_one_kind_of_storage_counts() -> None:
    assert parse_cufile(P2PDMA.replace("true", "false") + P2PDMA) == {"use_pci_p2pdma": True}


def test_a_gdscheck_without_release_is_refused() -> None:
    with pytest.raises(Unparsable, match="gdscheck -p"):
        parse_gdscheck("no gdscheck\n")
