"""Which role does the node play? The right ACS and ATS values are opposite on some of them."""

from __future__ import annotations

from toolkit.facts.node.node import Node
from toolkit.facts.pci.topology import path_pairs
from toolkit.want import Role, Want

PASSED_THROUGH = "vfio-pci"


def role(node: Node, want: Want) -> Role:
    """The role that is wanted, else the one that the node shows.

    A host of guests shows itself by most of its GPUs that it has given away, or an HCA beside a
    GPU. A single GPU on vfio-pci among others is that GPU's failure (gpu.vfio_bound), and an HCA
    for storage that serves a guest says nothing of GPUs that the host uses itself. Loose files that
    tell nothing of it are taken to be of bare metal: say otherwise with ``role`` in the
    site's file (--site).
    """
    if want.role is not None:
        return want.role
    if node.is_guest:
        return Role.VM
    if not node.live or not node.knows_pci:
        return Role.BARE_METAL
    if _mostly_given(len(lent_gpus(node)), len(node.pci.gpus)):
        return Role.VM_HOST
    given = tuple(each for each in node.pci.adapters if each.driver == PASSED_THROUGH)
    beside = given and (not node.pci.gpus or path_pairs(node.pci, given))
    return Role.VM_HOST if beside else Role.BARE_METAL


def lent_gpus(node: Node) -> tuple[str, ...]:
    """GPUs that vfio-pci holds, by address."""
    return tuple(each.address for each in node.pci.gpus if each.driver == PASSED_THROUGH)


def _mostly_given(given: int, gpus: int) -> bool:
    """All of them, or several that are half of them or more."""
    return bool(given) and (given == gpus or (given > 1 and 2 * given >= gpus))
