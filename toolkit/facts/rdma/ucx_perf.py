"""What ucx_perftest prints: its last line, and by which memory and transports it went.

Source: openucx/ucx src/tools/perf/perftest.c and src/ucp/proto/proto_common.c. Three layouts are
known: up to 1.8 a line of numbers alone, then "Final:", then "Final:" with a percentile before.
"MB/s" there is 2^20 bytes a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

SOURCE = "ucx_perftest"
_MIB, _GIGA = 1 << 20, 1e9
_NUMBERS = 8  # iterations; three of time, two of bandwidth, two of messages a second
_FINAL = re.compile(r"^(?:\S*:)?Final:((?:\s+[\d.]+)+)\s*$", re.M)
_PLAIN = re.compile(r"^\s*(\d+(?:\s+[\d.]+){7})\s*$", re.M)
_ASKED = re.compile(r"^\| (Test|Send memory|Recv memory|Message size): +(.*?) *\|$", re.M)
# "| 2049..inf | zero-copy | rc_mlx5/mlx5_0:1/path0 |" of UCX_PROTO_INFO=y, and of debug lines
# "rc_mlx5/mlx5_0:1".
_LANE = re.compile(r"\b((?:rc|dc|ud)(?:_\w+)?|tcp|cuda_\w+|gdr_copy|sysv|posix|cma|self)/(\w+)")
_TROUBLE = re.compile(r"^.*\bUCX +ERROR (.*)$|^.*(unsupported memory type.*)$", re.M | re.I)


@dataclass(frozen=True, slots=True)
class UcxPerf:
    """One run, as its initiator tells it."""

    iterations: int
    time_us: float  # overall: of latency tests one way, of others per message
    bandwidth: float  # overall, GB/s (10^9)
    memory: tuple[str, str]  # of the sender and the receiver: "cuda", "host"; "" where not told
    lanes: tuple[tuple[str, str], ...]  # transport and device: ("rc_mlx5", "mlx5_0")

    @property
    def tcp(self) -> bool:
        """Whether some of it went by TCP: then no HCA placed it in memory."""
        return any(name == "tcp" for name, _ in self.lanes)


def parse_ucx_perf(text: str) -> UcxPerf:
    """Read what the end that sends printed.

    :raises Unparsable: where it came to no last line; the tool's own error is in the sentence.
    """
    finals = _FINAL.findall(text) or _PLAIN.findall(text)
    if not finals:
        trouble = _TROUBLE.search(text)
        said = (trouble[1] or trouble[2]) if trouble else text.strip().split("\n")[-1]
        raise Unparsable(SOURCE, said)
    words = finals[-1].split()
    if len(words) != _NUMBERS:
        raise Unparsable(SOURCE, finals[-1].strip())
    asked = dict(_ASKED.findall(text))
    memory = (asked.get("Send memory", ""), asked.get("Recv memory", ""))
    return UcxPerf(
        int(words[0]),
        float(words[3]),
        float(words[5]) * _MIB / _GIGA,
        memory,
        tuple(dict.fromkeys(_LANE.findall(text))),
    )
