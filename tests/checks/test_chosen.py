"""Which path each library would take: by version, settings, distance and direction."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.board import BOARD, FLAT, GPUS, HCAS, Board
from tests.evidence.build import PROPRIETARY, node, without_module
from tests.evidence.frames import ABSENT, DENIED, Override
from tests.evidence.healthy_consumers import LIBS, nccl, ucx_info
from toolkit.checks.consumers.choices import choices
from toolkit.checks.consumers.chosen import Chosen, Way
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.facts.node.node import Node
from toolkit.want import Want

SEND, RECEIVE = Direction
DMABUF, PEERMEM, NONE, UNKNOWN, MIXED = Way
CLOSED: dict[str, Override] = {"nvidia-version": PROPRIETARY}
NO_PEERMEM: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
NO_IMPORTER: dict[str, Override] = {"verbs-libraries": f"{LIBS}/libibverbs.so.1 no\n"}
NV_MEM: dict[str, Override] = {"memory-peers": "/sys/kernel/mm/memory_peers/nv_mem/version\n"}
NEAR = ((GPUS[0], "mlx5_0"), (GPUS[1], "mlx5_1"))


def with_gpus(device: int) -> Board:
    return BOARD.but(GPUS[0], ids=(0x10DE, device)).but(GPUS[1], ids=(0x10DE, device))


VOLTA, TURING, AMPERE = with_gpus(0x1DB1), with_gpus(0x1EB8), with_gpus(0x20B2)
MATRIX = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{0}\t0-1\t0\nGPU1\t{0}\t X \t0-1\t0\n"
)
NVLINK: dict[str, Override] = {"nvidia-topology": MATRIX.format("NV18")}
NO_NVLINK: dict[str, Override] = {"nvidia-topology": MATRIX.format("SYS")}


def conf(*lines: str) -> dict[str, Override]:
    return {"nccl-conf": "".join(line + "\n" for line in lines)}


def of(
    consumer: str,
    frames: Mapping[str, Override] | None = None,
    *,
    board: Board = BOARD,
    **asked: str,
) -> Chosen:
    want = Want(consumers=tuple(sorted(asked.items())))
    found = choices(Node(node(frames, board=board)), want)
    return next(each for each in found if each.consumer == consumer)


def way(chosen: Chosen, gpu: str, hca: str, direction: Direction) -> tuple[Way, str]:
    (group,) = (
        each for each in chosen.groups if (gpu, hca) in each.pairs and direction in each.directions
    )
    return group.way, group.why


# --- which path: by version ---


@pytest.mark.parametrize(
    ("version", "frames", "path"),
    [
        pytest.param("2.27", {}, DMABUF, id="prefers-dmabuf"),
        pytest.param("2.27", CLOSED, PEERMEM, id="closed-driver"),
        pytest.param("2.27", NO_IMPORTER, PEERMEM, id="hca-cannot"),
        pytest.param("2.27", {**CLOSED, **NO_PEERMEM}, NONE, id="neither"),
        pytest.param("2.27", NO_PEERMEM, DMABUF, id="dmabuf-alone"),
        pytest.param("2.27", conf("NCCL_DMABUF_ENABLE=0"), PEERMEM, id="told-to"),
        pytest.param(
            "2.27", {**conf("NCCL_DMABUF_ENABLE=0"), **NO_PEERMEM}, NONE, id="told-to-and-gone"
        ),
        pytest.param("2.13.4", {}, DMABUF, id="first-with-dmabuf"),
        pytest.param("2.12.12", {}, NONE, id="before-dmabuf-new-ofed"),
        pytest.param("2.12.12", NV_MEM, PEERMEM, id="before-dmabuf-old-ofed"),
        pytest.param("2.22.3", CLOSED, NONE, id="b01"),
        pytest.param("2.22.3", {**CLOSED, **NV_MEM}, PEERMEM, id="b01-with-an-old-ofed"),
        pytest.param("2.23.4", CLOSED, PEERMEM, id="sees-the-module-itself"),
        pytest.param("2.27", {"nvidia-version": DENIED}, UNKNOWN, id="driver-not-read"),
        pytest.param("2.27", {**CLOSED, "module-state": DENIED}, UNKNOWN, id="modules-not-read"),
        pytest.param("2.27", conf("NCCL_IB_DISABLE=1"), NONE, id="no-infiniband"),
        pytest.param("2.27", conf("NCCL_IB_DISABLE=yes"), DMABUF, id="a-word-is-zero"),
        pytest.param("2.27", conf("NCCL_DMABUF_ENABLE=yes"), PEERMEM, id="yes-is-zero-too"),
        pytest.param("2.27", conf("NCCL_NET=Socket"), NONE, id="tcp"),
        pytest.param("2.27", conf("NCCL_NET=socket"), NONE, id="tcp-in-any-case"),
        pytest.param("2.27", conf("NCCL_NET=AWS Libfabric"), UNKNOWN, id="another-network"),
        pytest.param("2.27", conf("NCCL_NET=IB"), DMABUF, id="its-own-network"),
        pytest.param("2.27", conf("NCCL_NET_PLUGIN=ofi"), UNKNOWN, id="plugin"),
        pytest.param("2.27", conf("NCCL_NET_PLUGIN=none"), DMABUF, id="no-plugin"),
    ],
)
def test_nccl_by_version(version: str, frames: dict[str, Override], path: Way) -> None:
    assert of("nccl", {**NVLINK, **frames}, nccl=version).way is path


@pytest.mark.parametrize(
    ("version", "frames", "path"),
    [
        pytest.param("1.18.0", {}, DMABUF, id="both"),
        pytest.param("1.18.0", CLOSED, PEERMEM, id="sees-the-module"),
        pytest.param("1.17.0", CLOSED, NONE, id="b01"),
        pytest.param("1.17.0", {**CLOSED, **NV_MEM}, PEERMEM, id="old-ofed"),
        pytest.param("1.14.0", {}, DMABUF, id="first-with-dmabuf"),
        pytest.param("1.13.1", {}, NONE, id="before-dmabuf"),
        pytest.param(
            "1.18.0",
            {"consumer-settings": "environment:UCX_IB_GPU_DIRECT_RDMA=n\n"},
            NONE,
            id="switched-off",
        ),
    ],
)
def test_ucx_by_version(version: str, frames: dict[str, Override], path: Way) -> None:
    assert of("ucx", {**frames, "ucx-info": ucx_info(version)}).way is path


def test_a_nccl_for_cuda_11_may_have_been_built_without_dmabuf() -> None:
    wheel = "/opt/conda/lib/python3.10/site-packages/nvidia_nccl_cu1{}-2.20.5.dist-info\n"
    assert of("nccl", {"libraries": wheel.format(1)}).way is UNKNOWN
    assert of("nccl", {"libraries": wheel.format(2)}).way is DMABUF


def test_an_efa_is_driven_by_a_plugin_alone() -> None:
    efa = BOARD.but(HCAS[0], ids=(0x1D0F, 0xEFA2))
    found = of("nccl", board=efa, nccl="2.27")
    assert way(found, *NEAR[0], SEND)[0] is UNKNOWN
    assert way(found, *NEAR[1], SEND)[0] is DMABUF


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        ("mlx5_1", "mlx5_1"),
        ("=mlx5_0:1", "mlx5_0"),
        ("^mlx5_0", "mlx5_2"),
        ("^=mlx5_1", "mlx5_0"),
        ("mlx5", "mlx5_0"),
    ],
)
def test_nccl_ib_hca_leaves_some(value: str, nearest: str) -> None:
    found = of("nccl", conf(f"NCCL_IB_HCA={value}"), nccl="2.27")
    assert dict(found.nearest)[GPUS[0]] == nearest


def test_nccl_ib_hca_may_leave_none() -> None:
    found = of("nccl", conf("NCCL_IB_HCA=mlx4"), nccl="2.27")
    assert (found.way, found.reasons) == (
        NONE,
        ("NCCL_IB_HCA leaves none of the HCAs that are here",),
    )


def test_what_ucx_info_says_is_of_that_ucx_alone() -> None:
    plain: dict[str, Override] = {"ucx-info": ucx_info("1.13.1", "")}
    site = "/opt/conda/lib/python3.12/site-packages"
    assert of("ucx", plain, ucx="1.18").way is DMABUF
    wheels: dict[str, Override] = {
        "ucx-info": ABSENT,
        "libraries": f"{site}/libucx_cu12-1.18.1.dist-info\n{site}/nixl_cu12-1.0.0.dist-info\n",
    }
    assert (of("ucx", wheels).way, of("ucx", wheels).version) == (DMABUF, "1.18.1")
    assert of("nixl", {**wheels, **CLOSED}).way is PEERMEM
    told = "environment:UCX_TLS=rc,sm\n"
    assert of("nixl", {**wheels, "consumer-settings": told}).way is NONE


def test_ucx_without_cuda_takes_nothing() -> None:
    found = of("ucx", {"ucx-info": ucx_info("1.13.1", "")})
    assert (found.way, found.reasons) == (NONE, ("it was built without CUDA",))


def test_nvshmem_trusts_the_gpu_and_never_asks_the_hca() -> None:
    library: dict[str, Override] = {"libraries": f"{LIBS}/libnvshmem_host.so.3.3.20\n"}
    assert of("nvshmem", {**library, **NO_IMPORTER}).way is DMABUF
    off = "environment:NVSHMEM_IB_DISABLE_DMABUF=true\n"
    assert of("nvshmem", {**library, "consumer-settings": off}).way is PEERMEM


def test_perftest_takes_the_path_that_its_options_name() -> None:
    assert of("perftest --use_cuda").way is PEERMEM
    assert of("perftest --use_cuda --use_cuda_dmabuf").way is DMABUF
    assert of("perftest --use_cuda", NO_PEERMEM).way is NONE
    blind: dict[str, Override] = {"pci": DENIED, "nvidia-topology": DENIED}
    assert of("perftest --use_cuda", blind).way is PEERMEM, "its option decides, not the distance"
    plain: dict[str, Override] = {"perftest": "path /usr/bin/ib_write_bw\ncuda no\ndmabuf no\n"}
    assert of("perftest --use_cuda", plain).way is NONE


def test_a_version_that_is_not_known_is_not_guessed() -> None:
    found = of("nccl", {"libraries": "/opt/nccl/lib/libnccl.so.2\n"})
    assert (found.version, found.way) == ("", UNKNOWN)


def test_what_is_asked_for_stands_in_place_of_what_is_there() -> None:
    found = choices(Node(node()), Want(consumers=(("nccl", "2.18"),)))
    assert [(e.version, e.origin) for e in found if e.consumer == "nccl"] == [("2.18", "asked")]
    assert of("nccl").origin == f"{LIBS}/libnccl.so.2.27.3"


def test_the_other_path_is_named_with_the_setting_that_takes_it() -> None:
    assert of("nccl").otherwise == "peermem with NCCL_DMABUF_ENABLE=0"
    assert of("nccl", NO_PEERMEM).otherwise == ""
    assert of("nccl", CLOSED).otherwise == ""


def test_a_plugin_beside_the_library_is_said_to_be_not_known() -> None:
    plugin = "/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so\n"
    found = of("nccl", {"libraries": nccl("2.27.3") + plugin})
    assert found.not_known == (f"whether jobs load {plugin.strip()}, which has rules of its own",)


# --- where there is little to go by ---


def test_every_direction_of_every_pair_is_decided_once() -> None:
    for frames in ({}, NO_NVLINK, CLOSED):
        for chosen in choices(Node(node(frames, board=VOLTA)), Want()):
            legs = [(p, d) for g in chosen.groups for p in g.pairs for d in g.directions]
            assert len(legs) == len(set(legs)) == len(GPUS) * len(HCAS) * 2


def test_a_guest_with_a_flat_bus_is_decided_by_what_its_bus_shows() -> None:
    found = of("nccl", NO_NVLINK, board=FLAT)
    assert found.way is NONE
    assert any("and the limit is PXB" in each for each in found.reasons)


def test_a_guest_that_was_given_a_topology_is_not_judged_by_its_bus() -> None:
    given = {"nccl-topology": "/var/run/nvidia-topologyd/virtualTopology.xml\n"}
    found = of("nccl", {**NO_NVLINK, **given}, board=FLAT)
    assert (found.way, found.reasons) == (
        UNKNOWN,
        ("NCCL_TOPO_FILE in its default place stands in place of the PCI tree",),
    )
    assert of("nccl", {**given, **conf("NCCL_IB_DISABLE=1")}).way is NONE


def test_an_image_and_a_node_without_gpus_have_nothing_to_choose() -> None:
    asked = Want(consumers=(("nccl", "2.27"),))
    assert choices(Node(node({"boot-id": ABSENT})), asked) == ()
    assert choices(Node(node(board=BOARD.without(*GPUS))), asked) == ()


def test_nothing_at_all_chooses_nothing_and_asked_for_it_is_not_known() -> None:
    assert choices(Node(Evidence()), Want()) == ()
    (found,) = choices(Node(Evidence({}, complete=True)), Want(consumers=(("nccl", "2.27"),)))
    assert found.way is UNKNOWN
    assert any(each.startswith("GPUs and HCAs: ") for each in found.not_known)


@pytest.mark.parametrize("key", list(node().frames))
@pytest.mark.parametrize("bad", [DENIED, "nonsense\n"], ids=["denied", "odd"])
def test_a_lost_source_ends_no_run(key: str, bad: Override) -> None:
    asked = Want(consumers=(("nccl", "2.18"), ("ucx", "1.17")))
    assert isinstance(choices(Node(node({key: bad})), asked), tuple)


def test_mpi_goes_the_way_of_its_ucx() -> None:
    answer = "path:prefix:/opt/ompi\nompi:version:full:5.0.5\n"
    answer += "mca:mpi:base:param:mpi_built_with_cuda_support:value:true\n"
    built: dict[str, Override] = {"ompi-info": answer}
    found = of("Open MPI", built)
    assert (found.way, found.version) == (DMABUF, "5.0.5")
    assert found.reasons[0].startswith("by UCX: ")
    assert of("Open MPI", {**built, "ucx-info": ABSENT}).way is UNKNOWN
    assert of("Open MPI", {"ompi-info": answer.replace("true", "false")}).way is NONE


def test_a_matrix_alone_places_the_gpus() -> None:
    """Loose files: distances without a PCI tree, and nothing of the paths."""
    matrix = "\tGPU0\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-31\n"
    matrix += "NIC0\tPIX\t X \tSYS\t\nNIC1\tSYS\tSYS\t X \t\n"
    frame = Frame("nvidia-topology", State.OK, "nvidia-smi topo -m", matrix)
    alone = Node(Evidence({frame.key: frame}, complete=True))
    (found,) = choices(alone, Want(consumers=(("nccl", "2.27"),)))
    assert found.way is UNKNOWN
    assert way(found, "GPU0", "NIC1", RECEIVE) == (NONE, "SYS, and the limit is PXB")
