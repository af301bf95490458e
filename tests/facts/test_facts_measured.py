"""Measurements as somebody pastes them: several runs in one text, both ends in one terminal."""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.measured import Job, Run, nccl_json, nccl_tests, perftest, perftest_json, ucx
from toolkit.errors import Unparsable
from toolkit.facts.gpu.gds import parse_gdsio
from toolkit.facts.nccl.nccl_tests import parse_collectives
from toolkit.facts.rdma.perftest import Memory, PerftestRun
from toolkit.facts.rdma.perftest_text import Why, parse_perftest
from toolkit.facts.rdma.ucx import parse_ucx_perf

HEAD = "#bytes     #iterations    BW peak[{0}]    BW average[{0}]   MsgRate[Mpps]\n"
GBITS = HEAD.format("Gb/sec")


def drawn(seed: int) -> Random:
    return Random(seed)  # noqa: S311 # drawn again the same


def only(text: str) -> PerftestRun:
    (said,) = parse_perftest(text)
    assert said.run is not None
    return said.run


def test_each_run_of_a_loop_is_told_with_its_own_device() -> None:
    runs = [Run(10.0, "mlx5_0"), Run(11.0, "mlx5_1", gpu=True), Run(12.0, "mlx5_2")]
    told = parse_perftest("".join(perftest(each, drawn(3)) for each in runs))
    seen = [each.run for each in told]
    assert [run.device for run in seen if run] == ["mlx5_0", "mlx5_1", "mlx5_2"]
    assert [run.memory for run in seen if run] == [Memory.HOST, Memory.GPU, Memory.HOST]


def test_both_ends_in_one_terminal_are_one_run_in_the_unit_that_its_messages_come_to() -> None:
    row = "65536      5000             94.72              94.71              0.180640\n"
    run = only(
        f"{HEAD.format('MB/sec')}----\n{GBITS}Conflicting CPU frequency values\n{row}---\n{row}"
    )
    (bandwidth,) = run.bandwidths
    assert bandwidth.average == pytest.approx(94.71 / 8)


def test_units_that_no_message_rate_fits_are_refused() -> None:
    row = "65536      5000             94.72              94.71              0.9\n"
    with pytest.raises(Unparsable, match=r"94\.71"):
        parse_perftest(f"{HEAD.format('MB/sec')}{GBITS}{row}")


def test_a_table_that_lost_its_title_is_a_run_of_no_device() -> None:
    run = only(f"{GBITS}65536 5000 94.72 94.71 0.180640\n")
    assert (run.test, run.device, run.link, run.mtu) == ("", "", "", 0)


def test_a_table_without_a_column_of_peaks_or_messages_has_told_none() -> None:
    """As perftest's first versions printed it: what was not told is never taken for a figure."""
    run = only("#bytes #iterations BW average[Gb/sec]\n65536 5000 94.71\n")
    (bandwidth,) = run.bandwidths
    assert (bandwidth.peak, bandwidth.mpps) == (0, 0)


def test_what_stopped_a_run_amid_its_sizes_is_told_beside_them() -> None:
    text = f"{GBITS}65536 5000 381.5 381.4 0.727\n Completion with error at client\n"
    (said,) = parse_perftest(text + " Failed status 10: wr_id 0 syndrom 0x88\n")
    assert said.run is not None
    assert said.trouble is not None
    assert (said.trouble.why, said.trouble.completion) == (Why.COMPLETION, 10)


def test_ends_of_two_nodes_in_one_text_are_no_loop() -> None:
    ends = (" local address: LID 0x0{} QPN 1\n", " remote address: LID 0x0{} QPN 1\n")
    one, other = (
        "".join(e.format(at) for e, at in zip(ends, x, strict=True)) for x in ("12", "21")
    )
    row = "65536 5000 94.72 94.71 0.180640\n"
    assert not only(f"{one}{other}{GBITS}{row}").loop
    assert only("".join(e.format(1) for e in ends) + f"{GBITS}{row}").loop
    bare = "".join(e.replace("0x0{}", "0000") for e in ends)
    assert not only(f"{bare}{GBITS}{row}").loop, "Ethernet has no LID, and its GIDs were cut off"


def test_json_names_no_unit_and_its_message_rate_does() -> None:
    for seed in range(20):
        run = only(perftest_json(Run(23.5, "mlx5_4"), drawn(seed)))
        assert run.bandwidths[0].average == pytest.approx(23.5, rel=0.01)
        assert (run.device, run.mtu, run.link) == ("mlx5_4", 4096, "IB")


def test_json_without_a_result_is_refused() -> None:
    text = perftest_json(Run(23.5), drawn(1))
    with pytest.raises(Unparsable):
        parse_perftest(text[: text.index('"results"')])


def test_gpu_memory_is_told_by_the_command_too() -> None:
    (said,) = parse_perftest(perftest(Run(9.0)), "ib_write_bw -d mlx5_0 --use_cuda=0")
    assert said.told_memory


def test_each_collective_of_a_text_is_a_run_of_its_own() -> None:
    jobs = [Job(95.0, "all_reduce"), Job(40.0, "alltoall", nodes=4)]
    text = "".join(nccl_tests(each, drawn(1)) for each in jobs)
    told = parse_collectives(text)
    assert [(run.test, run.nodes) for run in told] == [("all_reduce", 2), ("alltoall", 4)]
    assert [run.largest.best for run in told] == [95.0, 40.0]


def test_json_of_nccl_tests_tells_what_its_table_does() -> None:
    (run,) = parse_collectives(nccl_json(Job(95.0, wrong=1)))
    assert (run.test, run.nodes, run.largest.best, run.right) == ("all_reduce", 2, 95.0, False)
    with pytest.raises(Unparsable):
        parse_collectives(nccl_json(Job(95.0))[:200] + '"results":')


def test_ucx_of_any_form_tells_one_bandwidth() -> None:
    for seed in range(20):
        run = parse_ucx_perf(ucx(10.5, drawn(seed)))
        assert run.bandwidth == pytest.approx(10.5, rel=0.01)
        assert (run.memory, run.size) == (("cuda", "cuda"), 8 << 20)


def test_ucx_by_commas_tells_it_too() -> None:
    head = (
        "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
    )
    run = parse_ucx_perf(head + "1000,0.000,9.1,9.1,10474.41,10474.41,110,110\n")
    assert run.bandwidth == pytest.approx(10474.41 * (1 << 20) / 1e9)


def test_gdsio_without_figures_is_refused() -> None:
    with pytest.raises(Unparsable, match="gdsio"):
        parse_gdsio("IoType: READ XferType: GPUD Threads: 1\n")
