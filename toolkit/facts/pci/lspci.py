"""What ``lspci`` prints, as the same values that sysfs and config space give.

Blocks of ``lspci -v``, ``-vv`` or ``-vvv``, with or without ``-D``, ``-nn`` and ``-xxxx``,
or the bare list. The place of a function in the tree follows from the bus numbers of the
bridges: in an excerpt without them it is not known, and nothing is guessed.

Source: pciutils, lspci.c, ls-caps.c and ls-ecaps.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.functions import Bar, PciFunction, PciTree
from toolkit.facts.pci.lspci_caps import printed
from toolkit.facts.pci.pcie_caps import Link, PortType
from toolkit.plural import counted

_HEAD = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (\S.*)")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_CLASS = re.compile(r"\[([0-9a-f]{4})\]: |^([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})")
_CLASSES = {
    "PCI bridge": 0x0604,
    "3D controller": 0x0302,
    "VGA compatible controller": 0x0300,
    "Display controller": 0x0380,
    "Processing accelerators": 0x1200,
    "Infiniband controller": 0x0207,
    "Ethernet controller": 0x0200,
    "Network controller": 0x0280,
    "Non-Volatile memory controller": 0x0108,
    "Bridge": 0x0680,
    "Host bridge": 0x0600,
    "Audio device": 0x0403,
}
VENDORS = {
    "NVIDIA Corporation": 0x10DE,
    "Mellanox Technologies": 0x15B3,
    "Intel Corporation": 0x8086,
    "Advanced Micro Devices, Inc. [AMD]": 0x1022,
    "Advanced Micro Devices, Inc. [AMD/ATI]": 0x1002,
    "Amazon.com, Inc.": 0x1D0F,
    "Broadcom Inc. and subsidiaries": 0x14E4,
    "AMD Pensando Systems": 0x1DD8,
    "Broadcom / LSI": 0x1000,
    "LSI Logic / Symbios Logic": 0x1000,
    "PLX Technology": 0x10B5,
    "Samsung Electronics Co Ltd": 0x144D,
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_REGION = re.compile(r"\s+Region (\d): Memory at .*\[size=(\d+)([KMGT]?)\]")
_BUSES = re.compile(r"\s+Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), ")
_NUMA = re.compile(r"\s+NUMA node: (\d+)")
_GROUP = re.compile(r"\s+IOMMU group: (\d+)")
_DRIVER = re.compile(r"\s+Kernel driver in use: (\S+)")
_DUMP = re.compile(r"([0-9a-f]{2,3}):((?: [0-9a-f]{2}){16})")


_SHOWN = 6  # regions told of
_REDIRECTS = re.compile(r"\b(?:ReqRedir|CmpltRedir|EgressCtrl)\+")


class _Block(Struct, frozen=True):
    """One function: its first line, taken apart, and the lines below."""

    domain: str  # "0000"
    place: str  # "19:00.0"
    title: str
    lines: tuple[str, ...]

    @property
    def address(self) -> str:
        return f"{self.domain}:{self.place}"

    @property
    def bus(self) -> str:
        return f"{self.domain}:{self.place[:2]}"


def _nameless(text: str) -> NoEvidence | Unparsable:
    """What to say of lines without a function: what they tell, and that it is nobody's."""
    told = [*_redirecting(text), *_links(text), *_regions(text)]
    if not told:
        return Unparsable("lspci", next((line for line in text.split("\n") if line.strip()), ""))
    return NoEvidence(
        f"lspci: {'; '.join(told)} was not printed",
        hint="lspci -vvv as root, whole: it names the function above each line",
    )


def _redirecting(text: str) -> Iterator[str]:
    lines = re.findall(r"^\s*ACSCtl:\s+(\S.*)$", text, re.MULTILINE)
    if lines:
        redirecting = sum(bool(_REDIRECTS.search(each)) for each in lines)
        yield (
            f"of {len(lines)} ACSCtl lines {redirecting} redirect peer traffic; of which bridges, "
            "and whether a GPU reaches its HCA by one,"
        )


def _links(text: str) -> Iterator[str]:
    """Before pciutils 3.6 nothing said that a link is below what its port can."""
    able, lines, below = "", 0, 0
    for name, words in re.findall(r"^\s*Lnk(Cap|Sta):\s+(\S.*)$", text, re.MULTILINE):
        speed, width = re.search(r"Speed ([\d.]+)GT/s", words), re.search(r"Width (x\d+)", words)
        now = " ".join(each[1] for each in (speed, width) if each)
        if name == "Cap":
            able = now
            continue
        lines += 1
        below += "downgraded" in words or bool(able and now != able)
        able = ""
    if lines:
        shown = counted(lines, "LnkSta line")
        yield f"of {shown} {below} below what the port can; of which devices"


def _regions(text: str) -> Iterator[str]:
    sizes = re.findall(
        r"^\s*Region \d: Memory at (\S+) .*?(?:\[size=(\w+)\])?$", text, re.MULTILINE
    )
    if sizes:
        words = ", ".join(size or "no address" for _, size in sizes[:_SHOWN])
        yield f"regions of {words}{' and more' if sizes[_SHOWN:] else ''}; of which devices"


def parse_lspci(text: str) -> PciTree:
    """Read the text; what it does not print is 0, -1, "" or None, as in ``PciFunction``.

    :raises NoEvidence: of lines that grep has left alone, whose function is not named.
    :raises Unparsable: where no line names a function, or one is named twice.
    """
    found = list(_blocks(text.replace("\r", "")))
    if not found:
        raise _nameless(text)
    # The bridge above each bus: "0000:19" to "0000:18:00.0".
    bridges = ((block, _one(_BUSES, block.lines)) for block in found)
    above = {f"{block.domain}:{bus}": block.address for block, bus in bridges if bus}
    functions: dict[str, PciFunction] = {}
    for block in found:
        if block.address in functions:
            raise Unparsable("lspci", f"{block.address} is there twice")
        functions[block.address] = _function(block)
    express = {a: each.printed and each.printed.express for a, each in functions.items()}
    ports = {a: each.port if each else None for a, each in express.items()}
    placed = {
        block.address: replace(
            functions[block.address],
            parents=_parents(block, above, ports, bridge=functions[block.address].is_bridge),
        )
        for block in found
    }
    # Every PC has a host bridge at 0000:00:00.0; where it is missing, so may be anything.
    return PciTree(dict(sorted(placed.items())), whole="0000:00:00.0" in placed)


def _blocks(text: str) -> Iterator[_Block]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in [*text.split("\n"), "end"]:
        if head is not None and (line[:1] in {" ", "\t"} or _DUMP.fullmatch(line.rstrip())):
            body.append(line)
            continue
        if head is not None:
            domain = f"{int(head[1] or '0', 16):04x}"
            yield _Block(domain, head[2], head[3], tuple(body))
        # Whatever else stands at the margin (a prompt, a complaint) ends the block.
        head, body = _HEAD.fullmatch(line), []


def _function(block: _Block) -> PciFunction:
    vendor, device, klass = _identity(block.title)
    shown = printed(block.lines)
    express = shown.express
    none = Link(0.0, 0)
    # The dump of -x, -xxx or -xxxx, where it is part of the text.
    data = bytearray()
    for line in block.lines:
        row = _DUMP.fullmatch(line.rstrip())
        if row is None:
            continue
        if int(row[1], 16) != len(data):
            raise Unparsable(f"lspci, dump of {block.address}", line)
        data += bytes.fromhex(row[2])
    dumped = ConfigSpace(block.address, bytes(data)) if data else None
    return PciFunction(
        block.address,
        vendor,
        device,
        klass << 8,
        int(_one(_NUMA, block.lines) or -1),
        (),
        _one(_DRIVER, block.lines),
        _one(_GROUP, block.lines),
        "Virtual Function" in block.title,
        express.now if express else none,
        express.best if express else none,
        tuple(
            Bar(int(region[1]), int(region[2]) * _UNITS[region[3]])
            for region in map(_REGION.match, block.lines)
            if region
        ),
        dumped,
        shown,
        dead="(rev ff)" in block.title,
    )


def _one(pattern: re.Pattern[str], lines: tuple[str, ...]) -> str:
    found = next(filter(None, map(pattern.match, lines)), None)
    return found[1] if found else ""


def _identity(title: str) -> tuple[int, int, int]:
    """Vendor, device and class (16 bits) from the first line; 0 for what it does not tell."""
    numbers = _CLASS.search(title)
    if numbers and numbers[2]:
        return int(numbers[3], 16), int(numbers[4], 16), int(numbers[2], 16)
    name, _, rest = title.partition(": ")
    klass = int(numbers[1], 16) if numbers else _CLASSES.get(name, 0)
    if ids := _IDS.search(title):
        return int(ids[1], 16), int(ids[2], 16), klass
    vendor = vendor_of(rest)
    plain = re.search(r" Device ([0-9a-f]{4})\b", rest)
    return vendor, int(plain[1], 16) if plain else 0, klass


def vendor_of(name: str) -> int:
    """The vendor id that a device's name begins with; 0 for a name not known here."""
    return next((number for known, number in VENDORS.items() if name.startswith(known)), 0)


def _parents(
    block: _Block, above: dict[str, str], ports: dict[str, PortType | None], *, bridge: bool
) -> tuple[str, ...]:
    """From the host bridge down; () where the bridges above are not part of the text.

    A root bus holds root ports. An endpoint, or a port of a switch, hangs below a bridge:
    where that is missing, an excerpt left it out or a hypervisor hides it.
    """
    chain: list[str] = []
    bus = block.bus
    while bus in above and above[bus] not in chain:
        chain.insert(0, above[bus])
        bus = above[bus][:-5]
    top = ports.get(chain[0] if chain else block.address)
    cut = top in {PortType.UPSTREAM, PortType.DOWNSTREAM} or not (chain or bridge)
    return () if cut else (f"pci{bus}", *chain)


def differences(text: PciFunction, config: PciFunction) -> tuple[str, ...]:
    """Where lspci's words and the bytes of one function contradict each other.

    :param text: parsed from lspci; what it does not print is not compared.
    :param config: with its config space.
    :raises NoEvidence: where either was not readable.
    """
    ours = replace(config, printed=None)
    words = replace(text, config=None)
    found = []
    one, two = words.express(), ours.express()
    if one is not None and two is not None:
        for name in one.__struct_fields__:
            left, right = getattr(one, name), getattr(two, name)
            if left is not None and left != right:
                found.append(f"{text.address}: {name} is {left} in lspci, {right} in the bytes")
    elif (one is None) is not (two is None):
        found.append(f"{text.address}: PCI Express capability in only one of the two")
    for title, left, right in (
        ("ACS", words.acs_registers(), ours.acs_registers()),
        ("ATS", words.ats(), ours.ats()),
        ("Resizable BAR", words.resizable(), ours.resizable()),
    ):
        if left != right:
            found.append(f"{text.address}: {title} is {left} in lspci, {right} in the bytes")
    return tuple(found)
