"""Does the IOMMU pass peer traffic through, now and after the next boot?"""

from __future__ import annotations

from collections import Counter

from toolkit.checks.check import (
    Finding,
    Gap,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.pci.iommu_words import (
    AMD,
    INTEL,
    SWITCHES,
    passes_through,
    settings,
    translation_asked,
    turned_off,
)
from toolkit.checks.role import PASSED_THROUGH
from toolkit.facts.boot.cmdline import Cmdline
from toolkit.facts.gpu.kernel_trouble import Trouble
from toolkit.facts.node.node import Node
from toolkit.facts.pci.iommu import Domain, IommuSaid
from toolkit.facts.pci.platform import Platform
from toolkit.plural import counted
from toolkit.want import Iommu, PeerPath, Role, Want

HOSTS = frozenset({Role.BARE_METAL, Role.VM_HOST})
# x2APIC: arch/x86/kernel/apic/apic.c, try_to_enable_x2apic.
FIX = (
    "iommu=pt (x86) or iommu.passthrough=1 (arm64) on the kernel command line (./invokew "
    "provision sets it), then a reboot; the IOMMU stays on in the BIOS: guests need it, and "
    "without it no CPU above 255 starts (x2APIC)"
)


@check(
    "iommu.state",
    impact=Impact.FRAGILE,
    roles=HOSTS,
    source="/sys/class/iommu; Documentation/admin-guide/kernel-parameters; ACPI DMAR, IVRS, IORT",
    fix="make the kernel's arguments say what is meant, and reboot",
)
def state(node: Node, want: Want) -> Finding:
    """The IOMMU is on or off because somebody said so, not against what was said.

    Off although asked for: an argument with a typing error, or a kernel without the driver;
    a later kernel or BIOS turns it on, and peer traffic with it. On although turned off:
    the firmware insists, or the argument is another maker's.
    """
    units, arguments = node.iommu_units, node.cmdline
    off = turned_off(arguments, node.cpu.vendor or node.cpu.model)
    if units:
        kinds = Counter(_kind_of(each) for each in units)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        if off:
            return failed(
                f"on ({told}), although {off} is on the command line", expected="the IOMMU off"
            )
        return passed(f"on: {told}")
    tables = sorted(node.acpi_tables)
    asked = [
        f"{name}={value}"
        for name, value in (
            ("intel_iommu", "on"),
            ("amd_iommu", "force_enable"),
            ("iommu", "force"),
        )
        if value in arguments.listed(name)
    ]
    if asked and not off and tables and node.cpu.vendor in SWITCHES[asked[0].partition("=")[0]]:
        return failed(
            f"off, although {asked[0]} asks for it and the firmware offers one ({tables[0]})",
            expected=f"the IOMMU on, or no {asked[0]}",
            hint="dmesg | grep -i -e DMAR -e AMD-Vi -e iommu",
        )
    why = off or ("the firmware offers none" if not tables else "nothing asks for it")
    return passed(f"off: {why}")


def _kind_of(unit: str) -> str:
    """ "dmar0" and "ivhd0" are numbered; "smmu3.0x12000000" has its place behind a dot."""
    name, dot, _ = unit.partition(".")
    return name if dot else name.rstrip("0123456789")


@check(
    "iommu.passthrough",
    impact=Impact.SLOW,
    roles=HOSTS,
    source="Documentation/ABI/testing/sysfs-kernel-iommu_groups; CUDA, GPUDirect RDMA guide; "
    "NVIDIA/open-gpu-kernel-modules issue 1324",
    fix=FIX,
)
def passthrough(node: Node, want: Want) -> Finding:
    """HCAs are in identity domains, or there is no IOMMU.

    Judged by the type of the HCA's group, not by the command line: a kernel may be built
    for passthrough, and a parameter may be overruled. It is the HCA that emits the
    addresses: under translation only the root complex understands them, so traffic climbs
    past the switch even with ACS off. On Grace and Vera translation is normal. Loose files
    without groups are judged by the kernel log and the command line.
    """
    if want.iommu is Iommu.ANY:
        return not_applicable("the profile leaves the IOMMU alone")
    if node.loose:
        return _by_what_was_said(node)
    if not node.iommu_units and not node.iommu_groups:
        return passed("no IOMMU is active")
    if node.platform in {Platform.COHERENT, Platform.DATA_DIRECT}:
        return not_applicable(f"on {node.platform} translation is normal: see acs.mask")
    gpus = node.pci.gpus
    if gpus and all(each.driver == PASSED_THROUGH for each in gpus):
        return not_applicable(f"{counted(len(gpus), 'GPU', 'is', 'are')} given to guests")
    return _by_groups(node, want)


def _by_groups(node: Node, want: Want) -> Finding:
    groups, hcas = node.iommu_groups, node.hcas
    if not hcas:
        return not_applicable("no HCA, whose domain it would be")
    domains = {each.address: groups[each.group] for each in hcas if each.group in groups}
    translated = {address: domain for address, domain in domains.items() if domain.translated}
    if translated:
        kinds = Counter(translated.values())
        return failed(
            "translated: " + ", ".join(f"{domain} on {count}" for domain, count in kinds.items()),
            expected="identity on every HCA",
            hint=_raw_addresses(node, want) or _argument(node),
            details=tuple(f"{address}: {domain}" for address, domain in translated.items()),
        )
    # A function given to a guest is not this node's to judge.
    unsure = [
        f"{each.address}: {domains.get(each.address, 'not told')}"
        for each in hcas
        if each.group and domains.get(each.address) not in {Domain.IDENTITY, Domain.UNMANAGED}
    ]
    if unsure:
        return unknown(f"domain type of {', '.join(unsure)}", hint="kernels before 4.19 tell none")
    identity = [each for each in domains.values() if each is Domain.IDENTITY]
    gpus = [each for each in node.pci.gpus if each.group in groups]
    return passed(
        f"identity on {counted(len(identity), 'HCA')}"
        if identity
        else "no HCA is in an IOMMU group",
        details=tuple(
            f"{each.address}: the GPU itself is translated, which does not matter here"
            for each in gpus
            if groups[each.group].translated
        ),
    )


def _argument(node: Node) -> str:
    """The one that this node's kernel reads; FIX tells of both, and of the BIOS."""
    word = {"aarch64": "iommu.passthrough=1", "x86_64": "iommu=pt"}.get(node.arch)
    told = "on the kernel command line (./invokew provision sets it), then a reboot"
    return f"{word} {told}" if word else ""


def _raw_addresses(node: Node, want: Want) -> str:
    if want.path is not PeerPath.DMABUF or node.driver is None:
        return ""
    if node.driver.version.numbers[0] != 595:
        return ""
    argument = "iommu.passthrough=1" if node.arch == "aarch64" else "iommu=pt"
    return (
        f"{argument}; drivers 595 were seen to hand out raw BAR addresses under translation "
        "(open-gpu-kernel-modules issue 1324)"
    )


def _other_boot(log: IommuSaid, how: str, *, told: bool) -> bool:
    """Whether the log cannot be of the boot with these arguments (drivers/iommu/iommu.c)."""
    if how:
        return not how.endswith("=off") and log.passthrough is False
    return told and bool(log.passthrough) and log.by_argument


def _by_what_was_said(node: Node) -> Finding:
    log, arguments = node.iommu_told
    how = passes_through(arguments, _vendor(node)) if arguments is not None else ""
    if log is not None and log.faults:
        return failed(
            f"the IOMMU refuses DMA of {', '.join(log.faults)}: IO_PAGE_FAULT",
            expected="iommu=pt, or no IOMMU active",
            hint="iommu=pt, then reboot; if it faults still: amd_iommu=off, or ACS off in the BIOS",
        )
    if log is not None and _other_boot(log, how, told=arguments is not None):
        return unknown(
            "the command line and the kernel log say different things: of two boots?",
            hint="cat /sys/kernel/iommu_groups/*/type",
        )
    if how:
        return passed(f"{how} on the command line")
    if log is not None and log.passthrough:
        return passed("the kernel logs passthrough as its default domain type")
    asked = arguments is not None and "on" in arguments.listed("intel_iommu")
    if (log is not None and log.enabled) or asked:
        return failed(
            "the kernel logs that the IOMMU is enabled, and nothing says passthrough"
            if log is not None and log.enabled
            else "intel_iommu=on, and nothing says passthrough",
            expected="iommu=pt, or no IOMMU active",
            hint="sure only from /sys/kernel/iommu_groups/*/type: capture the node itself",
        )
    return unknown(
        "neither kernel log nor command line tells whether an IOMMU translates",
        hint="cat /sys/kernel/iommu_groups/*/type",
        gap=Gap.LOG,
    )


@check(
    "iommu.faults",
    impact=Impact.FRAGILE,
    roles=HOSTS,
    source="Linux, drivers/iommu: intel/dmar.c (dmar_fault_do_one), amd/iommu.c "
    "(amd_iommu_report_page_fault), arm/arm-smmu-v3 (arm_smmu_dump_event)",
    fix="let the IOMMU pass peer traffic through (iommu=pt, iommu.passthrough=1) and reboot; where "
    "it does, or must not: newer driver, firmware of the HCA, BIOS",
)
def faults(node: Node, want: Want) -> Finding:
    """No IOMMU has refused a transfer of a GPU or an HCA.

    The bytes of such a transfer are lost, and the job that waited for them ends or hangs: an HCA
    was given an address of a GPU that its domain does not have, or memory was given back too early.
    An address without its PCI domain counts where no other device can be meant.
    """
    if not node.loose and not node.iommu_units and not node.iommu_groups:
        return not_applicable("no IOMMU is active")
    if not node.knows_pci and node.dma_faults:
        address = node.dma_faults[-1].address
        return unknown(
            f"the IOMMU refused transfers of {address}: whose they are is not told",
            hint=f"lspci -nn -s {address}",
        )
    watched = {each.address for each in (*node.pci.gpus, *node.hcas)}
    refused: dict[str, list[Trouble]] = {}
    for each in node.dma_faults:
        meant = [at for at in node.pci.functions if each.address in {at, at.partition(":")[2]}]
        if meant and watched.issuperset(meant):
            refused.setdefault(" or ".join(meant), []).append(each)
    if not refused:
        return passed(f"nothing {node.log_reaches}")
    return failed(
        f"the IOMMU refused transfers of {', '.join(refused)}",
        expected="no transfer of a GPU or an HCA refused",
        details=tuple(
            f"{address}: {counted(len(told), 'time')}, at last: {told[-1].text}"
            + f", {told[-1].when}" * bool(told[-1].when)
            for address, told in refused.items()
        ),
    )


@check(
    "iommu.boot",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    roles=HOSTS,
    source="Documentation/admin-guide/kernel-parameters: iommu, iommu.passthrough",
    fix=FIX,
)
def boot(node: Node, want: Want) -> Finding:
    """The next boot will pass peer traffic through too.

    What runs now may have been set by hand; what counts after the reboot is the boot
    loader's own configuration.
    """
    if want.iommu is Iommu.ANY:
        return not_applicable("the profile leaves the IOMMU alone")
    if node.grub_default is not None:
        return _by_grub_default(node.grub_default)
    if node.live and node.platform in {Platform.COHERENT, Platform.DATA_DIRECT}:
        return not_applicable(f"on {node.platform} translation is normal: see acs.mask")
    if not node.live and not node.boot_entries:
        return not_applicable("no boot menu in the image: who boots it gives the arguments")
    arguments, kernel = node.next_cmdline, node.next_boot.kernel
    vendor = node.cpu.vendor or node.cpu.model  # arm64 names no vendor
    how = passes_through(arguments, vendor) or _needs_no_argument(node)
    if how:
        return passed(f"{how} for {kernel}")
    return failed(
        f"nothing asks for passthrough in the entry of {kernel}",
        expected="iommu.passthrough=1"
        if node.arch == "aarch64"
        else "iommu=pt or iommu.passthrough=1",
        hint=_argument(node),
    )


def _needs_no_argument(node: Node) -> str:
    arguments, kernel = node.next_cmdline, node.next_boot.kernel
    # The options that were read are the running kernel's; another one's are not known.
    same = not node.live or kernel == node.kernel
    built_for_it = same and node.kernel_config.get("CONFIG_IOMMU_DEFAULT_PASSTHROUGH") == "y"
    vendor = node.cpu.vendor or node.cpu.model
    if built_for_it and not translation_asked(arguments, vendor):
        return "the kernel is built for passthrough"
    if node.live and not node.iommu_units and not turned_off(node.cmdline, vendor):
        if vendor in INTEL and _newly_on(node):
            return ""
        return "no IOMMU is active, and no argument turned it off"
    return ""


def _newly_on(node: Node) -> bool:
    """Whether the next boot asks for what this one did not."""
    return "on" in settings(node.next_cmdline, "intel_iommu") and "on" not in settings(
        node.cmdline, "intel_iommu"
    )


def _by_grub_default(arguments: Cmdline) -> Finding:
    how = passes_through(arguments)
    if how:
        return passed(f"{how} in /etc/default/grub")
    if "on" in arguments.listed("intel_iommu"):
        return failed(
            "/etc/default/grub asks for intel_iommu=on, not for passthrough",
            expected="iommu=pt as well",
        )
    return unknown("/etc/default/grub says nothing of an IOMMU", hint="capture the node itself")


# drivers/iommu/amd/init.c, detect_ivrs: from here on amd_iommu=off is asked first.
_AMD_ASKS_NO_MORE = (6, 19)


def asks_for_acs(node: Node) -> bool | None:
    """Whether the driver of an IOMMU asks the kernel for ACS at the next boot.

    AMD's does so as soon as it finds the firmware's table, which it looks for on behalf of
    interrupts too: with iommu=off, and with amd_iommu=off up to 6.18. None there, for a
    distribution may have mended its kernel earlier.

    :raises NoEvidence: where the boot configuration does not tell.
    """
    vendor = node.cpu.vendor or node.cpu.model
    if off := turned_off(node.next_cmdline, vendor):
        if vendor not in AMD or "IVRS" not in node.acpi_tables:
            return False
        heeded = off == "amd_iommu=off" and node.kernel_version.at_least(*_AMD_ASKS_NO_MORE)
        return False if heeded else None
    if node.iommu_units or turned_off(node.cmdline, vendor):
        return True
    return "on" in node.next_cmdline.listed("intel_iommu") and bool(node.acpi_tables)


def _vendor(node: Node) -> str:
    """Maker of the processors; "" where loose files do not tell, so that any will do."""
    if not node.knows_cpu:
        return ""
    return node.cpu.vendor or node.cpu.model
