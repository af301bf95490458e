"""GDRCopy, IBGDA, EFA, DCGM and MPI: what stands beside, judged."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GIB, Fn
from tests.evidence.build import KERNEL, OFED, PROPRIETARY
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, failed
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.errors import Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.gpu.gdrcopy import GdrDrv, Sanity, built_for, parse_gdrcopy, parse_sanity
from toolkit.facts.nccl.consumers import Mpi, parse_mpiname, parse_ompi_info
from toolkit.facts.node.node import Node
from toolkit.want import Want

LOADED = (
    "sys/module/gdrdrv/version:2.5.1\n"
    "sys/module/gdrdrv/initstate:live\n"
    "proc/driver/gdrdrv/params:Version: 2.5.1\n"
    "proc/driver/gdrdrv/params:Built for NVIDIA driver flavor: opensource\n"
    "proc/driver/gdrdrv/params:Use persistent mapping: yes\n"
    "dev/gdrdrv:there\n"
)
OLD = "sys/module/gdrdrv/version:2.4.1\nsys/module/gdrdrv/initstate:live\ndev/gdrdrv:there\n"
ON_DISK = (
    "@gdrdrv\n"
    f"filename:       /lib/modules/{KERNEL}/updates/dkms/gdrdrv.ko\n"
    "version:        2.5.1\n"
    "description:    GDRCopy kernel-mode driver built for proprietary NVIDIA driver\n"
    "@nvidia-fs\n"
)
WITH_DKMS = (
    f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    f"nvidia/580.126.16, {KERNEL}, x86_64: installed\n"
    "gdrdrv/2.5: added\n"
)
KERNEL_615 = "6.15.0-1-generic\n"
OVERRIDE = (
    'options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;"\n'
)
LIVE = 'EnableStreamMemOPs: 1\nDmaRemapPeerMmio: 1\nRegistryDwords: "PeerMappingOverride=1;"\n'
DEEPEP = "/usr/lib/python3/dist-packages/deep_ep\n"
NVSHMEM = "/usr/local/nvshmem/lib/libnvshmem_host.so."


def adapter(device: int) -> Fn:
    return Fn(
        "0000:a0:00.0", "pci0000:a0", (0x1D0F, device), 0x020000, "efa", bars=((0, GIB >> 10),)
    )


EFA1, EFA3 = BOARD.plus(adapter(0xEFA0)), BOARD.plus(adapter(0xEFA3))
EFA_MODULE = "efa_nv_peermem/version:1.2.2\nefa_nv_peermem/initstate:live\n"
OMPI = (
    "path:prefix:{}\nompi:version:full:5.0.6\n"
    "mca:mpi:base:param:mpi_built_with_cuda_support:value:{}\n"
)


def diag(pcie: str, memory: str = "Pass") -> str:
    return f"| Diagnostic | Result |\n| pcie | {pcie} |\n| memory | {memory} |\n+----+----+\n"


def fabric(provider: str, domain: str) -> str:
    return f"provider: {provider}\n    fabric: x\n    domain: {domain}\n"


ROWS: list[Row] = [
    Row("loaded-for-this-driver", "gdrcopy.driver", PASS, "2.5.1, built for the open driver",
        {"gdrcopy": LOADED}),
    Row("before-2.5-tells-no-flavour", "gdrcopy.driver", PASS, "flavour not told",
        {"gdrcopy": OLD}),
    Row("not-installed", "gdrcopy.driver", NA, "not installed"),
    Row("built-for-the-other-flavour", "gdrcopy.driver", FAIL,
        "built for the open driver, and the proprietary one is loaded",
        {"gdrcopy": LOADED, "nvidia-version": PROPRIETARY}),
    Row("the-file-tells-the-flavour", "gdrcopy.driver", FAIL,
        "built for the proprietary driver, and the open one is loaded",
        {"gdrcopy": OLD, "companion-modinfo": ON_DISK}),
    Row("no-device-node", "gdrcopy.driver", FAIL, "no /dev/gdrdrv",
        {"gdrcopy": LOADED.replace("dev/gdrdrv:there\n", "")}),
    Row("on-disk-alone", "gdrcopy.driver", FAIL, "on disk and not loaded",
        {"companion-modinfo": ON_DISK}),
    Row("not-built-for-this-kernel", "gdrcopy.driver", FAIL, f"not built for {KERNEL}",
        {"dkms-status": WITH_DKMS}),
    Row("driver-gone", "gdrcopy.driver", FAIL, "without the driver",
        {"gdrcopy": LOADED, "nvidia-version": ABSENT}),
    Row("unread", "gdrcopy.driver", UNKNOWN, "permission denied", {"gdrcopy": DENIED}),
    Row("odd-flavour", "gdrcopy.driver", UNKNOWN, "cannot read",
        {"gdrcopy": LOADED.replace("opensource", "both")}),
    Row("no-modinfo-proves-no-absence", "gdrcopy.driver", UNKNOWN, "not there",
        {"companion-modinfo": ABSENT}),
    Row("nobody-asks", "ibgda.driver", NA, "nothing here asks"),
    Row("in-effect", "ibgda.driver", PASS, "EnableStreamMemOPs 1",
        {"modprobe-config": OVERRIDE, "nvidia-params": LIVE}),
    Row("configured-and-not-in-effect", "ibgda.driver", FAIL, "not in effect",
        {"modprobe-config": OVERRIDE}),
    Row("deepep-without-it", "ibgda.driver", FAIL, "deep_ep is here", {"companion-files": DEEPEP}),
    Row("deepep-with-an-old-nvshmem", "ibgda.driver", FAIL, "deep_ep is here",
        {"companion-files": f"{DEEPEP}{NVSHMEM}3.2.5\n"}),
    Row("newer-nvshmem-does-without", "ibgda.driver", PASS, "NVSHMEM 3.4.5 does without",
        {"companion-files": f"{DEEPEP}{NVSHMEM}3.4.5\n"}),
    Row("parameters-unread", "ibgda.driver", UNKNOWN, "permission denied",
        {"modprobe-config": OVERRIDE, "nvidia-params": DENIED}),
    Row("traces-unread", "ibgda.driver", UNKNOWN, "no answer", {"companion-files": TIMEOUT}),
    Row("no-adapter", "efa.peermem", NA, "no EFA adapter"),
    Row("module", "efa.peermem", PASS, "efa_nv_peermem 1.2.2",
        {"module-state": EFA_MODULE}, board=EFA1),
    Row("later-ones-by-dmabuf", "efa.peermem", PASS, "generation 4, by dma-buf",
        {"kernel-release": KERNEL_615}, EFA3),
    Row("proprietary-driver", "efa.peermem", FAIL, "no dma-buf: the driver is the proprietary",
        {"nvidia-version": PROPRIETARY}, board=EFA3),
    Row("no-driver", "efa.peermem", NA, "no NVIDIA driver", {"nvidia-version": ABSENT},
        board=EFA1),
    Row("first-generation-by-dmabuf", "efa.peermem", PASS, "generation 1, by dma-buf",
        {"kernel-release": KERNEL_615}, EFA1),
    Row("kernel-that-may-carry-it-back", "efa.peermem", UNKNOWN, "efa of kernel.org registers",
        {"kernel-release": "5.14.0-427.el9.x86_64\n"}, board=EFA1),
    Row("kernel-before-it", "efa.peermem", FAIL, "kernel 5.10.0-30-amd64 cannot register",
        {"kernel-release": "5.10.0-30-amd64\n", "kallsyms": ""}, board=EFA1),
    Row("all-seen", "dcgm.gdr", PASS, "2 GPUs"),
    Row("one-lost", "dcgm.gdr", FAIL, "sees 1 of the 2 GPUs", {"dcgm": "1 GPU found.\n"}),
    Row("no-engine", "dcgm.gdr", NA, "no DCGM host engine",
        {"dcgm": failed(255, "Error: Unable to connect to host engine. Host engine connection\n")}),
    Row("not-installed", "dcgm.gdr", NA, "no DCGM host engine", {"dcgm": ABSENT}),
    Row("hangs", "dcgm.gdr", UNKNOWN, "no answer in time", {"dcgm": TIMEOUT}),
    Row("other-trouble", "dcgm.gdr", UNKNOWN, "ended with status 1",
        {"dcgm": failed(1, "Error: out of memory\n")}),
    Row("none", "mpi.cuda", NA, "no MPI"),
    Row("with-cuda", "mpi.cuda", PASS, "Open MPI 5.0.6",
        {"ompi-info": OMPI.format("/opt/openmpi", "true")}),
    Row("somebody-built-it-without", "mpi.cuda", FAIL, "in /opt/openmpi was built without CUDA",
        {"ompi-info": OMPI.format("/opt/openmpi", "false")}),
    Row("the-distribution's-is-not-judged", "mpi.cuda", NA, "only the distribution's Open MPI",
        {"ompi-info": OMPI.format("/usr", "false")}),
    Row("hpcx-is-beside", "mpi.cuda", NA, "HPC-X in /opt/hpcx",
        {"ompi-info": OMPI.format("/opt/openmpi", "false"), "companion-files": "/opt/hpcx\n"}),
    Row("mvapich-without", "mpi.cuda", FAIL, "MVAPICH2 2.3.7 was built without CUDA",
        {"mpiname": "MVAPICH2 2.3.7 Wed March 02 22:00:00 EST 2022 ch3:mrail\n"}),
    Row("mvapich-with", "mpi.cuda", PASS, "MVAPICH2 2.3.7",
        {"mpiname": "MVAPICH2 2.3.7 Wed March 02 2022 ch3:mrail\nConfiguration\n--enable-cuda\n"}),
    Row("hangs", "mpi.cuda", UNKNOWN, "no answer in time", {"ompi-info": TIMEOUT}),
    Row("says-nothing-of-cuda", "mpi.cuda", UNKNOWN, "cannot read",
        {"ompi-info": "path:prefix:/opt/openmpi\n"}),
    Row("not-given", "dcgm.diag", NA, "no result of DCGM"),
    Row("all-pass", "dcgm.diag", PASS, "2 of 2 tests ran and pass", {"dcgmi-diag": diag("Pass")}),
    Row("one-fails", "dcgm.diag", FAIL, "pcie: Fail", {"dcgmi-diag": diag("Fail - GPU: 1")}),
    Row("one-warns", "dcgm.diag", FAIL, "pcie: Warn", {"dcgmi-diag": diag("Warn - GPU: 1")}),
    Row("one-skipped", "dcgm.diag", PASS, "1 of 2 tests", {"dcgmi-diag": diag("Skip - All")}),
    Row("all-skipped", "dcgm.diag", UNKNOWN, "every test was skipped",
        {"dcgmi-diag": diag("Skip", "Skip")}),
    Row("not-given", "libfabric.provider", NA, "no fi_info"),
    Row("efa", "libfabric.provider", PASS, "efa: 2 domains",
        {"fi-info": fabric("efa", "rdmap0s6-rdm") + fabric("efa", "rdmap0s7-rdm")}),
    Row("sockets-alone", "libfabric.provider", FAIL, "only tcp",
        {"fi-info": fabric("tcp;ofi_rxm", "eth0")}),
    Row("none", "libfabric.provider", FAIL, "fi_getinfo: -61", {"fi-info": "fi_getinfo: -61\n"}),
    Row("cut", "libfabric.provider", UNKNOWN, "cannot read", {"fi-info": "provider: efa\n"}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_stands_beside_is_judged(row: Row) -> None:
    holds(row)


def test_an_old_gdrdrv_on_a_new_kernel_is_named_as_the_reason() -> None:
    frames = {"dkms-status": WITH_DKMS, "kernel-release": KERNEL_615}
    holds(Row("", "gdrcopy.driver", FAIL, "not built for 6.15.0-1-generic", frames))


# --- the sanity test of GDRCopy, as somebody ran it ---

SANITY = "$ gdrcopy_sanity\nTotal: 28, Passed: 26, Failed: {}, Waived: 2\n\nList of waived tests:\n"


COPYBW = "info.mapped: 1\nwrite BW: 18577.5MB/s\nread BW: 620.811MB/s\nclosing gdrdrv\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (SANITY.format(0), PASS),
        (SANITY.format(3), FAIL),
        (COPYBW, PASS),
        ('Assertion "g != (void*)0" failed at copybw.cpp:130\ngdr_open() failed\n', FAIL),
    ],
)
def test_a_run_of_gdrcopys_tests_alone_is_judged(text: str, status: Status) -> None:
    frame = Frame("gdrcopy-sanity", State.OK, "imported", text)
    verdict = BY_ID["gdrcopy.driver"](Node(Evidence({frame.key: frame}, True)), Want())
    assert verdict.status is status


# --- parsers ---


def test_nothing_is_said_of_a_module_that_is_not_loaded() -> None:
    assert parse_gdrcopy("") == GdrDrv(False)


@pytest.mark.parametrize(
    ("description", "flavor"),
    [
        ("description: GDRCopy kernel-mode driver built for opensource NVIDIA driver", Flavor.OPEN),
        ("built for proprietary NVIDIA driver", Flavor.PROPRIETARY),
        ("GDRCopy kernel-mode driver", None),
    ],
)
def test_the_description_names_the_flavour(description: str, flavor: Flavor | None) -> None:
    assert built_for(description) is flavor


def test_the_summary_of_sanity_is_found_among_other_lines() -> None:
    assert parse_sanity(SANITY.format(0)) == Sanity(28, 26, 0, 2)


def test_ompi_info_names_version_prefix_and_cuda() -> None:
    found = parse_ompi_info(OMPI.format("/usr/mpi/gcc/openmpi-4.1.7a1", "false"))
    assert (found.version, found.cuda, found.of_the_distribution) == ("5.0.6", False, True)
    said = "mca:mpi:base:param:mpi_built_with_cuda_support:value:"
    assert parse_ompi_info(f"{said}true\n") == Mpi("Open MPI", "", "", cuda=True)
    for other in ("yes", ""):
        with pytest.raises(Unparsable, match="ompi_info"):
            parse_ompi_info(f"{said}{other}\n")


@pytest.mark.parametrize("option", ["--enable-cuda", "--with-cuda=/usr/local/cuda"])
def test_mvapich_tells_by_its_configure_line(option: str) -> None:
    assert parse_mpiname(f"MVAPICH2 2.3.7 x\n{option} --disable-rdma-cm\n").cuda
