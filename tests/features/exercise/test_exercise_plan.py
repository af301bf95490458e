"""Which tests would be run: by topology, by the path that jobs take, within bounds."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tests.features.exercise.exercising import GPUS, TOOLS, captured, frame, look, planned, view
from toolkit.errors import UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Buffer, Kind, Role, asked_text, parse_asked
from toolkit.features.exercise.plan import (
    ExerciseTerms,
    limit_of,
    read_terms,
    settings_of,
    words_of,
)
from toolkit.features.exercise.plan_rails import (
    ExerciseNode,
    devices,
    fabric_frame,
    parse_fabric,
)


def test_host_memory_first_then_gpus_deep_and_shallow() -> None:
    tests = planned(view("gpu1"), view("gpu2")).tests
    assert [(each.tool, each.gpu, each.kind) for each in tests] == [
        ("ib_write_bw", False, Kind.DEEP),
        ("ib_write_bw", False, Kind.SHALLOW),
        ("ib_send_lat", False, Kind.LATENCY),
        ("ib_write_bw", True, Kind.DEEP),
        ("ib_read_bw", True, Kind.DEEP),
        ("ib_write_bw", True, Kind.SHALLOW),
        ("ib_send_lat", True, Kind.LATENCY),
    ]
    assert [each.number for each in tests] == [1, 2, 3, 4, 5, 6, 7]


def test_the_gpu_is_the_nearest_to_the_hca_and_is_told_by_its_uuid() -> None:
    [deep] = [
        t for t in planned(view("gpu1"), view("gpu2"), ExerciseTerms(hca="mlx5_1")).tests if t.gpu
    ][:1]
    assert (deep.drive.hca, deep.drive.gpu) == ("mlx5_1", "0000:9a:00.0")
    assert settings_of(deep, Role.DRIVE) == ("CUDA_VISIBLE_DEVICES=GPU-far",)
    assert "--use_cuda=0" in words_of(deep, Role.DRIVE), "of the one that CUDA sees"


def test_an_index_of_nvidia_smi_is_never_used() -> None:
    """The same with nvidia-smi's lines the other way round."""
    lines = GPUS.split("\n")[:-1]
    turned = look(gpus="\n".join([*reversed(lines), ""]))
    for seen in (look(), turned):
        one = view("gpu1", seen=seen)
        test = next(each for each in planned(one, view("gpu2")).tests if each.gpu)
        assert (test.drive.gpu, test.drive.uuid) == ("0000:18:00.0", "GPU-near")


def test_dma_buf_goes_first_and_its_option_stands_behind_the_other() -> None:
    test = next(each for each in planned(view("gpu1"), view("gpu2")).tests if each.gpu)
    assert test.drive.buffer is Buffer.DMABUF
    words = words_of(test, Role.DRIVE)
    assert words.index("--use_cuda_dmabuf") == words.index("--use_cuda=0") + 1


def _perftest(cuda: str, dmabuf: str) -> Evidence:
    text = f"path /usr/bin/ib_write_bw\ncuda {cuda}\ndmabuf {dmabuf}\n"
    return captured("healthy").plus([frame("perftest", text)])


def test_without_dma_buf_in_perftest_peermem_is_tried() -> None:
    one, other = (view(name, _perftest("yes", "no")) for name in ("gpu1", "gpu2"))
    test = next(each for each in planned(one, other).tests if each.gpu)
    assert test.drive.buffer is Buffer.PEERMEM
    assert "--use_cuda_dmabuf" not in words_of(test, Role.DRIVE)


def test_perftest_without_cuda_leaves_gpus_out_and_says_so() -> None:
    one, other = (view(name, _perftest("no", "no")) for name in ("gpu1", "gpu2"))
    found = planned(one, other)
    assert not any(test.gpu for test in found.tests)
    assert any("gpu1: GPU memory is not tried: perftest was built without CUDA" in each
               for each in found.left_out)  # fmt: skip


def test_one_end_without_a_usable_path_is_tried_with_host_memory_there() -> None:
    found = planned(view("gpu1"), view("gpu2", _perftest("no", "no")))
    test = next(each for each in found.tests if each.gpu)
    assert (test.drive.buffer, test.serve and test.serve.buffer) == (Buffer.DMABUF, Buffer.HOST)


def test_what_is_not_installed_is_not_run() -> None:
    found = planned(view("gpu1"), view("gpu2", seen=look(tools="")))
    assert found.tests == ()
    assert "perftest is not installed on gpu2" in found.left_out


ONE_GPU = GPUS.split("\n")[0]
_NEAR = "CUDA_VISIBLE_DEVICES=GPU-near"
_CUDA = "--use_cuda=0 --use_cuda_dmabuf"
_PORT = "-d mlx5_0 -i 1 -F"
_NCCL = (
    "CUDA_VISIBLE_DEVICES=GPU-near,GPU-far NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV "
    "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 "
    "all_reduce_perf -b 134217728 -e 134217728 -g 2 -n 20 -w 2"
)
_UCX = f"{_NEAR} UCX_NET_DEVICES=mlx5_0:1 UCX_LOG_LEVEL=info UCX_PROTO_INFO=y ucx_perftest"
COMMANDS = [
    f"ib_write_bw {_PORT} -s 1048576 -t 128 -D 5",
    f"ib_write_bw {_PORT} -s 1048576 -t 128 -D 5 gpu2",
    f"ib_write_bw {_PORT} -s 131072 -t 1 -D 5",
    f"ib_write_bw {_PORT} -s 131072 -t 1 -D 5 gpu2",
    f"ib_send_lat {_PORT} -s 8 -n 1000",
    f"ib_send_lat {_PORT} -s 8 -n 1000 gpu2",
    f"{_NEAR} ib_write_bw {_PORT} -s 1048576 -t 128 -D 5 {_CUDA}",
    f"{_NEAR} ib_write_bw {_PORT} -s 1048576 -t 128 -D 5 {_CUDA} gpu2",
    f"{_NEAR} ib_read_bw {_PORT} -s 1048576 -t 128 -D 5 {_CUDA}",
    f"{_NEAR} ib_read_bw {_PORT} -s 1048576 -t 128 -D 5 {_CUDA} gpu2",
    f"{_NEAR} ib_write_bw {_PORT} -s 131072 -t 1 -D 5 {_CUDA}",
    f"{_NEAR} ib_write_bw {_PORT} -s 131072 -t 1 -D 5 {_CUDA} gpu2",
    f"{_NEAR} ib_send_lat {_PORT} -s 8 -n 1000 {_CUDA}",
    f"{_NEAR} ib_send_lat {_PORT} -s 8 -n 1000 {_CUDA} gpu2",
    _UCX,
    f"{_UCX} -t tag_bw -m cuda,cuda -s 8388608 -n 1000 -w 10 gpu2",
    _NCCL,
    _NCCL,
]


def test_the_commands_of_two_whole_nodes() -> None:
    """InfiniBand has no GID to name; no subnet is shared here, so the name is all there is."""
    seen = look(tools=TOOLS + "ucx_perftest /x\nall_reduce_perf /x\n")
    tests = planned(view("gpu1", seen=seen), view("gpu2", seen=seen)).tests
    assert [
        " ".join((*settings_of(test, role), *words_of(test, role)))
        for test in tests
        for role, _ in test.ends
    ] == COMMANDS


@pytest.mark.parametrize(
    ("kind", "size", "depth"),
    [(Kind.DEEP, 16384, 4), (Kind.SHALLOW, 16384, 1), (Kind.LATENCY, 8, 1)],
)
def test_soft_roce_gets_no_more_than_it_can_and_no_more_than_a_card(
    kind: Kind, size: int, depth: int
) -> None:
    one, other = (view(name, _soft()) for name in ("vm1", "vm2"))
    test = next(each for each in planned(one, other).tests if each.kind is kind)
    assert (test.size, test.depth, test.iterations) == (size, depth, 200)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(Evidence({}, True), id="not-asked"),
        pytest.param(
            Evidence({"exercise-tools": Frame("exercise-tools", State.DENIED, "x", "")}, True),
            id="denied",
        ),
    ],
)
def test_a_node_that_tells_nothing_of_its_tools_is_named(seen: Evidence) -> None:
    found = planned(view("gpu1"), view("gpu2", seen=seen))
    assert found.left_out[0] == "gpu2: its tools were not read"
    assert not [each for each in planned(view("gpu1"), view("gpu2")).left_out if "tools" in each]


def test_ucx_and_nccl_are_tried_where_they_are() -> None:
    seen = look(tools=TOOLS + "ucx_perftest /x\nall_reduce_perf /x\n")
    tests = planned(view("gpu1", seen=seen), view("gpu2", seen=seen)).tests
    ucx = next(each for each in tests if each.tool == "ucx_perftest")
    assert "UCX_NET_DEVICES=mlx5_0:1" in settings_of(ucx, Role.DRIVE)
    assert "-m cuda,cuda" in " ".join(words_of(ucx, Role.DRIVE))
    assert not any("UCX_TLS" in each for each in settings_of(ucx, Role.DRIVE))
    alone = planned(view("gpu1", seen=seen), view("gpu1", seen=seen)).tests
    ucx = next(each for each in alone if each.tool == "ucx_perftest")
    assert "UCX_TLS=rc,cuda_copy,gdr_copy" in settings_of(ucx, Role.SERVE), "no shared memory"
    nccl = [each for each in tests if each.kind is Kind.COLLECTIVE]
    assert [each.drive.host for each in nccl] == ["gpu1", "gpu2"]
    single = view("gpu1", seen=look(tools=TOOLS + "all_reduce_perf /x\n", gpus=f"{ONE_GPU}\nno\n"))
    assert any("fewer than two GPUs" in each for each in planned(single, single).left_out)
    assert "NCCL_P2P_DISABLE=1" in settings_of(nccl[0], Role.ALONE)
    assert "-g 2" in " ".join(words_of(nccl[0], Role.ALONE))


def test_the_address_is_one_that_both_nodes_share_a_subnet_with() -> None:
    """A bridge of containers has one address on every node: it leads nowhere."""
    text = (
        "3: docker0    inet 172.17.0.1/16 scope global docker0\n"
        "2: eno1    inet 192.168.5.%s/24 brd 192.168.5.255 scope global eno1\n"
    )
    one, other = (
        view(f"gpu{at}", seen=look().plus([frame("exercise-addresses", text % at)]))
        for at in (1, 2)
    )
    test = planned(one, other).tests[0]
    assert test.serve is not None
    assert test.serve.address == "192.168.5.2"
    assert words_of(test, Role.DRIVE)[-1] == "192.168.5.2"
    assert "192.168.5.2" not in words_of(test, Role.SERVE)


def test_within_one_node_two_hcas_talk_and_that_is_said() -> None:
    one = view("gpu1")
    found = planned(one, one)
    test = found.tests[0]
    assert test.serve is not None
    assert (test.drive.hca, test.serve.hca, test.serve.address) == ("mlx5_0", "mlx5_1", "127.0.0.1")
    assert test.within
    assert not test.looped
    assert found.labels[0].startswith("within one node")


def _one_hca(name: str) -> ExerciseNode:
    evidence = captured("healthy")
    kept = [
        line
        for line in evidence.text("infiniband").split("\n")[:-1]
        if not line.startswith("mlx5_1")
    ]
    return view(name, evidence.plus([frame("infiniband", "\n".join([*kept, ""]))]))


def test_a_single_hca_talks_to_itself_and_that_is_called_loopback() -> None:
    one = _one_hca("gpu1")
    found = planned(one, one)
    assert found.tests[0].looped
    assert found.labels[0].startswith("loopback")


def test_every_rail_is_asked_for_by_name() -> None:
    every = planned(view("gpu1"), view("gpu2"), ExerciseTerms(every=True)).tests
    assert {each.drive.hca for each in every} == {"mlx5_0", "mlx5_1"}
    assert all(each.serve and each.serve.hca == each.drive.hca for each in every)


def test_a_port_that_is_down_is_no_rail() -> None:
    evidence = captured("healthy")
    text = evidence.text("infiniband").replace("4: ACTIVE", "1: DOWN")
    found = planned(view("gpu1", evidence.plus([frame("infiniband", text)])), view("gpu2"))
    assert found.tests == ()
    assert any("no port of gpu2 goes with the HCAs of gpu1" in each for each in found.left_out)
    named = planned(view("gpu1"), view("gpu2"), ExerciseTerms(hca="mlx5_9"))
    assert "no port of gpu2 goes with mlx5_9 of gpu1" in named.left_out[0]


def test_bytes_bound_a_test_where_time_would_not() -> None:
    test = planned(view("gpu1"), view("gpu2"), ExerciseTerms(seconds=5, gigabytes=10)).tests[0]
    assert test.iterations == 10**10 // (1 << 20)
    words = words_of(test, Role.DRIVE)
    assert "-D" not in words
    assert words[words.index("-n") + 1] == str(test.iterations)
    free = planned(view("gpu1"), view("gpu2"), ExerciseTerms(seconds=5, gigabytes=250)).tests[0]
    assert free.iterations == 0
    assert "-D" in words_of(free, Role.DRIVE)


def test_bytes_bound_a_port_whose_rate_nobody_knows() -> None:
    evidence = captured("healthy")
    text = re.sub(r".*/rate:.*\n", "", evidence.text("infiniband"))
    test = planned(view("gpu1", evidence.plus([frame("infiniband", text)])), view("gpu2")).tests[0]
    assert test.iterations == 500 * 10**9 // (1 << 20)


@pytest.mark.parametrize("gigabytes", [1, 3, 20])
def test_bytes_bound_libraries_as_well(gigabytes: int) -> None:
    """Of a collective two series, each message sent twice by each of two GPUs, and warm-ups."""
    seen = look(tools=TOOLS + "ucx_perftest /x\nall_reduce_perf /x\n")
    terms = ExerciseTerms(gigabytes=gigabytes)
    tests = planned(view("gpu1", seen=seen), view("gpu2", seen=seen), terms).tests
    [ucx] = (each for each in tests if each.tool == "ucx_perftest")
    assert 0 < (ucx.iterations + 10) * ucx.size <= gigabytes * 10**9
    nccl = next(each for each in tests if each.kind is Kind.COLLECTIVE)
    assert nccl.iterations >= 5
    assert 2 * 2 * 2 * (nccl.iterations + 3) * nccl.size <= gigabytes * 10**9


def test_a_tool_is_ended_not_long_after_its_time() -> None:
    test = planned(view("gpu1"), view("gpu2")).tests[0]
    assert test.seconds < limit_of(test) < 60


@pytest.mark.parametrize(("seconds", "gigabytes"), [(0, 1), (61, 1), (-5, 1), (5, 0)])
def test_what_is_no_bound_is_refused(seconds: int, gigabytes: int) -> None:
    with pytest.raises(UsageError):
        read_terms(seconds, gigabytes, "", every=False)


def test_what_was_asked_is_read_again_as_it_was() -> None:
    seen = look(tools=TOOLS + "all_reduce_perf /x\n")
    for test in planned(view("gpu1", seen=seen), view("gpu2", seen=seen)).tests:
        assert parse_asked(asked_text(test)) == test


def _soft() -> Evidence:
    text = (
        "rxe0/node_guid:5054:00ff:fe12:3456\nrxe0/ports/1/state:4: ACTIVE\n"
        "rxe0/ports/1/phys_state:5: LinkUp\nrxe0/ports/1/rate:2.5 Gb/sec (1X SDR)\n"
        "rxe0/ports/1/link_layer:Ethernet\n"
    )
    gids = (
        "rxe0/ports/1/gids/0:fe80:0000:0000:0000:5054:00ff:fe12:3456\n"
        "rxe0/ports/1/gids/1:0000:0000:0000:0000:0000:ffff:0a09:0001\n"
        "rxe0/ports/1/gid_attrs/types/0:RoCE v2\nrxe0/ports/1/gid_attrs/types/1:RoCE v2\n"
    )
    return captured("healthy").plus([frame("infiniband", text), frame("rdma-gids", gids)])


def test_soft_roce_is_tried_with_little() -> None:
    evidence = _soft()
    one, other = view("vm1", evidence), view("vm2", evidence)
    test = replace(planned(one, other).tests[0])
    assert (test.drive.hca, test.drive.gid, test.size, test.iterations) == ("rxe0", 1, 16384, 200)
    first = replace(test, drive=replace(test.drive, gid=0))
    for each, gid in ((test, "1"), (first, "0")):
        words = words_of(each, Role.DRIVE)
        assert words[words.index("-x") + 1] == gid
    assert Node(evidence).gids[1].address.ipv4_mapped is not None


def test_the_leaf_of_a_port_is_told_by_lldp_where_one_switch_alone_is_there() -> None:
    one = view("gpu1")
    device = replace(devices(one)[0], netdevs=("eth0.100",))

    def leaf(*names: str) -> str:
        lines = [f"lldp.eth0.100.chassis.name={name}\n" for name in names]
        text = "lldp.eth1.chassis.name=other\nlldp.eth0.100.port.descr=swp1\n" + "".join(lines)
        return view("gpu1", seen=look().plus([frame("exercise-leaves", text)])).leaf(device)

    assert (leaf("leaf01"), leaf("leaf01", "bmc"), leaf(), one.leaf(device)) == (
        "leaf01",
        "",
        "",
        "",
    )


DISCOVERED = """#
# Topology file: generated on Sat Nov 28 10:00:00 2026
#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0xb83fd20300000010
switchguid=0xb83fd20300000010(b83fd20300000010)
Switch\t65 "S-b83fd20300000010"\t\t# "leaf01" enhanced port 0 lid 41 lmc 0
[1]\t"H-946dae030097bd2c"[1](946dae030097bd2c) \t\t# "gpu1 mlx5_0" lid 5 4xNDR
[2][ext 2]\t"H-946dae030097ffff"[1](946dae030097ffff) \t\t# "gpu9 mlx5_0" lid 6 4xNDR
[65]\t"H-946dae030097bd2d"[1](946dae030097bd2d) \t\t# "Mellanox Technologies Aggregation Node"

Ca\t1 "H-946dae030097bd2c"\t\t# "gpu1 mlx5_0"
[1](946dae030097bd2c) \t"S-b83fd20300000010"[1]\t\t# lid 5 lmc 0 "leaf01" lid 41 4xNDR
"""


@pytest.mark.parametrize("name", ["mlx5_0", "rdma-0.1"])
def test_the_leaf_of_a_port_is_told_by_the_fabrics_list_word_for_word(name: str) -> None:
    """Not that of a device whose GUID was not read."""
    fabric = parse_fabric(DISCOVERED.split("\n"))
    text = captured("healthy").text("infiniband").replace("mlx5_0/", f"{name}/")
    own = re.sub(r"(?m)^\S+/node_guid:.*\n", "", text) + f"{name}/node_guid:946d:ae03:0097:bd2c\n"
    evidence = captured("healthy").plus([frame("infiniband", own)])
    told = fabric_frame(fabric, Node(evidence))
    assert told.text.split("\n") == [*DISCOVERED.split("\n")[7:9], "", ""]
    one = view("gpu1", evidence, look().plus([told]))
    leaves = {each.name: one.leaf(each) for each in devices(one)}
    assert {each: leaf for each, leaf in leaves.items() if leaf} == {name: "leaf01"}
    assert len(leaves) > 1


def test_the_terms_are_those_that_were_asked_for() -> None:
    assert read_terms(1, 2, "mlx5_1", every=True) == ExerciseTerms(1, 2, "mlx5_1", every=True)
    assert read_terms(60, 1, "", every=False).seconds == 60
    for seconds, gigabytes in ((0, 1), (61, 1), (1, 0)):
        with pytest.raises(
            UsageError, match=f"--(seconds {seconds}|gigabytes {gigabytes}): a test"
        ):
            read_terms(seconds, gigabytes, "", every=False)
