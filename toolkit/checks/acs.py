"""Does a bridge on the way send peer traffic up to the root complex?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed
from toolkit.checks.role import role
from toolkit.errors import NoEvidence
from toolkit.facts.config_space import REDIRECT, Acs
from toolkit.facts.node import Node
from toolkit.facts.pci import MELLANOX
from toolkit.facts.topology import path_pairs
from toolkit.want import Role, Want

DATA_DIRECT = 0x2100  # ConnectX-8's second DMA function
_SHORT = {
    Acs.REQUEST_REDIRECT: "ReqRedir",
    Acs.COMPLETION_REDIRECT: "CmpltRedir",
    Acs.EGRESS_CONTROL: "EgressCtrl",
}


@check(
    "acs.redirect",
    impact=Impact.SLOW,
    source="drivers/pci/p2pdma.c, pci_bridge_has_acs_redir; NCCL user guide, PCI ACS",
    fix="ACS off in the BIOS, or pci=disable_acs_redir= for these bridges on the kernel "
    "command line; setpci does not survive a boot and is refused under lockdown",
)
def redirect(node: Node, want: Want) -> Finding:
    """No bridge between a GPU and an HCA below a common switch redirects peer traffic.

    Judged are request redirect, completion redirect and egress control, on the bridges of
    the path alone. SrcValid is harmless, though it is what most checks look for; iommu=pt
    does not turn ACS off.
    """
    here = role(node, want)
    if here is not Role.BARE_METAL:
        return not_applicable(f"on a {here} the right bits are others")
    if any(f.vendor == MELLANOX and f.device == DATA_DIRECT for f in node.pci.functions.values()):
        return not_applicable("a data-direct platform has rules of its own")
    pairs = path_pairs(node.pci, node.hcas)
    if not pairs:
        return not_applicable("no GPU shares a switch with an HCA: all goes by the root complex")
    on_path = {bridge.address for each in pairs for bridge in each.bridges}
    redirecting = []
    for address in sorted(on_path):
        space = node.pci_config.functions[address].config
        if space is None:
            raise NoEvidence(f"config space of {address}: not part of this evidence")
        control = space.acs()
        if control is not None and control & REDIRECT:
            bits = [name for bit, name in _SHORT.items() if control & bit]
            redirecting.append(f"{address}: {' '.join(bits)} (ACSCtl {control:04x})")
    if redirecting:
        return failed(
            f"{len(redirecting)} of {len(on_path)} bridges on GPU-HCA paths redirect",
            expected="ReqRedir, CmpltRedir and EgressCtrl clear on each",
            details=tuple(redirecting),
        )
    return passed(f"clear on {len(on_path)} bridges of {len(pairs)} GPU-HCA paths")
