"""What perftest 4.4, 4.5 and 25.01 really printed over Soft-RoCE, and what they say of GPUs.

The texts in tests/evidence/perftest were printed by Debian's packages in an emulated guest; the
lines about CUDA are composed from perftest's sources, for no GPU was there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.rdma.perftest import Memory, PerftestRun, parse_perftest_run
from toolkit.facts.rdma.perftest_text import Why, parse_perftest_trouble

SAID = Path(__file__).parents[1] / "evidence" / "perftest"
VERSIONS = ("4.4", "4.5", "25.01")
MIB = (1 << 20) / 1e9


def said(name: str) -> str:
    return (SAID / f"{name}.txt").read_text()


def run(name: str) -> PerftestRun:
    return parse_perftest_run(said(name))


@pytest.mark.parametrize(
    ("version", "average", "peak"),
    [("4.4", 50.48, 71.75), ("4.5", 46.76, 61.36), ("25.01", 37.27, 57.72)],
)
def test_megabytes_are_those_of_computers(version: str, average: float, peak: float) -> None:
    """ "MB/sec" until 4.5, "MiB/sec" since; the same 2^20 bytes."""
    [row] = run(f"{version}.write_bw").bandwidths
    assert (row.size, row.iterations) == (65536, 500)
    assert row.average == pytest.approx(average * MIB)
    assert row.peak == pytest.approx(peak * MIB)


def test_gigabits_are_those_of_networks() -> None:
    [row] = run("25.01.write_bw_gbits").bandwidths
    assert row.average == pytest.approx(0.27 / 8)
    assert row.peak == pytest.approx(0.61 / 8)


def test_both_units_tell_one_speed() -> None:
    """MB/sec over message rate and Gb/sec over message rate are the size of a message."""
    for name in ("4.5.write_bw", "4.5.write_bw_gbits"):
        [row] = run(name).bandwidths
        assert row.average * 1e9 / (row.mpps * 1e6) == pytest.approx(row.size, rel=0.02)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_head_says_what_it_was_run_on(version: str) -> None:
    told = run(f"{version}.shallow")
    assert (told.test, told.device, told.link) == ("RDMA_Write BW Test", "rxe0", "Ethernet")
    assert (told.mtu, told.qps, told.depth, told.memory) == (1024, 1, 1, Memory.HOST)
    assert (told.cuda, told.loop, told.bidirectional) == ("", True, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_latency_is_told_with_its_median_and_tail(version: str) -> None:
    told = run(f"{version}.send_lat")
    [row] = told.latencies
    assert told.bandwidths == ()
    assert row.size == 8
    assert row.least is not None
    assert row.typical is not None
    assert row.p99 is not None
    assert row.most is not None
    assert row.least < row.typical < row.p99 < row.most


@pytest.mark.parametrize("version", VERSIONS)
def test_latency_by_duration_has_an_average_alone(version: str) -> None:
    [row] = run(f"{version}.lat_D").latencies
    assert row.average > 1000
    assert (row.typical, row.least, row.p99) == (None, None, None)


def test_reads_have_a_latency_too_and_the_end_that_is_read_has_none() -> None:
    assert run("25.01.read_lat").latencies[0].typical == 41.55
    with pytest.raises(Unparsable, match="perftest"):
        run("4.5.read_lat_server")


def test_the_end_that_listens_tells_no_depth() -> None:
    assert run("4.5.server").depth == 0
    assert run("4.5.server").bandwidths == run("4.5.write_bw").bandwidths


def test_every_size_is_a_row() -> None:
    rows = run("25.01.all").bandwidths
    assert [row.size for row in rows] == [2 << at for at in range(23)]


def test_a_further_column_shifts_nothing() -> None:
    [row] = run("4.5.cpu_util").bandwidths
    assert row.average == pytest.approx(26.48 * MIB)
    assert row.peak == 0.0


def test_both_directions_two_queue_pairs_and_counters_are_told() -> None:
    assert run("25.01.bidir").bidirectional
    assert run("4.5.qps").qps == 2
    assert run("25.01.counters").counters == (
        ("hw_counters/sent_pkts", 6828),
        ("hw_counters/rcvd_pkts", 6828),
    )


def _other_end(text: str) -> str:
    """The same between two machines."""
    head, remote, tail = text.partition(" remote address")
    return head + remote + tail.replace("10:00:02:15", "10:00:02:16", 1)


def test_two_ports_are_no_loop() -> None:
    assert not parse_perftest_run(_other_end(said("4.5.write_bw"))).loop


CUDA = """initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 18:00
CUDA device 1: PCIe address is 2A:00

Picking device No. 1
[pid = 4711, dev = 1] device name = [NVIDIA H100 80GB HBM3]
creating CUDA Ctx
making it the current CUDA Ctx
"""
OLD = "cuMemAlloc() of a 131072 bytes GPU buffer\nallocated GPU buffer address at 7f pointer=0x7f\n"
NEW = "allocated GPU buffer of a 131072 address at 0x5594ca for type CUDA_MEM_DEVICE\n"
DMABUF = "using DMA-BUF for GPU buffer address at 0x7f aligned at 0x7f with aligned size 131072\n"
MANAGED = NEW.replace("DEVICE", "MANAGED")


@pytest.mark.parametrize(
    ("words", "memory"),
    [
        pytest.param(OLD, Memory.GPU, id="until-23"),
        pytest.param(NEW, Memory.GPU, id="since-24"),
        pytest.param(DMABUF + NEW, Memory.DMABUF, id="dma-buf"),
        pytest.param(MANAGED, Memory.MANAGED, id="managed-memory-is-no-gpu-memory"),
    ],
)
def test_the_tool_says_which_memory_it_used(words: str, memory: Memory) -> None:
    told = parse_perftest_run(CUDA + words + said("4.5.write_bw"))
    assert (told.memory, told.cuda) == (memory, "2A:00")


@pytest.mark.parametrize("word", ["inf", "nan", "-nan"])
def test_a_clock_that_is_not_steady_measures_nothing(word: str) -> None:
    text = said("4.5.send_lat").replace("5440.79", word)
    with pytest.raises(Unparsable, match="cannot read line"):
        parse_perftest_run(text)


@pytest.mark.parametrize("cut", range(0, 1500, 60))
def test_what_was_cut_off_is_no_result(cut: int) -> None:
    text = said("4.5.write_bw")
    end = text.index(" 65536      500")
    with pytest.raises(Unparsable):
        parse_perftest_run(text[: min(cut, end)])


def test_a_row_of_another_width_is_refused() -> None:
    text = said("4.5.write_bw").replace("46.76  ", "46.76  1 ")
    with pytest.raises(Unparsable, match=r"cannot read line 2[0-9]"):
        parse_perftest_run(text)


MR = "Couldn't allocate MR with error=%d\nfailed to create mr\nFailed to create MR\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(said("4.5.no_cuda"), Why.NO_CUDA, id="4.5-without-cuda"),
        pytest.param(said("25.01.no_cuda"), Why.NO_CUDA, id="25.01-without-cuda"),
        pytest.param(said("4.5.no_device"), Why.NO_DEVICE, id="no-device"),
        pytest.param(said("4.5.refused"), Why.CONNECT, id="nobody-listens"),
        pytest.param(CUDA + NEW + MR % 14, Why.PEERMEM, id="no-peermem"),
        pytest.param(CUDA + OLD + "Couldn't allocate MR\n", Why.PEERMEM, id="no-number-yet"),
        pytest.param(CUDA + DMABUF + NEW + MR % 93, Why.DMABUF, id="dma-buf-93"),
        pytest.param(CUDA + NEW + MR % 95, Why.DMABUF, id="dma-buf-95"),
        pytest.param(MR % 12, Why.MEMLOCK, id="memlock"),
        pytest.param(CUDA + "DMA-BUF is not supported on this GPU\n", Why.GPU_DMABUF, id="gpu"),
        pytest.param("initializing CUDA\ncuInit(0) returned 999\n", Why.CUDA, id="cuda"),
        pytest.param("Completion with error at client\nFailed status 10: wr_id 0 syndrom 0x88\n",
                     Why.COMPLETION, id="completion"),
        pytest.param(said("4.5.completion"), Why.COMPLETION, id="status-9"),
        pytest.param(said("4.5.clock"), Why.CLOCK, id="inf"),
        *(pytest.param(f"ib_write_bw: unrecognized option '{option}'\n", why, id=option)
          for option, why in (("--use_cuda=0", Why.NO_CUDA), ("--use_cuda_bus_id=1:0", Why.NO_CUDA),
                              ("--use_cuda_dmabuf", Why.NO_DMABUF_BUILD), ("--fast", Why.OPTION))),
        *(pytest.param(f"{line}\n", why, id=line) for line, why in (
            (" Invalid Command or flag.", Why.OPTION),
            (" Unable to find the Infiniband/RoCE device", Why.NO_DEVICE),
            ("There are no available device(s) that support CUDA", Why.CUDA),
            ("cuCtxCreate() error=2", Why.CUDA),
            ("cuMemAlloc error=2", Why.CUDA),
            ("Couldn't init GPU context", Why.CUDA),
            (" Found Incompatibility issue with GID types.", Why.GID),
            ("Failed to modify QP 0x12 to RTR", Why.QUEUE_PAIR),
            (" Unable to Connect the HCA's through the link", Why.QUEUE_PAIR),
            ("Couldn't read remote address", Why.LOST),
            (" Failed to exchange data between server and clients", Why.LOST),
        )),
        pytest.param("", Why.OTHER, id="silence"),
        pytest.param("Segmentation fault (core dumped)\n", Why.OTHER, id="anything-else"),
    ],
)  # fmt: skip
def test_why_there_is_no_table(text: str, why: Why) -> None:
    assert parse_perftest_trouble(text).why is why


def test_a_transfer_that_failed_tells_its_status() -> None:
    assert parse_perftest_trouble(said("4.5.completion")).completion == 9
    assert parse_perftest_trouble(said("4.5.refused")).completion == 0


def test_a_trouble_comes_in_the_tools_own_words() -> None:
    trouble = parse_perftest_trouble(said("4.5.refused"))
    assert str(trouble) == "the other end did not answer (Couldn't connect to 10.0.2.15:19999)"
