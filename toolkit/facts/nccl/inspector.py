"""What NCCL's Inspector wrote of a job's communicators: JSON, a record a line.

Source: NVIDIA/nccl plugins/profiler/inspector (ext-profiler/inspector before it), inspector_json.cc
and README.md. Up to v4.2 each record has its own header and metadata; since v4.3 a line with
``dump_stats`` has them for as many records as it counts. A job that still runs leaves a last line
that is cut; what a library writes of points to points and of its proxy is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from toolkit.untrusted import Unreadable, read_json

# The message that nccl-tests would name: of these two the record has one rank's part.
_PARTS = frozenset({"AllGather", "ReduceScatter"})
_MARKS = ('"coll_perf"', '"dump_stats"')
_NEARLY = 0.5  # of the largest message: sizes that count as large


@dataclass(frozen=True, slots=True)
class CollectiveRecord:
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


@dataclass(frozen=True, slots=True)
class CommunicatorRun:
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
        except (Unreadable, KeyError, TypeError, ValueError, AttributeError):
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
        float(told["coll_busbw_gbs"]),
    )


def by_communicator(records: Iterable[CollectiveRecord]) -> tuple[CommunicatorRun, ...]:
    """Each communicator with each of its collectives.

    The time of a rank has in it how long it waited for the others. Who comes last waits for none:
    of each collective the fastest rank tells what the paths carried.
    """
    hosts: dict[str, dict[str, None]] = {}
    seen: dict[tuple[str, str], dict[tuple[int, int], CollectiveRecord]] = {}
    for each in records:
        hosts.setdefault(each.communicator, {})[each.host] = None
        best = seen.setdefault((each.communicator, each.test), {})
        key = (each.number, each.size)
        known = best.get(key)
        if known is None or each.bus > known.bus:
            best[key] = each
    runs = []
    for (communicator, test), best in seen.items():
        largest = max(each.size for each in best.values())
        large = [each for each in best.values() if each.size >= _NEARLY * largest]
        first, names = large[0], tuple(hosts[communicator])
        bus = median(each.bus for each in large)
        runs.append(
            CommunicatorRun(
                communicator, first.name, test, largest, bus, first.ranks, first.nodes, names,
                len(large),
            )
        )  # fmt: skip
    return tuple(runs)
