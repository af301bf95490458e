"""What an NCCL_DEBUG=INFO log says, of any version from 2.4 to 2.30.

Sources: the INFO and WARN calls of NVIDIA/nccl at its tags: src/transport/net.cc and
coll_net.cc, src/graph/paths.cc and topo.cc, src/transport/net_ib*. A line may carry any
prefix or none: srun, mpirun, Ray and humans all change it. What another writer has torn is
counted, not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    SEND = "send"  # the HCA reads GPU memory
    RECEIVE = "receive"  # the HCA writes it


@dataclass(frozen=True, slots=True)
class Edge:
    """One channel over the network, in one direction."""

    host: str  # who printed it; "" where the prefix is gone
    rank: int  # the rank on that host
    peer: int  # the rank at the other end; -1 for a collective network
    direction: Direction
    network: str  # "IB", "IBext", "AWS Libfabric", "SHARP"
    device: int  # index of the network device, as in NetDevice
    gdr: bool  # GPUDirect RDMA is used
    pci: bool = False  # by the PCIe mapping of a C2C platform
    proxy: int | None = None  # PXN: the rank whose GPU stands between
    collective: bool = False  # COLLNET: in-network reduction


@dataclass(frozen=True, slots=True)
class NetDevice:
    """One entry of "NET/IB : Using [0]mlx5_0:1/RoCE"."""

    host: str
    index: int
    name: str
    link: str  # "IB", "RoCE"


@dataclass(frozen=True, slots=True)
class HcaState:
    """ "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'": whether the HCA could at all."""

    host: str
    index: int
    name: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """ "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 5)"."""

    host: str
    gpu: str  # as printed: an index, a bus id, or a rank by version
    hca: str  # likewise
    enabled: bool
    distance: int | None = None  # a number of that NCCL version alone
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """One GPU of the job."""

    host: str
    rank: int
    bus_id: str  # "0000:1b:00.0"; "" where the version does not print it


@dataclass(frozen=True, slots=True)
class NcclLog:
    version: str = ""  # "2.27.3"; "" where no line tells
    networks: tuple[str, ...] = ()  # "Using network IB", each once
    devices: tuple[NetDevice, ...] = ()
    hcas: tuple[HcaState, ...] = ()
    decisions: tuple[Decision, ...] = ()
    edges: tuple[Edge, ...] = ()
    ranks: tuple[Rank, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()  # NCCL_* "set by environment"
    dmabuf: bool = False  # "DMA-BUF is available on GPU device"
    troubles: tuple[str, ...] = ()  # lines that tell of a failing network, without prefix
    torn: int = 0  # lines that name a network channel and cannot be read
    intra: int = 0  # channels within a node

    @property
    def told(self) -> bool:
        """Whether anything in it is NCCL's."""
        return bool(
            self.version or self.networks or self.devices or self.hcas or self.settings
        ) or bool(self.decisions or self.edges or self.ranks or self.troubles or self.intra)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that speak in it, in order of their first word."""
        spoken = [each.host for each in self.devices]
        spoken += [each.host for each in self.ranks]
        spoken += [each.host for each in self.edges]
        return tuple(dict.fromkeys(host for host in spoken if host))

    def of(self, host: str) -> NcclLog:
        """What one host said of its own network."""
        return NcclLog(
            self.version,
            self.networks,
            tuple(each for each in self.devices if each.host == host),
            tuple(each for each in self.hcas if each.host == host),
            tuple(each for each in self.decisions if each.host == host),
            tuple(each for each in self.edges if each.host == host),
            tuple(each for each in self.ranks if each.host == host),
            self.settings,
            self.dmabuf,
            self.troubles,
            self.torn,
            self.intra,
        )


_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*):\d+:\d+ \[-?\d+\] ")
_SAID = re.compile(r"NCCL (?:INFO|WARN) (.*)")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_NETWORK = re.compile(r"Using network (.+?)\s*$")
_DEVICES = re.compile(r"NET/IB ?: Using(.*?)(?:; OOB|$)")
_DEVICE = re.compile(r"\[(\d+)\]([^\s:\[\]]+):\d+/([^\s\[]+)")
_HCA = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for HCA (\d+) '([^']*)'")
_OLD_HCA = re.compile(
    r"GPU Direct RDMA (Disabled) for (?:GPU \d+\[\d+\] / )?HCA (\d+) '([^']*)' \(no module"
)
_PAIR = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU ([\w\[\]/-]+)[ :]*/ ?HCA ([\w/-]+)(.*)"
)
_DISTANCE = re.compile(r"distance (\d+) (?:<=|<|>=|>) (\d+)")
_GDR = r"(/GDRDMA)?(\(PCI\))?(?:/Shared)?(?:/Flush)?\s*$"
_EDGE = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])? "
    r"\[(send|receive)\] via NET/(.+)/(\d+)(?:\((\d+)\))?" + _GDR
)
_COLLECTIVE = re.compile(
    r"Coll(?:Net)? \d+(?:/\d+)? : (\d+) \[(send|receive)\] via COLLNET/(.+)/(\d+)" + _GDR
)
_RANK = re.compile(
    r"\brank (\d+) nranks \d+ cudaDev \d+ (?:nvmlDev \d+ )?(?:busId ([0-9a-fA-F]+))?"
)
_SETTING = re.compile(r"\b(NCCL_[A-Z0-9_]+) (?:set by environment to|set to) (\S+?)\.?\s*$")
_INTRA = re.compile(r" via (?:P2P|SHM|direct shared memory|NVLS)")
_TROUBLES = tuple(
    re.compile(shape)
    for shape in (
        r"NET/IB ?: No device found",
        r"network \S.* not found",
        r"Got completion .*",
        r"Call to ibv_reg_\w+ failed.*",
        r"Unable to use GIN: .*",
        r"HINT: .*ACS.*",
    )
)
_NETWORK_CHANNEL = re.compile(r"via (?:NET|COLLNET)/")


def parse_nccl_log(text: str) -> NcclLog:
    """Read a whole log; lines that are not NCCL's are passed over."""
    reader = _Reader()
    for line in text.split("\n"):
        reader.line(line.rstrip("\r"))
    return reader.read()


def bus_address(bus_id: str) -> str:
    """NCCL's bus id as sysfs writes it: "1b000" is 0000:1b:00.0, "f01000" domain 000f.

    From the right: function (4 bits), device (8 bits of which 5 count), bus (8), domain.
    """
    value = int(bus_id, 16)
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF:x}"


class _Reader:
    def __init__(self) -> None:
        self.version = ""
        self.networks: dict[str, None] = {}
        self.devices: dict[NetDevice, None] = {}
        self.hcas: dict[HcaState, None] = {}
        self.decisions: dict[Decision, None] = {}
        self.edges: list[Edge] = []
        self.ranks: dict[Rank, None] = {}
        self.settings: dict[str, str] = {}
        self.troubles: dict[str, None] = {}
        self.dmabuf = False
        self.torn = self.intra = 0

    def line(self, line: str) -> None:
        host = found[1] if (found := _HOST.search(line)) else ""
        if version := _VERSION.search(line):
            self.version = self.version or version[1]
        if "via " in line:
            self._channel(host, line)
            return
        if "GPU Direct RDMA" in line:
            self._direct(host, line)
        elif found := _DEVICES.search(line):
            for index, name, link in _DEVICE.findall(found[1]):
                self.devices[NetDevice(host, int(index), name, link)] = None
        elif found := _NETWORK.search(line):
            self.networks[found[1]] = None
        elif found := _RANK.search(line):
            self.ranks[Rank(host, int(found[1]), bus_address(found[2]) if found[2] else "")] = None
        elif found := _SETTING.search(line):
            self.settings[found[1]] = found[2]
        elif "DMA-BUF is available on GPU device" in line:
            self.dmabuf = True
        self._trouble(line)

    def _channel(self, host: str, line: str) -> None:
        if found := _EDGE.search(line):
            self.edges.append(_edge(host, found))
        elif found := _COLLECTIVE.search(line):
            self.edges.append(
                Edge(
                    host,
                    int(found[1]),
                    -1,
                    Direction(found[2]),
                    found[3],
                    int(found[4]),
                    gdr=bool(found[5]),
                    pci=bool(found[6]),
                    collective=True,
                )
            )
        elif _NETWORK_CHANNEL.search(line):
            self.torn += 1
        elif _INTRA.search(line):
            self.intra += 1

    def _direct(self, host: str, line: str) -> None:
        if found := _HCA.search(line) or _OLD_HCA.search(line):
            self.hcas[HcaState(host, int(found[2]), found[3], found[1] == "Enabled")] = None
        elif found := _PAIR.search(line):
            far = _DISTANCE.search(found[4])
            numbers = (int(far[1]), int(far[2])) if far else (None, None)
            decision = Decision(host, found[2], found[3], found[1] == "Enabled", *numbers)
            self.decisions[decision] = None

    def _trouble(self, line: str) -> None:
        if any(shape.search(line) for shape in _TROUBLES):
            said = _SAID.search(line)
            self.troubles[(said[1] if said else line).strip()[:200]] = None

    def read(self) -> NcclLog:
        return NcclLog(
            self.version,
            tuple(self.networks),
            tuple(self.devices),
            tuple(self.hcas),
            tuple(self.decisions),
            tuple(self.edges),
            tuple(self.ranks),
            tuple(self.settings.items()),
            self.dmabuf,
            tuple(self.troubles),
            self.torn,
            self.intra,
        )


def _edge(host: str, found: re.Match[str]) -> Edge:
    one, other, direction = int(found[1]), int(found[2]), Direction(found[3])
    # "7 -> 0 [receive]" is printed by 0, "0 -> 7 [send]" by 0 as well.
    rank, peer = (one, other) if direction is Direction.SEND else (other, one)
    return Edge(
        host,
        rank,
        peer,
        direction,
        found[4],
        int(found[5]),
        gdr=bool(found[7]),
        pci=bool(found[8]),
        proxy=int(found[6]) if found[6] else None,
    )


def network_edges(log: NcclLog) -> Iterator[Edge]:
    """The point-to-point channels: what GPUDirect RDMA is judged by."""
    return (edge for edge in log.edges if not edge.collective)
