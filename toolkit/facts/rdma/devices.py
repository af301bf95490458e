"""RDMA devices and the stack that drives them.

Sources: /sys/class/infiniband (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct, field

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines
from toolkit.facts.versions import Version


class Port(Struct, frozen=True):
    number: int
    state: str  # "ACTIVE", "DOWN", "INIT"
    phys_state: str  # "LinkUp", "Polling", "Disabled"
    rate: str  # "400 Gb/sec (4X NDR)"
    link_layer: str  # "InfiniBand" or "Ethernet"
    active_mtu: int = 0  # bytes; 0 where not told, for sysfs has none

    @property
    def up(self) -> bool:
        return self.state == "ACTIVE" and self.phys_state == "LinkUp"

    @property
    def gbits(self) -> float:
        """Gb/s; 0 where not told, or where the port is down and the rate says nothing."""
        found = re.match(r"[0-9]{1,5}(\.[0-9]{1,3})?(?= Gb)", self.rate)
        return float(found[0]) if found and self.up else 0.0


class Kind(StrEnum):
    """What is behind an RDMA device."""

    HCA = "HCA"
    SOFTWARE = "software"  # Soft-RoCE, Soft-iWARP: copies through the processor
    OMNI_PATH = "Omni-Path"
    EFA = "EFA"


_KINDS = (
    (r"(rxe|siw)", Kind.SOFTWARE),
    (r"(hfi1_|qib)", Kind.OMNI_PATH),
    (r"(efa_|rdmap\d+s\d+$)", Kind.EFA),
    # rdma-core, kernel-boot/rdma_rename.c: by the place on the PCI bus, which no software has.
    (r"(ib|roce|iw)(o\d+$|(P\d+)?(p\d+)?s\d+)", Kind.HCA),
    # ib_register_device in drivers/infiniband/hw: what those are called that nothing renamed.
    (r"(bnxt_re|irdma|i40iw|ionic_|mana_|hns_|erdma_|cxgb4_|qedr|mthca|vmw_pvrdma)\d+$", Kind.HCA),
)


# systemd.net-naming-scheme(7) and rdma-core kernel-boot/rdma_rename.c: "ens1f0np0", "rocep25s0f1".
_PLACE = re.compile(r"(?:en|ib|roce|iw)((?:P\d+)?(?:p\d+)?s\d+)f(\d+)(?:n[a-z]\w*|d\d+)?")
_FUNCTIONS = 8  # of one card


class RdmaDevice(Struct, frozen=True):
    name: str  # "mlx5_0"; not always of that form
    address: str  # PCI address; "" for software devices such as rxe0
    firmware: str
    board: str  # "MT_0000000838": a board id, the same on equal cards
    netdevs: tuple[str, ...]
    ports: tuple[Port, ...] = field(default=())
    type: str = ""  # "MT4129": the same on equal chips
    uppers: tuple[str, ...] = ()  # bonds, bridges and VLANs that stand on its net devices
    guids: tuple[int, int] = (0, 0)  # its own and its card's, by a tool's list; 0 where not told

    @property
    def kind(self) -> Kind:
        """By its name, else by whether hardware stands behind it at all."""
        for start, kind in _KINDS:
            if re.match(start, self.name):
                return kind
        told = self.address or self.firmware or self.type or self.board
        return Kind.HCA if told or self.name.startswith("mlx") else Kind.SOFTWARE

    @property
    def place(self) -> tuple[str, str]:
        """Its card and which function of it, by PCI address, else by names that tell; else "".

        Else by GUIDs: functions of a ConnectX count on from their card's, as mlx5's firmware does.
        """
        if self.address:
            return self.address[:-2], self.address[-1:]
        found = next(filter(None, map(_PLACE.fullmatch, (self.name, *self.netdevs))), None)
        if found is not None:
            return found[1], found[2]
        own, card = self.guids
        if card and 0 <= own - card < _FUNCTIONS:
            return f"{card:016x}", str(own - card)
        return "", ""


def guid(text: str) -> int:
    """Of "0x946dae030097bd2c", "946d:ae03:0097:bd2c"; 0 for what is none."""
    digits = text.removeprefix("0x").replace(":", "")
    return int(digits, 16) if re.fullmatch(r"[0-9a-f]{16}", digits) else 0


class OfedFlavour(StrEnum):
    INBOX = "inbox"
    MLNX_OFED = "mlnx-ofed"
    DOCA_OFED = "doca-ofed"


class Ofed(Struct, frozen=True):
    """The RDMA stack that is installed."""

    flavour: OfedFlavour
    version: Version | None = None  # None for inbox
    packaging: str = ""  # "prebuilt" or "container" where it is not the vendor's packages

    def __str__(self) -> str:
        words = [str(self.flavour), str(self.version) if self.version else ""]
        words.append(f"({self.packaging})" if self.packaging else "")
        return " ".join(word for word in words if word)


_COUNTER = re.compile(r"ports/[0-9]{1,3}/(?:hw_)?counters/\w+")


def parse_infiniband(text: str) -> tuple[RdmaDevice, ...]:
    """Read the probe's "mlx5_0/ports/1/state:4: ACTIVE" lines, devices in natural order.

    :raises Unparsable: at a line that names no attribute, or no number of a port.
    """
    values: dict[str, dict[str, list[str]]] = {}
    for path, value in named_lines(text, "/sys/class/infiniband"):
        name, _, attribute = path.partition("/")
        if _COUNTER.fullmatch(attribute):
            continue  # of hca_counters
        if not re.fullmatch(r"\w+|ports/[0-9]{1,3}/\w+", attribute):
            raise Unparsable("/sys/class/infiniband", f"{path}:{value}")
        values.setdefault(name, {}).setdefault(attribute, []).append(value.strip())
    return tuple(_device(name, values[name]) for name in sorted(values, key=_natural))


def parse_node_guids(text: str) -> dict[str, int]:
    """Of the same lines the GUID of each device: it makes no two machines unlike (recall.py)."""
    found = re.findall(r"(?m)^([^/\n]+)/node_guid:(\S+)", text)
    return {name: guid(told) for name, told in found}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(run), "") if run.isdecimal() else (-1, run) for run in re.split(r"(\d+)", name)]


def _device(name: str, values: dict[str, list[str]]) -> RdmaDevice:
    def one(attribute: str) -> str:
        return values.get(attribute, [""])[-1]

    numbers = sorted({int(path.split("/")[1]) for path in values if path.startswith("ports/")})
    place = one("device")
    return RdmaDevice(
        name,
        place if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", place) else "",
        one("fw_ver"),
        one("board_id"),
        tuple(values.get("net", ())),
        tuple(
            Port(
                number,
                _word(one(f"ports/{number}/state")),
                _word(one(f"ports/{number}/phys_state")),
                one(f"ports/{number}/rate"),
                one(f"ports/{number}/link_layer"),
            )
            for number in numbers
        ),
        one("hca_type"),
        tuple(values.get("upper", ())),
    )


def _word(state: str) -> str:
    """ "4: ACTIVE" without its number."""
    return state.rpartition(": ")[2]
