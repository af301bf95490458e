"""What ib_write_bw and its kin print: the table of a run, and what they were run on.

Source: linux-rdma/perftest src/perftest_parameters.c (headers of the tables) and
src/cuda_memory.c (what is said of GPU memory). Seen of 4.4, 4.5 and 25.01; "MB/sec" there and
"MiB/sec" since 24 are both 2^20 bytes, "Gb/sec" is 10^9 bits. Why a run ended without a table is
read by ``perftest_trouble``; runs in a text that somebody pasted by ``perftest_text``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from math import isfinite

from msgspec import Struct

from toolkit.errors import Unparsable

SOURCE = "perftest"
MIB, GIGA = 1 << 20, 1e9


class Memory(StrEnum):
    """What the buffers were, as the tool itself says."""

    HOST = "host"
    GPU = "GPU"
    DMABUF = "GPU, by dma-buf"
    MANAGED = "managed"  # which an HCA gets at in host memory, whatever its name


class Bandwidth(Struct, frozen=True):
    """One line of a bandwidth test, in GB/s (10^9)."""

    size: int  # bytes of a message
    iterations: int
    average: float
    peak: float = 0.0  # 0 where it was not measured: with --duration it never is
    mpps: float = 0.0  # 10^6 messages a second


class Latency(Struct, frozen=True):
    """One line of a latency test, in microseconds, one way unless the test is of reads."""

    size: int
    iterations: int
    average: float
    typical: float | None = None  # the median; None with --duration, which has averages alone
    least: float | None = None
    most: float | None = None
    p99: float | None = None
    p999: float | None = None


class PerftestRun(Struct, frozen=True):
    """One end of a run that came to its table."""

    test: str  # "RDMA_Write BW Test"
    device: str  # "mlx5_0"
    link: str  # "IB" or "Ethernet"
    mtu: int  # bytes
    qps: int
    depth: int  # of the send queue; 0 where the end that listens does not print it
    memory: Memory
    cuda: str  # "17:00": bus and device of the GPU that was picked; "" for none
    loop: bool  # both ends say one address: the traffic never left the port
    bandwidths: tuple[Bandwidth, ...]
    latencies: tuple[Latency, ...]
    counters: tuple[tuple[str, int], ...] = ()  # of --report-counters: what they grew by
    ports: int = 1  # that carry it together

    @property
    def bidirectional(self) -> bool:
        """Whether the bandwidth is that of both directions together."""
        return "Bidirectional" in self.test


TITLE = re.compile(r"^ *((?:RDMA_|Send |Atomic |Raw ).*(?:BW|Latency) ?(?:Test)?)[ \t]*$", re.M)
_HEAD = re.compile(r"\s*#bytes\s")
_FIELD = re.compile(r"([A-Za-z][\w.*#' ]*?)[ \t]*:[ \t]+(\S+(?: \S+)*)")
_COLUMN = re.compile(r"#\w+|[^#\[\]\t]*?[\w.%][^#\[\]\t]*\[[^\]]+\]|tps average")
_COUNTER = re.compile(r"^\t([\w/]+)=(\d+)$", re.M)
_PICKED = re.compile(r"^Picking device No\. (\d+)", re.M)
_LISTED = re.compile(r"^CUDA device (\d+): PCIe address is ([0-9A-F]{2}:[0-9A-F]{2})$", re.M)
_GID = re.compile(r"^ ?(?:local|remote) address: LID (\w+).*(?:\n ?GID: ([0-9:]+))?", re.M)
_NOWHERE = {("0000", ""), ("0x00", ""), ("0x0", "")}  # Ethernet has no LID
_TELLING = 1e-3  # below, six decimals of a rate and two of a bandwidth tell too little
_ROUNDING = 0.05
_LATENCIES = (
    *("t_typical[usec]", "t_min[usec]", "t_max[usec]"),
    *("99% percentile[usec]", "99.9% percentile[usec]"),
)
_UNITS = {"MB/sec": MIB / GIGA, "MiB/sec": MIB / GIGA, "Gb/sec": 1 / 8}


def parse_perftest_run(text: str) -> PerftestRun:
    """Read what one end of a test printed.

    :raises Unparsable: where there is no table, or one of columns that are not known.
    """
    if TITLE.search(text) is None:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    return parse_table(text)


def parse_table(text: str) -> PerftestRun:
    """The same of a text that may have lost its title; both ends may stand in it.

    :raises Unparsable: likewise, and where two ends' units fit no row's message rate.
    """
    lines, title = text.split("\n"), TITLE.search(text)
    at = next((at for at, line in enumerate(lines) if _HEAD.match(line)), -1)
    if at < 0:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    # "Dual-port : OFF    Device : mlx5_0": two to a line, parted by tabs, or by blanks.
    fields: dict[str, str] = {}
    for line in lines[:at]:
        for part in re.split(r"\t+(?!:)|  +(?=[A-Za-z])", line):
            told = _FIELD.fullmatch(part.strip())
            if told is not None:
                fields.setdefault(told[1].strip(), told[2])
    rows = _rows(lines, at)
    if not rows:
        raise Unparsable(SOURCE, lines[at], at + 1)
    return PerftestRun(
        title[1].strip() if title else "",
        fields.get("Device", ""),
        fields.get("Link type", ""),
        _number(fields.get("Mtu", "")),
        _number(fields.get("Number of qps", "")),
        _number(fields.get("TX depth", "")),
        _memory(text),
        _picked(text),
        _looped(text),
        tuple(row for row in rows if isinstance(row, Bandwidth)),
        tuple(row for row in rows if isinstance(row, Latency)),
        tuple((name, int(value)) for name, value in _COUNTER.findall(text)),
        2 if fields.get("Dual-port") == "ON" else 1,
    )


def _rows(lines: list[str], head: int) -> list[Bandwidth | Latency]:
    """The lines of numbers below a head; other programs and the other end speak between them.

    Where both ends share one terminal their heads stand one below the other, perhaps in
    different units: of each row the message rate tells which is its own.
    """
    heads: list[list[str]] = []
    rows: list[Bandwidth | Latency] = []
    fresh = False  # whether the last line of interest was a head
    for number, line in enumerate(lines[head:], start=head + 1):
        if _HEAD.match(line):
            heads = heads if fresh else []
            heads.append([each.strip() for each in _COLUMN.findall(line)])
            fresh = True
        elif re.match(r"\s*[0-9]+\s+[0-9]", line):
            rows.append(_row(line, heads, number))
            fresh = False
    return list(dict.fromkeys(rows))


def _row(line: str, heads: list[list[str]], number: int) -> Bandwidth | Latency:
    """:raises Unparsable: where it fits below none of the heads."""
    words = line.split()
    for columns in heads:
        if len(words) != len(columns):
            continue
        try:
            told = {name: float(word) for name, word in zip(columns, words, strict=True)}
        except ValueError:
            break
        size, iterations = int(told.get("#bytes", 0)), int(told.get("#iterations", 0))
        bandwidth = _bandwidth(told, size, iterations)
        if bandwidth is not None and (len(heads) == 1 or _agrees(bandwidth)):
            return bandwidth
        latency = _latency(told, size, iterations)
        if latency is not None:
            return latency
    raise Unparsable(SOURCE, line, number)


def _latency(told: dict[str, float], size: int, iterations: int) -> Latency | None:
    # A clock that is not steady makes perftest print "inf" or "nan": that was not measured.
    known = {name: value for name, value in told.items() if isfinite(value)}
    if "t_avg[usec]" in told and "t_avg[usec]" not in known:
        return None
    average = known.get("t_avg[usec]", known.get("t_typical[usec]"))  # before 3 no average
    if average is None:
        return None
    return Latency(size, iterations, average, *map(known.get, _LATENCIES))


def _bandwidth(told: dict[str, float], size: int, iterations: int) -> Bandwidth | None:
    for unit, factor in _UNITS.items():
        average = told.get(f"BW average[{unit}]")
        if average is not None and isfinite(average):
            peak = told.get(f"BW peak[{unit}]", 0.0)
            rate = told.get("MsgRate[Mpps]", 0.0)
            return Bandwidth(size, iterations, average * factor, peak * factor, rate)
    return None


def _agrees(row: Bandwidth) -> bool:
    """Whether the bandwidth is that of so many messages, as far as the digits printed tell."""
    if row.mpps * row.average < _TELLING:
        return True
    return abs(row.size * row.mpps / 1e3 / row.average - 1) < _ROUNDING


def _number(word: str) -> int:
    """ "1024[B]" without its unit; 0 where nothing was said."""
    found = re.match(r"\d+", word)
    return int(found[0]) if found else 0


def parse_perftest_memory(text: str) -> tuple[Memory, str]:
    """Where one end had its buffer, and bus and device of the GPU that it picked.

    Either end says so before data flows: the one that listens need not come to a table.
    """
    return _memory(text), _picked(text)


def _memory(text: str) -> Memory:
    if "CUDA_MEM_MANAGED" in text:
        return Memory.MANAGED
    if "using DMA-BUF for GPU buffer" in text:
        return Memory.DMABUF
    # Up to 4.5 "allocated GPU buffer address at", later "allocated GPU buffer of a N address".
    return Memory.GPU if "allocated GPU buffer" in text else Memory.HOST


def _picked(text: str) -> str:
    picked = _PICKED.search(text)
    listed = dict(_LISTED.findall(text))
    return listed.get(picked[1], "") if picked else ""


def _looped(text: str) -> bool:
    """Whether both ends are one port: the same LID on InfiniBand, the same GID on Ethernet."""
    ends = _GID.findall(text)
    return len(ends) > 1 and len(set(ends)) == 1 and ends[0] not in _NOWHERE


# A bandwidth that was measured over one GPU and one HCA of a node.
SIMULATED = " (simulated)"  # how the tool's name ends where a demo node made the figure up


class MeasuredPair(Struct, frozen=True):
    gpu: str  # "0000:18:00.0"
    hca: str  # its name: "mlx5_0"
    value: float  # GB/s, between this end and the other
    tool: str  # "ib_write_bw", "ib_write_bw (simulated)"
    when: str  # "2026-11-20"
