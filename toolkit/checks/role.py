"""Which role does the node play? The right ACS and ATS values are opposite on some of them."""

from __future__ import annotations

from toolkit.facts.node import Node
from toolkit.want import Role, Want

PASSED_THROUGH = "vfio-pci"


def role(node: Node, want: Want) -> Role:
    """The role that is wanted, else the one that the node shows.

    A host of guests shows itself by a GPU or HCA that it has given away. Loose files that
    tell nothing of it are taken to be of bare metal: say otherwise with ``role`` in the
    site's file (--site).
    """
    if want.role is not None:
        return want.role
    if node.is_guest:
        return Role.VM
    if not node.knows_pci:
        return Role.BARE_METAL
    given = (each.driver == PASSED_THROUGH for each in (*node.pci.gpus, *node.pci.adapters))
    return Role.VM_HOST if any(given) else Role.BARE_METAL
