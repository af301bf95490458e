"""PCI functions, their place in the tree, and what their config space says.

Sources: /sys/bus/pci/devices (Documentation/ABI/testing/sysfs-bus-pci); registers as in
include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from toolkit.compat.reader import maker
from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.facts.lines import blocks, named_lines, rows
from toolkit.facts.pci.config_space import AcsRegisters, Ats, ConfigSpace, as_read
from toolkit.facts.pci.pcie_caps import Express, Link, Resizable, read_express, read_resizable

NVIDIA, AMD, MELLANOX, AMAZON = 0x10DE, 0x1002, 0x15B3, 0x1D0F
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_POINTED = re.compile(r"(.*?) -> (.*)")


class Bar(Struct, frozen=True):
    """One memory region: index 0 to 5 and size in bytes."""

    index: int
    size: int


class Printed(Struct, frozen=True):
    """What ``lspci -vvv`` decoded of a config space; None or () for what it did not print."""

    capabilities: bool  # False: "<access denied>", or printed without -v
    express: Express | None = None
    acs: AcsRegisters | None = None
    ats: Ats | None = None
    resizable: tuple[Resizable, ...] = ()


class PciFunction(Struct, frozen=True):
    address: str  # "0000:19:00.0"
    vendor: int
    device: int
    klass: int  # 24 bits: 0x030200
    numa: int  # -1: not told
    # From the host bridge ("pci0000:15") down to the port above it; () where not known.
    parents: tuple[str, ...]
    driver: str  # "nvidia"; "" when none is bound
    group: str  # IOMMU group number; "" where there is none
    virtual: bool  # an SR-IOV virtual function
    now: Link
    best: Link
    bars: tuple[Bar, ...] = ()
    config: ConfigSpace | None = None  # for bridges, GPUs, HCAs and NVMe
    printed: Printed | None = None  # the same from lspci's text, where that is the source
    dead: bool = False  # it answers nothing: all its config space reads as ff, "rev ff"

    @property
    def is_gpu(self) -> bool:
        """A whole one that answers; the virtual functions of a vGPU host are for its guests."""
        return self.was_gpu and not self.dead

    @property
    def was_gpu(self) -> bool:
        """The same, though it may have fallen off the bus."""
        return self.vendor == NVIDIA and self.klass >> 8 in {0x0300, 0x0302} and not self.virtual

    @property
    def was_nvswitch(self) -> bool:
        """An NVSwitch on the node's own bus, though it may have fallen off."""
        return self.vendor == NVIDIA and self.klass >> 8 == 0x0680

    @property
    def is_amd_gpu(self) -> bool:
        """Display or accelerator (Instinct): reached by another stack, which nobody here judges."""
        return self.vendor == AMD and self.klass >> 8 in {0x0300, 0x0380, 0x1200}

    @property
    def fabric(self) -> str:
        """The network of this function whose GPUDirect is its own driver's; "" for any other."""
        if self.klass >> 8 == 0x0208:  # a fabric controller: hfi1
            return "Omni-Path carries GPU memory by PSM2 and OPX"
        slingshot = self.vendor == 0x17DB and self.klass >> 8 == 0x0200
        return "Slingshot carries GPU memory by libfabric's cxi" if slingshot else ""

    @property
    def is_bridge(self) -> bool:
        return self.klass >> 8 == 0x0604

    @property
    def may_be_hca(self) -> bool:
        """A network function that answers and that data/providers.toml knows."""
        return self.was_hca and not self.dead

    @property
    def was_hca(self) -> bool:
        """The same, though it may have fallen off the bus."""
        return self.klass >> 8 in {0x0200, 0x0207} and maker(self.vendor, self.device) is not None

    def express(self) -> Express | None:
        """The PCI Express registers; None for a conventional function.

        :raises NoEvidence: where they were not read; NeedsRoot where root could.
        """
        return self._printed().express if self.config is None else read_express(self.config)

    def acs_registers(self) -> AcsRegisters | None:
        """None where the function has no ACS capability; raises as ``express`` does."""
        return self._printed().acs if self.config is None else self.config.acs_registers()

    def ats(self) -> Ats | None:
        """None where the function has no ATS capability; raises as ``express`` does."""
        return self._printed().ats if self.config is None else self.config.ats()

    def resizable(self) -> tuple[Resizable, ...]:
        """Regions of choosable size; raises as ``express`` does."""
        return self._printed().resizable if self.config is None else read_resizable(self.config)

    def _printed(self) -> Printed:
        if self.printed is None:
            raise NoEvidence(f"config space of {self.address}: not part of this evidence")
        if not self.printed.capabilities:
            raise NeedsRoot(f"lspci: capabilities of {self.address} are not shown", hint=_AS_ROOT)
        return self.printed


_AS_ROOT = "sudo lspci -vvv -nn prints them: without root, or -vv, it has no DevCtl, LnkSta, ACSCtl"


class PciTree(Struct, frozen=True):
    functions: dict[str, PciFunction]  # by address, in bus order
    whole: bool = True  # False: an excerpt of lspci, which proves no absence
    # Chosen from the functions once, for almost every check asks for them; nobody says them.
    gpus: tuple[PciFunction, ...] = ()
    # Network functions that may be HCAs, whether or not a driver holds them.
    adapters: tuple[PciFunction, ...] = ()

    def __post_init__(self) -> None:
        functions = self.functions.values()
        force_setattr(self, "gpus", tuple(each for each in functions if each.is_gpu))
        force_setattr(self, "adapters", tuple(each for each in functions if each.may_be_hca))

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
    pointed = {link[1]: link[2] for link in rows(links, _POINTED, "PCI links")}
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


def spaces(config: str) -> tuple[tuple[str, bytes], ...]:
    """What is read of the config spaces in the frame ``pci-config``, with their addresses.

    :raises Unparsable: where they are not as od prints them.
    """
    return tuple(
        (address, as_read(ConfigSpace.parse(address, lines).data))
        for address, lines in blocks(config, "config")
    )


def with_config(tree: PciTree, spaces: tuple[tuple[str, bytes], ...]) -> PciTree:
    """The same functions with their config spaces."""
    found = {address: ConfigSpace(address, data) for address, data in spaces}
    return PciTree(
        {
            address: replace(each, config=found[address]) if address in found else each
            for address, each in tree.functions.items()
        }
    )


# The vendor's number and all that follows read as ones: nobody answers there.
_SILENT = re.compile(r"^@(\S+)\n0{6,7}(?: ff){16}$", re.MULTILINE)


def without_answer(config: str) -> frozenset[str]:
    """Addresses of functions whose config space says nothing."""
    if "000000 ff ff" not in config:
        return frozenset()
    return frozenset(_SILENT.findall(config))


def with_dead(tree: PciTree, silent: frozenset[str]) -> PciTree:
    """The same functions, these marked as dead."""
    if silent.isdisjoint(tree.functions):
        return tree
    functions = {a: replace(e, dead=a in silent) for a, e in tree.functions.items()}
    return replace(tree, functions=functions)


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
