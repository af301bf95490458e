"""Do HCAs translate addresses themselves where they should, and nowhere else?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.pci.platform import absent
from toolkit.checks.rdma.makers import CONNECTX, maker_of
from toolkit.checks.rdma.pasted_ports import ats_told, sriov_told
from toolkit.checks.role import PASSED_THROUGH, role
from toolkit.facts.firmware.machine import guest_of
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import Acs, Ats
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.platform import Platform, is_cx_nic
from toolkit.facts.pci.topology import Pair, path_pairs
from toolkit.plural import counted
from toolkit.want import Role, Want

# Virtual functions of Mellanox, by which a guest knows them; it sees no physfn.
_VIRTUAL = frozenset({0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E, 0xA2D3})
# Hypervisors whose guests read the capabilities of the device itself.
_SHOWS_ALL = frozenset({"qemu", "kvm"})
_HOSTS = frozenset({Role.BARE_METAL, Role.VM_HOST})


def _firmware(node: Node, address: str, *, on: bool) -> str:
    provider = maker_of(node, address)
    if provider is not None and provider.id != CONNECTX:
        word = "on" if on else "off"
        return f"ATS {word} in the firmware of {address}; then drain the node, cold boot"
    return (
        f"mlxconfig -d {address} set ATS_ENABLED={on:d} writes the HCA's own settings; then drain "
        "the node, cold boot"
    )


def _near_gpus(node: Node, here: Role) -> tuple[PciFunction, ...]:
    """Physical HCAs that share a switch with a GPU, or that the table of rdma_topo judges."""
    # What a host has given away drives no RDMA device there.
    host = here is Role.VM_HOST
    pairs = path_pairs(node.pci, node.pci.adapters) if host else node.near_pairs
    near = {each.hca.address for each in pairs}
    if node.platform in {Platform.INLINE, Platform.COHERENT}:
        near |= {each.address for each in node.pci.functions.values() if is_cx_nic(each)}
    functions = node.pci.functions
    return tuple(functions[address] for address in sorted(near) if not functions[address].virtual)


@check(
    "ats.nic",
    impact=Impact.SLOW,
    roles=_HOSTS,
    source="linux-rdma/rdma-core kernel-boot/rdma_topo; PCI Express Base Specification, ATS",
    fix="ATS off on bare metal, on where a host's guests do GPUDirect: ATS_ENABLED with mlxconfig "
    "on ConnectX, the maker's own tool on others, writes the HCA's settings; in force after a cold "
    "boot with the node drained",
)
def nic(node: Node, want: Want) -> Finding:
    """HCAs offer ATS on a host of guests, and do not on bare metal.

    With ATS an HCA sends addresses that are translated already, which switches route by
    rules of their own (DirectTrans). A host of guests needs that, for ACS cannot be off
    there; on bare metal nothing gains by it, and inline and NUMA-attached boards must not
    even offer it.
    """
    if said := ats_told(node, want):
        return said
    here = role(node, want)
    if node.platform is Platform.DATA_DIRECT:
        return not_applicable("the data-direct table says nothing of ATS")
    hcas = _near_gpus(node, here)
    if not hcas:
        return absent(node, "no HCA shares a switch with a GPU")
    functions = node.pci_config.functions
    told = {each.address: functions[each.address].ats() for each in hcas}
    if here is Role.VM_HOST and node.platform is not Platform.COHERENT:
        lacking = [address for address, ats in told.items() if ats is None]
        if lacking:
            return failed(
                f"{len(lacking)} of {len(told)} HCAs near GPUs offer no ATS",
                expected="ATS on each, for guests that do GPUDirect",
                hint=_firmware(node, lacking[0], on=True),
                details=tuple(lacking),
            )
        return passed(f"offered by {counted(len(told), 'HCA')} near GPUs")
    strict = node.platform in {Platform.INLINE, Platform.COHERENT}
    return _bare_metal(node, told, strict=strict)


def _bare_metal(node: Node, told: dict[str, Ats | None], *, strict: bool) -> Finding:
    offering = [address for address, ats in told.items() if ats is not None]
    enabled = [address for address in offering if (ats := told[address]) and ats.enabled]
    wrong = offering if strict else enabled
    if wrong:
        return failed(
            f"{'offered' if strict else 'enabled'} by {len(wrong)} of {len(told)} HCAs near GPUs",
            expected="no ATS on bare metal",
            hint=_firmware(node, wrong[0], on=False) + '; where guests run: role = "vm-host"',
            details=tuple(wrong),
        )
    return passed(
        f"off on {counted(len(told), 'HCA')} near GPUs",
        details=tuple(f"{address}: offered, not enabled" for address in offering),
    )


@check(
    "rdma.sriov",
    impact=Impact.SLOW,
    source="NCCL user guide, PCI ACS and virtual machines; linux-rdma/rdma-core rdma_topo",
    fix="on the host: ATS_ENABLED=1 with mlxconfig (it writes the HCA's own settings) and "
    "DirectTrans on the switch port above the HCA (pci=config_acs=); then drain it, cold boot",
)
def sriov(node: Node, want: Want) -> Finding:
    """Where virtual functions serve guests, their peer traffic has a direct way.

    A guest's traffic between HCA and GPU cannot have ACS off: only ATS on the HCA and
    DirectTrans on the ports above it keep it below the switch. On bare metal virtual
    functions change IOMMU groups and nothing else. Guests of Hyper-V and of others read
    registers that the hypervisor makes up: there only a measurement tells.
    """
    here = role(node, want)
    if (told := sriov_told(node)) or here is Role.VM:
        return told or _guest(node)
    virtual = [each for each in node.pci.adapters if each.virtual]
    given = tuple(each for each in node.pci.adapters if each.driver == PASSED_THROUGH)
    if not virtual and not given:
        return absent(node, "no virtual functions of HCAs, and none given to guests")
    if not node.drivers_told:
        return unknown("what drives the virtual functions was not printed", hint="lspci -k")
    if here is Role.BARE_METAL and not given:
        return passed(f"{len(virtual)} virtual functions, none of them in a guest")
    near = path_pairs(node.pci, given)
    if not near:
        count = counted(len(given), "HCA function", "is", "are")
        return not_applicable(f"{count} given to guests, none of them near a GPU")
    return _ports(node, near)


def _ports(node: Node, near: tuple[Pair, ...]) -> Finding:
    """DirectTrans on the bridges between GPUs and what guests have, on the HCA's side."""
    above = {b.address for each in near for b in each.bridges if b.address in each.hca.parents}
    registers = {address: node.pci_config.functions[address].acs_registers() for address in above}
    # A switch that has it not can do no better, and one without ACS redirects nothing.
    able = {
        address: found
        for address, found in sorted(registers.items())
        if found is not None and found.capability & Acs.DIRECT_TRANSLATED
    }
    if not able:
        return not_applicable(f"none of {len(above)} ports above HCAs of guests has DirectTrans")
    off = [at for at, found in able.items() if not found.control & Acs.DIRECT_TRANSLATED]
    if off:
        return failed(
            f"DirectTrans is off on {len(off)} of {len(above)} ports above HCAs of guests",
            expected="DirectTrans on each, and ATS on the HCA",
            hint=f'boot with "pci=config_acs={";".join(f"1xxxxxx@{address}" for address in off)}"',
            details=tuple(off),
        )
    return passed(
        f"DirectTrans on {len(able)} of {len(above)} ports above HCAs of guests",
        details=tuple(f"{at}: this port has no DirectTrans" for at in sorted(above - able.keys())),
    )


def _guest(node: Node) -> Finding:
    serving = {each.address for each in node.compute_hcas}
    virtual = [
        each
        for each in node.pci.adapters
        if each.virtual or (each.device in _VIRTUAL and each.address in serving)
    ]
    if not virtual:
        return absent(node, "no virtual function of an HCA in this guest")
    if (by := guest_of(node.dmi)) and by not in _SHOWS_ALL:
        return not_applicable(f"{by} makes up what a guest reads there: ib_write_bw --use_cuda")
    lacking = [
        each.address for each in virtual if node.pci_config.functions[each.address].ats() is None
    ]
    if lacking:
        return failed(
            f"{len(lacking)} of {len(virtual)} virtual functions offer no ATS",
            expected="ATS on each: without it peer traffic goes by the host's root complex",
            details=tuple(lacking),
        )
    return passed(f"ATS on {len(virtual)} virtual functions")
