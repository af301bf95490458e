"""What an NCCL_DEBUG=INFO log says, of any version from 2.4 to 2.30."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import filterfalse
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace


class Direction(StrEnum):
    SEND = "send"  # the HCA reads GPU memory
    RECEIVE = "receive"  # the HCA writes it


class Edge(Struct, frozen=True):
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


class NetDevice(Struct, frozen=True):
    """One entry of "NET/IB : Using [0]mlx5_0:1/RoCE"."""

    host: str
    index: int
    name: str
    link: str  # "IB", "RoCE"


class HcaState(Struct, frozen=True):
    """ "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'": whether the HCA could at all."""

    host: str
    index: int
    name: str
    enabled: bool


class Decision(Struct, frozen=True):
    """ "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 5)"."""

    host: str
    gpu: str  # as printed: an index, a bus id, or a rank by version
    hca: str  # likewise
    enabled: bool
    distance: int | None = None  # a number of that NCCL version alone
    limit: int | None = None


class Rank(Struct, frozen=True):
    """One GPU of the job."""

    host: str
    rank: int
    bus_id: str  # "0000:1b:00.0"; "" where the version does not print it


class NcclLog(Struct, frozen=True):
    version: str = ""  # "2.27.3"; "" where no line tells, or they tell of several
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
    versions: tuple[str, ...] = ()  # where they are several: jobs one after the other, in one file
    cuda: str = ""  # "12.4": the CUDA that it was built with; "" where no line tells
    speeds: tuple[tuple[str, int], ...] = ()  # Mb/s of each HCA by name: "NET/IB: [0] ... speed="
    failures: tuple[str, ...] = ()  # of calls of CUDA: "transport/nvls.cc:223: Cuda failure ..."
    # Each host's own part, by its name up to the first dot.
    parts: Mapping[str, NcclLog] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.edges, self.troubles, self.versions))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that speak in it, in order of their first word."""
        return tuple(self.parts)

    def of(self, host: str) -> NcclLog | None:
        """What one host said of itself; None where it does not speak.

        What goes for the whole job may have been said by another, or without a prefix.

        :param host: a name, of which the part before the first dot counts, as in NCCL.
        """
        own = self.parts.get(host.partition(".")[0])
        if own is None:
            return None
        return replace(
            own,
            version=self.version,
            versions=self.versions,
            cuda=self.cuda,
            networks=own.networks or self.networks,
            settings=own.settings or self.settings,
        )


def network_edges(log: NcclLog) -> Iterator[Edge]:
    """The point-to-point channels: what GPUDirect RDMA is judged by."""
    return (edge for edge in log.edges if not edge.collective)


# Reading an NCCL_DEBUG=INFO log of any version from 2.4 to 2.30.
# Sources: the INFO and WARN calls of NVIDIA/nccl at its tags: src/transport/net.cc and
# coll_net.cc, src/graph/paths.cc and topo.cc, src/transport/net_ib*. A line may carry any
# prefix or none: srun, mpirun, Ray and humans all change it. What another writer has torn is
# counted, not guessed at.
_HOST = re.compile(
    r"(?<![A-Za-z0-9_.-])([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:\.[A-Za-z0-9_.-]*)?:\d+:\d+ \[-?\d+\] "
)
# What others wrap a line in: colours, Ray's count of equal lines, a container engine's JSON.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_REPEATED = re.compile(r"\[repeated \d+x across cluster\].*$")
_NOTED = re.compile(r"(?<!\s)(?:\s*\[\w+:[\d, ]+\])+\s*$")  # by a document's tool: "[cite: 1734]"
_IN_JSON = re.compile(r'\{"log":"(.*?)(?:\\r)?\\n?"[,}]')
LONGEST = 4096  # of a line that is looked at: NCCL's own are shorter than 1024
_SAID = re.compile(r"NCCL (?:INFO|WARN) (.*)")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)(?:\+cuda(\d+\.\d+))?")
_NETWORK = re.compile(r"Using network (.+?)\s*$")
_DEVICES = re.compile(r"NET/IB ?: Using(.*?)(?:; OOB|$)")
_DEVICE = re.compile(r"\[(\d+)\]([^\s:\[\]]+):\d+/([^\s\[]+)")
_SPEED = re.compile(r"NET/IB ?: \[\d+\] ([^\s:]+):\w+:\d+/\w+ .*?\bspeed=(\d+)")
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
    r"(?:(?:Channel|Ring) \d+(?:/\d+)? : |^\s*)(\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])? "
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
        r"Failed to open libibverbs\.so.*",
        r"NET/OFI .*\b(?:disabling GDR|GDR disabled)\b",
        r"network \S.* not found",
        r"Got completion .*",
        # Not those of taking down: the device may be gone by then.
        r"Call to ibv_(?!get_async|ack|destroy|dereg|dealloc|close|free)\w+ failed.*",
        r"NET/\S+ ?: .*[Aa]sync (?:fatal )?event.*(?:error|catastrophic).*",
        r"NCCL WARN NET/OFI .*(?:Unable to|[Cc]ould(?:n't| not)|[Ff]ailed|[Ee]rror).*",
        r"Unable to use GIN: .*",
        r"HINT: .*ACS.*",
    )
)
# What ends no job that has another network than sockets.
_ABSENT = re.compile(r".*(?:No device found|Failed to open libibverbs)").match
_CUDA_FAILED = re.compile(r"(?:(\S+\.(?:cc|cu|h):\d+) )?NCCL WARN (C(?:uda|UDA) failure .*)")
_NETWORK_CHANNEL = re.compile(r"via (?:NET|COLLNET)/")


# A line without any of these is of no interest: of a job's log most have none.
_WORDS = (
    *("NCCL", "via ", "GPU Direct", "NET/", "nranks", "Using network", "DMA-BUF"),
    *("Got comp", "ibv_", "GIN:", "HINT:", " not found", "libibverbs"),
)


@lru_cache(maxsize=2)
def parse_nccl_log(text: str) -> NcclLog:
    """Read a whole log; lines that are not NCCL's are passed over.

    A log is read once for all the nodes of its job.
    """
    readers: dict[str, _Reader] = {}
    for found in re.finditer(r"[^\n]+", text):
        line = found[0] if found.end() - found.start() <= LONGEST else found[0][:LONGEST]
        if not any(word in line for word in _WORDS):
            continue
        line = _unwrapped(line)
        spoken = _HOST.search(line)
        host = spoken[1] if spoken else ""
        if host not in readers:
            readers[host] = _Reader(host)
        readers[host].line(line)
    return _joined([each.read() for each in readers.values()], tuple(readers))


def _unwrapped(line: str) -> str:
    """The line as NCCL printed it, but for what stands before it."""
    if line.startswith('{"log":"'):
        inner = _IN_JSON.match(line)
        line = inner[1] if inner else line
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    if "[repeated " in line:
        line = _REPEATED.sub("", line).rstrip()
    if line.endswith("]"):
        line = _NOTED.sub("", line)
    return line.rstrip("\r")


def _joined(logs: list[NcclLog], hosts: tuple[str, ...]) -> NcclLog:
    """What all have said, with each host's own part; what no prefix claims goes to each."""

    def every(name: str) -> Any:  # noqa: ANN401 of fields of several types
        return tuple(dict.fromkeys(each for log in logs for each in getattr(log, name)))

    if set(every("networks")) - {"Socket"}:
        logs = [replace(log, troubles=tuple(filterfalse(_ABSENT, log.troubles))) for log in logs]
    versions = every("versions")
    nobody = next((log for log, host in zip(logs, hosts, strict=True) if not host), NcclLog())
    return NcclLog(
        versions[0] if len(versions) == 1 else "",
        every("networks"),
        every("devices"),
        every("hcas"),
        every("decisions"),
        tuple(each for log in logs for each in log.edges),
        every("ranks"),
        tuple(dict(every("settings")).items()),
        any(each.dmabuf for each in logs),
        every("troubles"),
        sum(each.torn for each in logs),
        sum(each.intra for each in logs),
        versions if len(versions) > 1 else (),
        next((each.cuda for each in logs if each.cuda), ""),
        every("speeds"),
        every("failures"),
        {
            host: replace(log, torn=log.torn + nobody.torn)
            for log, host in zip(logs, hosts, strict=True)
            if host
        },
    )


def bus_address(bus_id: str) -> str:
    """NCCL's bus id as sysfs writes it: "1b000" is 0000:1b:00.0, "f01000" domain 000f.

    From the right: function (4 bits), device (8 bits of which 5 count), bus (8), domain.
    """
    value = int(bus_id, 16)
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF:x}"


class _Reader:
    """What one host says."""

    def __init__(self, host: str) -> None:
        self.host = host
        # By field of NcclLog what counts once, in the order told.
        self.once: dict[str, dict[Hashable, None]] = defaultdict(dict)
        self.cuda = ""
        self.edges: list[Edge] = []
        self.settings: dict[str, str] = {}
        self.speeds: dict[str, int] = {}
        self.dmabuf = False
        self.torn = self.intra = 0

    def line(self, line: str) -> None:
        if "via " in line:
            self._channel(line)
            return
        if version := _VERSION.search(line):
            self.once["versions"][version[1]] = None
            self.cuda = self.cuda or version[2] or ""
        if "GPU Direct RDMA" in line:
            self._direct(line)
        elif "NET/IB" in line:
            self._hcas(line)
        elif found := _NETWORK.search(line):
            self.once["networks"][found[1]] = None
        elif found := _RANK.search(line):
            bus_id = bus_address(found[2]) if found[2] else ""
            self.once["ranks"][Rank(self.host, int(found[1]), bus_id)] = None
        elif found := _SETTING.search(line):
            self.settings[found[1]] = found[2]
        elif "DMA-BUF is available on GPU device" in line:
            self.dmabuf = True
        self._trouble(line)

    def _hcas(self, line: str) -> None:
        if found := _DEVICES.search(line):
            for index, name, link in _DEVICE.findall(found[1]):
                self.once["devices"][NetDevice(self.host, int(index), name, link)] = None
        elif found := _SPEED.search(line):
            self.speeds[found[1]] = int(found[2])

    def _channel(self, line: str) -> None:
        if "NET/" not in line:
            self.intra += _INTRA.search(line) is not None
        elif found := _EDGE.search(line):
            self.edges.append(_edge(self.host, found))
        elif found := _COLLECTIVE.search(line):
            way, device, direct = Direction(found[2]), int(found[4]), bool(found[5])
            pci = bool(found[6])
            edge = Edge(self.host, int(found[1]), -1, way, found[3], device, direct, pci)
            self.edges.append(replace(edge, collective=True))
        elif _NETWORK_CHANNEL.search(line):
            self.torn += 1

    def _direct(self, line: str) -> None:
        if found := _HCA.search(line) or _OLD_HCA.search(line):
            state = HcaState(self.host, int(found[2]), found[3], found[1] == "Enabled")
            self.once["hcas"][state] = None
        elif found := _PAIR.search(line):
            far = _DISTANCE.search(found[4])
            numbers = (int(far[1]), int(far[2])) if far else (None, None)
            decision = Decision(self.host, found[2], found[3], found[1] == "Enabled", *numbers)
            self.once["decisions"][decision] = None

    def _trouble(self, line: str) -> None:
        if any(shape.search(line) for shape in _TROUBLES):
            said = _SAID.search(line)
            self.once["troubles"][(said[1] if said else line).strip()[:200]] = None
        elif failed := _CUDA_FAILED.search(line):
            self.once["failures"][": ".join(filter(None, failed.groups())).strip()[:200]] = None

    def read(self) -> NcclLog:
        # Any: each has the type of its field.
        once: dict[str, Any] = {name: tuple(values) for name, values in self.once.items()}
        return NcclLog(
            **once,
            edges=tuple(self.edges),
            settings=tuple(self.settings.items()),
            speeds=tuple(self.speeds.items()),
            cuda=self.cuda,
            dmabuf=self.dmabuf,
            torn=self.torn,
            intra=self.intra,
        )


def _edge(host: str, found: re.Match[str]) -> Edge:
    one, other, direction = int(found[1]), int(found[2]), Direction(found[3])
    # "7 -> 0 [receive]" is printed by 0, "0 -> 7 [send]" by 0 as well.
    rank, peer = (one, other) if direction is Direction.SEND else (other, one)
    proxy = int(found[6]) if found[6] else None
    gdr, pci = bool(found[7]), bool(found[8])
    return Edge(host, rank, peer, direction, found[4], int(found[5]), gdr, pci, proxy)
