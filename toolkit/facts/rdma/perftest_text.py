"""Runs of perftest in a text that somebody pasted: several, both ends in one, or as JSON.

Source: linux-rdma/perftest src/perftest_parameters.c (write_test_info_to_file and
write_bw_report_to_file, since 23.04) and src/get_clock.c. Its JSON names no unit: the message rate
tells it. Not all of it is JSON, for which its "sl" lacks quotes.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

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


# Why a run of ib_write_bw and its kin came to no table: its own words, with what they mean.
# Source: linux-rdma/perftest src/perftest_resources.c, perftest_parameters.c, cuda_memory.c and
# perftest_communication.c; the numbers behind "error=" are the kernel's errno.
class Why(StrEnum):
    NO_DEVICE = "no such HCA"
    NO_CUDA = "built without CUDA"
    NO_DMABUF_BUILD = "built without dma-buf"
    CUDA = "CUDA does not start"
    GPU_DMABUF = "the driver exports no dma-buf of this GPU"
    PEERMEM = "GPU memory could not be registered: no peer memory"
    DMABUF = "GPU memory could not be registered by dma-buf"
    REGISTER = "memory could not be registered"
    MEMLOCK = "too little memory may be locked"
    CONNECT = "the other end did not answer"
    LOST = "the other end went away"
    GID = "no usable GID"
    QUEUE_PAIR = "the queue pairs could not be connected"
    COMPLETION = "a transfer failed"
    CLOCK = "its clock was not steady, so nothing was measured"
    OPTION = "an option is not known"
    OTHER = "no result"


class PerftestTrouble(Struct, frozen=True):
    """Why there is no result."""

    why: Why
    words: str  # the tool's own line

    @property
    def unregistered(self) -> bool:
        """Whether it is the memory of a GPU that was not taken."""
        return self.why in {Why.PEERMEM, Why.DMABUF, Why.GPU_DMABUF}

    @property
    def completion(self) -> int:
        """The status of a transfer that failed, as enum ibv_wc_status has it; 0 where not told."""
        found = re.search(r"Failed status (\d+)", self.words)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.why} ({self.words})" if self.words else self.why.value


_EFAULT, _ENOMEM, _EPROTONOSUPPORT, _EOPNOTSUPP = 14, 12, 93, 95
# The first that is found is told: those that name a cause stand before those that follow from it.
_TROUBLES: tuple[tuple[Why, str], ...] = (
    (Why.NO_CUDA, r".*unrecognized option '--use_cuda(?:_bus_id)?=.*|.*Unsupported memory type.*"),
    (Why.NO_DMABUF_BUILD, r".*unrecognized option '--use_cuda_dmabuf.*"),
    (Why.OPTION, r".*unrecognized option .*|.*Invalid Command or flag.*"),
    (Why.NO_DEVICE, r"IB device \S+ not found|.*Unable to find the Infiniband/RoCE device.*"),
    (Why.GPU_DMABUF, r"DMA-BUF is not supported on this GPU"),
    (Why.CUDA, r"cuInit\(0\) returned .*|cuDeviceGet\w*\(?\)? .*|.*No such device ID .*"),
    (Why.CUDA, r"There are no available device\(s\) that support CUDA|cuCtxCreate\(\) error=.*"),
    (Why.CUDA, r"Couldn't init GPU context.*|cuMem\w+ error=.*"),
    (Why.GID, r".*(?:Failed to (?:get|read) GID|Found Incompatibility issue with GID).*"),
    (Why.QUEUE_PAIR, r".*Failed to modify QP.*|.*Unable to Connect the HCA's through the link.*"),
    (Why.COMPLETION, r".*Failed status \d+.*"),
    (Why.COMPLETION, r".*Completion with error.*"),
    (Why.CLOCK, r" \d+ +\d+ +.*\b(?:inf|nan)\b.*"),
    (Why.CONNECT, r"Couldn't connect to \S+"),
    (Why.LOST, r".*(?:Couldn't read remote address|Failed to exchange data between).*"),
)
_REGISTER = re.compile(r"Couldn't allocate MR(?: with error=(\d+))?")


def parse_perftest_trouble(text: str) -> PerftestTrouble:
    """Why there is no table, from what one end printed; OTHER with its last line at worst."""
    failed = _REGISTER.search(text)
    if failed is not None:
        # What registering failed for: before 24 perftest told no number.
        error = int(failed[1] or 0)
        if "using DMA-BUF" in text or error in {_EPROTONOSUPPORT, _EOPNOTSUPP}:
            registering = Why.DMABUF
        elif "GPU buffer" in text:
            registering = Why.PEERMEM if error in {0, _EFAULT} else Why.REGISTER
        else:
            registering = Why.MEMLOCK if error == _ENOMEM else Why.REGISTER
        return PerftestTrouble(registering, failed[0])
    for why, pattern in _TROUBLES:
        found = re.search(f"^{pattern}$", text, re.M)
        if found is not None:
            return PerftestTrouble(why, found[0].strip()[:200])
    lines = [line.strip() for line in text.split("\n") if line.strip(" -*")]
    return PerftestTrouble(Why.OTHER, lines[-1][:200] if lines else "")


_GIGA = 1e9
_IN_JSON = re.compile(r'"test_info"\s*:\s*\{')
_VALUE = re.compile(r'"([\w.]+)"\s*:\s*"?([^",\n{}]+?)"?\s*(?=[,\n}])')
_TABLE = re.compile(r"^\s*#bytes\s", re.M)
_GPU_NAME = re.compile(r"^\[pid = \d+, dev = \d+\] device name = \[([^\]\n]+)\]", re.M)


class PerftestSaid(Struct, frozen=True):
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
