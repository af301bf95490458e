"""What all_reduce_perf and its kin print: the table, and whether the results were right.

Source: NVIDIA/nccl-tests src/common.cu and src/util.cu. Two layouts are known: up to 2.12
(error in place of #wrong), and later ones. Where NCCL_DEBUG was set, NCCL's own words stand
between the lines; ``nccl_log`` reads those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable

SOURCE = "nccl-tests"


@dataclass(frozen=True, slots=True)
class Collective:
    """One size, out of place; in GB/s (10^9)."""

    size: int  # bytes
    kind: str  # "float"
    time_us: float
    algorithm: float  # bytes by time
    bus: float  # the same by what a link has to carry, which is comparable to hardware
    wrong: int | None  # values that were wrong; None where they were not compared


@dataclass(frozen=True, slots=True)
class CollectiveGpu:
    """One rank's GPU."""

    rank: int
    host: str
    device: int  # CUDA's index
    address: str  # "0000:18:00.0"; "" where only a bus number was printed
    name: str


@dataclass(frozen=True, slots=True)
class CollectiveRun:
    rows: tuple[Collective, ...]
    gpus: tuple[CollectiveGpu, ...]
    average: float | None  # "Avg bus bandwidth", over all sizes; None where it was cut off
    out_of_bounds: int | None  # "Out of bounds values : 0 OK"

    @property
    def largest(self) -> Collective:
        """The row of the largest message: what the hardware can, launch times left out."""
        return max(self.rows, key=lambda each: each.size)

    @property
    def right(self) -> bool:
        """Whether no value was wrong, as far as they were compared."""
        return not self.out_of_bounds and not any(each.wrong for each in self.rows)


# "#  Rank  0 Group  0 Pid 895544 on  node01 device  0 [0000:18:00] NVIDIA H100 80GB HBM3"
_GPU = re.compile(
    r"^#?\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+) "
    r"\[([0-9a-fA-Fx:.]+)\] (.*)$",
    re.M,
)
_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(?:(\w+)\s+)?(?:(-?\d+)\s+)?((?:[\d.e+-]+|N/A)\s.*)$"
)
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*([\d.]+)", re.M)
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)", re.M)
_FIELDS = 4  # time, algbw, busbw, #wrong of one half of a line


def parse_nccl_tests(text: str) -> CollectiveRun:
    """Read one run.

    :raises Unparsable: where it has no table; a failed job often ends before.
    """
    counted = "#wrong" in text  # older ones print how far values are off, which is no count
    lines = text.split("\n")
    rows = tuple(row for line in lines if (row := _row(line, counted=counted)) is not None)
    if not rows:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    average, bounds = _AVERAGE.search(text), _BOUNDS.search(text)
    return CollectiveRun(
        rows,
        tuple(
            CollectiveGpu(int(rank), host, int(device), _address(bus), name.strip())
            for rank, host, device, bus, name in _GPU.findall(text)
        ),
        float(average[1]) if average else None,
        int(bounds[1]) if bounds else None,
    )


def _row(line: str, *, counted: bool) -> Collective | None:
    """One line of the table; None for any other line, NCCL's own among them."""
    found = _ROW.match(line)
    if found is None:
        return None
    words = found[6].split()
    if len(words) not in {_FIELDS, 2 * _FIELDS}:
        return None
    try:
        time, algorithm, bus = map(float, words[:3])
        wrong = int(float(words[3])) if counted and words[3] != "N/A" else None
    except ValueError:
        return None
    return Collective(int(found[1]), found[3], time, algorithm, bus, wrong)


def _address(bus: str) -> str:
    """ "0000:18:00" of a GPU as sysfs has it; "" for a bare bus number such as "0x18"."""
    found = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.0)?", bus)
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.0".lower() if found else ""
