"""Trees of PCI Express functions as text, and the table that the module pcitree reads.

One function a line, two blanks of indent for each level below:

    host 0001:10 node=0                   domain and first bus
      root-port
        upstream                          the switch's side towards the root
          downstream acs=5f/1d            capability and, after the slash, control register
            gpu
          downstream
            hca id=15b3:1021 speed=5 width=16

Buses are numbered from the host's in the order of the lines, devices on a bus from 00.0, on that
of a host from 01.0, unless at=DD.F says so.
Words: id= sub= class= rev= acs= ats=on|off msix= (vectors) speed= width= bars=16M,128G,32M at=
node= (of a host).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from dev.lab import config_space
from dev.lab.config_space import Port, Registers
from toolkit.errors import UsageError

TABLES = Path(__file__).parent / "tables"
SOURCES = tuple(sorted((Path(__file__).parents[2] / "tests/machine/source/pcitree").glob("[Kp]*")))
WINDOW_GIB = 1024  # address space below one host bridge: seven GPUs of 128 GiB
_NO_NODE = 0xFFFF
_PORTS = {"root-port": Port.ROOT, "upstream": Port.UPSTREAM, "downstream": Port.DOWNSTREAM}
_UNITS = {"K": 10, "M": 20, "G": 30}
# What a line means that says no more than its kind.
_USUAL = {
    "root-port": {"id": "8086:352a", "class": "060400", "rev": "04", "acs": "1f"},
    "upstream": {"id": "1000:c030", "class": "060400", "rev": "b0"},
    "downstream": {"id": "1000:c030", "class": "060400", "rev": "b0", "acs": "5f"},
    "gpu": {"id": "10de:2330", "class": "030200", "sub": "10de:16c1", "rev": "a1"}
    | {"bars": "16M,128G,32M"},
    "hca": {"id": "15b3:1021", "class": "020700", "sub": "15b3:0041", "rev": "00", "bars": "32M"},
    "device": {"class": "088000", "rev": "00", "bars": "1M"},
}
_ABLE = {"acs", "ats", "msix"}
_WORDS = {"id", "sub", "class", "rev", "speed", "width", "bars", "at", "node", *_ABLE}


@dataclass(slots=True)
class Function:
    """A line of the text."""

    number: int  # of the line
    kind: str
    words: dict[str, str]
    below: list[Function] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Table:
    """What the module reads, and what a guest must have for it."""

    data: bytes
    nodes: int  # of NUMA
    addresses: tuple[str, ...]  # as lspci -D prints them, in the order of the lines


def named(table: str) -> str:
    """The text of a table: a name of those that lie in ``tables``, or a file.

    :raises UsageError: it is neither.
    """
    for path in (TABLES / f"{table}.tree", Path(table)):
        if path.is_file():
            return path.read_text()
    known = ", ".join(sorted(each.stem for each in TABLES.glob("*.tree")))
    raise UsageError(f"--pci {table}: no such table", hint=f"a file, or one of: {known}")


def build(text: str) -> Table:
    """The table of a text.

    :raises UsageError: for a line that cannot be read, with its number.
    """
    hosts: list[bytes] = []
    made = _Made()
    for host in _read(text):
        domain, first = _host_address(host)
        last = _buses(host.below, domain, first, first, made, on_host=True)
        node = int(host.words.get("node", _NO_NODE))
        made.nodes = max(made.nodes, 1 if node == _NO_NODE else node + 1)
        hosts.append(struct.pack("<HBBHH", domain, first, last, node, WINDOW_GIB))
    head = struct.pack("<8sII", b"PCITREE1", len(hosts), len(made.records))
    return Table(b"".join((head, *hosts, *made.records)), made.nodes, tuple(made.addresses))


@dataclass(slots=True)
class _Made:
    records: list[bytes] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    nodes: int = 1


def _buses(
    functions: list[Function], domain: int, bus: int, last: int, made: _Made, *, on_host: bool
) -> int:
    """Number what lies on a bus and below; the highest bus number that was given away."""
    for place, each in enumerate(functions, start=1 if on_host else 0):
        devfn = _place(each, place)
        slot = len(made.records)
        made.records.append(b"")
        made.addresses.append(f"{domain:04x}:{bus:02x}:{devfn >> 3:02x}.{devfn & 7}")
        below = (0, 0, 0)
        if each.kind in _PORTS:
            first = last + 1
            last = _buses(each.below, domain, first, first, made, on_host=False)
            below = (bus, first, last)
        registers = _registers(each, below)
        where = struct.pack("<HBB", domain, bus, devfn)
        made.records[slot] = where + bytes(registers.value) + bytes(registers.mask)
    if last > 0xFF:
        raise UsageError("the tree has more buses than 256")
    return last


def _registers(function: Function, buses: tuple[int, int, int]) -> Registers:
    words = _USUAL[function.kind] | function.words
    try:
        made = config_space.common(
            _pair(words["id"]), int(words["class"], 16), int(words["rev"], 16)
        )
        port = _PORTS.get(function.kind, Port.ENDPOINT)
        if port is Port.ENDPOINT:
            for number, size in enumerate(words["bars"].split(",")):
                made.bar(2 * number, _size(size))
            for at, value in zip((0x2C, 0x2E), _pair(words.get("sub", "0:0")), strict=True):
                made.put(at, "H", value)
        else:
            config_space.bridge(made, buses)
        speed, width = int(words.get("speed", "5")), int(words.get("width", "16"))
        config_space.express(made, port, speed, width)
        config_space.aer(made, port)
        if "msix" in words:
            config_space.msix(made, int(words["msix"]))
        if "acs" in words:
            able, _, control = words["acs"].partition("/")
            config_space.acs(made, int(able, 16), int(control or "0", 16))
        if "ats" in words:
            config_space.ats(made, enabled=words["ats"] == "on")
    except (KeyError, ValueError, struct.error) as why:
        raise _bad(function.number, function.kind, f"{type(why).__name__}: {why}") from why
    return made


def _read(text: str) -> list[Function]:
    """The hosts, each with what lies below."""
    top: list[Function] = []
    path: list[Function] = []  # from a host down to the line before
    for number, line in enumerate(text.split("\n"), start=1):
        row = line.split("#")[0].rstrip()
        if not row:
            continue
        depth, odd = divmod(len(row) - len(row.lstrip(" ")), 2)
        function = _line(number, row.split())
        if odd or depth > len(path) or (depth == 0) != (function.kind == "host"):
            raise _bad(number, row.strip(), "its indent fits no line above")
        if depth and path[depth - 1].kind not in {"host", *_PORTS}:
            raise _bad(number, row.strip(), f"a {path[depth - 1].kind} has nothing below it")
        del path[depth:]
        (path[-1].below if path else top).append(function)
        path.append(function)
    if not top:
        raise UsageError("the table of PCI functions is empty", hint="see dev/lab/pcitree.py")
    return top


def _line(number: int, parts: list[str]) -> Function:
    kind, *rest = parts
    if kind not in {"host", *_USUAL}:
        raise _bad(number, " ".join(parts), f"kinds: host, {', '.join(_USUAL)}")
    words = {"address": rest.pop(0)} if kind == "host" and rest else {}
    for each in rest:
        name, _, value = each.partition("=")
        if name not in _WORDS or not value:
            raise _bad(number, each, f"words: {', '.join(f'{name}=' for name in sorted(_WORDS))}")
        words[name] = value
    return Function(number, kind, words)


def _host_address(host: Function) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9a-f]{4}):([0-9a-f]{2})", host.words.get("address", ""))
    if found is None:
        raise _bad(host.number, "host", "host DOMAIN:BUS, as in: host 0001:10")
    if found[1] == "0000":
        # The IOMMU drivers look such functions up in tables that end before them.
        raise _bad(host.number, "host", "domain 0000 is that of the machine's own devices")
    return int(found[1], 16), int(found[2], 16)


def _place(function: Function, usual: int) -> int:
    found = re.fullmatch(r"([0-9a-f]{2})\.([0-7])", function.words.get("at", f"{usual:02x}.0"))
    if found is None:
        raise _bad(function.number, function.kind, "at=DD.F, as in: at=01.0")
    return int(found[1], 16) << 3 | int(found[2])


def _pair(text: str) -> tuple[int, int]:
    vendor, device = (int(each, 16) for each in text.split(":"))
    return vendor, device


def _size(text: str) -> int:
    return int(text[:-1]) << _UNITS[text[-1]]


def _bad(number: int, what: str, hint: str) -> UsageError:
    return UsageError(f"table of PCI functions: cannot read line {number}: {what!r}", hint=hint)
