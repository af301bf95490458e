"""Traffic that was measured: verbs, collectives and storage, each with what is told beside it.

Texts are composed in the forms of the tools' sources (tests/checks/measured.py). The healthy node
has HCAs of 400 Gb/s InfiniBand: a wire carries 48.1 GB/s, and 42.4 behind its switches.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.measured import (
    CUDA,
    Job,
    Run,
    gdsio,
    nccl_json,
    nccl_speeds,
    nccl_tests,
    perftest,
    perftest_json,
    ports,
    ucx,
)
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from tests.laws import share
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.facts.node.node import Node
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import Want

TEXTS = share(1000)
PAIR, COLLECTIVE, STORAGE = "traffic.pair", "traffic.collective", "traffic.storage"
WIRE = 400 / 8 * 0.962  # GB/s, as the model has it of InfiniBand
MATRIX = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\t{0}\t0-31\t0\nGPU1\tNV18\t X \t{0}\t0-31\t0\n"
    "NIC0\t{0}\t{0}\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
NO_MEMORY = CUDA + (
    "cuMemAlloc() of a 131072 bytes GPU buffer\nallocated GPU buffer address at 7f pointer=0x7f\n"
    "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n"
)
SPEEDS = nccl_speeds(400, tuple(f"mlx5_{at}" for at in range(8)))

ROWS: list[Row] = [
    Row("not-measured", PAIR, NA, "no measurement was given"),
    Row("host-memory-at-line-rate", PAIR, PASS, "48.0 GB/s (384 Gb/s) by mlx5_0, host memory",
        {"perftest-run": perftest(Run(48.0))}),
    Row("gpu-memory-as-fast-as-its-path", PAIR, PASS, "by mlx5_0, GPU memory",
        {"perftest-run": perftest(Run(48.0, gpu=True))}),
    Row("half-of-what-is-predicted", PAIR, FAIL, "20.0 GB/s (160 Gb/s) by mlx5_0, host memory",
        {"perftest-run": perftest(Run(20.0))}),
    Row("gpu-memory-falls-short-of-its-path", PAIR, FAIL, "GPU memory",
        {"perftest-run": perftest(Run(12.0, gpu=True))}),
    Row("between-the-thresholds", PAIR, UNKNOWN, "what is in order here is not known",
        {"perftest-run": perftest(Run(WIRE * 0.83))}),
    Row("more-than-the-port-carries", PAIR, UNKNOWN, "more than its ports carry (50.0 GB/s)",
        {"perftest-run": perftest(Run(60.0))}),
    Row("both-ways-together-count-half", PAIR, PASS, "48.0 GB/s (384 Gb/s)",
        {"perftest-run": perftest(Run(48.0, both_ways=True))}),
    Row("gpu-memory-cannot-be-registered", PAIR, FAIL, "no peer memory",
        {"perftest-run": NO_MEMORY}),
    Row("an-hca-that-is-not-listed", PAIR, UNKNOWN, "the rate of its port is not told",
        {"perftest-run": perftest(Run(48.0, device="mlx5_9"))}),
    Row("ucx-by-tcp", PAIR, FAIL, "UCX went by TCP",
        {"ucx-perftest": "rndv tcp/eth0\n" + ucx(2.5)}),
    Row("ucx-that-does-not-say-by-what", PAIR, PASS, "48.0 GB/s (384 Gb/s), GPU memory",
        {"ucx-perftest": ucx(48.0)}),
    Row("ucx-within-one-node", PAIR, UNKNOWN, "and by no HCA: cuda_ipc",
        {"ucx-perftest": "rndv cuda_ipc/cuda\n" + ucx(200.0)}),
    Row("small-messages-of-a-library", PAIR, UNKNOWN, "the library's own costs limit",
        {"ucx-perftest": ucx(1.0, size=4096)}),
    Row("not-run", COLLECTIVE, NA, "no measurement was given"),
    Row("a-ring-at-what-its-ports-carry", COLLECTIVE, PASS, "95.0 GB/s bus bandwidth at 8 GiB",
        {"nccl-tests": nccl_tests(Job(95.0, gpus=2))}),
    Row("a-fifth-of-it", COLLECTIVE, FAIL, "5.0 GB/s bus bandwidth",
        {"nccl-tests": nccl_tests(Job(5.0, gpus=2))}),
    Row("values-were-wrong", COLLECTIVE, FAIL, "values that arrived were wrong",
        {"nccl-tests": nccl_json(Job(95.0, wrong=3))}),
    Row("not-the-minimum-it-was-given", COLLECTIVE, FAIL, "marked FAILED",
        {"nccl-tests": nccl_tests(Job(95.0)).replace("GB/s\n", "").replace(
            "# Avg bus bandwidth    : 46.55 ", "# Avg bus bandwidth    : 46.55 FAILED")}),
    Row("without-its-ranks", COLLECTIVE, UNKNOWN, "on how many nodes is not told",
        {"nccl-tests": "\n".join(line for line in nccl_tests(Job(95.0)).split("\n")
                                 if "Rank" not in line)}),
    Row("still-rising", COLLECTIVE, UNKNOWN, "what is in order here is not known",
        {"nccl-tests": "\n".join(line for line in nccl_tests(Job(5.0, gpus=2)).split("\n")
                                 if " 8589934592 " not in line and " 4294967296 " not in line)}),
    Row("nothing-run", STORAGE, NA, "no measurement was given"),
    Row("twice-as-fast-as-a-bounce", STORAGE, PASS, "faster than a fallback would be",
        {"gdsio": gdsio(13.9, "GPUD") + gdsio(6.7, "CPU_GPU")}),
    Row("slower-than-a-bounce", STORAGE, FAIL, "READ GPUD 2.0 GB/s, and READ CPU_GPU 6.7 GB/s",
        {"gdsio": gdsio(2.0, "GPUD") + gdsio(6.7, "CPU_GPU")}),
    Row("as-fast-proves-nothing", STORAGE, UNKNOWN, "whether cuFile went directly",
        {"gdsio": gdsio(26.9, "GPUD") + gdsio(27.7, "CPUONLY")}),
    Row("of-another-load", STORAGE, UNKNOWN, "whether cuFile went directly",
        {"gdsio": gdsio(2.0, "GPUD") + gdsio(6.7, "CPU_GPU", operation="WRITE")}),
    Row("only-through-host-memory", STORAGE, UNKNOWN, "no run of GPUDirect Storage",
        {"gdsio": gdsio(6.7, "CPU_GPU")}),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_judgement(row: Row) -> None:
    holds(row)


def found(check: str, *texts: str) -> Finding:
    """Of texts alone, each a file."""
    frames = [frame for text in texts for frame in frames_of(text, "x.txt")]
    return BY_ID[check](Node(evidence_of(frames)), Want()).finding


def test_gpu_memory_over_a_path_that_is_not_told_never_fails() -> None:
    """Between sockets a healthy pair has half of its wire, or less."""
    text, beside = perftest(Run(11.5, gpu=True)), ports(400, ("mlx5_0",), "InfiniBand")
    assert found(PAIR, text, beside).status is UNKNOWN
    assert "nvidia-smi topo -m" in found(PAIR, text, beside).hint
    assert found(PAIR, perftest(Run(0.4, gpu=True)), beside).status is FAIL, "no path is so slow"
    assert found(PAIR, text, beside, MATRIX.format("SYS")).status is not FAIL
    assert found(PAIR, perftest(Run(1.0, gpu=True)), beside, MATRIX.format("PIX")).status is FAIL


def test_a_path_whose_links_were_not_read_lowers_no_goal() -> None:
    """A matrix alone does not tell that links are of PCIe Gen4, which carry 28 GB/s."""
    beside = (ports(400, ("mlx5_0",), "InfiniBand"), MATRIX.format("PIX"))
    assert found(PAIR, perftest(Run(27.0, gpu=True)), *beside).status is UNKNOWN
    assert found(PAIR, perftest(Run(47.0, gpu=True)), *beside).status is PASS


def test_a_port_that_is_down_has_no_rate() -> None:
    beside = ports(400, ("mlx5_0",), "InfiniBand").replace("4: ACTIVE", "1: DOWN")
    assert "rate of its port is not told" in found(PAIR, perftest(Run(5.0)), beside).found


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (Run(49.0, gpu=True), PASS),
        (Run(24.5, gpu=True), PASS),
        (Run(24.5), UNKNOWN),
        (Run(30.0, gpu=True), UNKNOWN),
        (Run(11.6, gpu=True), UNKNOWN),
        (Run(12.3, gpu=True), UNKNOWN),
    ],
)
def test_gpu_memory_at_the_rate_of_a_fast_line_needs_no_port_beside_it(
    run: Run, status: Status
) -> None:
    assert found(PAIR, perftest(run)).status is status


def test_nccl_itself_says_how_many_ports_of_what_rate() -> None:
    job = nccl_tests(Job(40.0))
    assert found(COLLECTIVE, job).status is UNKNOWN
    assert found(COLLECTIVE, job, SPEEDS).status is FAIL
    assert found(COLLECTIVE, nccl_tests(Job(370.0)), SPEEDS).status is PASS


def test_how_many_ports_serve_is_not_guessed() -> None:
    """Eight are up, and half of them may be for storage: one alone is certain."""
    beside = ports(400, tuple(f"mlx5_{at}" for at in range(8)), "InfiniBand")
    assert found(COLLECTIVE, nccl_tests(Job(180.0)), beside).status is UNKNOWN
    assert found(COLLECTIVE, nccl_tests(Job(3.1)), beside).status is FAIL


def test_one_node_is_held_against_nvlink() -> None:
    told = MATRIX.format("PIX")
    assert found(COLLECTIVE, nccl_tests(Job(360.0, nodes=1, gpus=2)), told).status is PASS
    slow = found(COLLECTIVE, nccl_tests(Job(20.0, nodes=1, gpus=2)), told)
    assert (slow.status, "no more than PCIe carries" in slow.found) == (FAIL, True)
    assert found(COLLECTIVE, nccl_tests(Job(20.0, nodes=1, gpus=2))).status is UNKNOWN


BRIDGED = (  # four GPUs, of which each has other links to each of the others
    "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV2\tNV4\nGPU1\tNV2\t X \tPHB\nGPU2\tNV4\tPHB\t X \n\n"
)
LINKS = "".join(
    f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})\n"
    + "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(count))
    for gpu, count in enumerate((18, 17))
)
PLAIN = MATRIX.replace("NV18", "PHB")
ONE_GPU = MATRIX.partition("GPU1\tNV18")[0]
RISING = ("8589934592", "4294967296")


@pytest.mark.parametrize(
    ("bus", "gpus", "beside", "status", "words"),
    [
        pytest.param(100.0, 2, MATRIX, UNKNOWN, "GPUs with 18 NVLinks", id="less-than-half"),
        pytest.param(180.0, 2, MATRIX, PASS, "(18 links)", id="half-of-what-they-carry"),
        pytest.param(20.0, 2, MATRIX.replace("NV18", "NV2"), UNKNOWN, "2 NVLinks", id="few-links"),
        pytest.param(60.0, 2, PLAIN, UNKNOWN, "without NVLink", id="none"),
        pytest.param(100.0, 3, BRIDGED, PASS, "(2 links)", id="bridges-add-up-for-the-poorest"),
        pytest.param(340.0, 2, LINKS, PASS, "(17 links)", id="counted-for-the-one-with-fewest"),
        pytest.param(340.0, 1, ONE_GPU, UNKNOWN, "not told", id="one-gpu"),
    ],
)
def test_nvlink_is_counted_from_what_stands_beside_it(
    bus: float, gpus: int, beside: str, status: Status, words: str
) -> None:
    job = nccl_tests(Job(bus, nodes=1, gpus=gpus))
    said = found(COLLECTIVE, job, beside.replace("{0}", "PIX"))
    assert (said.status, words in said.found) == (status, True), said


def test_a_bandwidth_that_still_rises_is_no_proof_that_nvlink_is_left_out() -> None:
    whole = nccl_tests(Job(20.0, nodes=1, gpus=2)).split("\n")
    text = "\n".join(line for line in whole if not any(f" {each} " in line for each in RISING))
    assert found(COLLECTIVE, text, MATRIX.format("PIX")).status is UNKNOWN


TOPOLOGY = (
    '<system version="1"><cpu numaid="0"><nic><net name="mlx5_0" dev="0" speed="200000" gdr="1"/>'
    '<net name="mlx5_1" dev="1" speed="400000" gdr="1"/></nic></cpu></system>\n'
)


def test_ports_may_be_told_by_the_topology_that_nccl_dumped_and_the_fastest_count() -> None:
    said = found(COLLECTIVE, nccl_tests(Job(46.0)), TOPOLOGY)
    assert (said.status, "1 of 400G" in said.details[0]) == (PASS, True), said
    slower = nccl_speeds(200, ("mlx5_8",)) + SPEEDS
    assert found(COLLECTIVE, nccl_tests(Job(370.0)), slower).status is PASS


# --- the same fact in other words ---

SHARES = ((0.95, PASS), (0.5, FAIL))


def test_a_pair_is_judged_alike_in_any_form() -> None:
    draw = Random(21)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        gbits, layer = draw.choice((100, 200, 400)), draw.choice(("InfiniBand", "Ethernet"))
        share, wanted = draw.choice(SHARES)
        carried = 0.962 if layer == "InfiniBand" else 4096 / (4096 + 82)
        device = draw.choice(("mlx5_0", "mlx5_bond_0", "rocep145s0", "ibp198s0f0"))
        link = {"InfiniBand": "IB"}.get(layer, layer)
        run = Run(
            gbits / 8 * carried * share, device, link,
            size=draw.choice((65536, 1 << 20, 8 << 20)), both_ways=draw.choice((True, False)),
        )  # fmt: skip
        beside = ports(gbits, (device,), layer, draw)
        if draw.random() < 0.2:
            texts = [perftest_json(run, draw), beside]
        elif draw.random() < 0.5:
            texts = [f"{beside}\n{perftest(run, draw)}"]
        else:
            texts = [perftest(run, draw), beside]
        assert found(PAIR, *texts).status is wanted, texts
        assert found(PAIR, texts[0] if len(texts) > 1 else perftest(run, draw)).status is UNKNOWN


def test_ucx_is_judged_alike_in_any_form() -> None:
    draw = Random(22)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        share, wanted = draw.choice(SHARES)
        beside = ports(200, ("mlx5_0",), "InfiniBand", draw)
        text = ucx(25 * 0.962 * share, draw, cuda=False, size=draw.choice((1 << 20, 64 << 20)))
        assert found(PAIR, text, beside).status is wanted, text
        assert found(PAIR, text).status is UNKNOWN


def test_a_collective_is_judged_alike_in_any_form() -> None:
    draw = Random(23)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        share, wanted = draw.choice(((0.95, PASS), (0.03, FAIL)))
        gpus, nodes = draw.choice((4, 8)), draw.choice((2, 2, 4))
        ring = 0.987 if nodes == 2 else 0.84
        job = Job(
            50 * 0.962 * gpus * ring * share,
            draw.choice(("all_reduce", "all_gather", "reduce_scatter")), nodes, gpus,
        )  # fmt: skip
        beside = ports(400, tuple(f"mlx5_{at}" for at in range(gpus)), "InfiniBand", draw)
        text = nccl_json(job) if draw.random() < 0.2 else nccl_tests(job, draw)
        assert found(COLLECTIVE, text, beside).status is wanted, text
        assert found(COLLECTIVE, text).status is UNKNOWN


def test_storage_is_judged_alike_in_any_form() -> None:
    draw = Random(24)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        direct, wanted = draw.choice(((14.0, PASS), (6.0, UNKNOWN), (2.0, FAIL)))
        operation = draw.choice(("READ", "WRITE", "RANDREAD", "RANDWRITE"))
        lines = [gdsio(direct, draw.choice(("GPUD", "GPUD_ASYNC", "GPU_BATCH")), draw, operation)]
        lines += [gdsio(6.0, draw.choice(("CPU_GPU", "CPU_ASYNC_GPU")), draw, operation)]
        lines += draw.choice(([], [gdsio(7.0, "CPUONLY", draw, operation)]))
        draw.shuffle(lines)
        assert found(STORAGE, "".join(lines)).status is wanted, lines


def test_a_status_is_one_of_four() -> None:
    assert {row.status for row in ROWS} == set(Status)
