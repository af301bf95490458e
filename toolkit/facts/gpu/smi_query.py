"""What nvidia-smi tells of each GPU: ``nvidia-smi -q``, with -x too, its table, or its CSV.

The key column of -q is as wide as the longest key of the driver's branch, and branches add
sections: a value is told by the headings above it, which are told by indentation. Of a cut text
what is shown counts: sections above the first GPU are one GPU's, and one that comes again
another's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import is_error, normal_address
from toolkit.facts.gpu.smi_forms import Blocks, is_xml, table_blocks, xml_blocks
from toolkit.facts.gpu.smi_health import SmiHealth, smi_health

_GPU = re.compile(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s*")
_PAIR = re.compile(r"( *)([^:]*[^: ]) *: ?(.*)")
_MIB = re.compile(r"([0-9]{1,9})(?: MiB)?")
# "GPU Recovery Action" is a key of the GPU itself, and so is the performance state.
_TELLING = re.compile(
    r"\s+(?:Remapped Rows|Retired Pages|ECC Errors|Fabric|PCI|GPU Link Info|GPU Reset Status"
    r"|(?:FB|BAR1) Memory Usage|Clocks (?:Event|Throttle) Reasons"
    r"|(?P<key>GPU Recovery Action|Product Name|Performance State) *:.*)\s*"
)
Path = tuple[str, ...]  # headings from the outermost in, then the key
UNREADABLE = -1
_UNNAMED = "GPU "  # before the number of a GPU that a cut text does not name
_LONGEST = 1000  # of a line that tells something


class SmiGpu(Struct, frozen=True):
    """One GPU; "" and 0 where nvidia-smi does not tell, or says N/A."""

    address: str  # "0000:19:00.0", as sysfs writes it
    name: str  # "NVIDIA H100 80GB HBM3"
    brand: str = ""  # "GeForce", "NVIDIA"
    device: int = 0  # PCI device id
    persistence: str = ""  # "Enabled" or "Disabled"
    mig: str = ""  # MIG mode now: "Enabled" or "Disabled"
    mig_pending: str = ""
    virtualization: str = ""  # "None", "Pass-Through", "VGPU", "Host VGPU"
    memory_mib: int = 0
    bar1_mib: int = 0  # not part of the CSV
    fabric: str = ""  # "Completed", "In Progress", "Not Started"
    fabric_status: str = ""  # "Success"; "N/A" is kept, for it is not the silence of older drivers
    fabric_health: tuple[tuple[str, str], ...] = ()  # ("Summary", "Healthy"), ...
    cluster: str = ""  # UUID of the NVLink domain
    health: SmiHealth = field(default_factory=SmiHealth)  # not read from the CSV
    errors: tuple[str, ...] = ()  # names of values that NVML failed to tell
    protected_mib: int | None = None  # kept from the host, in CC mode all of it; None: not told,
    # and UNREADABLE where it is not a size
    addressing: str = ""  # "ATS" where NVLink-C2C joins it to its CPU, else "HMM" or "None"
    link: str = ""  # "x8 of x16" where its PCIe link is slower than it can be, and it is busy

    @property
    def in_cluster(self) -> bool:
        """Part of an NVLink domain that has an identity: one that may span nodes."""
        return bool(self.cluster.strip("0-"))


class SmiReport(Struct, frozen=True):
    driver: str  # "535.161.08"; "" where a cut text does not tell
    gpus: tuple[SmiGpu, ...]
    lacks: str = ""  # what a cut text has not: of it nothing is known


def parse_smi_query(text: str) -> SmiReport:
    """Read ``nvidia-smi -q``, whole or cut down to some of its sections, or with -x.

    :raises Unparsable: where it has no GPU, and no section of one.
    """
    return _report(text, xml_blocks(text) if is_xml(text) else _blocks(text))


def parse_smi_table(text: str) -> SmiReport:
    """Read the table of ``nvidia-smi``.

    :raises Unparsable: where it has no driver or no GPU, or a GPU of which it tells no values.
    """
    return _report(text, table_blocks(text))


def _report(text: str, told: Blocks) -> SmiReport:
    head, blocks = told
    driver = head.get(("Driver Version",), "")
    if not blocks:
        raise Unparsable("nvidia-smi -q", text.strip().split("\n")[0])
    attached = head.get(("Attached GPUs",), "")
    named = driver and all(address[:4] != _UNNAMED for address, _ in blocks)
    lacks = "" if named else "its head is not there: which GPUs there are is not told"
    if attached.isdecimal() and int(attached) != len(blocks):
        lacks = f"{len(blocks)} of {attached} GPUs"
    return SmiReport(driver, tuple(_gpu(address, values) for address, values in blocks), lacks)


def _blocks(text: str) -> Blocks:
    head: dict[Path, str] = {}
    found: list[tuple[str, dict[Path, str]]] = []
    values = head
    headings: list[tuple[int, str]] = []
    begun: set[str] = set()  # sections of a GPU that is not named
    named = False
    for line in (each[:_LONGEST] for each in text.split("\n")):
        if gpu := _GPU.fullmatch(line):
            values, headings, named = {}, [], True
            found.append((normal_address(gpu[1]), values))
            continue
        if not named and (told := _TELLING.fullmatch(line)):
            section = told["key"] or line.strip()
            if values is head or section in begun:
                values, headings, begun = {}, [], set()
                found.append((f"{_UNNAMED}{len(found) + 1} of this text", values))
            begun.add(section)
        pair = _PAIR.fullmatch(line)
        depth = len(line) - len(line.lstrip(" "))
        headings = [each for each in headings if each[0] < depth]
        if pair:
            # The first wins: with MIG, blocks of instances follow that of the GPU.
            values.setdefault((*(name for _, name in headings), pair[2]), pair[3].strip())
        elif line.strip():
            headings.append((depth, line.strip()))
    return head, found


def _gpu(address: str, values: dict[Path, str]) -> SmiGpu:
    def told(*path: str) -> str:
        value = values.get(path, "")
        return "" if value in {"N/A", "[N/A]"} else value

    protected = told("Conf Compute Protected Memory Usage", "Total")
    device = re.fullmatch(r"0x([0-9A-Fa-f]{4})10DE", told("PCI", "Device Id"))
    return SmiGpu(
        address,
        told("Product Name"),
        told("Product Brand"),
        int(device[1], 16) if device else 0,
        told("Persistence Mode"),
        told("MIG Mode", "Current"),
        told("MIG Mode", "Pending"),
        told("GPU Virtualization Mode", "Virtualization Mode"),
        _mib(told("FB Memory Usage", "Total")),
        _mib(told("BAR1 Memory Usage", "Total")),
        told("Fabric", "State"),
        values.get(("Fabric", "Status"), ""),
        tuple(
            (path[-1], told(*path))
            for path in values
            if path[:2] == ("Fabric", "Health") and told(*path)
        ),
        told("Fabric", "ClusterUUID"),
        smi_health(values),
        tuple(", ".join(path) for path, value in values.items() if is_error(value)),
        _mib(protected, UNREADABLE) if protected else None,
        told("Addressing Mode"),
        _slow_link(told),
    )


def _slow_link(told: Callable[..., str]) -> str:
    """What its link lacks while it works: an idle GPU lowers speed, and some their width."""
    link = ("PCI", "GPU Link Info")
    busy = re.fullmatch(r"[1-9]\d* %", told("Utilization", "Gpu") or told("Utilization", "GPU"))
    if not busy or told("Performance State") not in {"P0", "P1", "P2"}:
        return ""
    for name, shown in (("Link Width", "x{}"), ("PCIe Generation", "PCIe {}")):
        now, most = (told(*link, name, key).removesuffix("x") for key in ("Current", "Max"))
        if now.isdecimal() and most.isdecimal() and int(now) < int(most):
            return f"{shown.format(now)} of {shown.format(most)}"
    return ""


def _mib(value: str, none: int = 0) -> int:
    found = _MIB.fullmatch(value)
    return int(found[1]) if found else none


_SECTION = re.compile(
    r"^[ \t]*(FB|BAR1) Memory Usage[ \t]*\n(?:[ \t]+(?:Reserved|Used|Free)\b.*\n)*"
    r"[ \t]+Total[ \t]*: *(\d{1,9}) Mi?B",
    re.MULTILINE,
)


def parse_bar1_alone(text: str) -> tuple[tuple[int, int], ...]:
    """MiB of BAR1, and of memory where that stands before it, of what grep has left of an answer.

    :returns: nothing where the text names its GPUs, and is read as a whole answer.
    """
    if re.search(r"^GPU [0-9a-fA-F]{4,8}:|^Driver Version", text, re.MULTILINE):
        return ()
    found: list[tuple[int, int]] = []
    memory = 0
    for name, size in _SECTION.findall(text):
        if name == "FB":
            memory = int(size)
        else:
            found.append((int(size), memory))
            memory = 0
    return tuple(found)


def parse_smi_csv(text: str) -> SmiReport:
    """Read ``nvidia-smi --query-gpu=FIELDS --format=csv``, with the header that names the fields.

    :raises Unparsable: without a header that has name and pci.bus_id, or at a row of another
        length.
    """
    rows = list(_csv_rows(text))
    gpus = tuple(_csv_gpu(row) for row in rows)
    return SmiReport(rows[0].get("driver_version", ""), gpus)


def _csv_rows(text: str) -> Iterator[dict[str, str]]:
    # A command line with the same names may stand above its answer.
    lines = [line for line in text.split("\n") if line.strip() and "--query-gpu" not in line]
    named = [[re.sub(r" \[.*\]$", "", f.strip()) for f in line.split(",")] for line in lines]
    header = next((at for at, row in enumerate(named) if {"name", "pci.bus_id"} <= set(row)), -1)
    if header < 0 or header + 1 == len(lines):
        raise Unparsable("nvidia-smi --query-gpu", lines[0] if lines else "")
    fields = named[header]
    for at, line in enumerate(lines[header + 1 :], start=header + 2):
        values = [field.strip() for field in line.split(",")]
        if len(values) != len(fields):
            raise Unparsable("nvidia-smi --query-gpu", line, at)
        yield dict(zip(fields, values, strict=True))


def _csv_gpu(row: dict[str, str]) -> SmiGpu:
    def told(key: str) -> str:
        value = row.get(key, "")
        return "" if value in {"N/A", "[N/A]", "[Not Supported]"} else value

    if not _GPU.fullmatch(f"GPU {row['pci.bus_id']}"):
        raise Unparsable("nvidia-smi --query-gpu", row["pci.bus_id"])
    device = re.fullmatch(r"0x([0-9A-Fa-f]{4})10DE", told("pci.device_id"))
    return SmiGpu(
        normal_address(row["pci.bus_id"]),
        told("name"),
        device=int(device[1], 16) if device else 0,
        persistence=told("persistence_mode"),
        mig=told("mig.mode.current"),
        mig_pending=told("mig.mode.pending"),
        memory_mib=_mib(told("memory.total")),
        fabric=told("fabric.state"),
        fabric_status=row.get("fabric.status", ""),
        fabric_health=tuple(
            (name, told(f"fabric.health.{name}"))
            for name in ("summary", "bandwidth", "route_unhealthy", "incorrect_configuration")
            if told(f"fabric.health.{name}")
        ),
        cluster=told("fabric.clusterUuid"),
        errors=tuple(name for name, value in row.items() if is_error(value)),
    )
