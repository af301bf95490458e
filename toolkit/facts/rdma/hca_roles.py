"""What each HCA is for: the jobs' traffic, storage, or the management of the node.

Nothing on a node says so outright. What is taken for granted here is said in each answer:
jobs use the HCA that is nearest to a GPU; an HCA that carries the default route or our own
session, far from every GPU and with others for the jobs, is there for management.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.facts.pci.topology import Distance, Pair


class HcaUse(StrEnum):
    COMPUTE = "compute"
    STORAGE = "storage"
    MANAGEMENT = "management"


class HcaRole(Struct, frozen=True):
    """One HCA and its use, with the reason."""

    address: str
    use: HcaUse
    why: str


def hca_roles(
    pairs: tuple[Pair, ...], interfaces: dict[str, tuple[str, ...]], carrying: dict[str, str]
) -> tuple[HcaRole, ...]:
    """Tell the HCAs of a node apart.

    :param pairs: every GPU with every HCA.
    :param interfaces: network interfaces of each HCA, by its address.
    :param carrying: what an interface carries for the node itself: "the default route".
    """
    best: dict[str, Distance] = {}
    for each in pairs:
        best[each.gpu.address] = min(each.distance, best.get(each.gpu.address, each.distance))
    hcas = list(dict.fromkeys(each.hca.address for each in pairs))
    serving = [e for e in pairs if e.distance == best[e.gpu.address]]
    # The pair in which an HCA is as near to a GPU as any other.
    nearest = {
        address: min(
            (each for each in serving if each.hca.address == address),
            key=lambda each: each.distance,
            default=None,
        )
        for address in hcas
    }
    carries = {
        address: ", ".join(
            f"{carrying[name]} ({name})" for name in interfaces.get(address, ()) if name in carrying
        )
        for address in hcas
    }
    others = any(nearest[address] and not carries[address] for address in hcas)
    return tuple(_role(each, nearest[each], carries[each], others=others) for each in hcas)


def _role(address: str, pair: Pair | None, carries: str, *, others: bool) -> HcaRole:
    near = pair is not None and pair.distance <= Distance.P2C
    if carries and not near and others:
        return HcaRole(address, HcaUse.MANAGEMENT, f"carries {carries}; others serve the GPUs")
    if pair is None:
        return HcaRole(address, HcaUse.STORAGE, "every GPU has a nearer HCA: taken for storage")
    why = f"{pair.distance.shown} to {pair.gpu.address}, which has none nearer"
    return HcaRole(address, HcaUse.COMPUTE, f"{why}; carries {carries} too" if carries else why)
