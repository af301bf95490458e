"""NCCL's Inspector: a record a line, with its context beside it or once for many."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from toolkit.facts.nccl.inspector import (
    CollectiveRecord,
    by_communicator,
    is_inspector,
    read_records,
    read_textfile,
)

HEADER = {
    "id": "0x7f8c496ae9f661",
    "comm_name": "DP Group 0",
    "rank": 2,
    "n_ranks": 16,
    "nnodes": 2,
}
META = {"inspector_output_format_version": "v4.2", "hostname": "gpu017", "pid": 1639453}
COLL = {
    "coll": "AllReduce", "coll_algo": "RING", "coll_proto": "SIMPLE", "coll_sn": 1407,
    "coll_msg_size_bytes": 1 << 30, "coll_exec_time_us": 4895, "coll_timing_source": "kernel_gpu",
    "coll_algobw_gbs": 219.3, "coll_busbw_gbs": 411.2,
}  # fmt: skip
ONE = CollectiveRecord(
    "0x7f8c496ae9f661", "DP Group 0", "gpu017", 2, 16, 2, "AllReduce", 1407, 1 << 30, 411.2
)


def line(**parts: Any) -> str:
    return json.dumps(parts) + "\n"


def whole(**coll: Any) -> str:
    return line(header=HEADER, metadata=META, coll_perf=COLL | coll)


def test_a_record_with_its_own_context() -> None:
    old = {key: value for key, value in HEADER.items() if key != "comm_name"}
    told = read_records([whole(), line(header=old, metadata=META, coll_perf=COLL)])
    assert list(told) == [ONE, replace(ONE, name="")]


def test_a_line_of_a_real_job() -> None:
    """As version 4.0 of the plugin wrote it: no name of the communicator, no algorithm."""
    text = (
        '{"header":{"id":"0xad56c683b0c4ef","rank":1,"n_ranks":3,"nnodes":3},"metadata":{'
        '"inspector_output_format_version":"v4.0","git_rev":"standalone-build","hostname":'
        '"nanogpt-nccl-test-worker-0","pid":48,"dump_timestamp_us":1772585717263338},"coll_perf":{'
        '"coll":"AllReduce","coll_sn":8995,"coll_msg_size_bytes":2360832,"coll_exec_time_us":5663.0'
        ',"coll_timing_source":"kernel_gpu","coll_algobw_gbs":0.416887,"coll_busbw_gbs":0.555850}}'
    )
    (found,) = read_records([text])
    assert (found.host, found.ranks, found.nodes) == ("nanogpt-nccl-test-worker-0", 3, 3)
    assert (found.size, found.bus) == (2360832, 0.55585)


def test_the_context_of_a_dump_is_that_of_its_records() -> None:
    other = HEADER | {"id": "0x1", "comm_name": "unknown", "n_ranks": 8, "nnodes": 1}
    stats = {"coll_records": 1, "p2p_records": 1}
    found = list(
        read_records(
            [
                line(header=HEADER, metadata=META, dump_stats=stats),
                line(coll_perf=COLL),
                line(p2p_perf={"p2p": "Send"}),
                line(header=other, metadata=META, dump_stats=stats),
                line(coll_perf=COLL),
            ]
        )
    )
    assert found == [ONE, replace(ONE, communicator="0x1", name="", ranks=8, nodes=1)]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(whole()[:-40], id="cut"),
        pytest.param(line(coll_perf=COLL), id="without-context"),
        pytest.param(line(header=HEADER, metadata=META, coll_perf=[1]), id="a-list"),
        pytest.param(
            line(header=HEADER, metadata=META, coll_perf=COLL | {"coll_sn": "x"}), id="word"
        ),
        pytest.param(line(header=HEADER, metadata=META, proxy_trace={}), id="of-the-proxy"),
        pytest.param("{" * 100_000 + "\n", id="deep"),
        pytest.param("NCCL INFO hello\n", id="a-log"),
    ],
)
def test_what_does_not_fit_is_passed_over(odd: str) -> None:
    assert list(read_records([odd, whole()])) == [ONE]


@pytest.mark.parametrize("test", ["AllGather", "ReduceScatter"])
def test_of_these_the_record_has_one_rank_s_part(test: str) -> None:
    (found,) = read_records([whole(coll=test)])
    assert found.size == 16 << 30


def test_the_fastest_rank_tells_and_small_messages_do_not_count() -> None:
    """A rank that waited for a late one has that in its time."""
    waited = [replace(ONE, rank=rank, bus=100.0 + rank, host=f"gpu{rank}") for rank in range(3)]
    later = replace(ONE, number=1408, bus=300.0)
    small = replace(ONE, number=1409, size=1 << 20, bus=2.0)
    (run,) = by_communicator([*waited, later, small])
    assert (run.bus, run.count, run.size) == ((102.0 + 300.0) / 2, 2, 1 << 30)
    assert run.hosts == ("gpu0", "gpu1", "gpu2", "gpu017")
    assert by_communicator([]) == ()


def test_metrics_have_a_range_of_sizes_and_tell_their_job() -> None:
    """As versions 5.1 and 4.0 write them; what is of one to one, or cut, is passed over."""
    new = (
        'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="4711",node="gpu017",gpu="GPU0",'
        'comm_name="DP Group 0",n_nodes="2",nranks="16",collective="AllReduce",'
        'message_size="4-5GB",algo_proto="Ring_ll"} 411.2\n'
    )
    old = (
        'nccl_bus_bandwidth_gbs{comm_id="0xd1",collective="AllGather",hostname="gpu017",rank="4",'
        'slurm_job="unknown",slurm_job_id="unknown",n_ranks="16",n_nodes="2",coll_sn="228924",'
        'message_size="2.00GB"} 99\n'
    )
    rest = [
        new[:60],
        new.replace("nccl_bus", "nccl_p2p_bus"),
        new.replace('"2"', '"x"'),
        "# HELP\n",
    ]
    one, other = read_textfile([new, *rest, old])
    assert (one.communicator, one.host, one.job) == ("DP Group 0, 16 ranks", "gpu017", "4711")
    assert (one.size, one.bus, one.nodes) == (4 << 30, 411.2, 2)
    assert (other.communicator, other.size, other.job) == ("0xd1", 32 << 30, "")
    later = replace(one, job="4712")
    assert [each.job for each in by_communicator([one, later])] == ["4711", "4712"]


def test_a_file_is_told_by_its_head() -> None:
    assert is_inspector(whole())
    assert is_inspector(line(header=HEADER, metadata=META, dump_stats={}))
    assert not is_inspector('{"results": []}')
    assert not is_inspector("# nThread 1")
