"""NCCL's own rules for one GPU and one HCA: settings, distance, direction.

Source: NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckGdr and ncclGetLevel.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from toolkit.checks.consumers.chosen import Choice, Way
from toolkit.compat.gpus import BEFORE_TURING, chip
from toolkit.compat.reader import Distances, numbers
from toolkit.errors import read_or
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.nccl.nccl_log import Direction
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.topology import Distance

# What the integers of NCCL_NET_GDR_LEVEL mean: an older scale, kept in all versions.
_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")

Settings = dict[str, Setting]


def switched_off(settings: Settings) -> Choice | None:
    """Where a setting decides for the whole node."""
    dark, net = settings.get("NCCL_IB_DISABLE"), settings.get("NCCL_NET")
    if dark is not None and dark.number:
        return Choice(Way.NONE, f"NCCL_IB_DISABLE={dark.value} in {dark.file}")
    if net is not None and net.value.lower() == "socket":
        return Choice(Way.NONE, f"NCCL_NET={net.value} in {net.file}")
    if net is not None and net.value.lower() not in {"ib", ""}:
        return Choice(Way.UNKNOWN, f"NCCL_NET={net.value} in {net.file} has rules of its own")
    if "NCCL_NET_PLUGIN" in settings and settings["NCCL_NET_PLUGIN"].value not in {"none", ""}:
        plugin = settings["NCCL_NET_PLUGIN"]
        why = f"NCCL_NET_PLUGIN={plugin.value} in {plugin.file} has rules of its own"
        return Choice(Way.UNKNOWN, why)
    return None


def may_lack_dmabuf(version: str, origin: str) -> bool:
    """Whether it may have been built without dma-buf, which takes CUDA 11.7 or newer.

    Up to 2.21.5 NVIDIA gave NCCL out for CUDA 11 too, built with 11.0 (src/init.cc,
    dmaBufSupported; NVIDIA/nccl issue 1142).
    """
    return "_cu11-" in origin and numbers(version) < numbers("2.22")


def allowed(name: str, setting: Setting, port: int = 0) -> bool:
    """Whether NCCL_IB_HCA lets an HCA be used: names by their beginning, "=" whole, "^" not.

    Source: NVIDIA/nccl src/transport/net_ib, and parseStringList and matchIfList beside it.

    :param name: as in /sys/class/infiniband: "mlx5_0".
    :param port: one of its ports; 0 for any.
    """
    text = setting.value
    refused = text.startswith("^")
    text = text.removeprefix("^")
    whole = text.startswith("=")
    entries = [each.partition(":") for each in text.removeprefix("=").split(",")]
    named = [(start, _port(end)) for start, _, end in entries if start]
    met = not named or any(
        (name == start if whole else name.startswith(start)) and (not at or not port or at == port)
        for start, at in named
    )
    return met != refused


def _port(text: str) -> int:
    """As atoi reads it; 0 where none is named."""
    found = re.match(r"\s*(\d+)", text)
    return int(found[1]) if found else 0


def level(settings: Settings, names: tuple[str, ...]) -> str:
    """The path up to which NCCL_NET_GDR_LEVEL allows it; "" where it is not set, or to nothing."""
    found = settings.get("NCCL_NET_GDR_LEVEL")
    if found is None:
        return ""
    if found.value[:1].isdecimal():
        return _LEVELS[min(found.number, len(_LEVELS) - 1)]
    return found.value if found.value in names and found.value not in {"NET", "DIS"} else ""


def by_distance(row: Distances, settings: Settings, distance: Distance) -> Choice | None:
    """None where the path is near enough; else why not, or why that is not known."""
    if "NCCL_TOPO_FILE" in settings:
        topology = settings["NCCL_TOPO_FILE"]
        why = f"NCCL_TOPO_FILE in {topology.file} stands in place of the PCI tree"
        return Choice(Way.UNKNOWN, why)
    if "NCCL_NET_GDR_LEVEL" in settings and "LOC" not in row.names:
        return Choice(Way.UNKNOWN, "before 2.6 NCCL_NET_GDR_LEVEL counts by numbers of its own")
    asked = level(settings, row.names)
    wide = settings.get("NCCL_NET_GDR_C2C")
    coherent = wide.number != 0 if wide else row.c2c_default == 1
    limit = asked or (coherent and row.c2c) or row.limit
    names = _named(distance, row, coherent=coherent)
    within = [limit != "LOC" and row.names.index(each) <= row.names.index(limit) for each in names]
    bound = f"{limit} by NCCL_NET_GDR_LEVEL" if asked else row.limit
    shown = " or ".join(dict.fromkeys(names)) or "a distance that is not known"
    if all(within) and names:
        return None
    if any(within) or not names:
        return Choice(Way.UNKNOWN, f"{shown}, and the limit is {bound}")
    return Choice(Way.NONE, f"{shown}, and the limit is {bound}")


def _named(distance: Distance, row: Distances, *, coherent: bool) -> tuple[str, ...]:
    """NCCL's name of a distance in one version; several where it may be either; () for unknown."""
    names = row.names
    match distance:
        case Distance.UNKNOWN:
            return ()
        case Distance.APART:
            return ("PHB", "SYS")
        case Distance.P2C if coherent and row.c2c_as:
            return (row.c2c_as,)
        case Distance.NODE | Distance.P2C | Distance.C2C if distance.name not in names:
            return ("PHB",)  # NCCL has one CPU node for each NUMA node; older ones know no C2C
    return (distance.name,)


def by_direction(
    node: Node, row: Distances, gpu: PciFunction | None, settings: Settings
) -> Choice | None:
    """Whether the HCA may read GPU memory, which is what sending is; None where it may.

    :param gpu: None where only its name in a matrix is known.
    """
    found = settings.get("NCCL_NET_GDR_READ")
    if found is not None and found.value and found.number == 0:
        return Choice(Way.NONE, f"NCCL_NET_GDR_READ={found.value} in {found.file}")
    forced = found is not None and found.number > 0
    single = gpu is not None and len(node.pci.gpus) == 1
    new = gpu is not None and row.ampere_reads and not before_ampere(gpu)
    linked = read_or(lambda: node.nvlinked, None)
    if forced or new or single or linked:
        return None
    if row.ampere_reads and gpu is None:
        return Choice(Way.UNKNOWN, "before Ampere it takes NVLink, and the GPU is not told")
    which = "older than Ampere" if row.ampere_reads else "NCCL before 2.19"
    if linked is None:
        return Choice(Way.UNKNOWN, f"{which}, and NVLink is not known")
    return Choice(Way.NONE, f"{which} and without NVLink, HCAs are not let to read")


def before_ampere(gpu: PciFunction) -> bool:
    """Compute capability below 8.0; a GPU that is not in our table is new."""
    known = chip(gpu.device)
    return known is not None and known.architecture in BEFORE_TURING | {"Turing"}


def of_pair(
    base: Choice, rules: tuple[Callable[[], Choice | None], ...], direction: Direction
) -> Choice:
    """The first rule that speaks against it, else what was decided before.

    :param rules: that of the distance, then that of the direction, which counts for sending.
    """
    if base.way is Way.NONE:
        return base
    counted = rules if direction is Direction.SEND else rules[:1]
    against = [found for rule in counted if (found := rule()) is not None]
    refused = next((each for each in against if each.way is Way.NONE), None)
    return refused or next(iter(against), base)


def takes_pxn(row: Distances) -> bool:
    """Since 2.12 a far GPU may go through the one beside the HCA, over NVLink."""
    return "PXN" in row.names
