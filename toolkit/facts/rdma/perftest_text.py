"""Runs of perftest in a text that somebody pasted: several, both ends in one, or as JSON.

Source: linux-rdma/perftest src/perftest_parameters.c (write_test_info_to_file and
write_bw_report_to_file, since 23.04) and src/get_clock.c. Its JSON names no unit: the message rate
tells it. Not all of it is JSON, for which its "sl" lacks quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.facts.rdma.perftest import (
    MIB,
    SOURCE,
    TITLE,
    Bandwidth,
    Latency,
    Memory,
    PerftestRun,
    parse_table,
)
from toolkit.facts.rdma.perftest_trouble import PerftestTrouble, Why, parse_perftest_trouble

_GIGA = 1e9
_IN_JSON = re.compile(r'"test_info"\s*:\s*\{')
_VALUE = re.compile(r'"([\w.]+)"\s*:\s*"?([^",\n{}]+?)"?\s*(?=[,\n}])')
_TABLE = re.compile(r"^\s*#bytes\s", re.M)
_GPU_NAME = re.compile(r"^\[pid = \d+, dev = \d+\] device name = \[([^\]\n]+)\]", re.M)


@dataclass(frozen=True, slots=True)
class PerftestSaid:
    """One run, and what went wrong in it."""

    run: PerftestRun | None  # None where it came to no table
    trouble: PerftestTrouble | None  # None where it says of none
    told_memory: bool  # whether it says that its buffers lay in GPU memory, or a command does
    gpu_name: str = ""  # "NVIDIA GeForce RTX 4090"; "" where it does not tell


def parse_perftest(text: str, command: str = "") -> tuple[PerftestSaid, ...]:
    """Read every run of a text, in the order printed.

    :param command: by which it was printed, as far as that is known.
    :raises Unparsable: where there is none, or a table is of columns that are not known.
    """
    found = tuple(_said(part, command) for part in _parts(text))
    if not found:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    return found


def _parts(text: str) -> list[str]:
    """The text from each title to the next; of two ends in one terminal the first has no table."""
    starts = [each.start() for each in _IN_JSON.finditer(text)]
    if starts:
        return [text[at:end] for at, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    parts, first = [], 0  # what stands before the first title is of CUDA, or the whole
    titles = [each.start() for each in TITLE.finditer(text)]
    for at in titles[1:]:
        table = _TABLE.search(text, first, at)
        if table is not None:
            cuda = text.find("initializing CUDA", table.start(), at)  # stands above its title
            parts.append(text[first : cuda if cuda >= 0 else at])
            first = cuda if cuda >= 0 else at
    return [each for each in (*parts, text[first:]) if each.strip()]


def _said(part: str, command: str) -> PerftestSaid:
    if _IN_JSON.match(part):
        run = _of_json(part)
        return PerftestSaid(run, None, run.memory is not Memory.HOST or "--use_cuda" in command)
    trouble = parse_perftest_trouble(part)
    said = None if trouble.why is Why.OTHER else trouble
    named = _GPU_NAME.search(part)
    gpu_name = named[1] if named else ""
    if said is not None and not _TABLE.search(part):
        return PerftestSaid(None, said, told_memory=False, gpu_name=gpu_name)
    try:
        run = parse_table(part)
    except Unparsable:
        if said is None:
            raise
        return PerftestSaid(None, said, told_memory=False, gpu_name=gpu_name)
    told = run.memory is not Memory.HOST or "--use_cuda" in command
    return PerftestSaid(run, said, told, gpu_name)


def _of_json(part: str) -> PerftestRun:
    """:raises Unparsable: where it holds no result."""
    told = dict(_VALUE.findall(part))
    size, average = _number(told, "MsgSize"), _number(told, "BW_average")
    latency = _number(told, "t_avg")
    rows: tuple[Bandwidth, ...] = ()
    if average and size:
        factor = _unit(size, average, _number(told, "MsgRate"))
        peak = _number(told, "BW_peak") * factor
        rows = (Bandwidth(int(size), int(_number(told, "n_iterations")), average * factor, peak),)
    elif not latency:
        raise Unparsable(SOURCE, part.split("\n", 1)[0])
    times = (Latency(int(size), int(_number(told, "n_iterations")), latency),) if latency else ()
    return PerftestRun(
        told.get("test", "").replace("_", " ").replace("RDMA ", "RDMA_").strip(),
        told.get("Device", ""),
        told.get("Link_type", ""),
        int(_number(told, "Mtu")),
        int(_number(told, "Number_of_qps")),
        int(_number(told, "TX_depth")),
        Memory.GPU if "cuda_device" in told else Memory.HOST,
        "",
        loop=False,
        bandwidths=rows,
        latencies=times,
        ports=2 if told.get("Dual_port") == "ON" else 1,
    )


def _unit(size: float, average: float, mpps: float) -> float:
    """GB/s of one unit of a bandwidth: Gb/s or MiB/s, whichever so many messages come to.

    :raises Unparsable: where they come to neither.
    """
    gigabytes = size * mpps / 1e3
    for factor in (1 / 8, MIB / _GIGA):
        if gigabytes and abs(average * factor / gigabytes - 1) < 0.05:
            return factor
    raise Unparsable(SOURCE, f"BW_average {average:g} with MsgRate {mpps:g}")


def _number(told: dict[str, str], name: str) -> float:
    """0 where it was not told."""
    try:
        return float(told.get(name, "0"))
    except ValueError:
        raise Unparsable(SOURCE, f"{name}: {told[name]}") from None
