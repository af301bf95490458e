"""Does the RDMA stack know each HCA that is there?"""

from __future__ import annotations

from collections import Counter

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.compat.reader import Hca, numbers
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import MELLANOX, PciFunction
from toolkit.facts.rdma.devices import Ofed, OfedFlavour
from toolkit.want import Want


@check(
    "ofed.hca",
    impact=Impact.BROKEN,
    source="DOCA General Support; MLNX_OFED release notes; toolkit/compat/data/hcas.toml",
    fix="with the node drained (it replaces the RDMA stack): a DOCA-OFED that supports the HCA",
)
def hca(node: Node, want: Want) -> Finding:
    """The RDMA stack supports each HCA that is there.

    MLNX_OFED ends with ConnectX-7 and BlueField-2: with anything newer its mlx5_core finds
    no device of its own, and nothing says why. One that is driven all the same is told, and
    is no failure: it works, and the vendor answers no question about it.
    """
    stack = node.ofed
    if stack.flavour is OfedFlavour.INBOX:
        return not_applicable("the inbox stack: its kernel decides, and rdma.devices tells")
    found = [
        each
        for each in node.pci.functions.values()
        if each.may_be_hca
        and each.vendor == MELLANOX
        and not each.virtual
        and each.driver != "vfio-pci"
    ]
    if not found:
        return not_applicable("no ConnectX and no BlueField here")
    named = {each.address: want.compat.hca(each.device) for each in found}
    outside = [each for each in found if not _supports(stack, named[each.address])]
    shown = ", ".join(
        f"{count} {name}" for name, count in Counter(_name(each, want) for each in found).items()
    )
    if outside and not node.drivers_told:
        return unknown(f"{stack} does not support {_name(outside[0], want)}: is it driven?")
    idle = [each for each in outside if not each.driver]
    if idle:
        return _idle(idle, stack, want)
    strange = [each for each in found if not each.driver and named[each.address] is None]
    if node.drivers_told and strange:
        return unknown(f"{strange[0].address} is {_name(strange[0], want)}, which is not known")
    details = (f"{e.address}: {_name(e, want)}, driven, not supported by {stack}" for e in outside)
    return passed(shown, details=tuple(details))


def _idle(idle: list[PciFunction], stack: Ofed, want: Want) -> Finding:
    first = want.compat.hca(idle[0].device)
    new = f"DOCA-OFED {first.first if first else ''}".strip()
    hint = f"install {new} or newer"
    if (
        first is not None
        and first.before
        and numbers(str(stack.version or "")) >= numbers(first.before)
    ):
        hint = f"keep OFED below {first.before}, or the inbox stack"
    return failed(
        f"{stack} does not support {_name(idle[0], want)}: {len(idle)} without a driver",
        expected="a stack that supports each HCA",
        hint=hint,
        details=tuple(f"{each.address}: {_name(each, want)}" for each in idle),
    )


def _supports(stack: Ofed, kind: Hca | None) -> bool:
    """Whether a stack is said to support a kind of HCA; true for one that is not known."""
    if kind is None or stack.version is None:
        return True
    vendors = stack.flavour is OfedFlavour.DOCA_OFED or kind.mlnx_ofed
    return vendors and kind.covers(str(stack.version))


def _name(function: PciFunction, want: Want) -> str:
    """ "ConnectX-8", or its ids."""
    kind = want.compat.hca(function.device)
    return kind.name if kind else f"15b3:{function.device:04x}"
