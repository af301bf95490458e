"""NCCL's own rules for one GPU and one HCA: settings, distance, direction.

Source: NVIDIA/nccl src/graph/paths.cc, ncclTopoCheckGdr and ncclGetLevel.
"""

from __future__ import annotations

from collections.abc import Callable

from toolkit.checks.chosen import Choice, Way, told
from toolkit.compat import Distances
from toolkit.facts.consumers import Setting
from toolkit.facts.nccl_log import Direction
from toolkit.facts.node import Node
from toolkit.facts.pci import PciFunction
from toolkit.facts.topology import Distance
from toolkit.gpus import BEFORE_TURING, chip

# What the integers of NCCL_NET_GDR_LEVEL mean: an older scale, kept in all versions.
_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")

Settings = dict[str, Setting]


def switched_off(settings: Settings) -> Choice | None:
    """Where a setting decides for the whole node."""
    for name, values in (("NCCL_IB_DISABLE", ("1",)), ("NCCL_NET", ("Socket",))):
        found = settings.get(name)
        if found is not None and found.value in values:
            return Choice(Way.NONE, f"{name}={found.value} in {found.file}")
    if "NCCL_NET_PLUGIN" in settings and settings["NCCL_NET_PLUGIN"].value not in {"none", ""}:
        plugin = settings["NCCL_NET_PLUGIN"]
        why = f"NCCL_NET_PLUGIN={plugin.value} in {plugin.file} has rules of its own"
        return Choice(Way.UNKNOWN, why)
    return None


def level(settings: Settings, names: tuple[str, ...]) -> str:
    """The path up to which NCCL_NET_GDR_LEVEL allows it; "" where it is not set, or to nothing."""
    found = settings.get("NCCL_NET_GDR_LEVEL")
    if found is None:
        return ""
    if found.value.isdecimal():
        return _LEVELS[min(int(found.value), len(_LEVELS) - 1)]
    return found.value if found.value in names and found.value not in {"NET", "DIS"} else ""


def by_distance(row: Distances, settings: Settings, distance: Distance) -> Choice | None:
    """None where the path is near enough; else why not, or why that is not known."""
    if "NCCL_TOPO_FILE" in settings:
        topology = settings["NCCL_TOPO_FILE"]
        why = f"NCCL_TOPO_FILE in {topology.file} stands in place of the PCI tree"
        return Choice(Way.UNKNOWN, why)
    asked = level(settings, row.names)
    limit = asked or row.limit
    wide = settings.get("NCCL_NET_GDR_C2C")
    coherent = bool(row.c2c) and not asked and (wide.value == "1" if wide else row.c2c_default == 1)
    names = _named(distance, row.names, coherent=coherent)
    within = [_within(row.names, each, limit) or (coherent and each == row.c2c) for each in names]
    bound = f"{limit} by NCCL_NET_GDR_LEVEL" if asked else limit
    shown = " or ".join(dict.fromkeys(names)) or "a distance that is not known"
    if all(within) and names:
        return None
    if any(within) or not names:
        return Choice(Way.UNKNOWN, f"{shown}, and the limit is {bound}")
    return Choice(Way.NONE, f"{shown}, and the limit is {bound}")


def _within(names: tuple[str, ...], name: str, limit: str) -> bool:
    return limit != "LOC" and names.index(name) <= names.index(limit)


def _named(distance: Distance, names: tuple[str, ...], *, coherent: bool) -> tuple[str, ...]:
    """NCCL's name of a distance in one version; several where it may be either; () for unknown."""
    match distance:
        case Distance.UNKNOWN:
            return ()
        case Distance.APART:
            return ("PHB", "SYS")
        case Distance.NODE if "NODE" not in names:
            return ("PHB",)  # NCCL has one CPU node for each NUMA node
        case Distance.P2C if "P2C" not in names:
            # 2.26 counts the path as C2C when told to, older ones see PCIe alone.
            return ("C2C",) if coherent else ("PHB",)
        case Distance.C2C if "C2C" not in names:
            return ("PHB",)
    return (distance.name,)


def by_direction(node: Node, gpu: PciFunction | None, settings: Settings) -> Choice | None:
    """Whether the HCA may read GPU memory, which is what sending is; None where it may.

    :param gpu: None where only its name in a matrix is known.
    """
    found = settings.get("NCCL_NET_GDR_READ")
    if found is not None and found.value == "0":
        return Choice(Way.NONE, f"NCCL_NET_GDR_READ=0 in {found.file}")
    forced = found is not None and found.value.isdecimal()
    new = gpu is not None and (not before_ampere(gpu) or len(node.pci.gpus) == 1)
    linked = told(lambda: node.nvlinked)
    if forced or new or linked:
        return None
    if gpu is None:
        return Choice(Way.UNKNOWN, "before Ampere it takes NVLink, and the GPU is not told")
    if linked is None:
        return Choice(Way.UNKNOWN, "older than Ampere, and NVLink is not known")
    return Choice(Way.NONE, "older than Ampere and without NVLink, NCCL does not let HCAs read")


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
