"""What runs the job, judged with the healthy node under it."""

from __future__ import annotations

from datetime import date

import pytest

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, DENIED, MISSING, Override
from tests.evidence.healthy_consumers import LIBS, nccl
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from tests.evidence.platforms import DATA_DIRECT
from toolkit.checks.all import BY_ID
from toolkit.checks.consumers.containers import INSIDE, NOT_LOOKED
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.text.scrub import scrub
from toolkit.want import Want

LOCKED = "Max locked memory         {0}                {0}                bytes\n"
CAPS = "process:/proc/1\nUid:\t0\t0\t0\t0\nCapEff:\t{}\n"
DEFAULT, IPC_LOCK = "00000000a80425fb", "00000000a80465fb"
FIRST, MAPPED = "uid_map:         0          0 4294967295\n", "uid_map: 0 1000 1\n"
UVERBS = [f"/dev/infiniband/uverbs{number}" for number in range(3)]
WHOLE = (
    f"{LIBS}/libibverbs.so.1 -> libibverbs.so.1.14.50.0\n"
    f"{LIBS}/libibverbs/libmlx5-rdmav34.so -> ../libmlx5.so.1.24.50.0\n"
)
TAKES = f"{LIBS}/libibverbs.so.1 takes 34 {{}}\n"


def leader(caps: str = DEFAULT, memlock: str = "unlimited", maps: str = FIRST) -> str:
    return CAPS.format(caps) + LOCKED.format(memlock) + maps


def looked(kind: str = "docker", way: str = "entered") -> str:
    return f"kind {kind}\nname train\nway {way}\nwhole yes\n"


def opened(said: str = "ok") -> str:
    return "".join(f"{each} {said}\n" for each in UVERBS)


WELL: dict[str, Override] = {
    "inside": looked(),
    "inside/boot-id": "0b5c7f0e-3b1f-4a53-9d3e-5d9d8a1f2c11\n",
    "inside/process": leader(),
    "inside/shm": "shm /dev/shm tmpfs rw,nosuid,size=1048576k 0 0\n",
    "inside/environment": "LD_LIBRARY_PATH=/usr/local/lib\n",
    "inside/rdma-nodes": "".join(f"{e}\n" for e in (*UVERBS, "/dev/infiniband/rdma_cm")),
    "inside/rdma-open": opened(),
    "inside/rdma-devices": "".join(f"/sys/class/infiniband/mlx5_{n} -> x\n" for n in range(3)),
    "inside/gpu-nodes": "/dev/nvidia0\n/dev/nvidia1\n/dev/nvidiactl\n",
    "inside/providers": WHOLE,
    "inside/drivers": "/etc/libibverbs.d/mlx5.driver:driver mlx5\n",
    "inside/mlx5-libraries": f"{LIBS}/libmlx5.so.1 yes\n",
    "inside/cuda-libraries": f"{LIBS}/libcuda.so.1 -> libcuda.so.580.126.16\n",
    "inside/libraries": nccl("2.27.3"),
    "inside/verbs-libraries": f"{LIBS}/libibverbs.so.1 yes\n",
    "inside/perftest": ABSENT,
    "inside/nccl-conf": ABSENT,
    "inside/nccl-topology": "",
    "inside/consumer-settings": "",
    "inside/named-files": "",
    "inside/ucx-info": ABSENT,
}


def well(**changed: Override) -> dict[str, Override]:
    """The frames of a container with all that a job needs, but for these ("_" for "-")."""
    return WELL | {
        key if key == "inside" else f"inside/{key.replace('_', '-')}": each
        for key, each in changed.items()
    }


IMAGE = well(inside=looked("image", "outside"), gpu_nodes="", rdma_open="", cuda_libraries="")
OLD = f"{LIBS}/libibverbs.so.1 -> libibverbs.so.1.8.28.0\n"
NEW = f"{LIBS}/libibverbs.so.1 -> libibverbs.so.1.14.50.0\n"
ASKS = "its environment:NCCL_NET_PLUGIN={}\n"
TOPOLOGY = "its environment:NCCL_TOPO_FILE /etc/topo.xml {}\n"

ROWS: list[Row] = [
    *(Row("not-looked", each.id, NA, NOT_LOOKED, want=DMABUF) for each in INSIDE),
    Row("all-there", "inside.devices", PASS, "docker train: 3 uverbs nodes, ", WELL),
    Row("none", "inside.devices", FAIL, "no /dev/infiniband/uverbs* in it", well(rdma_open="")),
    Row("refused", "inside.devices", FAIL, "uverbs0: Operation not permitted",
        well(rdma_open=opened("Operation not permitted"))),
    Row("of-another-namespace", "inside.devices", FAIL, "sees none of the HCAs",
        well(rdma_devices="")),
    Row("unread", "inside.devices", UNKNOWN, "permission denied", well(rdma_open=DENIED)),
    Row("no-hca", "inside.devices", NA, "no RDMA device", WELL | {"infiniband": ""}),
    Row("capabilities-untold", "inside.memlock", UNKNOWN, "its limits were not told",
        well(process=leader().replace("CapEff", "CapBnd"))),
    Row("nothing-may-be-locked", "inside.memlock", FAIL, "memlock 0 bytes",
        well(process=leader(memlock="0"))),
    Row("no-driver", "inside.cuda", NA, "no NVIDIA driver", WELL | {"nvidia-version": ABSENT}),
    Row("an-image", "inside.devices", NA, "an image is not run", IMAGE),
    Row("unlimited", "inside.memlock", PASS, "memlock unlimited", WELL),
    Row("by-capability", "inside.memlock", PASS, "CAP_IPC_LOCK",
        well(process=leader(IPC_LOCK, "65536"))),
    Row("docker's-default", "inside.memlock", FAIL, "memlock 8388608 bytes, and no CAP_IPC_LOCK",
        well(process=leader(memlock="8388608"))),
    Row("just-enough", "inside.memlock", PASS, "memlock 1073741824 bytes",
        well(process=leader(memlock="1073741824"))),
    Row("just-too-little", "inside.memlock", FAIL, "memlock 1073741823 bytes",
        well(process=leader(memlock="1073741823"))),
    Row("a-capability-of-a-user-namespace", "inside.memlock", FAIL, "counts for nothing",
        well(process=leader(IPC_LOCK, "65536", MAPPED))),
    Row("untold", "inside.memlock", UNKNOWN, "its limits were not told",
        well(process="process:/proc/1\n")),
    Row("a-folder", "inside.memlock", NA, "a folder is not run", well(inside=looked("chroot"))),
    Row("a-gigabyte", "inside.shm", PASS, "1024 MiB", WELL),
    Row("the-node's-own", "inside.shm", PASS, "without a limit",
        well(shm="tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n")),
    Row("just-too-little", "inside.shm", FAIL, "/dev/shm has 1023 MiB",
        well(shm="shm /dev/shm tmpfs rw,size=1048575k 0 0\n")),
    Row("docker's-default", "inside.shm", FAIL, "/dev/shm has 62 MiB",
        well(shm="shm /dev/shm tmpfs rw,size=64000k 0 0\n")),
    Row("none", "inside.shm", FAIL, "no tmpfs on /dev/shm", well(shm="")),
    Row("unread", "inside.shm", UNKNOWN, "permission denied", well(shm=DENIED)),
    Row("one-gpu", "inside.shm", NA, "fewer than two GPUs",
        well(gpu_nodes="/dev/nvidia0\n/dev/nvidiactl\n", shm="")),
    Row("the-driver's-own", "inside.cuda", PASS, "580.126.16", WELL),
    Row("an-image-without", "inside.cuda", PASS, "as it should be", IMAGE),
    Row("another-driver's", "inside.cuda", FAIL, "is of driver 550.54.14, and 580.126.16 runs",
        well(cuda_libraries=f"{LIBS}/libcuda.so.1 -> libcuda.so.550.54.14\n")),
    Row("a-stub-alone", "inside.cuda", FAIL, "no libcuda.so.1; the stub",
        well(cuda_libraries="/usr/local/cuda-12.8/lib64/stubs/libcuda.so\n")),
    Row("no-gpu-given", "inside.cuda", FAIL, "no libcuda.so.1, and no /dev/nvidia*",
        well(cuda_libraries="", gpu_nodes="")),
    Row("unread", "inside.cuda", UNKNOWN, "not part of", well(cuda_libraries=MISSING)),
    Row("whole", "inside.provider", PASS, "mlx5, rdma-core 50.0", WELL),
    Row("no-libibverbs", "inside.provider", FAIL, "no libibverbs.so.1", well(providers="")),
    Row("libibverbs-alone", "inside.provider", FAIL, "no provider for mlx5: no libmlx5-rdmav*.so",
        well(providers=NEW)),
    Row("a-provider-of-another-rdma-core", "inside.provider", FAIL,
        "does not look for libmlx5-rdmav34.so", well(providers=WHOLE + TAKES.format("no"))),
    Row("a-provider-of-the-same", "inside.provider", PASS, "mlx5, rdma-core 50.0",
        well(providers=WHOLE + TAKES.format("yes"))),
    Row("of-two-libraries-one-takes-it", "inside.provider", PASS, "mlx5",
        well(providers=WHOLE + TAKES.format("no") + TAKES.format("yes"))),
    Row("of-two-providers-one-is-taken", "inside.provider", PASS, "mlx5",
        well(providers=WHOLE + f"{LIBS}/libmlx5-rdmav59.so\n" + TAKES.format("no")
             + f"{LIBS}/libibverbs.so.1 takes 59 yes\n")),
    Row("nobody-could-ask-it", "inside.provider", PASS, "mlx5",
        well(providers=WHOLE + TAKES.format("unreadable"))),
    Row("a-copy-of-libraries", "inside.provider", FAIL, "no /etc/libibverbs.d/mlx5.driver",
        well(drivers="")),
    Row("named-by-a-variable", "inside.provider", PASS, "mlx5",
        well(drivers="", environment="IBV_DRIVERS=mlx5\n")),
    Row("named-by-rdma-cores-own-variable", "inside.provider", PASS, "mlx5",
        well(drivers="", environment="RDMAV_DRIVERS=efa:mlx5\n")),
    Row("unread", "inside.provider", UNKNOWN, "permission denied", well(providers=DENIED)),
    Row("new-enough", "inside.rdma_core", PASS, "rdma-core 50.0", WELL, want=DMABUF),
    Row("before-dma-buf", "inside.rdma_core", FAIL, "no ibv_reg_dmabuf_mr, rdma-core 28.0",
        well(providers=OLD, verbs_libraries=f"{LIBS}/libibverbs.so.1 no\n"), want=DMABUF),
    Row("its-provider-is-older", "inside.rdma_core", FAIL, "its provider mlx5 registers no dma-buf",
        well(providers=OLD), want=DMABUF),
    Row("no-release-in-its-name", "inside.rdma_core", UNKNOWN, "does not tell its release",
        well(providers=f"{LIBS}/libibverbs.so.1\n"), want=DMABUF),
    Row("no-libibverbs", "inside.rdma_core", NA, "no libibverbs", well(providers=""), want=DMABUF),
    Row("has-the-call", "inside.data_direct", PASS, "libmlx5.so.1", WELL, DATA_DIRECT),
    Row("lacks-the-call", "inside.data_direct", FAIL, "no mlx5dv_get_data_direct_sysfs_path",
        well(mlx5_libraries=f"{LIBS}/libmlx5.so.1 no\n"), DATA_DIRECT),
    Row("not-readable", "inside.data_direct", UNKNOWN, "could not be read",
        well(mlx5_libraries=f"{LIBS}/libmlx5.so.1 unreadable\n"), DATA_DIRECT),
    Row("no-such-function", "inside.data_direct", NA, "no data-direct function", WELL),
    Row("asked-for", "inside.plugin", PASS, "/opt/amazon",
        well(libraries="/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so\n",
             consumer_settings=ASKS.format("ofi"))),
    Row("not-found", "inside.plugin", FAIL, "no libnccl-net-ofi.so",
        well(consumer_settings=ASKS.format("ofi"))),
    Row("none-asked", "inside.plugin", NA, "no plugin of NCCL", WELL),
    Row("unread", "inside.plugin", UNKNOWN, "permission denied", well(libraries=DENIED)),
    Row("there", "inside.files", PASS, "/etc/topo.xml", well(named_files=TOPOLOGY.format("yes"))),
    Row("on-the-node-alone", "inside.files", FAIL, "NCCL_TOPO_FILE=/etc/topo.xml: no such file",
        well(named_files=TOPOLOGY.format("no"))),
    Row("none-named", "inside.files", NA, "no setting names a file", WELL),
    Row("unread", "inside.files", UNKNOWN, "permission denied", well(named_files=DENIED)),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_runs_the_job_is_judged(row: Row) -> None:
    holds(row)


def test_a_container_with_all_that_a_job_needs_fails_nothing() -> None:
    told = judge_node("n", node(WELL), Want(), date(2026, 1, 1))
    assert [each.check.id for each in told.verdicts if each.status in {FAIL, UNKNOWN}] == []
    assert ("inside", "docker train") in told.about


def test_its_libraries_and_settings_stand_in_place_of_the_nodes() -> None:
    """The node has NCCL 2.27.3, ucx_info and perftest; the image an old NCCL, and a variable."""
    frames = well(libraries=nccl("2.19.3"),
                  consumer_settings="its environment:NCCL_IB_DISABLE=1\n")  # fmt: skip
    inner = Node(node(frames))
    assert [each.version for each in inner.libraries] == ["2.19.3"]
    assert (inner.ucx, inner.perftest) == (None, None)
    told = judge_node("n", node(frames), Want(), date(2026, 1, 1))
    wrong = {each.check.id: each.finding for each in told.verdicts if each.status is FAIL}
    assert "NCCL_IB_DISABLE=1" in wrong["nccl.env"].found
    assert wrong["nccl.env"].hint.endswith("its environment")
    nccl_chosen = next(each for each in told.chosen if each.consumer == "nccl")
    assert nccl_chosen.version == "2.19.3"


def test_what_was_not_read_in_it_is_not_taken_from_the_node() -> None:
    with_less = Evidence(
        {k: v for k, v in node(WELL).frames.items() if k != "inside/libraries"}, complete=True
    )
    verdict = BY_ID["consumer.too_old"](Node(with_less), Want())
    assert verdict.status is UNKNOWN
    assert "libraries: not part of this evidence" in verdict.finding.found


def test_scrubbed_it_is_judged_alike_and_nobody_knows_what_the_site_calls_it() -> None:
    """The release of rdma-core stands in a library's name, where it looks like an address."""
    frames = well(inside=looked().replace("train", "llm-of-acme"))
    kept = scrub(node(frames), "gpu07")
    assert "acme" not in kept.dump()
    told = [
        [(e.check.id, e.status) for e in judge_node("n", each, Want(), date(2026, 1, 1)).verdicts]
        for each in (node(frames), kept)
    ]
    assert told[0] == told[1]
    assert Node(kept).inside_providers.release == "50.0"


@pytest.mark.parametrize(
    ("kind", "word"),
    [("docker", "docker run"), ("podman", "podman run"), ("kubectl", "IPC_LOCK"),
     ("slurm", "slurmd"), ("enroot", "whatever starts it")],
)  # fmt: skip
def test_the_hint_is_in_the_words_of_whatever_started_it(kind: str, word: str) -> None:
    frames = well(inside=looked(kind), process=leader(memlock="65536"))
    assert word in judged(Row("", "inside.memlock", FAIL, "", frames)).finding.hint
