"""A topology as NCCL dumps it (NCCL_TOPO_DUMP_FILE) or is given it (NCCL_TOPO_FILE).

Dumps have gpu, nic and net elements below the pci ones; files written by hand may have
pci elements of a class alone, with invented addresses. Each pci element that holds others
is one switch: NCCL leaves out downstream ports. Between devices of one cpu element NCCL
knows one class, PHB, whether or not they share a root complex.

Sources: NVIDIA/nccl src/graph/xml.cc, topo.cc and paths.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from msgspec import Struct

from toolkit.compat.reader import maker
from toolkit.errors import Unparsable
from toolkit.facts.pci.pcie_caps import Link
from toolkit.facts.pci.topology import Distance

_SOURCE = "NCCL topology"
_NO_LINK = Link(0.0, 0)
_GPU_CLASSES, _NET_CLASSES = ("0x0300", "0x0302"), ("0x0200", "0x0207")
# The Broadcom switches whose inner partitions NCCL takes for the one chip that they are.
_FLATTENED = {("0x1000", "0xc010"), ("0x1000", "0xc030")}


class Device(Struct, frozen=True):
    """One GPU or HCA."""

    name: str  # "GPU0", "mlx5_0"; the address in files that do not name devices
    address: str  # as written; static files invent them
    cpu: str  # NUMA id of the cpu element
    switches: tuple[str, ...]  # addresses, from the CPU down
    gdr: bool | None = None  # what NCCL found when it wrote the dump
    c2c: bool = False  # NVLink-C2C joins it to its CPU
    link: Link = _NO_LINK  # its own, as written
    gbits: float = 0.0  # of its port; 0 where not told
    ids: tuple[int, int] = (0, 0)  # vendor and device; 0 where not told


class NcclTopology(Struct, frozen=True):
    gpus: tuple[Device, ...]
    hcas: tuple[Device, ...]
    processor: tuple[str, int, int] = ("", 0, 0)  # vendor, family and model; of dumps of live nodes

    def distance(self, gpu: Device, hca: Device) -> Distance:
        """PIX, PXB, P2C, PHB or SYS, as NCCL would have it."""
        if gpu.cpu != hca.cpu:
            return Distance.SYS
        if not (gpu.switches and hca.switches and gpu.switches[0] == hca.switches[0]):
            return Distance.P2C if gpu.c2c else Distance.PHB
        return Distance.PIX if gpu.switches == hca.switches else Distance.PXB


def parse_nccl_xml(text: str) -> NcclTopology:
    """Read a dump or a static file.

    :raises Unparsable: not XML, not a system, or a device without its address.
    """
    try:
        system = ElementTree.fromstring(text.strip())  # noqa: S314 expat bounds entity expansion
    except (ElementTree.ParseError, ValueError) as why:  # ValueError: bytes that are no UTF-8
        raise Unparsable(_SOURCE, str(why)) from why
    if system.tag != "system":
        raise Unparsable(_SOURCE, f"<{system.tag}>")
    gpus: list[Device] = []
    hcas: list[Device] = []
    try:
        for cpu in system.iter("cpu"):
            for each, switches in _leaves(cpu, (), None):
                found = _devices(each, cpu.get("numaid", ""), switches)
                (gpus if _is_gpu(each) else hcas).extend(found)
    except RecursionError as why:
        raise Unparsable(_SOURCE, "<pci> within <pci>, deeper than any machine") from why
    cpu = next(iter(system.iter("cpu")), Element("cpu"))
    family, model = (int(_number(cpu.get(name, ""))) for name in ("familyid", "modelid"))
    return NcclTopology(tuple(gpus), tuple(hcas), (cpu.get("vendor", ""), family, model))


def _leaves(
    above: Element, switches: tuple[str, ...], switch: Element | None
) -> Iterator[tuple[Element, tuple[str, ...]]]:
    for each in above:
        leaf = each.tag == "pci" and each.find("pci") is None
        if leaf or each.tag == "nic":
            yield each, switches
        elif each.tag == "pci":
            inner = switches if _one_chip(switch, each) else (*switches, _address(each))
            yield from _leaves(each, inner, each)


def _one_chip(outer: Element | None, inner: Element) -> bool:
    if outer is None:
        return False
    ids = {(each.get("vendor", ""), each.get("device", "")) for each in (outer, inner)}
    return len(ids) == 1 and ids <= _FLATTENED


def _address(pci: Element) -> str:
    address = pci.get("busid", "")
    if not address:
        raise Unparsable(_SOURCE, "<pci> without busid")
    return address.lower()


def _is_gpu(each: Element) -> bool:
    if each.find("gpu") is not None:
        return True
    maker = each.get("vendor", "")
    return each.get("class", "")[:6] in _GPU_CLASSES and maker in {"", "0x10de"}


def _devices(each: Element, cpu: str, switches: tuple[str, ...]) -> Iterator[Device]:
    address = _address(each) if each.tag == "pci" else ""
    gpu = each.find("gpu")
    if _is_gpu(each):
        name = f"GPU{gpu.get('dev', '')}" if gpu is not None else address
        joined = gpu is not None and gpu.find("c2c") is not None
        yield Device(name, address, cpu, switches, _gdr(gpu), joined, _link(each), 0.0, _ids(each))
        return
    nets = list(each.iter("net"))
    for net in nets:
        # NET/Socket: an ordinary interface, whose port is 0.
        if not (net.get("port") == "0" and net.get("maxconn") == "65536"):
            name = net.get("name", "") or address
            speed = _number(net.get("speed", "")) / 1000  # Mb/s
            known = (_gdr(net), False, _link(each), speed, _ids(each))
            yield Device(name, address or name, cpu, switches, *known)
    named = not each.get("vendor") or maker(*_ids(each)) is not None
    named = named and each.get("class", "")[:6] in _NET_CLASSES
    if named and not nets and each.find("nic") is None:
        bare = (None, False, _link(each), 0.0, _ids(each))
        yield Device(address, address, cpu, switches, *bare)


def _link(pci: Element) -> Link:
    """ "16 GT/s" or "32.0 GT/s PCIe"; dumps of guests leave it empty."""
    speed = _number(pci.get("link_speed", "").partition(" ")[0])
    return Link(speed, int(_number(pci.get("link_width", ""))))


def _ids(pci: Element) -> tuple[int, int]:
    words = [pci.get(name, "") for name in ("vendor", "device")]
    read = [int(word, 16) if re.fullmatch(r"0x[0-9a-f]{4}", word) else 0 for word in words]
    return read[0], read[1]


def _number(said: str) -> float:
    """0 for what is no number."""
    return float(said) if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", said, re.ASCII) else 0.0


def _gdr(element: Element | None) -> bool | None:
    told = None if element is None else element.get("gdr")
    return None if told is None else told == "1"
