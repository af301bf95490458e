"""The tree that ``lspci -t`` draws, with or without -v and -nn.

    -+-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 14a4
     |           +-01.1-[01]--+-00.0  NVIDIA Corporation AD102GL [RTX 6000 Ada Generation]
     |           |            \\-00.1  NVIDIA Corporation AD102 High Definition Audio Controller
     \\-[0000:e0]-+-00.0  ...

It has no classes, no NUMA nodes and no links: what a function is follows from its name.
Source: pciutils, ls-tree.c.
"""

from __future__ import annotations

import re

from toolkit.errors import Unparsable
from toolkit.facts.pci.functions import MELLANOX, NVIDIA, PciFunction, PciTree
from toolkit.facts.pci.lspci import vendor_of
from toolkit.facts.pci.pcie_caps import Link

_SOURCE = "lspci -t"
_BUS = re.compile(r"\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_FUNCTION = re.compile(r"([0-9a-f]{2}\.[0-7])")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_NO_GPU = re.compile(r"Audio|USB|UCSI|NVSwitch|Bridge|Root Port")
_NO_HCA = re.compile(r"DMA|Switch|Bridge|SoC|Management|Crypto|Flash Recovery", re.IGNORECASE)
_NONE = Link(0.0, 0)

Bus = tuple[str, int | None, tuple[str, ...]]  # domain, number, what stands above it


def parse_lspci_tree(text: str) -> PciTree:
    """Read the drawing.

    :raises Unparsable: at a line whose branch does not continue one above it.
    """
    functions: dict[str, PciFunction] = {}
    branches: dict[int, Bus] = {1: ("0000", None, ())}  # by column
    for number, line in enumerate(text.replace("\r", "").split("\n"), start=1):
        if not line.strip():
            continue
        for function in _line(line, number, branches):
            functions[function.address] = function
    if not functions:
        raise Unparsable(_SOURCE, text.split("\n", 1)[0])
    return PciTree(dict(sorted(functions.items())), whole="0000:00:00.0" in functions)


def _line(line: str, number: int, branches: dict[int, Bus]) -> list[PciFunction]:
    """The functions of one line, outermost first; ``branches`` learns where it forks."""
    start = re.match(r"-|[ |]*(?=[+\\-])", line)
    at = start.end() if start else len(line)
    if at not in branches:
        raise Unparsable(_SOURCE, line, number)
    bus, found = branches[at], list[PciFunction]()
    for column in [known for known in branches if known > at]:
        del branches[column]
    if line[at : at + 1] in {"+", "\\"}:
        at += 1
    while at < len(line):
        if line[at] == "-":
            at += 1
        elif line[at] == "+":
            branches[at] = bus
            at += 1
        elif opened := _BUS.match(line, at):
            bus = _below(bus, opened, found)
            at = opened.end()
        elif (place := _FUNCTION.match(line, at)) and bus[1] is not None:
            rest = line[place.end() :]
            address = f"{bus[0]}:{bus[1]:02x}:{place[1]}"
            found.append(_function(address, bus[2], rest))
            at = place.end() if rest.startswith("-[") else len(line)
        else:
            raise Unparsable(_SOURCE, line, number)
    return found


def _below(bus: Bus, opened: re.Match[str], found: list[PciFunction]) -> Bus:
    domain, number = opened[1] or bus[0], int(opened[2], 16)
    if bus[1] is None:
        return domain, number, (f"pci{domain}:{number:02x}",)
    return domain, number, (*bus[2], found[-1].address)


def _function(address: str, parents: tuple[str, ...], rest: str) -> PciFunction:
    name = rest.strip()
    vendor, device, klass = vendor_of(name), 0, 0
    if ids := _IDS.search(name):
        vendor, device = int(ids[1], 16), int(ids[2], 16)
    if rest.startswith("-["):
        klass = 0x060400
    elif vendor == NVIDIA and not _NO_GPU.search(name):
        klass = 0x030200
    elif vendor == MELLANOX and not _NO_HCA.search(name):
        klass = 0x020000
    virtual = "Virtual Function" in name
    return PciFunction(address, vendor, device, klass, -1, parents, "", "", virtual, _NONE, _NONE)
