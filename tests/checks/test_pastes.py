"""Texts as people paste them into tickets: all that fails, and all that passes, and nothing else.

Each was composed in the manner of a real thread; what an expert reads in it stands beside it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

DAY = date(2026, 11, 28)
BUILT_BEFORE = "nvidia/535.129.03, 5.15.0-88-generic, x86_64: installed\n"
MISMATCH = (
    "$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n"
    "NVML library version: 535.154\n$ cat /proc/driver/nvidia/version\n"
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
)
API = (
    "[  103.411223] NVRM: API mismatch: the client has the version 535.154.05, but\n"
    "[  103.411223] NVRM: this kernel module has the version 535.129.03.  Please\n"
)
LOADED_SINCE = "[  203.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.154.05\n"
INSTALL = (
    "# modprobe nvidia-peermem\nmodprobe: ERROR: ../libkmod/libkmod-module.c:990 command_do() Error"
    " running install command '/bin/false' for module nvidia_peermem: retcode 1\n"
    "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
)
OFI = (
    "g:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n"
    "g:1:2 [0] NCCL INFO DMA-BUF is available on GPU device 0\n"
)
AMD = (
    "[    0.598543] iommu: Default domain type: Translated\n"
    "[    0.672114] pci 0000:c0:00.2: AMD-Vi: IOMMU performance counters supported\n"
)
INTEL = (
    "[    0.598543] iommu: Default domain type: Translated\n"
    "[    1.672114] DMAR: Intel(R) Virtualization Technology for Directed I/O\n"
)
FAULT = (
    "Nov 12 09:14:33 epyc kernel: mlx5_core 0000:42:00.0: AMD-Vi: Event logged "
    "[IO_PAGE_FAULT domain=0x0031 address=0x28000010000 flags=0x0030]\n"
)
STUB = (
    "$ modinfo nvidia_peermem\nfilename:       /lib/modules/5.15.0-91/nvidia-peermem.ko\n"
    "version:        535.129.03\ndepends:        \nretpoline:      Y\n"
)
GDR = "$ ./sanity\nError: gdr_open() failed\nsanity: common.cpp:88: Assertion `g != 0' failed.\n"
NO_GSP = (
    "[    3.210011] NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1db4)\n"
    "[    3.210011] NVRM: installed in this system is not supported by open\n"
    "[    3.210011] NVRM: nvidia.ko because it does not include the required GPU\n"
)
TWO_CLIENTS = (
    "$ lsmod | grep peer\nnv_peer_mem 16384 0\nnvidia_peermem 16384 0\n"
    "ib_core 491520 2 nv_peer_mem,nvidia_peermem\nnvidia 56717312 2 nv_peer_mem,nvidia_peermem\n"
)
KALLSYMS = (
    "$ sudo grep ib_register_peer_memory_client /proc/kallsyms\n"
    "ffffffffc0e4a2c0 T ib_register_peer_memory_client\t[ib_core]\n"
)
ROWS = "    Remapped Rows\n        Uncorrectable Error     : 1\n        Pending        : {}\n"
NCCL_WARN = "gpu01:1:2 [0] misc/x.cc:1 NCCL WARN {}\n"
LANES = (
    "[1765333150.123456] [a:1:2]  ucp_worker.c:1912 UCX  INFO  w inter-node cfg#2 am({0})  "
    "ka(tcp/a)\n"
)
LOADED = "peermem.bound peermem.loadable peermem.loaded peermem.provider peermem.unknown_symbol"
# DKMS's words around a failed build, and what Ubuntu's crash reporter says in the midst of them.
VOLTA = (
    "$ lspci -nnk -d 10de:\n06:00.0 3D controller [0302]: NVIDIA Corporation GV100GL "
    "[Tesla V100 SXM2 32GB] [10de:1db5] (rev a1)\n\tKernel driver in use: nvidia\n"
    "$ cat /proc/driver/nvidia/version\n"
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
)
BUILD = (
    "Building initial module for 6.8.0-40-generic\n"
    "ERROR: Cannot create report: [Errno 17] File exists: '/var/crash/nvidia-dkms-535.0.crash'\n"
    "Error! Bad return status for module build on kernel: 6.8.0-40-generic (x86_64)\n"
    "dpkg: error processing package nvidia-dkms-535 (--configure):\n"
)


def judged(text: str, folder: Path) -> tuple[str, str]:
    """Ids of what fails, and of what passes."""
    (folder / "ticket.txt").write_text(text)
    ((_, evidence),) = read_saved(folder / "ticket.txt")
    found = judge_node("ticket", evidence, Want(path=None), DAY)

    def having(status: Status) -> str:
        return " ".join(sorted(each.check.id for each in found.having(status)))

    return having(Status.FAIL), having(Status.PASS)


@pytest.mark.parametrize(
    ("text", "fails", "passes"),
    [
        pytest.param(f"{BUILT_BEFORE}\n5.15.0-91-generic\n", "dkms.state", "", id="dkms-and-uname"),
        pytest.param(
            f"$ dkms status\n{BUILT_BEFORE}$ uname -r\n5.15.0-88-generic\n",
            "",
            "dkms.state",
            id="dkms-and-the-kernel-it-built-for",
        ),
        pytest.param(
            f"$ dkms status | grep 88\n{BUILT_BEFORE}$ uname -r\n5.15.0-91-generic\n",
            "",
            "",
            id="dkms-of-one-kernel-alone",
        ),
        pytest.param(MISMATCH, "nvidia.nvml nvidia.version", "cuda.attrs", id="nvml-mismatch"),
        pytest.param(API, "nvidia.nvml", "", id="api-mismatch"),
        pytest.param(API + LOADED_SINCE, "", "", id="api-mismatch-before-a-reload"),
        pytest.param(INSTALL, "peermem.loaded", "", id="install-command"),
        pytest.param(
            "The manual shows\n\n    nvidia_peermem 16384 0\n\nbut here\n\n"
            "root@gpu:~# lsmod | grep peermem\nroot@gpu:~#\n",
            "",
            "",
            id="what-a-manual-shows-and-no-answer",
        ),
        pytest.param(OFI, "nccl.log", "", id="efa-plugin-gives-up-gdr"),
        pytest.param(AMD, "iommu.passthrough", "", id="amd-translates-without-arguments"),
        pytest.param(AMD.replace("Translated", "Passthrough"), "", "iommu.passthrough", id="pt"),
        pytest.param(INTEL, "iommu.passthrough", "", id="intel-translates-by-default"),
        pytest.param(FAULT, "iommu.passthrough", "", id="io-page-fault"),
        pytest.param(STUB, "peermem.stub", "", id="modinfo-of-a-stub"),
        pytest.param(STUB.replace("depends:", "depends: ib_core"), "", "peermem.stub", id="real"),
        pytest.param(GDR, "gdrcopy.driver", "", id="gdrcopy-without-its-driver"),
        pytest.param(NO_GSP, "nvidia.present", "", id="too-old-for-the-open-modules"),
        pytest.param(KALLSYMS, "", "ib.peer_symbol", id="kallsyms-of-ofed"),
        pytest.param(KALLSYMS.replace("register_peer", "x"), "", "", id="kallsyms-without-it"),
        pytest.param(
            "$ kubectl get pods -n gpu-operator\nNAME READY STATUS RESTARTS AGE\nnvidia-driver-"
            "daemonset-x7c2p 1/2 CrashLoopBackOff 12 (3m ago) 47m\nnvidia-operator-validator-9qz4l "
            "0/1 Init:0/4 0 47m\n",
            "ctr.rdma_devices",
            "",
            id="driver-pod-crashes",
        ),
        pytest.param(
            "$ kubectl logs rdma-shared-dp-ds-x7c2p\n2026/11/28 09:01:02 Warning: no devices in "
            "device pool, creating empty resource server for hca_shared_devices_a\n",
            "ctr.rdma_devices",
            "",
            id="device-plugin-without-devices",
        ),
        pytest.param(
            "Name:    gpu01\nRoles:   worker\nCapacity:\n  nvidia.com/gpu:  8\n  rdma/hca:  63\n"
            "Allocatable:\n  nvidia.com/gpu:  8\n  rdma/hca:  0\nSystem Info:\n",
            "ctr.rdma_devices",
            "",
            id="rdma-not-allocatable",
        ),
        pytest.param(
            "LAST SEEN  TYPE     REASON            OBJECT      MESSAGE\n"
            "9m         Warning  FailedScheduling  pod/job-1   0/3 nodes are available: 3 "
            "Insufficient rdma/hca.\n",
            "ctr.rdma_devices",
            "",
            id="events-of-a-pod-that-waits-for-rdma",
        ),
        pytest.param(
            "# nvidia-smi topo -m\n\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-3\n"
            "NIC0\tPIX\t X \t\n# nvidia-smi -L\nGPU 0: NVIDIA H100 (UUID: GPU-1)\n",
            "",
            "pcie.distance",
            id="another-answer-at-roots-prompt",
        ),
        pytest.param(
            "$ setpci -s 17:00.0 ECAP_ACS+6.w\n001d\n$ setpci -s 18:00.0 ECAP_ACS+6.w\n0000\n",
            "",
            "",
            id="acs-of-two-bridges-alone",
        ),
        pytest.param("# rdma system\nnetns exclusive copy-on-fork on\n", "", "", id="netns"),
        pytest.param("$ ls /dev/infiniband\nrdma_cm\n$\n", "rdma.devices", "", id="no-uverbs"),
        pytest.param("$ ls /dev/infiniband\nrdma_cm  umad0  uverbs0\n", "", "", id="uverbs"),
        pytest.param(
            "$ nvidia-smi -q | grep -A3 BAR1\n    BAR1 Memory Usage\n        Total     : 256 MiB\n"
            "        Used      : 4 MiB\n        Free      : 252 MiB\n",
            "pcie.bar1",
            "",
            id="bar1-of-256-mib",
        ),
        pytest.param(
            "# /etc/init.d/openibd restart\nUnloading HCA driver:   [  OK  ]\nFailed loading "
            "kernel module mlx5_ib:   [FAILED]\nLoading HCA driver and Access Layer:   [FAILED]\n",
            "ofed.openibd",
            "",
            id="openibd-cannot-load",
        ),
        pytest.param(
            "$ grep -r mlx5 /etc/modprobe.d\n/etc/modprobe.d/blacklist-ofed-modules.conf:blacklist "
            "mlx5_core\n",
            "modules.blacklist",
            "",
            id="left-behind-by-a-container",
        ),
        pytest.param(
            "$ grep -h NVreg /etc/modprobe.d/*\noptions nvidia NVreg_EnableStreamMemOPs=1\n"
            "$ cat /proc/driver/nvidia/params\nResmanDebugLevel: 4294967295\n"
            'EnableStreamMemOPs: 0\nRegistryDwords: ""\nRmMsg: ""\n',
            "nvidia.params",
            "",
            id="configured-and-not-live",
        ),
        pytest.param(
            "$ systemctl status nvidia-fabricmanager\nUnit nvidia-fabricmanager.service could not "
            "be found.\n",
            "",
            "",
            id="no-fabric-manager-and-no-nvswitch-told",
        ),
        pytest.param(TWO_CLIENTS, "peermem.legacy_conflict", LOADED, id="nv_peer_mem-too"),
        pytest.param(ROWS.format("Yes"), "gpu.ecc", "", id="rows-that-wait-for-a-reset"),
        pytest.param(ROWS.format("No"), "", "", id="rows-of-one-gpu-and-nobody-knows-of-others"),
        pytest.param(
            "    Fabric\n        State      : Completed\n        Status     : Invalid State\n",
            "nvidia.fabric_state",
            "",
            id="fabric-that-a-gpu-did-not-join",
        ),
        pytest.param(
            "        GPU Recovery Action           : Node Reboot\n",
            "gpu.reset",
            "",
            id="what-the-driver-asks-for",
        ),
        pytest.param(
            "terminate called\n  what():  CUDA init: system not yet initialized\n",
            "nvidia.fabricmanager",
            "",
            id="cuda-802",
        ),
        pytest.param(
            NCCL_WARN.format("Call to ibv_reg_mr_iova2 failed with error Bad address"),
            "nccl.log rdma.registration",
            "",
            id="nccl-that-was-refused-memory",
        ),
        pytest.param(
            NCCL_WARN.format("NET/OFI Unable to register memory (type = 2) for device 1. RC: -22"),
            "nccl.log rdma.registration",
            "",
            id="efa-that-was-refused-memory",
        ),
        pytest.param(
            NCCL_WARN.format("NET/OFI Could not register dummy buffer for flush, dev: 3"),
            "nccl.log rdma.registration",
            "",
            id="efa-without-a-buffer-to-flush-by",
        ),
        pytest.param(
            NCCL_WARN.format("NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge"),
            "nccl.log",
            "",
            id="efa-that-could-and-does-not",
        ),
        pytest.param(
            "fabric manager config file item: BIND_INTERFACE_IP has an invalid value\n",
            "nvidia.fabricmanager",
            "",
            id="fabric-manager-without-its-settings",
        ),
        pytest.param(
            "[Nov 09 2026 08:00:01] [ERROR] [tid 7] No matching network interface found for any IP "
            "addresses in the node configuration file /etc/nodes\n",
            "nvidia.imex",
            "",
            id="imex-that-is-not-in-its-own-list",
        ),
        pytest.param(
            "/x/nv_peer_mem.c:47:15: error: unknown type name 'peer_memory_client_ex'\n",
            "dkms.last_failure",
            "",
            id="nv_peer_mem-newer-than-its-ofed",
        ),
        pytest.param(
            "insmod: ERROR: could not load module a/gdrdrv.ko: No such file or directory\n",
            "gdrcopy.driver",
            "",
            id="gdrdrv-that-was-never-built",
        ),
        pytest.param(
            "[    9.100000] NVRM: GPU2 RmInitAdapter: Cannot initialize GSP firmware RM\n",
            "nvidia.present",
            "",
            id="a-gpu-whose-firmware-does-not-start",
        ),
        pytest.param(
            "Failed to build MLNX_OFED_LINUX for 6.14.0-37-generic\n",
            "dkms.last_failure",
            "",
            id="mlnxofedinstall",
        ),
        pytest.param(
            "[09-Nov-26_08:00:01] Verifying loaded modules will not prevent driver restart\n"
            "[09-Nov-26_08:00:02] Module ib_core is used and will FAIL driver reload, aborting\n",
            "ctr.rdma_devices",
            "",
            id="mofed-whose-modules-are-held",
        ),
        pytest.param(
            "Unloading NVIDIA driver kernel modules...\nCould not unload NVIDIA driver kernel "
            "modules, driver is in use\nUnloading NVIDIA driver kernel modules...\n"
            "Loading NVIDIA driver kernel modules...\nDone, now waiting for signal\n",
            "",
            "",
            id="a-driver-s-pod-that-came-up-at-last",
        ),
        pytest.param(
            "2026/11/09 08:00:01 Fetching EFA devices.\n"
            "2026/11/09 08:00:01 Error to get IB device: x. No valid EFA devices found\n",
            "ctr.rdma_devices",
            "",
            id="efa-plugin-without-devices",
        ),
        pytest.param(
            "2026/11/09 08:00:01 device: rdmap1s0,uverbs0,/sys/class/infiniband_verbs/uverbs0,/x\n"
            "2026/11/09 08:00:01 Registered device plugin with Kubelet\n",
            "",
            "",
            id="efa-plugin-with-one",
        ),
        pytest.param(
            " 09-11-2026 08:00:01:7 [pid=4 tid=4] NOTICE  a:7 running in compatible mode\n",
            "gds.nvidia_fs",
            "",
            id="cufile-that-copies",
        ),
        pytest.param(
            " DRIVER CONFIGURATION:\n NVMe               : Unsupported\n"
            " Userspace RDMA     : Unsupported\n",
            "gds.nvidia_fs",
            "",
            id="gdscheck-cut-on-both-sides-and-no-storage",
        ),
        pytest.param(
            "&&&& RUNNING basic_a\n&&&& PASSED basic_a\n", "", "", id="gdrcopy-tests-of-many"
        ),
        pytest.param(
            "&&&& PASSED basic_a\n&&&& FAILED basic_b\n", "gdrcopy.driver", "", id="gdrcopy-fails"
        ),
        pytest.param(
            "[    9.100000] gdrdrv:__gdrdrv_pin_buffer:nvidia_p2p_get_pages(va=7f00 len=65536) "
            "failed [ret = -22]\n",
            "gdrcopy.driver",
            "",
            id="gdrdrv-that-could-not-pin",
        ),
        pytest.param(LANES.format("tcp/eth0"), "traffic.pair", "", id="ucx-between-nodes-by-tcp"),
        pytest.param(LANES.format("rc_mlx5/mlx5_0:1"), "", "", id="ucx-between-nodes-by-rc"),
        pytest.param(
            LANES.format("tcp/eth0") + LANES.format("rc_mlx5/mlx5_0:1"),
            *("", ""),
            id="ucx-that-begins-by-tcp-and-goes-on-by-rc",
        ),
        pytest.param(
            "[    9.100000] efa 0000:3b:00.0: probe with driver efa failed with error -22\n",
            "rdma.devices",
            "",
            id="an-hca-that-its-driver-gave-up",
        ),
        pytest.param(
            "Events:\n  Warning  FailedScheduling  4s  default-scheduler  0/2 nodes are available: "
            "2 Insufficient rdma/hca.\n",
            "ctr.rdma_devices",
            "",
            id="events-without-their-pod",
        ),
    ],
)
def test_what_an_expert_reads_in_it(text: str, fails: str, passes: str, tmp_path: Path) -> None:
    assert judged(text, tmp_path) == (fails, passes)
