"""Other forms of nvidia-smi: its XML and its table, in the words of ``-q``; and its NVLinks.

``nvidia-smi -q -x`` has a tag for each key of ``-q``; the document type (nvsmi_device_v12.dtd) is
never fetched. The table has three lines a GPU, whose columns moved with the branches:

    |   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
    | N/A   34C    P0             71W /  700W |       1MiB /  81559MiB |      0%      Default |
    |                                         |                      |             Disabled |

A name that is too long ends in "...", and what the driver does not tell is "ERR!".
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import normal_address

Path = tuple[str, ...]  # headings from the outermost in, then the key, as -q writes them
Values = dict[Path, str]
Blocks = tuple[Values, list[tuple[str, Values]]]  # before the first GPU; then by address

_XML, _TABLE = "nvidia-smi -q -x", "nvidia-smi"
# Where a key of -q is more than its tag in other letters.
_WORDS = {
    "attached_gpus": "Attached GPUs",
    "pci": "PCI",
    "pci_device_id": "Device Id",
    "fb_memory_usage": "FB Memory Usage",
    "bar1_memory_usage": "BAR1 Memory Usage",
    "cc_protected_memory_usage": "Conf Compute Protected Memory Usage",
    "mig_mode": "MIG Mode",
    "current_mig": "Current",
    "pending_mig": "Pending",
    "clusteruuid": "ClusterUUID",
    "ecc_errors": "ECC Errors",
    "pending_blacklist": "Pending Page Blacklist",
    "pending_retirement": "Pending Page Blacklist",
    "remapped_row_pending": "Pending",
    "remapped_row_failure": "Remapping Failure Occurred",
}
_CAPITALS = {"gpu": "GPU", "hw": "HW", "sw": "SW", "sram": "SRAM", "dram": "DRAM", "tpc": "TPC"}
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons?_(?=.)")


def is_xml(text: str) -> bool:
    return "<nvidia_smi_log" in text


def xml_blocks(text: str) -> Blocks:
    """Read ``nvidia-smi -q -x``.

    :raises Unparsable: where it is not whole, or a GPU has no address.
    """
    start = min(at for at in (text.find("<?xml"), text.find("<nvidia_smi_log")) if at >= 0)
    try:
        root = ElementTree.fromstring(text[start:].strip())  # noqa: S314 expat bounds expansion
    except (ElementTree.ParseError, ValueError) as why:
        raise Unparsable(_XML, str(why)) from why
    head: Values = {
        (_words(each.tag),): (each.text or "").strip() for each in root if each.tag != "gpu"
    }
    return head, [(_xml_address(each), _leaves(each)) for each in root if each.tag == "gpu"]


def _xml_address(gpu: Element) -> str:
    address = gpu.get("id", "")
    if not re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", address):
        raise Unparsable(_XML, f"GPU {address!r}")
    return normal_address(address)


def _words(tag: str) -> str:
    tag = tag.lower()
    plain = _REASON.sub("", tag)
    return _WORDS.get(tag) or " ".join(
        _CAPITALS.get(word, word.capitalize()) for word in plain.split("_")
    )


def _leaves(gpu: Element) -> Values:
    found: Values = {}
    open_: list[tuple[Path, Element]] = [((), gpu)]
    while open_:
        path, element = open_.pop(0)
        for child in element:
            below = (*path, _words(child.tag))
            value = (child.text or "").strip()
            if below == ("PCI", "Device Id") and re.fullmatch(r"[0-9A-Fa-f]{8}", value):
                value = f"0x{value}"
            if len(child):
                open_.append((below, child))
            else:
                found.setdefault(below, value)
    return found


_HEAD = re.compile(r"NVIDIA-SMI \S+\s+(?:KMD Version|Driver Version): (\d+(?:\.\d+)+)")
_FIRST = re.compile(
    r"\|\s+(?P<index>\d+|N/A)\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off|N/A)\s+\|\s*"
    r"(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+\S+\s*\|"
    r"\s*(?P<ecc>\S+)\s*\|"
)
_SECOND = re.compile(
    r"\|\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<state>\S+)\s+(?P<draw>\S+)\s*/\s*(?P<cap>\S+)\s*\|"
    r"\s*(?P<used>\S+)(?:\s*/\s*(?P<memory>\S+))?\s*\|\s*(?P<util>\S+)\s.*\|"
)
_THIRD = re.compile(r"\|[^|]*\|[^|]*\|\s*(?P<mig>N/A|Enabled|Disabled|ERR!)(?P<pending>\*?)\s*\|")
_ROW = re.compile(r"\|\s+\d+\s.*\|.*\|.*\|")  # of a GPU, of whatever form
_BELOW = re.compile(r"^\|\s*(?:MIG devices|Processes):", re.MULTILINE)
_LACKING = ("ERR!", "Unknown Error")
_SWITCH = {"On": "Enabled", "Off": "Disabled"}


def table_blocks(text: str) -> Blocks:
    """Read the table that ``nvidia-smi`` prints without arguments.

    It has neither BAR1 nor the fabric, and of memory errors a count that says nothing of repairs:
    that is kept where it tells of trouble.

    :raises Unparsable: where a GPU's lines are not whole, or the driver has no values for it; a
        fan and a power draw are not told of many healthy ones.
    """
    found = _HEAD.search(text)
    lines = _BELOW.split(text)[0].split("\n")
    blocks = []
    for number, line in enumerate(lines, start=1):
        if first := _FIRST.match(line):
            blocks.append(_table_gpu(first, lines[number : number + 2], number))
        elif _ROW.match(line):
            raise Unparsable(_TABLE, line, number)
    return {("Driver Version",): found[1] if found else ""}, blocks


def _table_gpu(first: re.Match[str], rest: list[str], number: int) -> tuple[str, Values]:
    second = _SECOND.match(rest[0]) if rest else None
    if second is None or any(
        lacking in (second[column] or "")
        for lacking in _LACKING
        for column in ("temp", "state", "memory", "util")
    ):
        raise Unparsable(_TABLE, rest[0] if rest else first[0], number + 1)
    third = _THIRD.match(rest[1]) if len(rest) > 1 else None
    mig = third["mig"] if third else ""
    other = {"Enabled": "Disabled", "Disabled": "Enabled"}.get(mig, mig)
    values = {
        ("Product Name",): first["name"],
        ("Persistence Mode",): _SWITCH.get(first["persistence"], first["persistence"]),
        ("FB Memory Usage", "Total"): (second["memory"] or "").replace("MiB", " MiB"),
        ("MIG Mode", "Current"): mig,
        ("MIG Mode", "Pending"): other if third and third["pending"] else mig,
    }
    if first["ecc"] not in {"0", "On", "Off", "N/A"}:  # "On" with MIG, which hides the count
        values["ECC Errors", "Volatile", "Uncorrectable"] = first["ecc"]
    return normal_address(first["address"]), values


class GpuLinks(Struct, frozen=True):
    """The NVLinks of one GPU, by their numbers."""

    index: int
    name: str
    active: tuple[int, ...] = ()
    inactive: tuple[int, ...] = ()

    @property
    def links(self) -> tuple[int, ...]:
        return self.active + self.inactive


_GPU_LINKS = re.compile(r"\s*GPU (\d+): (.+?) \(UUID: [^)]*\)\s*")
_LINK = re.compile(r"\s*Link (\d+): (?:\d+(?:\.\d+)? GB/s|(<inactive>))\s*", re.IGNORECASE)


def parse_nvlink_status(text: str) -> tuple[GpuLinks, ...]:
    """Read ``nvidia-smi nvlink -s``; a GPU without NVLink has no lines below its name.

    :raises Unparsable: at a link of another form, or where it names no GPU.
    """
    found: list[GpuLinks] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if gpu := _GPU_LINKS.fullmatch(line):
            found.append(GpuLinks(int(gpu[1]), gpu[2]))
        elif link := _LINK.fullmatch(line):
            if not found:
                raise Unparsable("nvidia-smi nvlink -s", line, number)
            found[-1] = _with_link(found[-1], link)
        elif re.match(r"\s*Link \d", line):
            raise Unparsable("nvidia-smi nvlink -s", line, number)
    if not found:
        raise Unparsable("nvidia-smi nvlink -s", text.strip().split("\n")[0])
    return tuple(found)


def _with_link(gpu: GpuLinks, link: re.Match[str]) -> GpuLinks:
    number = (int(link[1]),)
    if link[2]:
        return replace(gpu, inactive=gpu.inactive + number)
    return replace(gpu, active=gpu.active + number)
