"""What does the firmware offer and ask of the IOMMU, and who left ACS as it is?"""

from __future__ import annotations

from toolkit.checks.check import Impact
from toolkit.checks.firmware.bios import bios
from toolkit.checks.firmware.bios_seen import BiosFinding, moot, right, unseen, wrong
from toolkit.checks.pci.acs import BY_ROOT, IN_TABLE, on_paths
from toolkit.checks.pci.iommu_words import AMD, INTEL
from toolkit.checks.role import role
from toolkit.compat.bios import BiosRole
from toolkit.errors import NoEvidence
from toolkit.facts.firmware.secureboot import SecureBoot
from toolkit.facts.node.node import Node
from toolkit.facts.pci.acs import names_of
from toolkit.plural import counted
from toolkit.want import Role, Want

_MANY = 255  # processors beyond which only x2APIC numbers them
_X86 = frozenset({*INTEL, *AMD})


@bios(
    BiosRole.IOMMU,
    impact=Impact.BROKEN,
    source="/sys/firmware/acpi/tables: DMAR (Intel), IVRS (AMD), IORT (arm64)",
    fix="VT-d, AMD-Vi or SMMU on in the BIOS; how it translates is the kernel's: iommu.passthrough",
)
def iommu(node: Node, want: Want) -> BiosFinding:
    """The firmware publishes an IOMMU where guests are to be given devices.

    Without DMAR, IVRS or IORT there is none for the kernel, whatever its command line says.
    On bare metal GPUDirect works without one, and with one in passthrough: see
    iommu.passthrough.
    """
    tables = sorted(node.acpi_tables)
    here = role(node, want)
    if tables:
        return right(f"published: {', '.join(tables)}", on=True)
    if here is Role.VM_HOST:
        return wrong("no table offers an IOMMU", expected="DMAR, IVRS or IORT", on=False)
    return right("none published, and bare metal needs none", on=False)


@bios(
    BiosRole.DMA_PROTECTION,
    impact=Impact.FRAGILE,
    source="Intel VT-d specification 8.1, DMA_CTRL_PLATFORM_OPT_IN_FLAG; AMD IOMMU specification, "
    "IVinfo; drivers/iommu/intel/dmar.c, dmar_platform_optin()",
    fix="pre-boot (kernel) DMA protection off in the BIOS; it is not the IOMMU's own switch",
)
def dma_protection(node: Node, want: Want) -> BiosFinding:
    """The firmware does not ask the system to keep up protection from DMA on bare metal.

    With the opt-in flag the kernel may turn the IOMMU on by itself, and translate for
    devices that it takes for external, whatever the command line leaves alone.
    """
    table = node.iommu_table
    if table is None:
        return right("no table of an IOMMU, so nothing is asked", on=False)
    if not table.dma_opt_in:
        return right(f"not asked for in {table.name}", on=False)
    if role(node, want) is Role.VM_HOST:
        return right(f"asked for in {table.name}; a host of guests translates anyway", on=True)
    return wrong(
        f"{table.name} asks for protection from DMA",
        expected="the opt-in flag clear on bare metal",
        on=True,
    )


@bios(
    BiosRole.ACS,
    impact=Impact.SLOW,
    source="drivers/pci/pci.c, pci_enable_acs(); drivers/pci/p2pdma.c; PCI Express 7.7.11",
    fix="ACS (PCIe ACSCTL, Access Control Service) off in the BIOS on bare metal, on for a host of "
    "guests; where the BIOS has no such switch, provision clears it at boot",
)
def acs(node: Node, want: Want) -> BiosFinding:
    """Firmware leaves ACS as the role needs it: no redirect on bare metal, isolation for guests.

    While an IOMMU is on the kernel itself turns redirection on, so bits that are set then
    say nothing of the firmware; without one nobody but the firmware can have set them. What
    is in effect is judged by acs.redirect and acs.mask.
    """
    if node.platform in IN_TABLE:
        return moot(f"{node.platform} has a table of its own: see acs.mask")
    bridges, _ = on_paths(node)
    able = {bridge.address: found for bridge, found in bridges.items() if found is not None}
    if not able:
        return moot("no bridge between GPUs and HCAs has ACS" if bridges else BY_ROOT)
    on = {address: names_of(each.redirects) for address, each in able.items() if each.redirects}
    if role(node, want) is Role.VM_HOST:
        return _isolating(able.keys() - on.keys(), len(able), node)
    count = len(able)
    if not on:
        return right(f"no redirect on {counted(count, 'bridge')}", on=False, firm=False)
    if node.iommu_units:
        return unseen(
            f"{counted(len(on), 'bridge', 'redirects', 'redirect')}, which the kernel does itself "
            "while an IOMMU is on: see acs.redirect"
        )
    return wrong(
        f"{len(on)} of {count} bridges redirect, and no IOMMU is on: the firmware set it",
        expected="ACS off in the BIOS",
        on=True,
        firm=False,
        details=tuple(f"{address}: {bits}" for address, bits in sorted(on.items())),
    )


def _isolating(off: set[str], count: int, node: Node) -> BiosFinding:
    if not off:
        return right(f"redirect on {counted(count, 'bridge')}", on=True, firm=False)
    if node.iommu_units:
        return unseen(
            f"no redirect on {len(off)} of {count} bridges, which the kernel sets while an IOMMU "
            "is on: it was taken away since"
        )
    return wrong(
        f"no redirect on {len(off)} of {count} bridges, and no IOMMU is on that would set it",
        expected="isolation between what guests are given",
        on=False,
        firm=False,
        details=tuple(sorted(off)),
    )


@bios(
    BiosRole.ATS,
    impact=Impact.SLOW,
    source="Intel VT-d specification 8.5 (ATSR); drivers/iommu/intel/dmar.c, "
    "dmar_find_matched_atsr_unit()",
    fix="ATS (address translation services) on in the BIOS; then ats.nic",
)
def ats(node: Node, want: Want) -> BiosFinding:
    """On a host of guests the firmware names root ports that translate ahead (ATS).

    Without such a structure in DMAR the kernel turns ATS on for no device below them. AMD's
    and arm64's tables say nothing of it; bare metal needs none.
    """
    if role(node, want) is not Role.VM_HOST:
        return moot("no guests here: ATS is not needed")
    table = node.iommu_table
    if table is None:
        return unseen("no DMAR: who translates ahead is not told by this firmware")
    if table.name != "DMAR":
        return unseen(f"{table.name} does not tell of ATS")
    if table.ats is None:
        raise NoEvidence("DMAR: longer than what was read of it")
    if table.ats:
        return right("DMAR names root ports with ATS", on=True)
    return wrong("DMAR names no root port with ATS", expected="ATS at the root ports", on=False)


@bios(
    BiosRole.X2APIC,
    impact=Impact.FRAGILE,
    source="Intel VT-d specification 8.1, X2APIC_OPT_OUT; arch/x86/kernel/apic/apic.c",
    fix="x2APIC on (or Auto) in the BIOS, and its opt-out off",
)
def x2apic(node: Node, want: Want) -> BiosFinding:
    """The firmware lets the system use x2APIC where it has many processors.

    Without it no more than 255 of them are started, and interrupts of devices cannot reach
    the others.
    """
    if node.cpu.vendor not in _X86:
        return moot("no x86 processor")
    table = node.iommu_table
    refused = table is not None and bool(table.x2apic_opt_out)
    online = node.setup.online
    if not online:
        raise NoEvidence("/sys/devices/system/cpu/online: not told")
    if refused and online >= _MANY:
        return wrong(
            f"DMAR asks to keep off x2APIC, with {online} processors",
            expected="no opt-out",
            on=False,
            firm=False,
        )
    if refused:
        return right(
            f"DMAR asks to keep off it; {online} processors do without", on=False, firm=False
        )
    if not node.cpu.x2apic:
        if online >= _MANY:
            return wrong(
                f"the processor shows no x2APIC, and {online} are online",
                expected="x2APIC on",
                on=False,
            )
        return right(f"not shown; {online} processors do without", on=False, firm=False)
    return right(f"free to be used by {counted(online, 'processor')}", on=True, firm=False)


@bios(
    BiosRole.SECURE_BOOT,
    impact=Impact.FRAGILE,
    source="firmware variable SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    fix="as the site wants it; with it on, modules must be signed by an enrolled key: secureboot.*",
)
def secure_boot(node: Node, want: Want) -> BiosFinding:
    """Secure Boot is as the site wants it; by itself either way is in order.

    With it on, modules that DKMS builds need a key of the owner's (MOK), and lockdown keeps
    everybody from writing PCI registers: secureboot.signed and kernel.lockdown judge that.
    """
    state = node.secure_boot
    if state is SecureBoot.NO_EFI:
        return right("not booted by EFI, so there is none", on=False)
    return right(str(state), on=state is SecureBoot.ON)
