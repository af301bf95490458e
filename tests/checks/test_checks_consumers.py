"""The checks on the libraries that would use GPUDirect, and on the paths that they can take."""

from __future__ import annotations

import pytest

from tests.evidence.build import GUEST_CPU, PROPRIETARY, node, without_module
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.healthy_consumers import LIBS, nccl, ucx_info
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.checks.all import BY_ID
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

NO_PEERMEM: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
CLOSED: dict[str, Override] = {"nvidia-version": PROPRIETARY}
NV_MEM = "/sys/kernel/mm/memory_peers/nv_mem/version\n"
SHMEM = f"{LIBS}/libnvshmem_host.so.3 -> libnvshmem_host.so.3.3.20\n"
NOTHING: dict[str, Override] = {"libraries": "", "ucx-info": ABSENT, "perftest": ABSENT}


BUILT = "path /usr/bin/ib_write_bw\ncuda {}\ndmabuf {}\n"
TAKEN = Want(path=PeerPath.DMABUF, taken=True)
SITE = "/opt/conda/lib/python3.12/site-packages"


def libraries(text: str, **more: Override) -> dict[str, Override]:
    return {"libraries": text, "ucx-info": ABSENT, **more}


def conf(*lines: str) -> dict[str, Override]:
    return {"nccl-conf": "".join(line + "\n" for line in lines)}


def asked(**versions: str) -> Want:
    return Want(consumers=tuple(sorted(versions.items())))


TOO_OLD = [
    Row("healthy", "consumer.too_old", PASS, "NCCL 2.27.3: peermem, UCX 1.18.0: peermem"),
    Row(
        "nccl-2.22-with-new-ofed-and-the-closed-driver",
        "consumer.too_old",
        FAIL,
        "NCCL 2.22.3: finds neither path",
        libraries(nccl("2.22.3"), **CLOSED),
    ),
    Row(
        "nccl-2.22-takes-dmabuf-with-the-open-one",
        "consumer.too_old",
        PASS,
        "NCCL 2.22.3: dma-buf",
        libraries(nccl("2.22.3")),
    ),
    Row(
        "nccl-2.12-knows-no-dmabuf",
        "consumer.too_old",
        FAIL,
        "NCCL 2.12.12",
        libraries(nccl("2.12.12")),
    ),
    Row(
        "nccl-2.12-with-an-old-ofed",
        "consumer.too_old",
        PASS,
        "NCCL 2.12.12: peermem",
        libraries(nccl("2.12.12"), **{"memory-peers": NV_MEM}),
    ),
    Row(
        "ucx-1.17-and-the-closed-driver",
        "consumer.too_old",
        FAIL,
        "UCX 1.17.0",
        {"libraries": "", "ucx-info": ucx_info("1.17.0"), **CLOSED},
    ),
    Row(
        "a-ucx-without-cuda-is-nobodys-consumer",
        "consumer.too_old",
        NA,
        "no NCCL, UCX or NVSHMEM",
        {"libraries": "", "ucx-info": ucx_info("1.13.1", "--without-cuda"), **CLOSED},
    ),
    Row(
        "asked-for-stands-in-for-what-is-there",
        "consumer.too_old",
        FAIL,
        "NCCL 2.18: finds",
        {"ucx-info": ABSENT, **CLOSED},
        want=asked(nccl="2.18"),
    ),
    Row(
        "version-unknown-where-it-matters",
        "consumer.too_old",
        UNKNOWN,
        f"it depends on the version or the build of NCCL (version not known): {LIBS}/libnccl.so.2",
        libraries(f"{LIBS}/libnccl.so.2\n", **CLOSED),
    ),
    Row(
        "no-path-for-anybody",
        "consumer.too_old",
        NA,
        "see path.selected",
        {**NO_PEERMEM, **CLOSED},
    ),
    Row(
        "a-build-that-may-lack-dmabuf-and-sees-peermem",
        "consumer.too_old",
        PASS,
        "NCCL 2.20.5: peermem",
        libraries(f"{SITE}/nvidia_nccl_cu11-2.20.5.dist-info\n", **{"memory-peers": NV_MEM}),
    ),
    Row("nothing-installed", "consumer.too_old", NA, "no NCCL", NOTHING),
    Row("a-plugin", "consumer.too_old", NA, "no NCCL", libraries(f"{LIBS}/libnccl-net-ofi.so\n")),
    Row("ucx-of-no-release", "consumer.too_old", NA, "no NCCL", libraries(f"{LIBS}/libucp.so.0\n")),
    Row(
        "ucx-asked-for-stands-in-for-the-one-that-is-there",
        "consumer.too_old",
        FAIL,
        "UCX 1.17.0: finds neither",
        {"libraries": "", **CLOSED},
        want=asked(ucx="1.17.0"),
    ),
    Row(
        "a-file-of-peermem-and-no-peermem",
        "consumer.too_old",
        FAIL,
        "NCCL 2.12.12: finds neither",
        libraries(nccl("2.12.12"), **{"memory-peers": NV_MEM}, **NO_PEERMEM),
    ),
    Row("not-read", "consumer.too_old", UNKNOWN, "abandoned", {"ucx-info": TIMEOUT}),
    Row(
        "rapids'-ucx-has-a-release-of-its-own",
        "consumer.too_old",
        FAIL,
        "UCX 1.17.0: finds neither",
        libraries(f"{SITE}/libucx_cu12-1.17.0.post1.dist-info\n", **CLOSED),
    ),
    Row(
        "nixl-has-a-ucx-inside",
        "consumer.too_old",
        PASS,
        "NIXL 0.7.1: peermem",
        libraries(f"{SITE}/nixl_cu12-0.7.1.dist-info\n", **CLOSED),
    ),
    Row(
        "an-old-ucx-has-no-dmabuf",
        "consumer.too_old",
        FAIL,
        "UCX 1.13.1: finds neither",
        {"libraries": "", "ucx-info": ucx_info("1.13.1")},
    ),
    Row(
        "nccl-for-cuda-11-may-have-none-either",
        "consumer.too_old",
        UNKNOWN,
        "the build of NCCL 2.20.5",
        libraries(f"{SITE}/nvidia_nccl_cu11-2.20.5.dist-info\n"),
    ),
]
SETTINGS = [
    Row("healthy", "nccl.env", PASS, "none is set"),
    Row("harmless", "nccl.env", PASS, "1 set, none of these", conf("NCCL_DEBUG=WARN")),
    Row(
        "dmabuf-left-on-without-peermem",
        "nccl.env",
        PASS,
        "1 set, none of these",
        {**conf("NCCL_DMABUF_ENABLE=1"), **NO_PEERMEM},
    ),
    Row(
        "left-from-debugging",
        "nccl.env",
        FAIL,
        "NCCL_NET_GDR_LEVEL=LOC: GPUDirect RDMA is off; /etc/nccl.conf",
        conf("# for ticket 7", "NCCL_NET_GDR_LEVEL=LOC"),
    ),
    Row("as-a-number", "nccl.env", FAIL, "is off", conf("NCCL_NET_GDR_LEVEL=0")),
    Row("commented-out", "nccl.env", PASS, "none is set", conf("#NCCL_NET_GDR_LEVEL=0")),
    Row("forced", "nccl.env", FAIL, "between sockets", conf("NCCL_NET_GDR_LEVEL=SYS")),
    Row("no-infiniband", "nccl.env", FAIL, "RoCE are off", conf("NCCL_IB_DISABLE=1")),
    Row("infiniband-not-disabled", "nccl.env", PASS, "1 set", conf("NCCL_IB_DISABLE=0")),
    Row("tcp", "nccl.env", FAIL, "only TCP", conf("NCCL_NET=Socket")),
    Row("no-reads", "nccl.env", FAIL, "off for sending", conf("NCCL_NET_GDR_READ=0")),
    Row(
        "for-every-login",
        "nccl.env",
        FAIL,
        "/etc/profile.d/nccl.sh",
        {"consumer-settings": 'profile.d/nccl.sh:export NCCL_NET_GDR_LEVEL="LOC"\n'},
    ),
    Row("no-dmabuf-with-peermem", "nccl.env", PASS, "1 set", conf("NCCL_DMABUF_ENABLE=0")),
    Row(
        "set-to-nothing",
        "nccl.env",
        PASS,
        "2 set",
        {**conf("NCCL_DMABUF_ENABLE=", "NCCL_NET_GDR_READ="), **NO_PEERMEM},
    ),
    Row(
        "no-dmabuf-without-peermem",
        "nccl.env",
        FAIL,
        "no dma-buf, and peermem does not work here",
        {**conf("NCCL_DMABUF_ENABLE=0"), **NO_PEERMEM},
    ),
    *(
        Row(f"hcas-{value}", "nccl.env", status, found, conf(f"NCCL_IB_HCA={value}"))
        for value, status, found in (
            ("mlx5", PASS, "1 set"),
            ("mlx5_0,mlx5_1", PASS, "1 set"),
            ("=mlx5_0:1,mlx5_1:1", PASS, "1 set"),
            ("^mlx5_2", PASS, "1 set"),
            ("^=mlx5_9", PASS, "1 set"),
            ("mlx5_0:1,mlx5_1,mlx5_77", PASS, "1 set"),
            ("mlx9_0", FAIL, "none of the HCAs that are here (mlx5_0, mlx5_1, mlx5_2)"),
            ("=mlx5", FAIL, "none of the HCAs"),
            ("=mlx9_0:1", FAIL, "none of the HCAs"),
            ("^mlx5", FAIL, "none of the HCAs"),
            ("^", FAIL, "none of the HCAs"),
            ("mlx9_0,mlx9_1:1", FAIL, "none of the HCAs"),
            ("mlx5_0:2", FAIL, "no port that it leaves is up"),
            ("=mlx5_0:2,mlx5_1:2", FAIL, "no port that it leaves is up"),
            ("mlx5_0", FAIL, "1 GPU is left without the HCA beside it"),
            ("^mlx5_1", FAIL, "1 GPU is left without the HCA beside it"),
            ("mlx5_2", FAIL, "2 GPUs are left without"),
        )
    ),
    Row(
        "hcas-not-read",
        "nccl.env",
        UNKNOWN,
        "permission",
        {**conf("NCCL_IB_HCA=mlx5"), "infiniband": DENIED},
    ),
    Row("not-read", "nccl.env", UNKNOWN, "permission denied", {"nccl-conf": DENIED}),
    Row(
        "a-level-in-small-letters-is-none",
        "nccl.env",
        PASS,
        "1 set",
        conf("NCCL_NET_GDR_LEVEL=loc"),
    ),
    Row(
        "any-number-disables",
        "nccl.env",
        FAIL,
        "InfiniBand and RoCE are off",
        conf("NCCL_IB_DISABLE=2"),
    ),
    Row("a-word-is-zero", "nccl.env", FAIL, "off for sending", conf("NCCL_NET_GDR_READ=yes")),
    Row("a-network-in-any-case", "nccl.env", FAIL, "only TCP", conf("NCCL_NET=socket")),
    Row("healthy", "ucx.paths", PASS, "UCX 1.18.0, with CUDA"),
    Row(
        "of-a-distribution",
        "ucx.paths",
        NA,
        "built without CUDA",
        {"ucx-info": ucx_info("1.13.1", "")},
    ),
    Row(
        "switched-off",
        "ucx.paths",
        FAIL,
        "UCX_IB_GPU_DIRECT_RDMA=n: GPUDirect RDMA is off; /etc/environment",
        {"consumer-settings": "environment:UCX_IB_GPU_DIRECT_RDMA=n\n"},
    ),
    *(
        Row(word, "ucx.paths", status, "UCX", {"consumer-settings": f"environment:{word}\n"})
        for word, status in (
            ("UCX_IB_GPU_DIRECT_RDMA=No", FAIL),
            ("UCX_IB_GPU_DIRECT_RDMA=try", PASS),
            ("UCX_TLS=all", PASS),
            ("UCX_TLS=^all", FAIL),
            ("UCX_TLS=rc,gpu", PASS),
        )
    ),
    Row(
        "transports-without-cuda",
        "ucx.paths",
        FAIL,
        "UCX_TLS=rc,sm: no transport for CUDA memory",
        {"consumer-settings": "profile.d/ucx.sh:export UCX_TLS=rc,sm\n"},
    ),
    Row(
        "transports-but-one",
        "ucx.paths",
        PASS,
        "UCX 1.18.0",
        {"consumer-settings": "environment:UCX_TLS=^sm\n"},
    ),
    Row(
        "transports-but-those-of-cuda",
        "ucx.paths",
        FAIL,
        "UCX_TLS=^cuda_copy,cuda_ipc: no transport",
        {"consumer-settings": "environment:UCX_TLS=^cuda_copy,cuda_ipc\n"},
    ),
    Row("no-ucx", "ucx.paths", NA, "no ucx_info", {"ucx-info": ABSENT}),
    Row("hangs", "ucx.paths", UNKNOWN, "abandoned", {"ucx-info": TIMEOUT}),
]
TOOLS = [
    Row(
        "peermem",
        "nvshmem.transport",
        PASS,
        "NVSHMEM 3.3.20: peermem",
        {"libraries": SHMEM, **CLOSED},
    ),
    Row("dmabuf", "nvshmem.transport", PASS, "NVSHMEM 3.3.20: dmabuf", {"libraries": SHMEM}),
    Row(
        "told-not-to",
        "nvshmem.transport",
        FAIL,
        "NVSHMEM_IB_DISABLE_DMABUF=1 in /etc/environment",
        {
            "libraries": SHMEM,
            "consumer-settings": "environment:NVSHMEM_IB_DISABLE_DMABUF=1\n",
            **NO_PEERMEM,
        },
    ),
    Row(
        "no-path-for-anybody",
        "nvshmem.transport",
        NA,
        "see path.selected",
        {"libraries": SHMEM, **NO_PEERMEM, **CLOSED},
    ),
    Row("none", "nvshmem.transport", NA, "no NVSHMEM"),
    Row(
        "asked-for-without-the-library",
        "nvshmem.transport",
        PASS,
        "NVSHMEM 3.1: dmabuf",
        want=asked(nvshmem="3.1"),
    ),
    Row(
        "of-another-library's-settings",
        "nvshmem.transport",
        PASS,
        "NVSHMEM 3.3.20: dmabuf",
        {"libraries": SHMEM, "nccl-conf": "NCCL_DMABUF_ENABLE=0\n"},
    ),
    Row(
        "driver-not-read",
        "nvshmem.transport",
        UNKNOWN,
        "permission denied",
        {"libraries": SHMEM, "nvidia-version": DENIED},
    ),
    Row("peermem", "perftest.path", PASS, "/usr/bin/ib_write_bw --use_cuda"),
    Row("dmabuf", "perftest.path", PASS, "--use_cuda_dmabuf", want=DMABUF),
    Row(
        "built-without-dmabuf",
        "perftest.path",
        FAIL,
        "was built without dma-buf",
        {"perftest": BUILT.format("yes", "no")},
        want=DMABUF,
    ),
    Row(
        "of-a-distribution",
        "perftest.path",
        NA,
        "built without CUDA",
        {"perftest": BUILT.format("no", "no")},
    ),
    Row("none", "perftest.path", NA, "no ib_write_bw", {"perftest": ABSENT}),
    *(
        Row(f"without-dmabuf-{claim}", "perftest.path", status, found, frames, want=TAKEN)
        for claim, status, found, frames in (
            ("and-with-peermem", PASS, "--use_cuda", {"perftest": BUILT.format("yes", "no")}),
            (
                "nor-peermem",
                FAIL,
                "without dma-buf",
                {"perftest": BUILT.format("yes", "no"), **NO_PEERMEM},
            ),
        )
    ),
    *(
        Row(words[0], "perftest.path", UNKNOWN, "be read", {"perftest": BUILT.format(*words)})
        for words in (("unreadable", "unreadable"), ("yes", "unreadable"))
    ),
]
ROWS = [*TOO_OLD, *SETTINGS, *TOOLS]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_judgement(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("path", PeerPath)
def test_a_guest_is_judged_alike(path: PeerPath) -> None:
    guest = Node(node({"cpu": GUEST_CPU}))
    assert BY_ID["consumer.too_old"](guest, Want(path=path)).status is PASS
