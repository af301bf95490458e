"""RDMA devices and the stack that drives them.

Sources: /sys/class/infiniband (Documentation/ABI/stable/sysfs-class-infiniband).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines
from toolkit.facts.versions import Version


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    state: str  # "ACTIVE", "DOWN", "INIT"
    phys_state: str  # "LinkUp", "Polling", "Disabled"
    rate: str  # "400 Gb/sec (4X NDR)"
    link_layer: str  # "InfiniBand" or "Ethernet"

    @property
    def up(self) -> bool:
        return self.state == "ACTIVE" and self.phys_state == "LinkUp"


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    name: str  # "mlx5_0"; not always of that form
    address: str  # PCI address; "" for software devices such as rxe0
    firmware: str
    board: str  # "MT_0000000838": a board id, the same on equal cards
    netdevs: tuple[str, ...]
    ports: tuple[Port, ...] = field(default=())


class OfedFlavour(StrEnum):
    INBOX = "inbox"
    MLNX_OFED = "mlnx-ofed"
    DOCA_OFED = "doca-ofed"


@dataclass(frozen=True, slots=True)
class Ofed:
    """The RDMA stack that is installed."""

    flavour: OfedFlavour
    version: Version | None = None  # None for inbox

    def __str__(self) -> str:
        return f"{self.flavour} {self.version}" if self.version else str(self.flavour)


def parse_infiniband(text: str) -> tuple[RdmaDevice, ...]:
    """Read the probe's "mlx5_0/ports/1/state:4: ACTIVE" lines, devices in natural order.

    :raises Unparsable: at a line that names no attribute, or no number of a port.
    """
    values: dict[str, dict[str, list[str]]] = {}
    for path, value in named_lines(text, "/sys/class/infiniband"):
        name, _, attribute = path.partition("/")
        if not re.fullmatch(r"\w+|ports/[0-9]{1,3}/\w+", attribute):
            raise Unparsable("/sys/class/infiniband", f"{path}:{value}")
        values.setdefault(name, {}).setdefault(attribute, []).append(value.strip())
    return tuple(_device(name, values[name]) for name in sorted(values, key=_natural))


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
    )


def _word(state: str) -> str:
    """ "4: ACTIVE" without its number."""
    return state.rpartition(": ")[2]
