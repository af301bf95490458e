"""Logs of programs whose calls of verbs failed, in the forms in which their sources print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.test_pastes import judged
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.verbs_log import Trouble, parse_verbs_log
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import Want

REGISTRATION, PAIR, NCCL = "rdma.registration", "traffic.pair", "nccl.log"
BROKEN, UNKNOWN = Status.FAIL, Status.UNKNOWN
MODULE, MEMLOCK = "is nvidia-peermem loaded", "ulimit -l in the job"
# NVIDIA/nvshmem src/include/non_abi/nvshmemx_error.h: NVSHMEMI_ERROR_PRINT, NVSHMEMI_NZ_ERROR_JMP,
# NVSHMEMI_NULL_ERROR_JMP; src/host/init/debug.cpp, nvshmem_debug_log.
PRINTED = "/src/nvshmem/src/modules/transport/ibgda/ibgda.cpp:nvshmemt_init:3626: {}\n"
NON_ZERO = "/b/src/modules/transport/ibrc/ibrc.cpp:418: non-zero status: 110 {} \n"
NULL = "/dvs/main_nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value {}.\n"
LOGGED = "node2:2621572:2621572 [1] /r/init.cu:995 NVSHMEM WARN {}\n"
UCX = "[1710151844.440518] [g:4904 :0]   ib_md.c:309  UCX  {}\n"
LIBFABRIC = "libfabric:679175:1776112406::{}\n"
NO_MODULE = "neither nv_peer_mem, or nvidia_peermem detected. Skipping transport."
UNFOUND = "".join(
    UCX.format(f"DEBUG mlx5_0: cuda GPUDirect RDMA is not detected by checking {path}")
    for path in ("/sys/kernel/mm/memory_peers/nv_mem/version", "/sys/module/nvidia_peermem/version")
)
NO_DMABUF = UCX.format(
    "DEBUG mlx5_0: ibv_reg_dmabuf_mr(fd=-1) returned Operation not supported, dmabuf is not "
    "supported"
)
PERFTEST = (  # linux-rdma/perftest src/cuda_memory.c and perftest_resources.c, without their title
    "[pid = 3, dev = 0] device name = [{}]\ncreating CUDA Ctx\nmaking it the current CUDA Ctx\n"
    "allocated GPU buffer of a 16777216 address at 0x594ca786d9b0 for type CUDA_MEM_DEVICE\n"
    "Couldn't allocate MR with error=14\nfailed to create mr\n"
)


def found(check: str, text: str) -> Finding:
    return BY_ID[check](Node(evidence_of(frames_of(text, "x.txt"))), Want()).finding


@pytest.mark.parametrize(
    ("text", "check", "status", "words", "hint"),
    [
        pytest.param(PRINTED.format(NO_MODULE), REGISTRATION, BROKEN, "NVSHMEM: neither", MODULE,
                     id="nvshmem-without-a-module-and-without-dmabuf"),
        pytest.param(LOGGED.format("ibv_reg_mr failed: Bad address"), REGISTRATION, BROKEN,
                     "NVSHMEM: ibv_reg_mr failed", "memory of a GPU", id="nvshmem-debug-log"),
        pytest.param(NON_ZERO.format("ibv_modify_qp failed"), PAIR, UNKNOWN,
                     "it ended amid: NVSHMEM: non-zero status: 110 ibv_modify_qp failed",
                     "do the ports reach each other", id="nvshmem-does-not-connect"),
        pytest.param(NULL.format("Unable to create ah"), PAIR, UNKNOWN, "Unable to create ah",
                     "roce.gid", id="nvshmem-without-an-address-handle"),
        pytest.param(NULL.format("cannot allocate mlx5dv_devx_uar"), PAIR, UNKNOWN,
                     "mlx5dv_devx_uar", "CAP_IPC_LOCK", id="nvshmem-that-may-not"),
        pytest.param("  what():  ibv_reg_mr failed (errno 14) (Ib failure: Bad address)\n"
                     "Aborted (core dumped)\n", REGISTRATION, BROKEN, "errno 14",
                     "memory of a GPU", id="a-program-that-nobody-knows"),
        pytest.param("E0301 12:00:00.1 7 rdma_context.cpp:123] Failed to register memory 0x7f: "
                     "Cannot allocate memory [12]\n", REGISTRATION, BROKEN, "register memory",
                     MEMLOCK, id="a-log-of-glog"),
        pytest.param("fi_mr_reg failed, ret is:-12, Cannot allocate memory\n", REGISTRATION, BROKEN,
                     "fi_mr_reg", MEMLOCK, id="libfabric"),
        pytest.param(UCX.format("ERROR mlx5_0: Couldn't enable GPUDirect RDMA. Please make sure x"),
                     REGISTRATION, BROKEN, "UCX: mlx5_0: Couldn't enable", MODULE, id="ucx-forced"),
        pytest.param(UNFOUND + NO_DMABUF, REGISTRATION, BROKEN,
                     "UCX: mlx5_0: neither peer memory nor dma-buf detected", MODULE,
                     id="ucx-that-found-neither"),
        pytest.param(UNFOUND.replace("not detected by checking", "disabled #") + NO_DMABUF,
                     REGISTRATION, BROKEN, "neither peer memory nor dma-buf", MODULE,
                     id="ucx-that-found-neither-in-the-words-of-1.12"),
        pytest.param(UCX.format("WARN  transports 'cuda_ipc','cuda_copy' are not available, please "
                     "use one or more of: mm, tcp"), REGISTRATION, BROKEN, "not available",
                     "UCX_MODULE_DIR", id="ucx-without-cuda"),
        pytest.param(UCX.format("ERROR dmabuf support requested but not found"), REGISTRATION,
                     BROKEN, "dmabuf support requested", "dma-buf", id="ucx-of-a-gpu-without"),
        pytest.param(LIBFABRIC.format("efa:mr:efa_mr_reg_impl():89<warn> Unable to register MR of "
                     "4096 bytes: Bad address, flags 0, ibv pd: 0x37, mr reg count 2"),
                     REGISTRATION, BROKEN, "libfabric: Unable to register", "memory of a GPU",
                     id="libfabric-of-gpu-memory"),
        pytest.param("libfabric:efa:mr:efa_mr_reg_impl():402<warn> Unable to register MR: Cannot "
                     "allocate memory\n", REGISTRATION, BROKEN, "Unable to register", MEMLOCK,
                     id="libfabric-before-it-told-the-process"),
        pytest.param("2026-05-16T16:39:51.208Z" + LIBFABRIC.format("core:core:fi_getinfo_():139"
                     "<warn> fi_getinfo: provider efa output empty list"), PAIR, UNKNOWN,
                     "output empty list", "fi_info -p efa", id="libfabric-without-adapters"),
        pytest.param(LIBFABRIC.format("efa:av:efa_ah_alloc():147<warn> ibv_create_ah failed with "
                     "EINVAL. Local GID: fe80::1"), PAIR, UNKNOWN, "ibv_create_ah", "roce.gid",
                     id="libfabric-without-an-address-handle"),
        pytest.param("E0331 12:03:04.2 560 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP "
                     "to RTR, check mtu, gid: Connection timed out [110]\n", PAIR, UNKNOWN,
                     "Failed to modify QP", "roce.gid", id="a-transfer-engine-that-cannot-connect"),
        pytest.param("Failed to modify QP to RTR\n", PAIR, UNKNOWN, "modify QP", "roce.gid",
                     id="rc-pingpong"),
        pytest.param("[application][error] RegisterRdmaMemoryRegion failed! addr:0x7f, size:9437, "
                     "errno:22 (Invalid argument)\n", REGISTRATION, BROKEN, "errno:22", MODULE,
                     id="a-program-of-amd"),
        pytest.param("E0605 17:54:16.8 17 context.cpp:19] Failed to register memory 0x7f56: "
                     "Numerical result out of range [34]\n", REGISTRATION, BROKEN, "[34]",
                     "max_mr_size", id="more-than-the-adapter-takes"),
        pytest.param(PERFTEST.format("NVIDIA H100"), PAIR, BROKEN, "no peer memory",
                     "path.selected", id="perftest-without-its-title"),
        pytest.param(PERFTEST.format("NVIDIA H100"), REGISTRATION, BROKEN, "perftest: GPU memory",
                     MODULE, id="perftest-that-was-refused-memory"),
        pytest.param(PERFTEST.format("NVIDIA GeForce RTX 4090"), PAIR, BROKEN,
                     "of NVIDIA GeForce RTX 4090", "no setting of the node", id="perftest-geforce"),
        pytest.param("Couldn't allocate MR with error=93\n", PAIR, BROKEN, "by dma-buf",
                     "path.selected", id="perftest-one-line"),
        pytest.param("9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA\n"
                     "9[1a000] -> 2[6b000] [receive] via NET/IB/1\n", NCCL, BROKEN,
                     "1 of 2 network channels go through host memory", "",
                     id="nccl-channels-alone"),
        pytest.param("a:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0\n",
                     NCCL, BROKEN, "go by TCP sockets", "see rdma.devices", id="nccl-by-sockets"),
        pytest.param("a:1:2 [0] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with "
                     "error Cannot allocate memory\n", NCCL, BROKEN, "Cannot allocate", MEMLOCK,
                     id="nccl-may-lock-too-little"),
        pytest.param("a:1:2 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() "
                     "call failed: No data available\n", NCCL, BROKEN, "fi_getinfo",
                     "fi_info -p efa", id="nccl-finds-no-efa"),
        pytest.param("nvidia-peermem-ctr:  CrashLoopBackOff\n  modprobe: FATAL: Module "
                     "nvidia-peermem not found in directory /lib/modules/6.8.0\n",
                     "peermem.loaded", BROKEN, "could not be inserted", "",
                     id="modprobe-within-a-list"),
        pytest.param("[1038619.687627] infiniband efa_0: Failed to process command REG_MR "
                     "(opcode 7) comp_status 1 err -12\n", "hca.health", UNKNOWN,
                     "efa_0 refused process command REG_MR", "", id="efa-in-the-kernel-log"),
        pytest.param("E20260821 12:30:19.433391 13 rdma_context.cpp:1343] DMA BUF supported "
                     "required for GPU RDMA without nvidia-peermem\n", REGISTRATION, BROKEN,
                     "without nvidia-", MODULE, id="a-program-that-misses-the-module"),
        pytest.param("a:1:2 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer "
                     "10.2.2.3<54862> with status=12 opcode=0 len=0 vendor err 129\n", NCCL, BROKEN,
                     "status=12", "NCCL_IB_GID_INDEX", id="nccl-retries-exceeded"),
        pytest.param("a:1:2 [0] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with "
                     "error 4, opcode 1, len 21938, vendor err 81\n", NCCL, BROKEN, "error 4",
                     "ACS", id="nccl-protection-error"),
        pytest.param('2025/03/21 09:17:03 error creating new device: "missing RDMA device spec for '
                     'device 0000:c4:00.0, RDMA device \\"issm\\" not found"\n',
                     "ctr.rdma_devices", UNKNOWN, "issm not found", "bound to a driver",
                     id="a-device-plugin-that-leaves-one-out"),
    ],
)  # fmt: skip
def test_what_a_program_says(text: str, check: str, status: Status, words: str, hint: str) -> None:
    told = found(check, text)
    assert told.status is status
    assert words in told.found
    assert hint in told.hint


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UNFOUND, id="dmabuf-was-not-asked"),
        pytest.param(NO_DMABUF, id="the-module-was-not-asked"),
        pytest.param(UNFOUND + UCX.format("DEBUG mlx5_0: dmabuf is supported"), id="dmabuf"),
        pytest.param(NO_DMABUF + UCX.format("DEBUG mlx5_0: cuda GPUDirect RDMA is detected by "
                                            "checking /sys/module/x/version"), id="module"),
        pytest.param(UNFOUND + NO_DMABUF.replace("mlx5_0", "mlx5_1"), id="of-two-adapters"),
    ],
)  # fmt: skip
def test_one_way_that_ucx_did_not_find_is_no_proof_that_there_is_none(text: str) -> None:
    assert parse_verbs_log(text) == ()


@pytest.mark.parametrize(
    ("depends", "status"),
    [("nvidia,ib_uverbs", Status.PASS), ("nvidia,ib_core", Status.PASS), ("", Status.FAIL)],
)
def test_a_stub_is_told_by_what_modinfo_says_that_it_depends_on(
    depends: str, status: Status
) -> None:
    text = "filename:  /lib/modules/6.8.0/updates/dkms/nvidia-peermem.ko\nversion:  570.86.10\n"
    assert found("peermem.stub", f"{text}depends:        {depends}\n").status is status


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        (UNFOUND + UCX.format("DEBUG mlx5_0: dmabuf is supported"), "mlx5_0: dma-buf"),
        (UCX.format("DEBUG mlx5_3: cuda GPUDirect RDMA is detected by checking /sys/x/version"),
         "mlx5_3: peer memory"),
        (UCX.format("DEBUG mlx5_3: cuda GPUDirect RDMA is enabled"), "mlx5_3: peer memory"),
    ],
)  # fmt: skip
def test_a_way_that_ucx_found_is_told(text: str, ways: str) -> None:
    told = found(REGISTRATION, text)
    assert (told.status, told.found.endswith(ways)) == (Status.PASS, True), told.found


@pytest.mark.parametrize("name", ["gdr_copy", "cuda_ipc", "rocm_ipc", "xpmem", "ud"])
def test_what_ucx_can_do_without_is_no_trouble(name: str) -> None:
    line = UCX.format(f"WARN  transport '{name}' is not available, please use one or more of: cuda")
    assert parse_verbs_log(line) == ()


@pytest.mark.parametrize("level", ["info", "debug", "trace"])
def test_what_libfabric_says_in_passing_is_no_trouble(level: str) -> None:
    line = f"efa:mr:efa_mr_reg_impl():402<{level}> Unable to register MR: Bad address"
    assert parse_verbs_log(LIBFABRIC.format(line)) == ()


def test_a_driver_that_started_no_gpu_is_told_by_the_log_alone() -> None:
    text = "[    8.600582] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x25:0x65:1468)\n"
    told = found("nvidia.present", text)
    assert (told.status, "0000:01:00.0" in told.found) == (BROKEN, True)


def test_a_port_whose_link_is_up_and_that_is_down_is_not_sent_to_its_cable() -> None:
    text = (
        "CA 'mlx5_7'\n\tCA type: MT4124\n\tNumber of ports: 1\n\tFirmware version: 20.28.4000\n"
        "\tPort 1:\n\t\tState: Down\n\t\tPhysical state: LinkUp\n\t\tRate: 200\n"
        "\t\tBase lid: 65535\n\t\tLink layer: {}\n"
    )
    assert "virtual function" in found("rdma.port", text.format("InfiniBand")).hint
    assert "cable, transceiver" in found("rdma.port", text.format("Ethernet")).hint


def test_a_list_that_column_has_padded_is_read_and_a_net_device_that_is_down_is_no_port() -> None:
    text = (
        "mlx5_0   port  1  ==>  ibp26s0        (Down)  # 1/8 infiniband\n"
        "mlx5_1   port  1  ==>  enp27s0f0np0   (Up)\n"
    )
    assert found("rdma.port", text).status is not BROKEN
    assert "cannot read" not in found("rdma.devices", text).found


# drivers/pci/pcie/aer.c and err.c, of 5.4 and of 6.12.
PORT = "[    9.123456] pcieport 0000:00:03.0: AER: {} error {} 0000:00:03.0\n"
HOPELESS = "[    9.123456] {} 0000:03:00.0: AER: can't recover (no error_detected callback)\n"


@pytest.mark.parametrize(
    ("severity", "driver", "status"),
    [
        ("Multiple Uncorrected (Fatal)", "nvidia", BROKEN),
        ("Uncorrectable (Fatal)", "mlx5_core", BROKEN),
        ("Uncorrectable (Non-Fatal)", "nvidia", UNKNOWN),
        ("Corrected", "mlx5_core", UNKNOWN),
        ("Multiple Uncorrected (Fatal)", "nvme", UNKNOWN),
    ],
)
@pytest.mark.parametrize("said", ["received:", "message received from"])
def test_a_fatal_error_of_a_link_is_told_by_the_log_alone(
    severity: str, driver: str, status: Status, said: str
) -> None:
    text = PORT.format(severity, said) + HOPELESS.format(driver)
    assert found("pcie.fatal", text).status is status


def test_what_fails_twice_is_told_once_and_what_is_well_never() -> None:
    failing = NON_ZERO.format("ibv_modify_qp failed")
    fine = "ibv_reg_dmabuf_mr handle 0x1 mr 0x2\n/a/nvshmem/ib.cpp 73 GDR driver version: (2, 4)\n"
    assert [each.trouble for each in parse_verbs_log(failing * 3 + fine)] == [Trouble.CONNECT]


def test_what_a_script_asks_below_its_headings_is_parted() -> None:
    text = (
        '=== distro / kernel ===\nNAME="CentOS Stream"\nID="centos"\nVERSION_ID="9"\n\n'
        "=== links ===\nlink bnxt_re0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0\n"
        "rdma dev\n0: bnxt_re0: node_type ca protocol roce fw 231.0.154.0 node_guid 8e84:74ff\n"
    )
    frames = {each.key: each.text for each in frames_of(text, "x.txt")}
    assert frames.keys() == {"os-release", "rdma-link", "rdma-dev"}
    assert "links" not in frames["os-release"]


@pytest.mark.parametrize(
    "prose",
    [
        "Does ibv_reg_mr fail when nvidia-peermem is not loaded on the node?",
        "The manual says that UCX cannot continue if it failed to register memory of the GPU.",
        '    if (!mr) fprintf(stderr, "ibv_reg_mr failed: %s", strerror(errno));',
        '    if (!mr) fprintf(stderr, "ibv_reg_mr failed");',
        "In nvshmem/src/transport.cpp 10 lines call what failed to register memory.",
        "I wonder why ibv_reg_mr should fail here.",
        "nvidia_peermem is not loaded, says my colleague",
        "Why does libfabric:efa say that it was unable to register MR?",
        "We failed to modify QP to RTR since the GID was wrong.",
    ],
)
def test_what_a_human_writes_is_no_log(prose: str) -> None:
    assert parse_verbs_log(prose) == ()
    text = f"{prose}\n$ cat /proc/cmdline\nBOOT_IMAGE=/boot/vmlinuz ro iommu=pt\n"
    assert found(REGISTRATION, text).status is not BROKEN


REG = (
    "[1710151844.440518] [gpu01:4904 :0]          ib_md.c:309  UCX  ERROR ibv_reg_mr(address="
    "0x7f2a4e000000, length=65536, access=0xf) failed: {}\n"
)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        pytest.param(REG.format("Bad address"), "rdma.registration", id="ucx-and-no-peer-memory"),
        pytest.param(
            REG.format("Cannot allocate memory : Please set max locked memory (ulimit -l) to "
                       "'unlimited' (current: 64 kbytes)"),
            "rdma.registration",
            id="ucx-and-memlock",
        ),
        pytest.param(REG.replace("ERROR", "DEBUG").format("x"), "", id="ucx-that-chats"),
        pytest.param(
            "$ sudo insmod gdrdrv.ko\ninsmod: ERROR: could not insert module gdrdrv.ko: Unknown "
            "symbol in module\n",
            "gdrcopy.driver",
            id="gdrdrv",
        ),
        pytest.param(
            "Nov 11 08:00:01 g systemd-modules-load[612]: Failed to insert module "
            "'nvidia_peermem': Invalid argument\n",
            "peermem.loaded",
            id="systemd-at-boot",
        ),
        pytest.param(
            "# depmod -a\ndepmod: WARNING: /lib/modules/5.15.0-91/extra/nv_peer_mem.ko needs "
            "unknown symbol ib_register_peer_memory_client\n",
            "peermem.loaded",
            id="depmod",
        ),
        pytest.param(
            "gpu1 kernel: nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
            "peermem.unknown_symbol",
            id="a-journal-without-its-stamps",
        ),
        pytest.param(
            "$ docker run --gpus all image ibv_devinfo\nNo IB devices found\n",
            "rdma.devices rdma.port",
            id="a-container-that-sees-none",
        ),
        pytest.param(
            "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': libmlx5-rdmav34.so: "
            "cannot open shared object file: No such file or directory\nNo IB devices found\n",
            "rdma.devices rdma.port",
            id="no-provider",
        ),
    ],
)  # fmt: skip
def test_what_a_second_reader_found_silent(text: str, fails: str, tmp_path: Path) -> None:
    assert judged(text, tmp_path) == (fails, "")
