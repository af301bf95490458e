"""PCI functions, as the frames in which the probe gives them: a small board by default.

pci0000:15 ── 15:01.0 root port ── 16:00.0 switch ─┬─ 17:00.0 ── 18:00.0 GPU
                                                   └─ 17:01.0 ── 19:00.0 HCA mlx5_0
pci0000:97 ── 97:01.0 root port ── 98:00.0 switch ─┬─ 99:00.0 ── 9a:00.0 GPU
                                                   └─ 99:01.0 ── 9b:00.0 HCA mlx5_1
pci0000:05 ── 05:01.0 root port ── 06:00.0 HCA mlx5_2, for storage
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

MIB, GIB = 1 << 20, 1 << 30
BRIDGE, GPU_CLASS, IB, ETHERNET = 0x060400, 0x030200, 0x020700, 0x020000
REDIRECTS = 0x1D  # SrcValid, ReqRedir, CmpltRedir, UpstreamFwd: what firmware likes to leave


class Registers(Struct, frozen=True):
    """What firmware and kernel left in the PCI Express registers; sizes in bytes."""

    payload: int = 256
    payload_max: int = 512
    read_request: int = 4096
    relaxed_ordering: bool = True
    tags_8bit: bool = True
    tags_10bit: bool = False
    rebar: tuple[int, int] | None = None  # of BAR 1 or 2: size now and at most
    aspm: int = 0  # bits of Link Control: L0s, L1
    target: str = ""  # GT/s that the link shall not exceed; "" for the best
    completer: bool = True  # it can answer 10-bit tags
    vfs: int | None = None  # virtual functions that it offers; None without the capability


class Fn(Struct, frozen=True):
    """One PCI function."""

    address: str
    parent: str  # the bridge above it, or "pci0000:15"
    ids: tuple[int, int]
    klass: int
    driver: str = "pcieport"
    group: str = ""  # IOMMU group
    numa: int = 0
    now: tuple[str, int] = ("32.0 GT/s PCIe", 16)
    best: tuple[str, int] = ("32.0 GT/s PCIe", 16)
    bars: tuple[tuple[int, int], ...] = ()  # index and size in bytes
    acs: int | None = None  # the control register; None without the capability
    acs_able: int = 0x5F  # its capability register
    ats: bool | None = None  # enabled; None without the capability
    readable: int = 4096  # bytes of config space that the probe got
    physfn: bool = False  # an SR-IOV virtual function
    upstream: bool = False  # a bridge that is the upper port of a switch
    express: Registers = field(default_factory=Registers)


@dataclass(frozen=True, slots=True)
class Board:
    functions: tuple[Fn, ...]

    def but(self, address: str, **changes: Any) -> Board:
        """The same board with one function changed."""
        assert address in {each.address for each in self.functions}
        return Board(
            tuple(
                replace(each, **changes) if each.address == address else each
                for each in self.functions
            )
        )

    def without(self, *addresses: str) -> Board:
        return Board(tuple(each for each in self.functions if each.address not in addresses))

    def plus(self, *more: Fn) -> Board:
        return Board((*self.functions, *more))

    def path(self, function: Fn) -> str:
        """Where sysfs keeps it, below /sys/devices."""
        return f"{_places(self).get(function.parent, function.parent)}/{function.address}"

    def below(self, bridge: Fn) -> tuple[int, int]:
        """Secondary and subordinate bus."""
        buses = [
            int(address[-7:-5], 16)
            for address, place in _places(self).items()
            if f"/{bridge.address}/" in place
        ]
        return (min(buses, default=0), max(buses, default=0))

    def frames(self) -> dict[str, str]:
        """The text of the PCI frames."""
        return {**_texts(self)}


# Most tests have one board, or one of which they changed a function.
@lru_cache(maxsize=64)
def _texts(board: Board) -> dict[str, str]:
    functions = board.functions
    ends = (each for each in functions if each.klass != BRIDGE)
    return {
        "pci": "".join(map(_attributes, functions)),
        "pci-links": "".join(_links(board, each) for each in functions),
        "pci-resources": "".join(map(_resource, ends)),
        "pci-config": "".join(f"@{e.address}\n{_config(e, board.below(e))}" for e in functions),
    }


@lru_cache(maxsize=64)
def _places(board: Board) -> dict[str, str]:
    """Where sysfs keeps each function, by its address."""
    parents = {each.address: each.parent for each in board.functions}

    def place(address: str) -> str:
        return f"{place(parents[address])}/{address}" if address in parents else address

    return {address: place(address) for address in parents}


@lru_cache(maxsize=2048)
def _config(function: Fn, below: tuple[int, int]) -> str:
    return od(space(function, below))


def _attributes(function: Fn) -> str:
    values = {
        "vendor": f"0x{function.ids[0]:04x}",
        "device": f"0x{function.ids[1]:04x}",
        "class": f"0x{function.klass:06x}",
        "numa_node": function.numa,
        "current_link_speed": function.now[0],
        "max_link_speed": function.best[0],
        "current_link_width": function.now[1],
        "max_link_width": function.best[1],
    }
    return "".join(f"{function.address}/{key}:{value}\n" for key, value in values.items())


def _links(board: Board, function: Fn) -> str:
    lines = [f"{function.address} -> ../../../devices/{board.path(function)}"]
    if function.driver:
        lines.append(f"{function.address}/driver -> ../../../../bus/pci/drivers/{function.driver}")
    if function.group:
        group = f"../../../../kernel/iommu_groups/{function.group}"
        lines.append(f"{function.address}/iommu_group -> {group}")
    if function.physfn:
        lines.append(f"{function.address}/physfn -> ../{function.address[:-1]}0")
    return "".join(line + "\n" for line in lines)


@lru_cache(maxsize=2048)
def _resource(function: Fn) -> str:
    sizes = dict(function.bars)
    lines = []
    for index in range(13):
        # Each bus has 256 GiB of its own; the large region lies in the upper half.
        start = (int(function.address[-7:-5], 16) << 38) + (1 << 37 if index == 2 else index << 33)
        size = sizes.get(index, 0)
        end, flags = (start + size - 1, 0x14220C) if size else (0, 0)
        values = f"0x{start if size else 0:016x} 0x{end:016x} 0x{flags:016x}"
        lines.append(f"{function.address}/resource:{values}\n")
    return "".join(lines)


def space(function: Fn, below: tuple[int, int] = (0, 0)) -> bytes:
    """Config space: the Express capability at 0x40; AER at 0x100, the others behind it.

    :param below: secondary and subordinate bus of a bridge.
    """
    data = bytearray(4096)
    struct.pack_into("<HHHH", data, 0, *function.ids, 0x0406, 0x0010)
    struct.pack_into("<I", data, 8, function.klass << 8)
    if function.klass == BRIDGE:
        bus = int(function.address[-7:-5], 16)
        struct.pack_into("<B9xBBB", data, 0x0E, 1, bus, *below)
    data[0x34] = 0x40
    _express(data, function)
    behind = []
    if function.acs is not None:
        behind.append((0x000D, struct.pack("<HH", function.acs_able, function.acs)))
    if function.ats is not None:
        behind.append((0x000F, struct.pack("<HH", 0, 0x8000 * function.ats)))
    if function.express.rebar is not None:
        index = max((bar for bar in function.bars if bar[0] in {1, 2}), default=(1, 0))[0]
        now, most = (size.bit_length() - 21 for size in function.express.rebar)
        sizes = ((2 << most) - (1 << 6)) << 4  # from 64 MiB on
        behind.append((0x0015, struct.pack("<II", sizes, index | 1 << 5 | now << 8)))
    if function.express.vfs is not None:
        behind.append((0x0010, struct.pack("<IHHHHH", 0, 0, 0, 0, function.express.vfs, 0)))
    at = 0x100
    struct.pack_into("<I", data, at, 0x0001 | 2 << 16)
    for number, (kind, body) in enumerate(behind):
        here = 0x148 + 0x18 * number
        struct.pack_into("<H", data, at + 2, struct.unpack_from("<H", data, at + 2)[0] | here << 4)
        struct.pack_into("<I", data, here, kind | 1 << 16)
        data[here + 4 : here + 4 + len(body)] = body
        at = here
    return bytes(data[: function.readable])


def _express(data: bytearray, function: Fn) -> None:
    """The PCI Express capability, version 2."""
    has = function.express
    kind = 0
    if function.klass == BRIDGE:
        kind = 4 if function.parent.startswith("pci") else 5 if function.upstream else 6
    control = _code(has.payload) << 5 | _code(has.read_request) << 12
    control |= has.relaxed_ordering << 4 | has.tags_8bit << 8
    struct.pack_into("<BBH", data, 0x40, 0x10, 0, 2 | kind << 4)
    struct.pack_into("<IH", data, 0x44, _code(has.payload_max) | 1 << 5 | 1 << 15, control)
    for offset, form, link in ((0x4C, "<I", function.best), (0x52, "<H", function.now)):
        struct.pack_into(form, data, offset, _SPEEDS.get(link[0].split()[0], 0) | link[1] << 4)
    able = has.completer << 16 | 1 << 17
    struct.pack_into("<IH", data, 0x64, able, has.tags_10bit << 12)
    target = _SPEEDS.get(has.target or function.best[0].split()[0], 0)
    struct.pack_into("<IH", data, 0x6C, 0x3E, target)  # speeds 1 to 5
    data[0x50] = has.aspm


_SPEEDS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5}


def _code(size: int) -> int:
    """128 bytes is 0, 256 is 1."""
    return size.bit_length() - 8


def od(data: bytes) -> str:
    """As ``od -A x -t x1`` prints it: lines equal to the one above are folded into "*"."""
    lines: list[str] = []
    above, folding = b"", False
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if row == above:
            lines += [] if folding else ["*"]
            folding = True
            continue
        lines.append(f"{at:06x}" + "".join(f" {byte:02x}" for byte in row))
        above, folding = row, False
    return "".join(line + "\n" for line in (*lines, f"{len(data):06x}"))


def switch(bus: int, complex_: int, numa: int, index: int) -> tuple[Fn, ...]:
    """A root port with a switch below it, and a GPU and an HCA below that."""
    root, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
    left, right = f"0000:{bus + 2:02x}:00.0", f"0000:{bus + 2:02x}:01.0"
    ports, broadcom = (0x8086, 0x352A), (0x1000, 0xC030)
    return (
        Fn(root, f"pci0000:{complex_:02x}", ports, BRIDGE, numa=numa, acs=0x01),
        Fn(up, root, broadcom, BRIDGE, numa=numa, upstream=True),
        Fn(left, up, broadcom, BRIDGE, numa=numa, acs=0x01),
        Fn(right, up, broadcom, BRIDGE, numa=numa, acs=0x01),
        Fn(
            f"0000:{bus + 3:02x}:00.0",
            left,
            (0x10DE, 0x2330),
            GPU_CLASS,
            "nvidia",
            group=str(10 + index),
            numa=numa,
            bars=((0, 16 * MIB), (2, 128 * GIB), (4, 32 * MIB)),
        ),
        hca(f"0000:{bus + 4:02x}:00.0", right, numa=numa, group=str(20 + index)),
    )


def hca(address: str, parent: str, *, numa: int = 0, group: str = "") -> Fn:
    return Fn(
        address, parent, (0x15B3, 0x1021), IB, "mlx5_core", group, numa, bars=((0, 32 * MIB),)
    )


GPUS = ("0000:18:00.0", "0000:9a:00.0")
HCAS = ("0000:19:00.0", "0000:9b:00.0", "0000:06:00.0")  # the last one is far from all GPUs
PORTS = ("0000:17:00.0", "0000:17:01.0", "0000:99:00.0", "0000:99:01.0")  # of the two switches

BOARD = Board(
    (
        Fn("0000:05:01.0", "pci0000:05", (0x8086, 0x352A), BRIDGE, acs=REDIRECTS),
        hca("0000:06:00.0", "0000:05:01.0", group="30"),
        *switch(0x15, 0x15, 0, 0),
        *switch(0x97, 0x97, 1, 1),
    )
)
# What a guest sees: everything on one flat bus, without bridges.
FLAT = Board(
    tuple(
        replace(each, parent="pci0000:00", group="", now=("Unknown", 0), best=("Unknown", 0))
        for each in BOARD.functions
        if each.address in {*GPUS, *HCAS}
    )
)
