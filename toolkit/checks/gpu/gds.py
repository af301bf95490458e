"""GPUDirect Storage: can the storage drivers get at GPU memory?"""

from __future__ import annotations

import re

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.modules.fixes import registry_dwords
from toolkit.checks.role import role
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.gpu.gds import GdsCheck
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import PciFunction
from toolkit.facts.pci.iommu import Domain
from toolkit.facts.pci.platform import is_grace_port
from toolkit.facts.versions import Version
from toolkit.want import Role, Want

GRACE = "the SMMU on, and translating"
NVME = 0x0108  # class and subclass
NOT_HERE = "GPUDirect Storage is not installed"
BY_P2PDMA = "cuFile is set to P2PDMA, which needs no nvidia-fs; see gds.p2pdma"
NOT_LOADED = "nvidia-fs is not loaded; see gds.nvidia_fs"
# nvidia-fs from 2.17.5 on is GPL alone, and the proprietary module refuses it its symbols.
GATE = (2, 17, 5)
STATIC_BAR = ("RMForceStaticBar1=1", "RmForceDisableIomapWC=1")


@check(
    "gds.nvidia_fs",
    impact=Impact.SLOW,
    source="NVIDIA/gds-nvidia-fs ChangeLog, issues 14, 31, 64; gdscheck -p",
    fix="dkms install nvidia-fs/VERSION for the running kernel, then modprobe nvidia-fs",
)
def nvidia_fs(node: Node, want: Want) -> Finding:
    """Where GPUDirect Storage is installed, its module is loaded and the platform can do it.

    Without it cuFile falls back to copying through host memory, or refuses where
    allow_compat_mode is off. From 2.17.5 on nvidia-fs does not load beside the proprietary
    driver on x86 (B10): "Unknown symbol in module". Its kernel gate is its own: 6.17 needs
    2.28.2.
    """
    report = node.gdscheck
    if report is not None:
        return _reported(report)
    if said := node.cufile_said:
        return failed(
            f"cuFile: {said[-1]}",
            expected="files read into GPU memory, and not through host memory",
            hint="gdscheck -p names what is missing: nvidia-fs, or a storage driver that knows it; "
            "requests are to be smaller than BAR1",
            details=said[:-1],
        )
    running = node.nvidia_fs
    if running.loaded:
        return passed(f"nvidia-fs {running.version or 'loaded'}")
    if node.cufile.get("use_pci_p2pdma"):
        return not_applicable(BY_P2PDMA)
    return _not_loaded(node)


def _not_loaded(node: Node) -> Finding:
    """Why it may be that the module is not there, the gate of its licence first."""
    file = node.companion_modules.get("nvidia-fs")
    builds = [each for each in node.dkms if each.module == "nvidia-fs"]
    if file is None and not builds:
        return not_applicable(NOT_HERE)
    version = Version(file.version if file is not None else builds[0].version)
    proprietary = node.driver is not None and node.driver.flavor is Flavor.PROPRIETARY
    if proprietary and node.arch == "x86_64" and version.at_least(*GATE):
        return failed(
            f"B10: nvidia-fs {version} does not load beside the proprietary driver",
            expected="the open driver, or nvidia-fs before 2.17.5",
            hint="change to the open kernel modules of the same driver version",
        )
    if file is not None:
        name = f"nvidia-fs {version}".rstrip()
        return failed(
            f"{name} is on disk and not loaded", expected="loaded", hint="modprobe nvidia-fs"
        )
    late = node.kernel_version.at_least(6, 17) and not version.at_least(2, 28, 2)
    return failed(
        f"nvidia-fs {version} is with DKMS and not built for {node.kernel}",
        expected=f"built for {node.kernel}",
        hint="kernels from 6.17 on need nvidia-fs 2.28.2"
        if late
        else f"dkms install nvidia-fs/{version} -k {node.kernel}",
    )


def _reported(report: GdsCheck) -> Finding:
    named = f"gdscheck {report.release}".rstrip()
    able = [name for name, can in report.storage.items() if can]
    if report.verified is None and (able or not report.listed):
        return unknown(f"{named} came to no end", hint="run gdscheck -p again, as root")
    if report.verified is False:
        return failed(
            report.trouble[0] if report.trouble else "gdscheck refuses the platform",
            expected="Platform verification succeeded",
            hint="see the hardware that GPUDirect Storage supports",
            details=report.trouble[1:],
        )
    if not able:
        return failed(
            f"{named}: no kind of storage is supported",
            expected="NVMe, or the file system in use: Supported",
        )
    return passed(f"{named}: platform verified, {', '.join(able)}", details=report.gpus)


@check(
    "gds.iommu",
    impact=Impact.SLOW,
    source="NVIDIA GPUDirect Storage best practices guide, 1.1, and troubleshooting guide",
    fix="x86: iommu=pt on the kernel command line, as ./invokew provision sets it, then a reboot; "
    "Grace: the SMMU on, and no iommu.passthrough=1",
)
def iommu(node: Node, want: Want) -> Finding:
    """Storage traffic of nvidia-fs is not translated by the IOMMU; on Grace it is.

    On x86 off is best; passthrough works on HGX and DGX machines. Under translation nvidia-fs
    cannot hand an NVMe drive the address of GPU memory. On Grace it is the other way round:
    there NVIDIA wants the SMMU on and passthrough off.
    """
    report = node.gdscheck
    grace = node.knows_pci and any(map(is_grace_port, node.pci.functions.values()))
    if report is not None and (report.iommu == "disabled" or not node.companions_probed):
        return _reported_iommu(report, grace=grace)
    if not node.nvidia_fs.loaded:
        return not_applicable(NOT_LOADED)
    if role(node, want) is Role.VM:
        return not_applicable("in a guest the IOMMU is the host's")
    if not node.iommu_units and not node.iommu_groups:
        return (
            failed("no SMMU is active", expected=GRACE) if grace else passed("no IOMMU is active")
        )
    return _domains(node, grace=grace)


def _reported_iommu(report: GdsCheck, *, grace: bool) -> Finding:
    if report.iommu == "disabled" and grace:
        return failed("gdscheck: the IOMMU is off", expected=GRACE)
    on = [line for line in report.gpus if re.search(r"IOMMU State: (?!Disabled)\w", line)]
    if report.iommu == "disabled" and on:
        return unknown(f"gdscheck: the IOMMU is off, and {on[0]}")
    if report.iommu == "disabled":
        return passed("gdscheck: the IOMMU is off")
    why = "is on; passed through or translated is not told" if report.iommu else "is not told"
    return unknown(f"gdscheck: the IOMMU {why}", hint="cat /sys/kernel/iommu_groups/*/type")


def _domains(node: Node, *, grace: bool) -> Finding:
    groups, functions = node.iommu_groups, (*node.pci.gpus, *_drives(node))
    domains = {each.address: groups[each.group] for each in functions if each.group in groups}
    translated = [f"{address}: {kind}" for address, kind in domains.items() if kind.translated]
    straight = [address for address, kind in domains.items() if kind is Domain.IDENTITY]
    if grace and straight:
        return failed(
            f"passed through: {len(straight)} of the GPUs and NVMe drives",
            expected=GRACE,
            hint="take iommu.passthrough=1 out of the kernel command line, then reboot",
            details=tuple(straight),
        )
    if translated and not grace:
        return failed(
            f"translated: {len(translated)} of the GPUs and NVMe drives",
            expected="identity, or no IOMMU",
            hint="iommu.passthrough=1 on the kernel command line" if node.arch == "aarch64" else "",
            details=tuple(translated),
        )
    unsure = [each.address for each in functions if each.group and each.group not in groups]
    if unsure:
        return unknown(f"domain type of {', '.join(unsure)}")
    if grace and not translated:
        return unknown("no GPU or NVMe drive is in an IOMMU group that tells its domain")
    if grace:
        return passed(f"translated, as Grace wants it: {len(translated)}")
    return passed(f"passed through: {len(straight)}")


def _drives(node: Node) -> tuple[PciFunction, ...]:
    return tuple(
        each
        for each in node.pci.functions.values()
        if each.klass >> 8 == NVME and each.driver == "nvme"
    )


@check(
    "gds.p2pdma",
    impact=Impact.SLOW,
    source="NVIDIA GPUDirect Storage release notes and troubleshooting guide, P2PDMA mode",
    fix="RMForceStaticBar1=1;RmForceDisableIomapWC=1; in the one NVreg_RegistryDwords string of "
    "options nvidia (of two the last wins) and options nvme_core multipath=N in modprobe.d; drain "
    "the node, a new initramfs, a reboot",
)
def p2pdma(node: Node, want: Want) -> Finding:
    """Where cuFile is set to the kernel's P2PDMA, all that it rests on is there.

    That mode needs no nvidia-fs, but x86, the open driver from 565 on, a kernel from 6.2 on
    with CONFIG_PCI_P2PDMA, a static BAR1 and NVMe without multipath. Where one of these is
    missing cuFile says nothing and copies through host memory. GPUs older than Ampere and
    GeForce cannot do it at all.
    """
    if not node.cufile.get("use_pci_p2pdma"):
        return not_applicable("no cufile.json sets use_pci_p2pdma")
    missing = []
    if node.arch != "x86_64":
        missing.append(f"x86_64 (this is {node.arch})")
    if node.driver is None or node.driver.flavor is not Flavor.OPEN:
        missing.append("the open driver")
    elif not node.driver.version.at_least(565):
        missing.append(f"driver 565 or newer (this is {node.driver.version})")
    gate = want.compat.kernel_gate("gds-p2pdma")
    if not gate.covers(node.kernel) and "p2pdma_pgmap_ops" not in node.symbols:
        missing.append(f"kernel {gate.first} or newer (this is {node.kernel})")
    if node.kernel_config.get("CONFIG_PCI_P2PDMA") != "y":
        missing.append("CONFIG_PCI_P2PDMA=y")
    if node.nvidia_fs.nvme_multipath:
        missing.append("nvme_core multipath=N")
    dwords = node.driver_params.get("RegistryDwords", "")
    lacking = [each for each in STATIC_BAR if each not in dwords]
    missing += lacking
    if missing:
        return failed(
            f"{len(missing)} of its needs are not met",
            expected="all that P2PDMA mode rests on",
            hint=registry_dwords(node, *lacking) if lacking else "",
            details=tuple(f"missing: {each}" for each in missing),
        )
    return passed("driver, kernel, static BAR1 and NVMe are as it needs them")


@check(
    "gds.nvme",
    impact=Impact.SLOW,
    source="NVIDIA/gds-nvidia-fs src/nvfs-dma.c, modules_list",
    fix="the file system's driver that knows nvidia-fs, or, with the node drained (it replaces the "
    "RDMA and NVMe drivers), OFED with NVMe support (--with-nvmf, --enable-gds)",
)
def nvme(node: Node, want: Want) -> Finding:
    """A storage driver on the node lets nvidia-fs in.

    nvidia-fs looks up NAME_v1_register_nvfs_dma_ops (v2 on newer kernels) in each storage
    driver. The kernel's own nvme has none: OFED brings a patched one. Where no driver has it
    everything goes through host memory, and gdscheck says "NVMe: Unsupported".
    """
    if not node.nvidia_fs.loaded:
        return not_applicable(NOT_LOADED)
    symbols = {
        name: module
        for name, module in node.symbols.items()
        if name.endswith("_register_nvfs_dma_ops") and not name.startswith("__")
    }
    able = sorted(
        {module or "the kernel" for module in symbols.values()} | {*node.nvidia_fs.clients}
    )
    if not able:
        drives = len(_drives(node))
        return failed(
            f"no storage driver knows nvidia-fs; {drives} NVMe drives",
            expected="nvme, nvme_rdma or a file system's driver with nvidia-fs support",
        )
    return passed(", ".join(able))
