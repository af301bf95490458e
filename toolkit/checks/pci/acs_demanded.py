"""Which bridges of a node should have which ACS bits: what is judged, and brought about."""

from __future__ import annotations

from toolkit.facts.node.node import Node
from toolkit.facts.pci.acs import NO_REDIRECT, Demand, demands
from toolkit.facts.pci.config_space import AcsRegisters
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.platform import Platform

BY_ROOT = "no GPU shares a switch with an HCA: all goes by the root complex"
IN_TABLE = frozenset({Platform.DATA_DIRECT, Platform.COHERENT, Platform.INLINE})


def on_paths(node: Node) -> tuple[dict[PciFunction, AcsRegisters | None], int]:
    """The bridges on paths below a common switch, in bus order, and the number of paths."""
    pairs = node.near_pairs
    addresses = {bridge.address for each in pairs for bridge in each.bridges}
    tree = node.pci_config.functions if pairs else {}
    said = dict(node.acs_said)  # by setpci, beside an lspci that shows no capabilities
    return {
        tree[at]: said[at] if at in said else tree[at].acs_registers() for at in sorted(addresses)
    }, len(pairs)


def demanded(node: Node, *, virtualised: bool) -> tuple[Demand, ...]:
    """One demand a bridge; on boards that are in no table, on GPU-HCA paths alone.

    :raises NoEvidence: where the config space of a bridge was not read as far as that.
    """
    if node.platform in IN_TABLE:
        return demands(node.pci_config, node.platform, virtualised=virtualised)
    return tuple(Demand(bridge, NO_REDIRECT, "") for bridge in on_paths(node)[0])
