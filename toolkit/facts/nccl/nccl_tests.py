"""What all_reduce_perf and its kin print: the table, and whether the results were right.

Source: NVIDIA/nccl-tests src/common.cu and src/util.cu. Layouts: error in place of #wrong up to
2.12; the busbw of side work, or figures of single iterations, beside each half; JSON (-J). mpirun
and srun put the rank before a line. Where NCCL_DEBUG was set, NCCL's own words stand between the
lines; ``nccl_log`` reads those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.untrusted import read_json

SOURCE = "nccl-tests"


class Collective(Struct, frozen=True):
    """One size; in GB/s (10^9), out of place unless it says otherwise."""

    size: int  # bytes
    kind: str  # "float"
    time_us: float
    algorithm: float  # bytes by time
    bus: float  # the same by what a link has to carry, which is comparable to hardware
    wrong: int | None  # values that were wrong, either way; None where they were not compared
    in_place: float | None = None  # bus bandwidth; None where it was not measured
    redop: str = ""  # "sum"; "none" where nothing is reduced, "" where not told

    @property
    def best(self) -> float:
        return max(self.bus, self.in_place or 0.0)


class CollectiveGpu(Struct, frozen=True):
    """One rank's GPU."""

    rank: int
    host: str
    device: int  # CUDA's index
    address: str  # "0000:18:00.0"; "" where only a bus number was printed
    name: str


class CollectiveRun(Struct, frozen=True):
    rows: tuple[Collective, ...]
    gpus: tuple[CollectiveGpu, ...]
    average: float | None  # "Avg bus bandwidth", over all sizes; None where it was cut off
    out_of_bounds: int | None  # "Out of bounds values : 0 OK"
    test: str = ""  # "all_reduce"; "" where not told
    below_own: bool = False  # its average is below what the run was told to reach

    @property
    def largest(self) -> Collective:
        """The row of the largest message: what the hardware can, launch times left out."""
        return max(self.rows, key=lambda each: each.size)

    @property
    def right(self) -> bool:
        """Whether no value was wrong, as far as they were compared."""
        return not self.out_of_bounds and not any(each.wrong for each in self.rows)

    @property
    def nodes(self) -> int:
        """On how many hosts its ranks ran; 0 where it does not list them."""
        return len({each.host for each in self.gpus})


# "#  Rank  0 Group  0 Pid 895544 on  node01 device  0 [0000:18:00] NVIDIA H100 80GB HBM3"
_GPU = re.compile(
    r"^#?\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+) "
    r"\[([0-9a-fA-Fx:.]+)\] (.*)$",
    re.M,
)
_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(?:(\w+)\s+)?(?:(-?\d+)\s+)?((?:[\d.e+-]+|N/A)\s.*)$"
)
_AVERAGE = re.compile(r"^#?\s*Avg bus bandwidth\s*:\s*([\d.]+)[ \t]*(FAILED)?", re.M)
_BOUNDS = re.compile(r"^#?\s*Out of bounds values\s*:\s*(\d+)", re.M)
_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_HEAD = re.compile(r"^#?.*\balgbw\s+busbw\b.*$", re.M)
# "[1,0]<stdout>:" of mpirun, "0: " of srun.
_RANK = re.compile(r"^(?:\[\d+,\d+\]<\w+>: ?| ?\d+: (?=\s|#))", re.M)
_STARTS = re.compile(
    r"(?:^# nccl-tests version .*\n)?(?:^# Collective test starting: .*\n)?^# nThread ", re.M
)
_FIELDS = 4  # time, algbw, busbw, #wrong of one half of a line
_STAMP = 2  # words of a time stamp behind it


def parse_collectives(text: str, command: str = "") -> tuple[CollectiveRun, ...]:
    """Read every run of a text, in the order printed; a last one may have begun, and no more.

    :raises Unparsable: where another has no table.
    """
    plain = _RANK.sub("", text)
    heads = [each.start() for each in _STARTS.finditer(plain)]
    if len(heads) < 2:
        return (parse_nccl_tests(text, command),)
    *parts, last = (plain[at:end] for at, end in pairwise([*heads, len(plain)]))
    runs = [parse_nccl_tests(each, command) for each in parts]
    try:
        return (*runs, parse_nccl_tests(last, command))
    except Unparsable:
        return tuple(runs)


def has_begun(text: str) -> bool:
    """Whether a run has printed its first lines."""
    return bool(_STARTS.search(_RANK.sub("", text)))


def parse_nccl_tests(text: str, command: str = "") -> CollectiveRun:
    """Read one run.

    :param command: by which it was printed, as far as that is known.
    :raises Unparsable: where it has no table; a failed job often ends before.
    """
    if '"average_bus_bandwidth"' in text or '"results":' in text:
        return _of_json(text)
    text = _RANK.sub("", text)
    counted = "#wrong" in text or "error" not in text  # older ones print how far values are off
    half, head = _FIELDS, _HEAD.search(text)
    if head is not None:
        half = len(head[0].partition("time ")[2].split("time ")[0].split()) + 1
    lines = text.split("\n")
    rows = tuple(row for line in lines if (row := _row(line, half, counted=counted)) is not None)
    if not rows:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    average, bounds = _AVERAGE.search(text), _BOUNDS.search(text)
    named = _TEST.search(text) or _TEST.search(command)
    return CollectiveRun(
        rows,
        tuple(
            CollectiveGpu(int(rank), host, int(device), _address(bus), name.strip())
            for rank, host, device, bus, name in _GPU.findall(text)
        ),
        float(average[1]) if average else None,
        int(bounds[1]) if bounds else None,
        named[1] if named else "",
        bool(average and average[2]),
    )


def _row(line: str, half: int, *, counted: bool) -> Collective | None:
    """One line of the table; None for any other line, NCCL's own among them.

    :param half: columns of one way, out of place or in place.
    """
    found = _ROW.match(line)
    if found is None:
        return None
    words = found[6].split()
    halves = [words[:half], words[half : 2 * half]] if len(words) >= 2 * half else [words]
    if len(words) not in {half, 2 * half, half + _STAMP, 2 * half + _STAMP}:
        return None
    try:
        time, algorithm, bus = map(float, words[:3])
        told = [int(float(each[3])) for each in halves if counted and each[3] != "N/A"]
        in_place = float(halves[1][2]) if len(halves) > 1 else None
    except ValueError:
        return None
    count = sum(told) if told else None
    redop = found[4] if found[4] and not found[4].lstrip("-").isdecimal() else ""
    return Collective(int(found[1]), found[3], time, algorithm, bus, count, in_place, redop)


def _of_json(text: str) -> CollectiveRun:
    """What -J wrote.

    :raises Unparsable: where it is damaged, or has no results.
    """
    try:
        told = read_json(text[text.index("{") :])
        rows = tuple(_json_row(each) for each in told["results"])
        gpus = tuple(_json_gpu(each) for each in told.get("config", {}).get("devices", ()))
        average = told.get("average_bus_bandwidth", {})
        bounds = told.get("out_of_bounds", {}).get("count")
        named = _TEST.search(" ".join(map(str, told.get("args", ()))))
        mean = float(average["bandwidth"]) if "bandwidth" in average else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0][:80]) from None
    if not rows:
        raise Unparsable(SOURCE, "results: none")
    test = named[1] if named else ""
    return CollectiveRun(rows, gpus, mean, bounds, test, average.get("okay") == "false")


# Any: what somebody's JSON holds is looked at as it comes; whatever does not fit raises.
def _json_row(told: Mapping[str, Any]) -> Collective:
    ways = [each for each in (told.get("out_of_place"), told.get("in_place")) if each]
    first = ways[0]
    counts = [int(each["nwrong"]) for each in ways if each.get("nwrong") is not None]
    return Collective(
        int(told["size"]),
        str(told["type"]),
        float(first.get("time", first.get("cpu_time", 0.0))),
        float(first["alg_bw"]),
        float(first["bus_bw"]),
        sum(counts) if counts else None,
        float(ways[1]["bus_bw"]) if len(ways) > 1 else None,
        str(told.get("redop", "")),
    )


def _json_gpu(told: Mapping[str, Any]) -> CollectiveGpu:
    bus = _address(str(told.get("device_hex", "")).strip("[]"))
    name = str(told.get("device_info", ""))
    return CollectiveGpu(
        int(told["rank"]), str(told["hostname"]), int(told.get("device", 0)), bus, name
    )


def _address(bus: str) -> str:
    """ "0000:18:00.0" of a GPU as sysfs has it; "" for a bare bus number such as "0x18"."""
    found = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.0)?", bus)
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.0".lower() if found else ""
