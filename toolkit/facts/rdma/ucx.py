"""UCX: what ucx_info and ucx_perftest print.

Source: openucx/ucx src/tools/info/tl_info.c and version_info.c. Two layouts are known: up to
1.8 with "component:" and "Transport:" in lower-case columns and no memory types, later ones
with "Component:", "memory types:" and "System device:". Lines begin with "#", which is lost
where somebody copied them. Whoever judges UCX (``ucx.paths``) reads it as ``node.ucx_info``.
"""

from __future__ import annotations

import re
from itertools import pairwise

from msgspec import Struct

from toolkit.errors import Unparsable


class MemoryDomain(Struct, frozen=True):
    """One memory domain with its transports."""

    name: str  # "mlx5_0", "cuda_cpy", "gdr_copy"
    component: str  # "ib", "cuda_cpy"; "" where it was not printed
    dmabuf: bool  # "register: unlimited, dmabuf, cost: ..."
    memory: tuple[str, ...] | None  # "host", "cuda"; None in the old layout, which tells none
    transports: tuple[tuple[str, str], ...]  # transport and device: ("rc_mlx5", "mlx5_0:1")


class UcxInfo(Struct, frozen=True):
    version: str  # "1.17.0"; "" unless ucx_info -v was printed too
    configured: str  # configure's options; likewise
    domains: tuple[MemoryDomain, ...]

    @property
    def transports(self) -> frozenset[str]:
        return frozenset(name for each in self.domains for name, _ in each.transports)

    @property
    def knows_cuda(self) -> bool:
        """Whether UCX was built with CUDA, and its CUDA modules could be loaded."""
        return any(each.name.startswith(("cuda", "gdr_copy")) for each in self.domains) or any(
            name.startswith("cuda_") for name in self.transports
        )


_VERSION = re.compile(r"(?:Library version:|UCT version=|UCX version)\s*(\d[\w.]*)")


def parse_ucx_info(text: str) -> UcxInfo:
    """Read ``ucx_info -v``, ``ucx_info -d`` or both, of any layout.

    A text that begins in the middle of a domain gives one domain without a name.

    :raises Unparsable: where nothing in it is of ucx_info.
    """
    version = _VERSION.search(text)
    configured = re.search(r"[Cc]onfigured with: *(.*)", text)
    lines = [line.strip().removeprefix("#").strip() for line in text.split("\n")]
    starts = [at for at, line in enumerate(lines) if line.startswith("Memory domain:")]
    first = starts[0] if starts else len(lines)
    pieces = [lines[:first]] if any(line.startswith("Transport:") for line in lines[:first]) else []
    pieces += [lines[start:end] for start, end in pairwise([*starts, len(lines)])]
    if not pieces and version is None:
        raise Unparsable("ucx_info", text.strip().split("\n", 1)[0])
    domains = tuple(_domain(piece) for piece in pieces)
    return UcxInfo(
        version[1] if version else "", configured[1].strip() if configured else "", domains
    )


def _domain(lines: list[str]) -> MemoryDomain:
    values: dict[str, str] = {}
    transports: list[tuple[str, str]] = []
    for line in lines:
        key, colon, value = line.partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "transport":
            transports.append((value, ""))
        elif key == "device" and transports:
            transports[-1] = (transports[-1][0], value)
        elif colon:
            values.setdefault(key, value)
    kinds = values.get("memory types")
    return MemoryDomain(
        values.get("memory domain", ""),
        values.get("component", ""),
        "dmabuf" in values.get("register", "").split(", "),
        None if kinds is None else tuple(re.findall(r"([\w-]+) \(", kinds)),
        tuple(transports),
    )


# What ucx_perftest prints: its last line, and by which memory and transports it went.
# Source: openucx/ucx src/tools/perf/perftest.c, perftest_run.c and src/ucp/proto/proto_common.c.
# Layouts: up to 1.8 a line of numbers alone, then "Final:", then "Final:" with a percentile before;
# -f has the test's name in its place, -v commas, -N groups of digits, and several threads fewer
# numbers. "MB/s" there is 2^20 bytes a second.
SOURCE = "ucx_perftest"
_MIB, _GIGA = 1 << 20, 1e9
_NUMBERS = 8  # iterations; three of time, two of bandwidth, two of messages a second
_THREADS = 4  # of several threads: iterations, time, bandwidth, messages a second, all overall
_FINAL = re.compile(r"^(?:\S*:)?Final:((?:\s+[\d.',]+)+)(?:\s+\S.*|\s*)$", re.M)
_PLAIN = re.compile(r"^\s*(?:\[thread \d+\]|[A-Za-z]\S*)?\s*([\d',]+(?:\s+[\d.',]+){7})\s*$", re.M)
_CSV = re.compile(r"^(?:[^\n,]+,)*?(\d+(?:,[\d.]+){7}|\d+(?:,[\d.]+){3})\s*$", re.M)
_ASKED = re.compile(r"^\s*\| (Test|Send memory|Recv memory|Message size): +(.*?) *\|\s*$", re.M)
# "| 2049..inf | zero-copy | rc_mlx5/mlx5_0:1/path0 |" of UCX_PROTO_INFO=y, and of debug lines
# "rc_mlx5/mlx5_0:1".
_LANE = re.compile(r"\b((?:rc|dc|ud)(?:_\w+)?|tcp|cuda_\w+|gdr_copy|sysv|posix|cma|self)/(\w+)")
_TROUBLE = re.compile(r"^.*\bUCX +ERROR (.*)$|^.*(unsupported memory type.*)$", re.M | re.I)


class UcxPerf(Struct, frozen=True):
    """One run, as its initiator tells it."""

    iterations: int
    time_us: float  # overall: of latency tests one way, of others per message
    bandwidth: float  # overall, GB/s (10^9)
    memory: tuple[str, str]  # of the sender and the receiver: "cuda", "host"; "" where not told
    lanes: tuple[tuple[str, str], ...]  # transport and device: ("rc_mlx5", "mlx5_0")
    test: str = ""  # "tag match bandwidth"; "" where not told
    size: int = 0  # bytes of a message; 0 where not told

    @property
    def tcp(self) -> bool:
        """Whether some of it went by TCP: then no HCA placed it in memory."""
        return any(name == "tcp" for name, _ in self.lanes)


def parse_ucx_perf(text: str) -> UcxPerf:
    """Read what the end that sends printed.

    :raises Unparsable: where it came to no last line; the tool's own error is in the sentence.
    """
    finals = _FINAL.findall(text) or _PLAIN.findall(text) or _CSV.findall(text)
    if not finals:
        trouble = _TROUBLE.search(text)
        said = (trouble[1] or trouble[2]) if trouble else text.strip().split("\n")[-1]
        raise Unparsable(SOURCE, said)
    # Of blanks or of commas, which also part groups of digits where a locale has them so.
    line = finals[-1]
    if " " in line.strip():
        words = [float(each.replace("'", "").replace(",", "")) for each in line.split()]
    else:
        words = [float(each) for each in line.strip().split(",")]
    if len(words) not in {_NUMBERS, _THREADS}:
        raise Unparsable(SOURCE, finals[-1].strip())
    asked = dict(_ASKED.findall(text))
    memory = (asked.get("Send memory", ""), asked.get("Recv memory", ""))
    time, bandwidth = (words[3], words[5]) if len(words) == _NUMBERS else (words[1], words[2])
    return UcxPerf(
        int(words[0]),
        time,
        bandwidth * _MIB / _GIGA,
        memory,
        tuple(dict.fromkeys(_LANE.findall(text))),
        asked.get("Test", ""),
        int(size) if (size := asked.get("Message size", "")).isdecimal() else 0,
    )
