"""Published measurements, as the rows of throughput-points.csv."""

from __future__ import annotations

import csv
import io
import re
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.pci.pcie_caps import Link
from toolkit.throughput.model import Poster

_SPEEDS = {"1": 2.5, "2": 5.0, "3": 8.0, "4": 16.0, "5": 32.0, "6": 64.0}


class Tier(StrEnum):
    A = "A"  # physics: large messages on a healthy path
    B = "B"  # software or platform
    C = "C"  # broken: only the direction is predictable


class Point(Struct, frozen=True):
    id: str
    kind: str  # "verbs_bw"
    path: str  # "switch", "rc_same", "staged"
    cpu: str  # "amd-genoa"; "" where not told
    link: Link | None  # PCIe; None where the path is not PCIe's
    fabric: str  # "ib", "roce", "slingshot"; "" for none
    gbits: float  # of one port; 0 for no wire
    hcas: int
    nodes: int  # 0 where not told
    mtu: float
    size: float  # bytes; 0 where not told
    depth: int  # 0 where not told
    pairs: int
    gdr: bool  # False: with GPUDirect off
    host: bool  # host memory at both ends
    poster: Poster  # as far as the platform's name tells
    op: str
    measured: float  # GB/s or us
    stream: float  # GB/s; 0 where not told
    tier: Tier
    source: str

    @property
    def is_latency(self) -> bool:
        return "_lat" in self.kind

    @property
    def both_ways(self) -> bool:
        return "bidir" in self.op or "bibw" in self.op

    @property
    def reads(self) -> bool:
        """Whether the HCA, or another device, reads GPU memory; of storage a read writes there."""
        told = re.search(r"\breads?\b", self.op, re.IGNORECASE)
        return bool(told) and self.kind in {"verbs_bw", "pcie_p2p"}

    @property
    def gpus(self) -> int:
        """How many share the wires: as the test says, all of a collective, else one."""
        told = re.search(r"(\d+) GPU", self.op)
        whole = "nccl" in self.op and "pair" not in self.op
        return int(told[1]) if told else self.hcas if whole else 1


def parse_points(text: str) -> tuple[Point, ...]:
    """Read the CSV.

    :raises Unparsable: at a row that lacks a column, or holds no number where one belongs.
    """
    found = []
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        try:
            found.append(_point(row))
        except (KeyError, ValueError) as why:
            raise Unparsable("throughput points", f"{row.get('id')}: {why}", number) from why
    return tuple(found)


def _poster(platform: str) -> Poster:
    if re.search(r"broadcom|bcm5|thor", platform, re.IGNORECASE):
        return Poster.BROADCOM
    return Poster.GUEST if re.search(r"\bVMs?\b", platform) else Poster.CORE


def _point(row: dict[str, str]) -> Point:
    def number(name: str) -> float:
        return float(row[name] or 0)

    generation = row["pcie_gen"]
    link = Link(_SPEEDS[generation], int(row["pcie_width"])) if generation else None
    return Point(
        id=row["id"],
        kind=row["class"],
        path=row["path_type"],
        cpu=row["cpu"],
        link=link,
        fabric=row["link"],
        gbits=number("nic_rate_gbps"),
        hcas=int(number("n_nics")) or 1,
        nodes=int((re.search(r"\b(\d+) nodes", row["note"]) or ["", "0"])[1]),
        mtu=number("wire_mtu") or 4096.0,
        size=number("msg_bytes"),
        depth=int(number("depth")),
        pairs=int(number("qps")) or 1,
        gdr=row["gdr"] != "off",
        host=row["buffer"] == "host",
        poster=_poster(row["platform"]),
        op=row["op"],
        measured=number("measured_gbs_or_us"),
        stream=number("stream_gbs"),
        tier=Tier(row["tier"]),
        source=row["source"],
    )
