"""nccl-tests, ucx_perftest, the counters of ports, and what else people paste.

What ucx_perftest 1.13 printed is real, by TCP on loopback. Tables of nccl-tests are composed from
its sources: src/common.cu and src/util.cu.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.collected import SNAPSHOT, below, may_tell
from toolkit.facts.modules.pasted_modules import (
    parse_config_lines,
    parse_kallsyms_lines,
    parse_openibd,
)
from toolkit.facts.nccl.nccl_tests import (
    Collective,
    CollectiveGpu,
    CollectiveRun,
    parse_nccl_tests,
)
from toolkit.facts.nccl.pasted_containers import Asked, parse_inspect, parse_pods
from toolkit.facts.rdma.hca_health import Moved, moved, parse_hca_counters
from toolkit.facts.rdma.perftest import PerftestRun
from toolkit.facts.rdma.perftest_text import PerftestSaid, parse_perftest
from toolkit.facts.rdma.ucx import parse_ucx_info, parse_ucx_perf
from toolkit.facts.text.tool_reports import parse_dcgmi_diag, parse_rdma_topo

SAID = Path(__file__).parents[1] / "evidence" / "perftest"
MIB = (1 << 20) / 1e9

NEW = (SAID / "composed-nccl-tests.txt").read_text()
OLD = (SAID / "composed-nccl-tests-old.txt").read_text()
HEAD = NEW[: NEW.index("out-of-place")]


def test_a_table_of_nccl_tests() -> None:
    run = parse_nccl_tests(NEW)
    first, last = run.rows
    assert first == Collective(8388608, "float", 231.4, 36.24, 36.24, 0, 36.83, "sum")
    assert (run.largest, run.average, run.out_of_bounds) == (last, 38.2225, 0)
    assert run.gpus[0] == CollectiveGpu(0, "gpu01", 0, "0000:18:00.0", "NVIDIA H100 80GB HBM3")
    assert run.gpus[1].address == "", "a bus number alone is no address"


def test_a_wrong_value_is_not_right() -> None:
    assert not parse_nccl_tests(NEW).right
    assert parse_nccl_tests(NEW.replace("      2    419.9", "      0    419.9")).right


def test_an_older_table_tells_an_error_and_no_count() -> None:
    [row] = parse_nccl_tests(OLD).rows
    assert (row.bus, row.wrong) == (36.24, None)


def test_a_job_that_failed_before_its_table_is_no_result() -> None:
    with pytest.raises(Unparsable, match="nccl-tests"):
        parse_nccl_tests(HEAD)


@pytest.mark.parametrize(
    ("name", "iterations", "mib"),
    [
        pytest.param("tag_bw", 2000, 32.40, id="final-with-percentile"),
        pytest.param("f", 500, 41.32, id="a-line-of-numbers"),
        pytest.param("put", 500, 64.40, id="put"),
    ],
)
def test_the_last_line_of_ucx_is_the_result(name: str, iterations: int, mib: float) -> None:
    run = parse_ucx_perf((SAID / f"ucx-1.13.{name}.txt").read_text())
    assert run.iterations == iterations
    assert run.bandwidth == pytest.approx(mib * MIB)


def test_ucx_tells_that_it_went_by_tcp() -> None:
    run = parse_ucx_perf((SAID / "ucx-1.13.tag_lat.txt").read_text())
    assert run.tcp
    assert ("tcp", "lo") in run.lanes
    assert run.time_us == 1152.366


def test_ucx_by_an_hca_is_no_tcp() -> None:
    text = (SAID / "ucx-1.13.tag_bw.txt").read_text().replace("tcp/lo", "rc_mlx5/mlx5_0:1/path0")
    assert parse_ucx_perf(text).lanes == (("rc_mlx5", "mlx5_0"),)


def test_a_size_that_is_damaged_is_no_size() -> None:
    row = "    10  0.000  9104.800  9104.800  10474.41  10474.41  110  110\n"
    assert parse_ucx_perf(f"| Message size: 1000    0   |\n{row}").size == 0


def test_ucx_without_cuda_says_so() -> None:
    with pytest.raises(Unparsable, match='unsupported memory type: "cuda"'):
        parse_ucx_perf((SAID / "ucx-1.13.no_cuda.txt").read_text())


def _port(sent: int, received: int, errors: int = 0, device: str = "mlx5_0") -> str:
    lead = f"{device}/ports/1/"
    return (
        f"{lead}counters/port_xmit_data:{sent}\n{lead}counters/port_rcv_data:{received}\n"
        f"{lead}counters/symbol_error:{errors}\n{lead}counters/VL15_dropped:N/A (no PMA)\n"
    )


def test_data_counters_count_words_of_four_bytes() -> None:
    before, after = parse_hca_counters(_port(10, 20)), parse_hca_counters(_port(1010, 20, 3))
    assert moved(before, after) == (Moved("mlx5_0", 1, 4000, 0, troubles=(("symbol_error", 3),)),)


def test_a_counter_that_ran_over_is_not_known() -> None:
    [port] = moved(parse_hca_counters(_port(10, 20)), parse_hca_counters(_port(5, 20)))
    assert (port.sent, port.received, port.carried) == (None, 0, 0)


def test_soft_roce_counts_packets_alone() -> None:
    text = "rxe0/ports/1/hw_counters/sent_pkts:%d\nrxe0/ports/1/hw_counters/rcvd_pkts:%d\n"
    before, after = parse_hca_counters(text % (0, 0)), parse_hca_counters(text % (68, 9))
    [port] = moved(before, after)
    assert (port.sent, port.sent_packets, port.received_packets) == (None, 68, 9)
    assert port.carried is None
    assert port.told


def test_a_port_without_counters_tells_nothing() -> None:
    text = "mlx5_0/ports/1/counters/port_xmit_data:N/A (no PMA)\n"
    [port] = moved(parse_hca_counters(text), parse_hca_counters(text))
    assert not port.told


@pytest.mark.parametrize("line", ["mlx5_0/port_xmit_data:1\n", "mlx5_0/ports/one/counters/x:1\n"])
def test_another_path_is_refused(line: str) -> None:
    with pytest.raises(Unparsable, match="ports"):
        parse_hca_counters(line)


def _container(**host: object) -> Asked:
    [found] = parse_inspect(json.dumps([{"Name": "/a", "HostConfig": host}, {"Image": "x"}]))
    return found


def _with(env: str, **host: object) -> Asked:
    one = {"Id": "0123456789abcdef", "HostConfig": host, "Config": {"Env": [env, "B"]}}
    return parse_inspect(f"$ docker inspect\n{json.dumps([one])}")[0]


def _pod(*lines: str, status: str = "Running") -> Asked:
    rows = ("apiVersion: v1", "kind: Pod", "metadata:", "  name: p", "spec:", *lines)
    end = (f"status: {status}",) if status else ()
    return parse_pods("".join(f"{line}\n" for line in (*rows, *end)))[0]


def _json_run(**more: object) -> CollectiveRun:
    row = {"size": 8, "type": "float", "out_of_place": {"time": 1, "alg_bw": 2, "bus_bw": 3}}
    return parse_nccl_tests("noise " + json.dumps({"results": [row | more]}))


def _gpu(**told: object) -> CollectiveGpu:
    device = {"rank": 0, "hostname": "a", **told}
    row = {"size": 8, "type": "float", "in_place": {"alg_bw": 2, "bus_bw": 3, "nwrong": 1}}
    return parse_nccl_tests(json.dumps({"results": [row], "config": {"devices": [device]}})).gpus[0]


def _said(**told: object) -> PerftestSaid:
    run = {"test": "RDMA_Write_BW", "Device": "mlx5_0", **told}
    rows = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in run.items())
    return parse_perftest(f'"test_info": {{\n{rows}\n}}\n')[0]


def _perf(**told: object) -> PerftestRun:
    found = _said(**told).run
    assert found is not None
    return found


BW = {"MsgSize": 1000, "BW_average": 8.0, "MsgRate": 1.0, "n_iterations": 5}
LIMITS = {"Ulimits": [{"Name": "RLIMIT_MEMLOCK", "Soft": -1}]}
DROP = "blacklist nvidia_peermem\n"
SYMBOL = "ffffffffc0a3b1c0 T {} [{}]\n"
WHOLE = "".join(SYMBOL.format(f"s{n}", "ib_core") for n in range(50_000))
UVERBS = {"Devices": [{"PathOnHost": "/dev/infiniband/uverbs0"}]}
# What is claimed of a text that somebody pasted, what is read of it, and what that must be.
PASTED: list[tuple[str, Callable[[], object], object]] = [
    # Containers and pods.
    ("a-plain-container", _container, Asked("a", False, False, None, False)),
    ("nulls-in-its-lists", lambda: _container(Devices=None, CapAdd=None, Ulimits=None, Binds=None,
                                              Mounts=None, DeviceRequests=None).rdma, False),
    ("a-privileged-one", lambda: _container(Privileged=True),
     Asked("a", True, True, None, True)),
    ("its-devices", lambda: _container(**UVERBS).rdma, True),
    ("a-folder-that-is-mounted", lambda: _container(Binds=["/dev:/dev"]).rdma, None),
    ("a-rule-of-cgroups", lambda: _container(DeviceCgroupRules=["c 231:* rwm"]).rdma, None),
    ("rdma-by-cdi", lambda: _container(DeviceRequests=[{"DeviceIDs": ["x/rdma=0"]}]).rdma, True),
    ("gpus-by-cdi", lambda: _container(
        DeviceRequests=[{"DeviceIDs": ["nvidia.com/gpu=0"]}]).gpus, True),
    ("gpus-by-request", lambda: _container(
        DeviceRequests=[{"Capabilities": [["gpu"]], "DeviceIDs": None}]).gpus, True),
    ("gpus-by-nodes", lambda: _container(Devices=[{"PathOnHost": "/dev/nvidia0"}]).gpus, True),
    ("capabilities-in-small-letters", lambda: _container(CapAdd=["cap_ipc_lock"]).pins, True),
    ("capabilities-as-podman-tells-them", lambda: parse_inspect(json.dumps([
        {"Id": "0", "HostConfig": {}, "EffectiveCaps": ["CAP_IPC_LOCK"], "BoundingCaps": []}
        ]))[0].pins, True),
    ("any-number-of-bytes", lambda: _container(**LIMITS).memlock, -1),
    ("a-name-for-want-of-one", lambda: _with("A=1").name, "0123456789ab"),
    ("gpus-of-the-runtime", lambda: [_with(f"NVIDIA_VISIBLE_DEVICES={seen}", Runtime="nvidia").gpus
                                     for seen in ("all", "void", "none", "")],
     [True, False, False, False]),
    ("mofed-with-the-runtime", lambda: _with("NVIDIA_MOFED=enabled", Runtime="runc").rdma, False),
    ("resources-of-a-pod", lambda: (
        _pod("  nvidia.com/gpu: 8", "  rdma/hca: 1").gpus, _pod("  rdma/hca: 1").rdma),
     (True, True)),
    ("none-of-it", lambda: _pod("  nvidia.com/gpu: 0"), Asked("p", False, False, None, False)),
    ("a-cut-pod-tells-no-lack", lambda: _pod(status=""), Asked("p")),
    ("kubernetes-own-resource", lambda: _pod("  x.kubernetes.io/y: 1").rdma, False),
    ("a-resource-of-any-name", lambda: _pod("  example.com/fast: 1").rdma, None),
    ("a-pod-that-may-pin", lambda: [_pod(f"  add: [{cap}]").pins for cap in ("IPC_LOCK", "CHOWN")],
     [True, False]),
    ("a-privileged-pod", lambda: _pod("  privileged: true").rdma, True),
    ("a-folder-of-the-host", lambda: _pod("  path: /dev/infiniband").rdma, True),
    # Measurements as JSON.
    ("one-way-alone", lambda: _json_run().rows[0], Collective(8, "float", 1, 2, 3, None)),
    ("both-ways", lambda: _json_run(in_place={"bus_bw": 5, "nwrong": 2}).rows[0],
     Collective(8, "float", 1, 2, 3, 2, 5)),
    ("a-gpu-by-its-address", lambda: _gpu(device_hex="[0000:AB:00]").address, "0000:ab:00.0"),
    ("a-gpu-by-its-name", lambda: _gpu(device_info="NVIDIA H100").name, "NVIDIA H100"),
    ("the-time-of-the-processor", lambda: _json_run(
        out_of_place={"cpu_time": 7, "alg_bw": 2, "bus_bw": 3}).rows[0].time_us, 7.0),
    ("a-bandwidth-in-gigabits", lambda: [
        (e.size, e.iterations, e.average) for e in _perf(**BW).bandwidths], [(1000, 5, 1.0)]),
    ("latencies-alone", lambda: [e.average for e in _perf(MsgSize=8, t_avg=2).latencies], [2]),
    ("memory-of-the-host", lambda: [
        _said(**BW).told_memory, _said(**BW, cuda_device=0).told_memory], [False, True]),
    ("two-ports", lambda: [_perf(**BW).ports, _perf(**BW, Dual_port="ON").ports], [1, 2]),
    # Lines of modules.
    ("a-file-that-modprobe-reads", lambda: [
        bool(parse_config_lines(DROP, f"cat {path}").config.blacklisted) for path in (
            "/etc/modprobe.d/a.conf", "/etc/modprobe.d/", "/etc/modprobe.d/*", "/etc/x.conf",
            "/etc/modprobe.d/.a.conf", "/etc/modprobe.d/a.conf.bak", "a.conf")],
     [True, True, True, False, False, False, True]),
    ("a-file-that-is-hidden", lambda: parse_config_lines(
        f"/lib/modprobe.d/a.conf:{DROP}/etc/modprobe.d/a.conf:options nvidia a=1\n"
        ).config.blacklisted, frozenset()),
    ("a-heading-of-head", lambda: parse_config_lines(
        f" ==> /etc/modprobe.d/a.conf <==\n{DROP}").files,
     {DROP.strip(): "/etc/modprobe.d/a.conf"}),
    ("a-heading-of-what-is-not-read", lambda: parse_config_lines(
        f"==> /tmp/a.conf <==\n{DROP}options nvidia a=1\n").files, {}),
    ("symbols-of-the-whole-file", lambda: [parse_kallsyms_lines(text).whole for text in (
        WHOLE + SYMBOL.format("a", "ib_uverbs") + SYMBOL.format("b", "ext4"),
        WHOLE + SYMBOL.format("a", "ib_uverbs"), WHOLE + SYMBOL.format("b", "ext4"), "")],
     [True, False, False, False]),
    ("openibd-that-came-up", lambda: [parse_openibd(text) for text in (
        "Loading HCA driver and Access Layer: [  OK  ]\n",
        " Module x belongs to y: [FAILED]\nLoading HCA driver and Access Layer: [ OK ]\n",
        "Loading HCA driver and Access Layer: [OK]\nUnloading HCA driver: [ OK ]\n")],
     [(), (), None]),
    # UCX.
    ("a-device-before-its-transport", lambda: parse_ucx_info(
        "# Memory domain: a\n#  Device: x\n#  Transport: rc\n#  Device: y\n").domains[0].transports,
     (("rc", "y"),)),
    # Reports.
    ("a-check-without-its-end", lambda: [parse_rdma_topo(text).whole for text in (
        "OK ACS for x is xx110x1\nOK iommu_group for DMA\n", "OK ACS for x is xx110x1\n",
        " OK   iommu_group for DMA \n",
        "OK ACS for x is xx110x1\n" * 2 + "OK iommu_group for DMA\n")],
     [True, False, True, False]),
    ("a-row-that-is-a-warning", lambda: [e.name for e in parse_dcgmi_diag(
        "| PCIe  | Pass |\n|-------|-----|\n| Warning: GPU0 | Fail |\n| Warning | Skip |\n")],
     ["PCIe"]),
    ("files-of-other-folders", lambda: (
        below("a/b", "a/bc/d"), below("a/b", "a/b/d"), below("", "x")), (None, "d", "x")),
    ("content-of-known-folders", lambda: [may_tell(SNAPSHOT, path) for path in (
        "commands_txt_output/x", "x", "a/b/c")], [True, True, False]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "value"), [row[1:] for row in PASTED], ids=[row[0] for row in PASTED]
)
def test_what_a_pasted_text_tells(read: Callable[[], object], value: object) -> None:
    assert read() == value


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda: _perf(MsgSize=8, MsgRate=1), "test_info"),
        (lambda: _perf(**BW | {"MsgRate": 3.0}), "BW_average 8 with MsgRate 3"),
        (lambda: parse_nccl_tests('{"results":[]}'), "results: none"),
        (lambda: parse_config_lines("nothing\n"), "nothing"),
        (lambda: parse_inspect("[{"), "it may be cut"),
    ],
)
def test_a_pasted_text_without_a_result_is_refused(read: Callable[[], object], why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        read()


@pytest.mark.parametrize(
    "name",
    [
        *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
        *("port_xmit_discards", "port_xmit_constraint_errors", "local_link_integrity_errors"),
        *("excessive_buffer_overrun_errors", "out_of_sequence", "out_of_buffer", "packet_seq_err"),
        *("local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err", "req_cqe_error"),
        *("resp_cqe_error", "req_remote_access_errors", "req_transport_retries_exceeded"),
        *("retry_exceeded_err", "retry_rnr_exceeded_err", "out_of_seq_request", "send_err"),
    ],
)
def test_a_counter_of_trouble_that_grew_is_told(name: str) -> None:
    (found,) = moved({("a", 1): {name: 2}}, {("a", 1): {name: 5}})
    assert found.troubles == ((name, 3),)


@pytest.mark.parametrize(
    ("sent", "received"), [("sent_pkts", "rcvd_pkts"), ("port_xmit_packets", "port_rcv_packets")]
)
def test_packets_are_counted_by_either_name(sent: str, received: str) -> None:
    (found,) = moved({("a", 1): {sent: 1, received: 1}}, {("a", 1): {sent: 4, received: 3}})
    assert (found.sent_packets, found.received_packets) == (3, 2)
