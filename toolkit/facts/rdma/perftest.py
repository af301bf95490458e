"""What ib_write_bw and its kin print: the table of a run, and what they were run on.

Source: linux-rdma/perftest src/perftest_parameters.c (headers of the tables) and
src/cuda_memory.c (what is said of GPU memory). Seen of 4.4, 4.5 and 25.01; "MB/sec" there and
"MiB/sec" since 24 are both 2^20 bytes, "Gb/sec" is 10^9 bits. Why a run ended without a table is
read by ``perftest_trouble``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable

SOURCE = "perftest"
MIB, GIGA = 1 << 20, 1e9


class Memory(StrEnum):
    """What the buffers were, as the tool itself says."""

    HOST = "host"
    GPU = "GPU"
    DMABUF = "GPU, by dma-buf"
    MANAGED = "managed"  # which an HCA gets at in host memory, whatever its name


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """One line of a bandwidth test, in GB/s (10^9)."""

    size: int  # bytes of a message
    iterations: int
    average: float
    peak: float = 0.0  # 0 where it was not measured: with --duration it never is
    mpps: float = 0.0  # 10^6 messages a second


@dataclass(frozen=True, slots=True)
class Latency:
    """One line of a latency test, in microseconds, one way unless the test is of reads."""

    size: int
    iterations: int
    average: float
    typical: float | None = None  # the median; None with --duration, which has averages alone
    least: float | None = None
    most: float | None = None
    p99: float | None = None
    p999: float | None = None


@dataclass(frozen=True, slots=True)
class PerftestRun:
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

    @property
    def bidirectional(self) -> bool:
        """Whether the bandwidth is that of both directions together."""
        return "Bidirectional" in self.test


_TITLE = re.compile(r"^ +((?:RDMA_|Send |Atomic |Raw ).*(?:BW|Latency) ?(?:Test)?)[ \t]*$", re.M)
_FIELD = re.compile(r"([A-Za-z][\w.*#' ]*?)[ \t]*:[ \t]+(\S+(?: \S+)*)")
_COLUMN = re.compile(r"#\w+|[^#\[\]\t]*?[\w.%][^#\[\]\t]*\[[^\]]+\]|tps average")
_COUNTER = re.compile(r"^\t([\w/]+)=(\d+)$", re.M)
_PICKED = re.compile(r"^Picking device No\. (\d+)", re.M)
_LISTED = re.compile(r"^CUDA device (\d+): PCIe address is ([0-9A-F]{2}:[0-9A-F]{2})$", re.M)
_GID = re.compile(r"^ (local|remote) address: LID (\w+).*(?:\n GID: ([0-9:]+))?", re.M)
_UNITS = {"MB/sec": MIB / GIGA, "MiB/sec": MIB / GIGA, "Gb/sec": 1 / 8}


def parse_perftest_run(text: str) -> PerftestRun:
    """Read what one end of a test printed.

    :raises Unparsable: where there is no table, or one of columns that are not known.
    """
    lines = text.split("\n")
    at = next((at for at, line in enumerate(lines) if line.startswith(" #bytes")), -1)
    title = _TITLE.search(text)
    if at < 0 or title is None:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    fields = _fields(lines[:at])
    columns = [each.strip() for each in _COLUMN.findall(lines[at])]
    rows = [_row(line, columns, number) for number, line in _table(lines, at)]
    if not rows:
        raise Unparsable(SOURCE, lines[at], at + 1)
    return PerftestRun(
        title[1].strip(),
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
    )


def _fields(lines: list[str]) -> dict[str, str]:
    """ "Dual-port : OFF    Device : mlx5_0": two to a line, parted by tabs."""
    found: dict[str, str] = {}
    for line in lines:
        for part in re.split(r"\t+(?!:)", line):
            told = _FIELD.fullmatch(part.strip())
            if told is not None:
                found.setdefault(told[1].strip(), told[2])
    return found


def _table(lines: list[str], head: int) -> list[tuple[int, str]]:
    """The lines of the table with their numbers; it ends at the first that holds no numbers."""
    found = []
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        if not re.match(r" ?[0-9]+\s", line):
            break
        found.append((number, line))
    return found


def _row(line: str, columns: list[str], number: int) -> Bandwidth | Latency:
    words = line.split()
    if len(words) != len(columns):
        raise Unparsable(SOURCE, line, number)
    told: dict[str, float] = {}
    for name, word in zip(columns, words, strict=True):
        try:
            told[name] = float(word)
        except ValueError:
            raise Unparsable(SOURCE, line, number) from None
    size, iterations = int(told.get("#bytes", 0)), int(told.get("#iterations", 0))
    bandwidth = _bandwidth(told, size, iterations)
    if bandwidth is not None:
        return bandwidth
    if "t_avg[usec]" not in told:
        raise Unparsable(SOURCE, line, number)
    # A clock that is not steady makes perftest print "inf" or "nan": that was not measured.
    known = {name: value for name, value in told.items() if _finite(value)}
    if "t_avg[usec]" not in known:
        raise Unparsable(SOURCE, line, number)
    return Latency(
        size,
        iterations,
        known["t_avg[usec]"],
        known.get("t_typical[usec]"),
        known.get("t_min[usec]"),
        known.get("t_max[usec]"),
        known.get("99% percentile[usec]"),
        known.get("99.9% percentile[usec]"),
    )


def _bandwidth(told: dict[str, float], size: int, iterations: int) -> Bandwidth | None:
    for unit, factor in _UNITS.items():
        average = told.get(f"BW average[{unit}]")
        if average is not None and _finite(average):
            peak = told.get(f"BW peak[{unit}]", 0.0)
            rate = told.get("MsgRate[Mpps]", 0.0)
            return Bandwidth(size, iterations, average * factor, peak * factor, rate)
    return None


def _finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")  # noqa: PLR0124 a NaN differs from itself


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
    ends: dict[str, set[tuple[str, str]]] = {"local": set(), "remote": set()}
    for end, lid, gid in _GID.findall(text):
        ends[end].add((lid, gid))
    return bool(ends["local"]) and ends["local"] == ends["remote"]
