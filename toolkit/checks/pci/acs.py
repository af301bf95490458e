"""Do bridges let peer traffic through where it should, now and after the next boot?"""

from __future__ import annotations

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.pci.iommu import asks_for_acs
from toolkit.checks.pci.platform import absent
from toolkit.checks.role import role
from toolkit.facts.boot.acs_boot import AcsArguments
from toolkit.facts.node.node import Node
from toolkit.facts.pci.acs import (
    NO_REDIRECT,
    Demand,
    config_acs,
    demands,
    disable_acs_redir,
    group_troubles,
    mistakes_arguments,
    names_of,
)
from toolkit.facts.pci.config_space import Acs, AcsRegisters
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.platform import Platform
from toolkit.facts.text.tool_reports import TopoCheck
from toolkit.facts.versions import Version
from toolkit.plural import counted
from toolkit.want import Role, Want

# Which bridges of a node should have which ACS bits: what is judged, and brought about.
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


_BARE_METAL = frozenset({Role.BARE_METAL})
# The last resort is named, for people look for it, with what is wrong about it.
_NAMING = "provision, or boot with the argument that names them"
_SETPCI = "setpci alone is lost at each boot and refused under lockdown"


@check(
    "acs.redirect",
    impact=Impact.SLOW,
    roles=_BARE_METAL,
    source="drivers/pci/p2pdma.c, pci_bridge_has_acs_redir; NCCL user guide, PCI ACS",
    fix="provision does: pci=disable_acs_redir= for these bridges (kernels 4.19 to 6.10) or "
    "pci=config_acs= (6.12.23, 6.13.11, 6.14.2, 6.15 and later), quoted for GRUB because of the "
    "semicolons, and a unit that runs early on other kernels; or ACS off in the BIOS; " + _SETPCI,
)
def redirect(node: Node, want: Want) -> Finding:
    """No bridge between a GPU and an HCA below a common switch redirects peer traffic.

    Judged are request redirect, completion redirect and egress control, on the bridges of
    the path alone; with one of them peer traffic climbs to the root complex: 1 to 3 GB/s,
    hangs, or completion error 4 or 12. SrcValid is harmless, though it is what most checks
    look for; iommu=pt does not turn ACS off. Between root ports all traffic goes by the
    root complex anyway. To confirm: with NCCL_NET_GDR_LEVEL=LOC the trouble is gone.
    """
    if not node.knows_pci and node.acs_said:
        return _by_setpci(node)
    if node.platform in IN_TABLE:
        return not_applicable(f"{node.platform} has a table of its own: see acs.mask")
    bridges, pairs = on_paths(node)
    if not pairs:
        return absent(node, BY_ROOT)
    told, forwarding = [], []
    for bridge, registers in bridges.items():
        if registers is None:
            continue
        bits = f"{names_of(registers.redirects)} (ACSCtl {registers.control:04x})"
        if registers.redirects:
            told.append((bridge.address, bits))
        elif registers.control & Acs.UPSTREAM_FORWARDING:
            forwarding.append(f"{bridge.address}: UpstreamFwd alone, which redirects nothing")
    if told:
        return failed(
            f"{len(told)} of {len(bridges)} bridges on GPU-HCA paths redirect",
            expected="ReqRedir, CmpltRedir and EgressCtrl clear on each",
            # Without addresses, so that nodes whose buses have other numbers are told of together.
            hint=f"provision, or ACS off in the BIOS, or boot with the argument that names them; "
            f"{_SETPCI}",
            details=(
                *(f"{address}: {bits}" for address, bits in told),
                f'named by "{disable_acs_redir(tuple(dict(told)))}"',
            ),
        )
    return passed(
        f"clear on {len(bridges)} bridges of {pairs} GPU-HCA paths", details=tuple(forwarding)
    )


def _by_setpci(node: Node) -> Finding:
    """What registers tell of which nobody knows where their bridges are."""
    read = [(at or "a bridge", each) for at, each in node.acs_said if each is not None]
    told = ", ".join(f"{at} {each.control:04x}" for at, each in read if each.redirects)
    redirecting = sum(bool(each.redirects) for _, each in read)
    registers = counted(len(read), "ACS control register")
    return unknown(
        f"peer traffic is redirected by {redirecting} of {registers}"
        f"{f' ({told})' if told else ''}; whether a GPU reaches its HCA by them is not told",
        hint="lspci -tv -nn beside it tells which bridges are between; lspci -vvv as root, both",
    )


@check(
    "acs.mask",
    impact=Impact.SLOW,
    source="linux-rdma/rdma-core kernel-boot/rdma_topo",
    fix="boot with the pci=config_acs= that provision, or rdma_topo write-grub-acs (rdma-core 61), "
    "writes (kernel 6.12.23, 6.13.11, 6.14.2, 6.15 and later); no IOMMU group can be changed by "
    "hand",
)
def mask(node: Node, want: Want) -> Finding:
    """Bridges and IOMMU groups are as the platform wants them.

    On data-direct, inline and NUMA-attached boards "all ACS off" is wrong: data-direct needs
    one redirect on each of two ports and one IOMMU group for DMA function and GPU; inline
    boards need all off on bare metal, and isolation with DirectTrans on a host of guests;
    on Grace and Vera the kernel's default is right. The driver refuses some mappings where
    the groups are wrong. Masks are written as config_acs takes them.
    """
    here = role(node, want)
    if here is Role.VM:
        return not_applicable("a guest does not see the bridges")
    if node.rdma_topo is not None and not node.knows_pci:
        return _by_rdma_topo(node.rdma_topo)
    platform = node.platform
    if platform not in IN_TABLE:
        return not_applicable(f"GPUs and HCAs meet at {platform}: see acs.redirect")
    virtualised = here is Role.VM_HOST
    tree = node.pci_config
    wanted = demands(tree, platform, virtualised=virtualised)
    wrong = [
        f"{each.bridge.address} ({each.place}): {trouble}, wanted {each.mask}"
        for each in wanted
        if (trouble := each.trouble(each.bridge.acs_registers()))
    ]
    groups = group_troubles(tree, platform, virtualised=virtualised)
    if wrong or groups:
        return failed(
            f"{platform} on {here}: {len(wrong)} of {len(wanted)} bridges and {len(groups)} "
            "IOMMU groups are not as wanted",
            expected="the masks and groups of rdma_topo",
            hint=_arguments(wanted, platform, virtualised=virtualised),
            details=(*wrong, *groups),
        )
    return passed(f"{platform} on {here}: {len(wanted)} bridges and the IOMMU groups fit")


def _by_rdma_topo(told: TopoCheck) -> Finding:
    if told.wrong:
        return failed(
            f"rdma_topo check: {len(told.wrong)} of {len(told.wrong + told.right)} fail",
            expected="the masks and groups of rdma_topo",
            hint="the IOMMU on, rdma_topo write-grub-acs, and a reboot",
            details=told.wrong,
        )
    if not told.whole:
        return unknown("rdma_topo check did not come to its end: no IOMMU group of each GPU")
    return passed(f"rdma_topo check: all {len(told.right)} OK")


def _arguments(wanted: tuple[Demand, ...], platform: Platform, *, virtualised: bool) -> str:
    argument = config_acs(wanted)
    if platform is Platform.INLINE and not virtualised:
        return f'ACS off in the BIOS, or boot with "{argument}"; where guests run: role = "vm-host"'
    if argument:
        return f'the IOMMU on, and boot with "{argument}"'
    return "the IOMMU on, and no pci=disable_acs_redir or config_acs: the kernel's default is right"


@check(
    "acs.persistence",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    roles=frozenset({Role.BARE_METAL, Role.VM_HOST}),
    source="drivers/pci/pci.c, pci_request_acs and pci_enable_acs; drivers/iommu",
    fix="pci=disable_acs_redir= or pci=config_acs= for these bridges in the boot configuration, "
    "or a unit that calls setpci at each boot and is enabled",
)
def persistence(node: Node, want: Want) -> Finding:
    """Bridges that are right now are right after the next boot too.

    When an IOMMU comes up the kernel turns ACS on at every bridge that has it, whatever the
    firmware left: what is clear under an IOMMU was cleared by somebody. Decided from the
    arguments of the next boot and from units that call setpci; what the BIOS does is not
    seen from here, and does not outlast the kernel. Without IOMMU nobody asks for ACS, but
    AMD's driver may, even with iommu=off, or with amd_iommu=off before kernel 6.19: turn it
    off in the BIOS, or name the bridges.
    """
    if not node.live:
        return not_applicable("an image has no bridges")
    virtualised = role(node, want) is Role.VM_HOST
    if node.platform not in IN_TABLE and virtualised:
        return not_applicable("on a vm-host ACS stays on")
    wanted = demanded(node, virtualised=virtualised)
    if not wanted:
        return absent(node, BY_ROOT)
    if any(each.trouble(each.bridge.acs_registers()) for each in wanted):
        # Wrong now: what the next boot is told and the running kernel was not may mend it.
        told = node.next_acs_arguments
        if told != node.acs_arguments and not _troubled(node, wanted, _understood(node)):
            return passed(
                f"written, not in effect: pci= of the next boot sets {len(wanted)} bridges"
            )
        return not_applicable("not right now: see acs.redirect and acs.mask")
    return _after_boot(node, wanted)


def _after_boot(node: Node, wanted: tuple[Demand, ...]) -> Finding:
    """What the kernel will make of the bridges, and what will mend them after it."""
    asks = asks_for_acs(node)
    if asks is False:
        return passed("no IOMMU asks for ACS: it stays as the firmware leaves it")
    plain = _troubled(node, wanted, AcsArguments())
    if not plain:
        return passed(f"what the kernel sets is right for {len(wanted)} bridges")
    left = _troubled(node, wanted, _understood(node))
    if not left:
        return passed(f"pci= of the next boot sets {len(plain)} bridges")
    enabled = [each for each in node.acs_units if each.enabled]
    locked = node.lockdown if enabled else "none"
    if enabled and locked == "none":
        names = ", ".join(each.name for each in enabled)
        return passed(f"{names} calls setpci at boot", details=tuple(e.command for e in enabled))
    if asks is None:
        return unknown(
            "AMD's driver may ask for ACS although it is off: it found the firmware's table",
            hint=f'sure with "{disable_acs_redir(tuple(e.bridge.address for e in left))}"',
        )
    addresses = tuple(each.bridge.address for each in left)
    argument = config_acs(wanted) if node.platform in IN_TABLE else disable_acs_redir(addresses)
    idle = [each.name for each in node.acs_units if not each.enabled]
    by = "by hand" if locked == "none" else f"now, and {enabled[0].name} is refused by lockdown"
    return failed(
        f"{len(left)} of {len(wanted)} bridges are right {by}: the IOMMU sets ACS at boot",
        expected="an argument of the next boot, or an enabled unit, that sets them",
        hint=f"systemctl enable {idle[0]}" if idle and not enabled else _NAMING,
        details=(*addresses, f'named by "{argument}"'),
    )


def _understood(node: Node) -> AcsArguments:
    """The arguments of the next boot that its kernel will understand.

    What the running kernel was told too has shown what it does: the bridges are right.
    """
    told, kernel = node.next_acs_arguments, node.next_boot.kernel
    if told == node.acs_arguments and kernel == node.kernel:
        return told
    if mistakes_arguments(kernel):
        return AcsArguments()
    if not told.configured or Version(kernel).at_least(6, 11):
        return told
    return AcsArguments(told.disabled)


def _troubled(
    node: Node, wanted: tuple[Demand, ...], arguments: AcsArguments
) -> tuple[Demand, ...]:
    found = []
    for each in wanted:
        now = each.bridge.acs_registers()
        if now is None:
            continue
        then = arguments.at_boot(node.pci, each.bridge, now.capability)
        if each.trouble(AcsRegisters(now.capability, then)):
            found.append(each)
    return tuple(found)
