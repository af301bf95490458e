"""nccl-tests, ucx_perftest and the counters of ports.

What ucx_perftest 1.13 printed is real, by TCP on loopback. Tables of nccl-tests are composed from
its sources: src/common.cu and src/util.cu.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.nccl.nccl_tests import Collective, CollectiveGpu, parse_nccl_tests
from toolkit.facts.rdma.hca_health import Moved, moved, parse_hca_counters
from toolkit.facts.rdma.ucx import parse_ucx_perf

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
