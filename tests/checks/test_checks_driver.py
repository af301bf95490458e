"""The checks on the NVIDIA driver and on the choice of path."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import (
    CONFIG,
    DRIVER,
    EXPORT,
    OPEN,
    PROPRIETARY,
    UPDATES,
    gpu_rows,
    groups,
    modinfo,
    without_module,
)
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, failed
from tests.evidence.healthy_files import exported
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.want import Want

UPDATED = {"nvidia-modinfo": modinfo(f"{UPDATES}/nvidia.ko", depends="", version="580.150.01")}
MISMATCH = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.150\n"
)
PARAMS = "EnableStreamMemOPs: 0\nDeviceFileMode: 432\nResmanDebugLevel: 4294967295\n"
DWORDS = 'RegistryDwords: "PeerMappingOverride=1;A=2;"\n'
UNLOADED = {"module-state": without_module("nvidia_peermem")}
REFUSED = (
    f"[   64.5] NVRM: The NVIDIA GPU {GPUS[1]} (PCI ID: 10de:2331)\n"
    "NVRM: installed in this system is not supported by open\n"
    "NVRM: nvidia.ko because it does not include the required GPU\n"
)
NO_SYMBOL = {"kallsyms": "", "symvers": "", "exports": exported(peers={})}


def configured(options: str) -> dict[str, str]:
    return {"modprobe-config": f"options nvidia {options}\n", "nvidia-params": PARAMS + DWORDS}


ROWS = [
    Row("healthy", "nvidia.present", PASS, "2 GPUs"),
    Row(
        "nouveau-holds-one",
        "nvidia.present",
        FAIL,
        "1 of 2 GPUs: nouveau",
        board=BOARD.but(GPUS[0], driver="nouveau"),
    ),
    Row(
        "nothing-holds-one",
        "nvidia.present",
        FAIL,
        "1 of 2 GPUs: no driver",
        board=BOARD.but(GPUS[1], driver=""),
    ),
    # As the real open driver 535 writes it of a GPU whose registers name no GSP.
    Row(
        "the-open-modules-do-not-know-one",
        "nvidia.present",
        FAIL,
        f"the open kernel modules do not drive {GPUS[1]}, says the kernel log",
        {"dmesg": REFUSED},
        board=BOARD.but(GPUS[1], driver=""),
    ),
    Row("driven-since", "nvidia.present", PASS, "2 GPUs", {"dmesg": REFUSED}),
    Row(
        "no-driver-and-no-log",
        "nvidia.present",
        FAIL,
        "1 of 2 GPUs: no driver",
        {"dmesg": DENIED},
        board=BOARD.but(GPUS[1], driver=""),
    ),
    Row(
        "one-is-a-guests",
        "nvidia.present",
        PASS,
        "2 GPUs",
        board=BOARD.but(GPUS[1], driver="vfio-pci"),
    ),
    Row(
        "all-are-guests",
        "nvidia.present",
        NA,
        "passed through to guests",
        board=BOARD.but(GPUS[0], driver="vfio-pci").but(GPUS[1], driver="vfio-pci"),
    ),
    Row("no-gpu", "nvidia.present", NA, "no NVIDIA GPU", board=BOARD.without(*GPUS)),
    Row("no-bus", "nvidia.present", UNKNOWN, "pci: not there", {"pci": ABSENT}),
    Row("one-everywhere", "nvidia.version", PASS, f"{DRIVER}, loaded, on disk, in user space"),
    Row("not-loaded", "nvidia.version", FAIL, "no NVIDIA driver", {"nvidia-version": ABSENT}),
    Row("updated-on-disk", "nvidia.version", FAIL, "580.150.01 on disk", UPDATED),
    Row(
        "updated-on-disk-and-nvidia-smi-hangs",
        "nvidia.version",
        FAIL,
        "580.150.01 on disk",
        {**UPDATED, "nvidia-smi": TIMEOUT},
    ),
    Row(
        "the-library-says-mismatch",
        "nvidia.version",
        FAIL,
        "580.150 in user space",
        {"nvidia-smi": failed(18, MISMATCH)},
    ),
    Row(
        "another-user-space",
        "nvidia.version",
        FAIL,
        "580.150.01 in user space",
        {"nvidia-smi": gpu_rows(driver="580.150.01")},
    ),
    Row("nvidia-smi-hangs", "nvidia.version", UNKNOWN, "no answer", {"nvidia-smi": TIMEOUT}),
    Row(
        "nvidia-smi-fails", "nvidia.version", UNKNOWN, "status 9", {"nvidia-smi": failed(9, "x\n")}
    ),
    Row("no-nvidia-smi", "nvidia.version", PASS, "loaded, on disk", {"nvidia-smi": ABSENT}),
    Row("lists-no-gpu", "nvidia.version", UNKNOWN, "lists no GPU", {"nvidia-smi": ""}),
    Row(
        "says-no-devices",
        "nvidia.version",
        UNKNOWN,
        "No devices were found",
        {"nvidia-smi": "No devices were found\n"},
    ),
    Row("no-file-on-disk", "nvidia.version", PASS, "loaded, in user", {"nvidia-modinfo": ""}),
    Row("too-old", "nvidia.version", FAIL, DRIVER, want=Want(driver_min="580.200")),
    Row("new-enough", "nvidia.version", PASS, DRIVER, want=Want(driver_min="580.126.16")),
    Row("open", "nvidia.flavor", PASS, "open kernel modules"),
    Row(
        "peermem-with-proprietary",
        "nvidia.flavor",
        PASS,
        "proprietary",
        {"nvidia-version": PROPRIETARY},
    ),
    Row(
        "dmabuf-with-proprietary",
        "nvidia.flavor",
        FAIL,
        "proprietary",
        {"nvidia-version": PROPRIETARY},
        want=DMABUF,
    ),
    Row("not-loaded", "nvidia.flavor", FAIL, "no NVIDIA driver", {"nvidia-version": ABSENT}),
    Row("another-text", "nvidia.flavor", UNKNOWN, "cannot read line 1", {"nvidia-version": "x\n"}),
    Row("nothing-configured", "nvidia.params", PASS, "driver's defaults"),
    Row(
        "configured-and-not-live",
        "nvidia.params",
        FAIL,
        "EnableStreamMemOPs: 0 live, 1 configured",
        configured("NVreg_EnableStreamMemOPs=1"),
    ),
    Row(
        "octal-as-the-kernel-reads-it",
        "nvidia.params",
        PASS,
        "1 configured, all live",
        configured("NVreg_DeviceFileMode=0660"),
    ),
    Row(
        "hexadecimal-and-negative",
        "nvidia.params",
        PASS,
        "2 configured, all live",
        configured("NVreg_EnableStreamMemOPs=0x0 NVreg_ResmanDebugLevel=-1"),
    ),
    Row(
        "registry-dwords-in-another-order",
        "nvidia.params",
        PASS,
        "1 configured, all live",
        configured('NVreg_RegistryDwords="A=2;PeerMappingOverride=1"'),
    ),
    Row(
        "the-last-of-two-lines-counts",
        "nvidia.params",
        PASS,
        "all live",
        configured("NVreg_EnableStreamMemOPs=1\noptions nvidia NVreg_EnableStreamMemOPs=0"),
    ),
    Row(
        "debians-name-for-the-module",
        "nvidia.params",
        FAIL,
        "1 configured",
        {
            "modprobe-config": "options nvidia_current NVreg_EnableStreamMemOPs=1\n",
            "nvidia-params": PARAMS,
        },
    ),
    Row(
        "options-of-another-module",
        "nvidia.params",
        PASS,
        "driver's defaults",
        {"modprobe-config": "options nvidia_drm EnableStreamMemOPs=1\n", "nvidia-params": PARAMS},
    ),
    Row(
        "no-remapping-under-translation",
        "nvidia.params",
        FAIL,
        "DmaRemapPeerMmio 0",
        {"nvidia-params": "DmaRemapPeerMmio: 0\n", "iommu-groups": groups("DMA-FQ")},
    ),
    Row(
        "no-remapping-under-passthrough",
        "nvidia.params",
        PASS,
        "defaults",
        {"nvidia-params": "DmaRemapPeerMmio: 0\n"},
    ),
    Row("not-loaded", "nvidia.params", UNKNOWN, "not there", {"nvidia-params": ABSENT}),
    Row("peermem", "path.selected", PASS, "peermem"),
    Row("peermem-not-loaded", "path.selected", FAIL, "nvidia-peermem is not loaded", UNLOADED),
    Row(
        "peermem-that-holds-no-driver",
        "path.selected",
        FAIL,
        "does not hold the driver",
        {"module-state": "nvidia_peermem/initstate:live\n"},
    ),
    Row(
        "the-other-path-may-be-unknown",
        "path.selected",
        PASS,
        "peermem",
        {"kernel-config": ABSENT},
    ),
    Row("dmabuf", "path.selected", PASS, "dmabuf", want=DMABUF),
    Row(
        "dmabuf-with-proprietary",
        "path.selected",
        FAIL,
        "dmabuf: the driver is the proprietary one",
        {"nvidia-version": PROPRIETARY},
        want=DMABUF,
    ),
    Row(
        "dmabuf-not-known",
        "path.selected",
        UNKNOWN,
        "kernel-config: not there",
        {"kernel-config": ABSENT},
        want=DMABUF,
    ),
    Row("sys-not-read", "path.selected", UNKNOWN, "permission denied", {"module-state": DENIED}),
    Row("open", "dmabuf.gpu", PASS, f"driver {DRIVER}, open", want=DMABUF),
    Row(
        "too-old",
        "dmabuf.gpu",
        FAIL,
        "driver 510.108.03 has no exporter",
        {"nvidia-version": OPEN.replace(DRIVER, "510.108.03")},
        want=DMABUF,
    ),
    Row(
        "kernel-without",
        "dmabuf.gpu",
        FAIL,
        "the kernel has no dma-buf",
        {"kernel-config": CONFIG.replace("DMA_SHARED_BUFFER", "OTHER")},
        want=DMABUF,
    ),
    Row(
        "no-driver", "dmabuf.gpu", FAIL, "no NVIDIA driver", {"nvidia-version": ABSENT}, want=DMABUF
    ),
    Row("no-config", "dmabuf.gpu", UNKNOWN, "not there", {"kernel-config": ABSENT}, want=DMABUF),
    Row("ofed-since-24.07", "ib.peer_symbol", PASS, "exported by ib_uverbs"),
    Row(
        "older-ofed-and-ubuntus-patch",
        "ib.peer_symbol",
        PASS,
        "exported by ib_core",
        {"kallsyms": "0 T ib_register_peer_memory_client\t[ib_core]\n"},
    ),
    Row(
        "built-into-the-kernel",
        "ib.peer_symbol",
        PASS,
        "the kernel itself",
        {"kallsyms": "0 T ib_register_peer_memory_client\n"},
    ),
    Row("on-disk-only", "ib.peer_symbol", FAIL, "exported on disk only", {"kallsyms": ""}),
    Row("nowhere", "ib.peer_symbol", FAIL, "exported by nothing", NO_SYMBOL),
    Row(
        "on-disk-in-a-module-alone",
        "ib.peer_symbol",
        FAIL,
        "exported on disk only",
        {"kallsyms": "", "symvers": ""},
    ),
    Row(
        "what-is-on-disk-was-not-read",
        "ib.peer_symbol",
        FAIL,
        "exported by nothing",
        {"kallsyms": "", "symvers": "", "exports": ABSENT},
    ),
    Row("symbols-not-read", "ib.peer_symbol", UNKNOWN, "not there", {"kallsyms": ABSENT}),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_driver(row: Row) -> None:
    holds(row)


def test_the_usable_path_is_named_where_the_wanted_one_is_not() -> None:
    finding = judged(Row("", "path.selected", FAIL, "", UNLOADED)).finding
    assert finding.hint == "dmabuf is usable on this node: --profile dmabuf"
    assert finding.details == ("dmabuf: usable",)


def test_no_path_is_named_where_neither_is_usable() -> None:
    frames = {**UNLOADED, "nvidia-version": PROPRIETARY}
    assert judged(Row("", "path.selected", FAIL, "", frames)).finding.hint == ""


def test_a_kernel_without_the_interface_is_shown_the_other_path() -> None:
    assert judged(Row("", "ib.peer_symbol", FAIL, "", NO_SYMBOL)).finding.hint == (
        "dma-buf is usable here: --profile dmabuf"
    )


def test_symvers_that_exports_is_named() -> None:
    frames = {"kallsyms": "", "symvers": f"@/usr/src/ofa_kernel/Module.symvers\n{EXPORT}"}
    assert judged(Row("", "ib.peer_symbol", FAIL, "", frames)).finding.details == (
        "/usr/src/ofa_kernel/Module.symvers",
        f"{UPDATES}/ib_uverbs.ko",
    )
