"""PCI functions, their place in the tree, and what their config space says.

Sources: /sys/bus/pci/devices (Documentation/ABI/testing/sysfs-bus-pci); registers as in
include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.facts.config_space import ConfigSpace
from toolkit.facts.lines import blocks, named_lines

NVIDIA, MELLANOX = 0x10DE, 0x15B3
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Link:
    """Speed in GT/s, width in lanes; 0 where the function does not say."""

    speed: float
    width: int

    def __str__(self) -> str:
        return f"{self.speed:g} GT/s x{self.width}"


@dataclass(frozen=True, slots=True)
class Bar:
    """One memory region: index 0 to 5 and size in bytes."""

    index: int
    size: int


@dataclass(frozen=True, slots=True)
class PciFunction:
    address: str  # "0000:19:00.0"
    vendor: int
    device: int
    klass: int  # 24 bits: 0x030200
    numa: int  # -1: not told
    parents: tuple[str, ...]  # from the host bridge ("pci0000:15") down to the port above it
    driver: str  # "nvidia"; "" when none is bound
    group: str  # IOMMU group number; "" where there is none
    virtual: bool  # an SR-IOV virtual function
    now: Link
    best: Link
    bars: tuple[Bar, ...] = ()
    config: ConfigSpace | None = None  # for bridges, GPUs, HCAs and NVMe

    @property
    def is_gpu(self) -> bool:
        return self.vendor == NVIDIA and self.klass >> 8 in {0x0300, 0x0302}

    @property
    def is_bridge(self) -> bool:
        return self.klass >> 8 == 0x0604

    @property
    def may_be_hca(self) -> bool:
        """A Mellanox network function: InfiniBand or Ethernet class."""
        return self.vendor == MELLANOX and self.klass >> 8 in {0x0200, 0x0207}


@dataclass(frozen=True, slots=True)
class PciTree:
    functions: dict[str, PciFunction]  # by address, in bus order

    @property
    def gpus(self) -> tuple[PciFunction, ...]:
        return tuple(each for each in self.functions.values() if each.is_gpu)

    @property
    def adapters(self) -> tuple[PciFunction, ...]:
        """Network functions that may be HCAs, whether or not a driver holds them."""
        return tuple(each for each in self.functions.values() if each.may_be_hca)

    def bridges_above(self, function: PciFunction) -> tuple[PciFunction, ...]:
        """Root port first."""
        return tuple(self.functions[up] for up in function.parents if up in self.functions)


def parse_pci(attributes: str, links: str, resources: str, config: str) -> PciTree:
    """Put the four PCI frames together; ``resources`` and ``config`` may be empty.

    :raises Unparsable: where a value is not of the form that the kernel documents.
    """
    values: dict[str, dict[str, str]] = {}
    for path, value in named_lines(attributes, "/sys/bus/pci/devices"):
        address, _, attribute = path.partition("/")
        values.setdefault(address, {})[attribute] = value.strip()
    pointed = _links(links)
    regions: dict[str, list[str]] = {}
    for path, line in named_lines(resources, "resource"):
        regions.setdefault(path.removesuffix("/resource"), []).append(line)
    bars = {address: _bars(address, lines) for address, lines in regions.items()}
    spaces = {a: ConfigSpace.parse(a, lines) for a, lines in blocks(config, "config")}
    return PciTree(
        {
            address: _function(address, found, pointed, bars.get(address, ()), spaces.get(address))
            for address, found in sorted(values.items())
        }
    )


def _function(
    address: str,
    values: dict[str, str],
    pointed: dict[str, str],
    bars: tuple[Bar, ...],
    config: ConfigSpace | None,
) -> PciFunction:
    place = pointed.get(address, "")
    parents = tuple(
        part for part in place.split("/")[:-1] if part.startswith("pci") or _ADDRESS.fullmatch(part)
    )
    try:
        return PciFunction(
            address,
            int(values["vendor"], 16),
            int(values["device"], 16),
            int(values["class"], 16),
            int(values.get("numa_node", "-1")),
            parents,
            pointed.get(f"{address}/driver", "").rpartition("/")[2],
            pointed.get(f"{address}/iommu_group", "").rpartition("/")[2],
            f"{address}/physfn" in pointed,
            _link(values, "current"),
            _link(values, "max"),
            bars,
            config,
        )
    except (KeyError, ValueError) as why:
        raise Unparsable(f"PCI function {address}", f"{why}") from why


def _links(text: str) -> dict[str, str]:
    pointed: dict[str, str] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        name, arrow, target = line.partition(" -> ")
        if not arrow:
            raise Unparsable("PCI links", line, number)
        pointed[name] = target
    return pointed


def _link(values: dict[str, str], which: str) -> Link:
    """ "32.0 GT/s PCIe" and "16"; an unknown speed is written "Unknown", a dead link "x0" or 63."""
    speed = re.match(r"[\d.]+", values.get(f"{which}_link_speed", ""))
    width = values.get(f"{which}_link_width", "0")
    lanes = int(width) if width.isdecimal() and int(width) < 63 else 0
    return Link(float(speed[0]) if speed else 0.0, lanes)


_MEMORY = 0x200  # IORESOURCE_MEM


def _bars(address: str, lines: list[str]) -> tuple[Bar, ...]:
    """Each line is ``start end flags``; the first six are the BARs. A 64-bit BAR takes two."""
    bars = []
    for index, line in enumerate(lines[:6]):
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError as why:
            raise Unparsable(f"resources of {address}", line, index + 1) from why
        if end and flags & _MEMORY:
            bars.append(Bar(index, end - start + 1))
    return tuple(bars)
