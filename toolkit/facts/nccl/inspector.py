"""What NCCL's Inspector wrote of jobs' communicators: JSON, a record a line, or a textfile.

Source: NVIDIA/nccl plugins/profiler/inspector (ext-profiler/inspector before it): README.md,
inspector_json.cc and inspector_prom.cc. Up to v4.2 each record has its own header and metadata;
since v4.3 a line with ``dump_stats`` has them for as many records as it counts. A job that still
runs leaves a last line that is cut; what is of one rank to another, and of the proxy, is passed
over. The textfile (Prometheus) has a mean over each half minute, by GPU and by range of sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from msgspec import Struct

from toolkit.untrusted import Unreadable, read_json

# The message that nccl-tests would name: of these two the record has one rank's part.
_PARTS = frozenset({"AllGather", "ReduceScatter"})
_MARKS = ('"coll_perf"', '"dump_stats"')
TEXTFILE = "nccl_bus_bandwidth_gbs{"  # what tells one
_NEARLY = 0.5  # of the largest message: sizes that count as large


class CollectiveRecord(Struct, frozen=True):
    """One collective as one rank saw it."""

    communicator: str  # "0x7f8c496ae9f661", the same on all ranks
    name: str  # as the framework calls it; "" where it does not
    host: str
    rank: int
    ranks: int
    nodes: int
    test: str  # "AllReduce"
    number: int  # of the collective, the same on all ranks
    size: int  # bytes, as nccl-tests has it
    bus: float  # GB/s
    job: str = ""  # Slurm's number; "" where it is not told


class CommunicatorRun(Struct, frozen=True):
    """What one communicator did, by the collectives of its largest messages."""

    communicator: str
    name: str
    test: str
    size: int  # bytes of the largest
    bus: float  # GB/s; the median of them
    ranks: int
    nodes: int
    hosts: tuple[str, ...]  # those that were read
    count: int  # collectives that counted
    job: str = ""


def is_inspector(text: str) -> bool:
    """Whether the head of a text is of it."""
    return text.lstrip().startswith("{") and any(mark in text for mark in _MARKS)


def read_records(lines: Iterable[str]) -> Iterator[CollectiveRecord]:
    """The collectives of one file; what is cut, or of another kind, is passed over."""
    header: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            told = read_json(line)
            if "dump_stats" in told:
                header, metadata = told["header"], told["metadata"]
            elif "coll_perf" in told:
                yield _record(
                    told.get("header", header), told.get("metadata", metadata), told["coll_perf"]
                )
        except (Unreadable, KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue


# Any: what somebody's JSON holds is looked at as it comes; whatever does not fit raises.
def _record(
    header: dict[str, Any], metadata: dict[str, Any], told: dict[str, Any]
) -> CollectiveRecord:
    test, ranks = str(told["coll"]), int(header["n_ranks"])
    name = str(header.get("comm_name", ""))
    return CollectiveRecord(
        str(header["id"]),
        "" if name == "unknown" else name,
        str(metadata["hostname"]),
        int(header["rank"]),
        ranks,
        int(header["nnodes"]),
        test,
        int(told["coll_sn"]),
        int(told["coll_msg_size_bytes"]) * (ranks if test in _PARTS else 1),
        _rate(float(told["coll_busbw_gbs"])),
    )


def _rate(told: float) -> float:
    """:raises ValueError: it is no bandwidth."""
    if not 0 <= told < float("inf"):
        raise ValueError("no bandwidth")
    return told


_METRIC = re.compile(r"nccl_bus_bandwidth_gbs\{(.*)\} ([\d.e+-]+)\s*$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_RANGE = re.compile(r"([\d.]+)(?:-[\d.]+)?([KMGT]?)B")


def read_textfile(lines: Iterable[str]) -> Iterator[CollectiveRecord]:
    """The collectives of one file of metrics; a line without an end may have half a number."""
    for line in lines:
        metric = _METRIC.match(line) if line.endswith("\n") else None
        told = dict(_LABEL.findall(metric[1])) if metric else {}
        size = _RANGE.fullmatch(told.get("message_size", ""))
        if metric is None or size is None:
            continue
        try:
            ranks = int(told.get("nranks") or told["n_ranks"])
            name, test = told.get("comm_name", ""), told["collective"]
            job = told.get("slurm_job_id", "")
            bytes_ = int(float(size[1]) * (1 << 10 * " KMGT".index(size[2] or " ")))
            yield CollectiveRecord(
                told.get("comm_id") or f"{name}, {ranks} ranks",
                "",
                told.get("node") or told["hostname"],
                0,
                ranks,
                int(told["n_nodes"]),
                test,
                int(told.get("coll_sn", 0)),
                bytes_ * (ranks if test in _PARTS else 1),
                _rate(float(metric[2])),
                "" if job == "unknown" else job,
            )
        except (KeyError, ValueError, OverflowError):
            continue


def by_communicator(records: Iterable[CollectiveRecord]) -> tuple[CommunicatorRun, ...]:
    """Each communicator with each of its collectives.

    The time of a rank has in it how long it waited for the others. Who comes last waits for none:
    of each collective the fastest rank tells what the paths carried.
    """
    hosts: dict[tuple[str, str], dict[str, None]] = {}
    seen: dict[tuple[str, str, str], dict[tuple[int, int], CollectiveRecord]] = {}
    for each in records:
        hosts.setdefault((each.job, each.communicator), {})[each.host] = None
        best = seen.setdefault((each.job, each.communicator, each.test), {})
        key = (each.number, each.size)
        known = best.get(key)
        if known is None or each.bus > known.bus:
            best[key] = each
    runs = []
    for (job, communicator, test), best in seen.items():
        largest = max(each.size for each in best.values())
        large = [each for each in best.values() if each.size >= _NEARLY * largest]
        first, names = large[0], tuple(hosts[job, communicator])
        bus = median(each.bus for each in large)
        runs.append(
            CommunicatorRun(
                communicator, first.name, test, largest, bus, first.ranks, first.nodes, names,
                len(large), job,
            )
        )  # fmt: skip
    return tuple(runs)
