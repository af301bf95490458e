"""GPUs, the boards and machines that have them, and what their Xids ask for: data/*.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolkit.untrusted import read_toml

_TABLE = Path(__file__).parent / "data" / "gpus.toml"

# Their chips have no open kernel modules, and so no dma-buf.
BEFORE_TURING = frozenset({"Maxwell", "Pascal", "Volta"})
_XIDS = Path(__file__).parent / "data" / "xids.toml"
_MACHINES = Path(__file__).parent / "data" / "machines.toml"


class Chip(Struct, frozen=True):
    """One row: GPUs with a device id from ``first`` to ``last``."""

    first: int
    last: int
    architecture: str  # as nvidia-smi -q writes it
    source: str
    confidence: str  # "H", "M" or "L"
    datacentre: bool = False  # no product of this chip is a GeForce
    unified: bool = False  # one memory for CPU and GPU
    nvl5: bool = False  # NVSwitches behind an HCA
    multi_node: bool = False  # of a superchip (NVLink-C2C), whose NVLink may span nodes


@cache
def chips() -> tuple[Chip, ...]:
    """Every row, lowest device id first."""
    rows = read_toml(_TABLE.read_text("utf-8"))["gpus"]
    return tuple(Chip(**row) for row in rows)


@cache
def with_display_modes() -> frozenset[int]:
    """PCI device ids of cards whose BAR1 depends on whether they may drive a display."""
    rows = read_toml(_TABLE.read_text("utf-8"))["display_modes"]
    return frozenset(int(device, 16) for row in rows for device in row["devices"])


def chip(device: int) -> Chip | None:
    """The row of a device id; None for one that the table does not know."""
    return next((each for each in chips() if each.first <= device <= each.last), None)


class XidAction(StrEnum):
    """What an Xid asks for; the least first."""

    NONE = "none"
    RESTART = "restart"  # the job
    WORD = "word"  # the rest of the line decides
    RESET = "reset"  # the GPU
    REBOOT = "reboot"  # the node
    EXCHANGE = "exchange"  # the GPU, or what feeds it


class XidRow(Struct, frozen=True):
    """One row: Xids from ``first`` to ``last``."""

    first: int
    last: int
    kind: str  # "application", "uncontained ECC", "bus"
    act: XidAction
    text: str  # in a clause, what happened
    source: str
    confidence: str  # "H", "M" or "L"


@cache
def xid_rows() -> tuple[XidRow, ...]:
    """Every row, lowest number first."""
    rows = read_toml(_XIDS.read_text("utf-8"))["xids"]
    return tuple(XidRow(**{**row, "act": XidAction(row["act"])}) for row in rows)


def xid_row(number: int) -> XidRow | None:
    """The row of a number; None for one that the table does not know."""
    return next((each for each in xid_rows() if each.first <= number <= each.last), None)


class GpuBoard(Struct, frozen=True, kw_only=True):
    """GPUs that come together, and the NVSwitches that join them."""

    id: str
    name: str  # "HGX H100"
    devices: frozenset[int]  # PCI device ids of its GPUs
    gpus: frozenset[int]  # how many there may be
    source: str
    confidence: str  # "H", "M" or "L"
    built: frozenset[int] = frozenset()  # how many as it is sold; none: as ``gpus``
    nvswitch: int = 0  # PCI device id; 0 where none is on the node's bus
    switches: int = 0  # so many of them
    per: int = 0  # join so many GPUs


class MachineType(Struct, frozen=True, kw_only=True):
    """A machine as it is sold under one name."""

    id: str
    name: str  # "AWS p5.48xlarge"
    vendor: str  # how sys_vendor begins
    product: str  # regular expression of all of product_name
    devices: frozenset[int]
    gpus: frozenset[int]
    network: str  # what serves its GPUs
    source: str
    confidence: str
    hcas: int = 0  # it has all of them or none; 0 where the customer chooses
    chips: frozenset[int] = frozenset()  # PCI device ids of those that count; none: of all
    infiniband: bool = False  # of which those for InfiniBand count
    rdma: bool = True  # False where no HCA can serve its GPUs: what carries is in ``network``


@cache
def machine_types() -> tuple[MachineType, ...]:
    """Every row, in the order of the file."""
    return tuple(MachineType(**_values(row)) for row in _rows()["machines"])


@cache
def boards() -> tuple[GpuBoard, ...]:
    return tuple(GpuBoard(**_values(row)) for row in _rows()["boards"])


def machine_type(dmi: Mapping[str, str], devices: frozenset[int]) -> MachineType | None:
    """The row of a machine, which DMI names; the cloud that names no size shows it by its GPUs.

    :param devices: PCI device ids of the GPUs that are there.
    """
    vendor, product = dmi.get("sys_vendor", ""), dmi.get("product_name", "")
    named = [
        each
        for each in machine_types()
        if vendor.startswith(each.vendor) and re.fullmatch(each.product, product)
    ]
    if len(named) == 1:
        return named[0]
    return next((each for each in named if each.devices & devices), None)


def board(devices: frozenset[int]) -> GpuBoard | None:
    """The row of the GPUs that are there; None for cards in slots."""
    return next((each for each in boards() if each.devices & devices), None)


# Any: TOML's values, which become the fields of a row; a slip in the file is seen by its test.
@cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    return read_toml(_MACHINES.read_text("utf-8"))


def _values(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "devices": frozenset(int(each, 16) for each in row["devices"]),
        "gpus": frozenset(row["gpus"]),
        **({"built": frozenset(row["built"])} if "built" in row else {}),
        **({"chips": frozenset(int(e, 16) for e in row["chips"])} if "chips" in row else {}),
        **({"nvswitch": int(row["nvswitch"], 16)} if "nvswitch" in row else {}),
    }
