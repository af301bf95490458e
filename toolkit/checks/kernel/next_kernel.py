"""What GPUDirect rests on, each thing as another kernel would find it.

These are no checks: they judge a kernel that does not run, and ``forecast`` asks them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import (
    Finding,
    Status,
    failed,
    not_applicable,
    passed,
    unknown,
    without_gpus,
)
from toolkit.checks.kernel.builds import image_of, judge_initramfs
from toolkit.checks.kernel.kernel import built_in, in_driver_container
from toolkit.checks.kernel.secureboot import mistrusted
from toolkit.checks.modules import modules, peermem
from toolkit.checks.modules.fixes import (
    build_again,
    by_family,
    files_of,
    image_package,
    initramfs_listed,
    menu_again,
    modules_hint,
    ofed_first,
)
from toolkit.checks.rdma.makers import has_connectx, rdma_modules, without_nvidia_peermem
from toolkit.checks.role import PASSED_THROUGH
from toolkit.errors import NoEvidence
from toolkit.facts.boot.kernel import InstalledKernel, module_name
from toolkit.facts.boot.next_boot import BootEntry
from toolkit.facts.firmware.secureboot import ENROL, SecureBoot
from toolkit.facts.modules.kernel_modules import ModuleFile
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.want import PeerPath, Want

# Arguments by which a site brings IOMMU and ACS into shape.
KEPT = frozenset({"iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict", "pci"})
BLACKLISTS = ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist")


# How another kernel would be booted, and which signatures it would ask for.
LEVELS = ("integrity", "confidentiality")
LOCKED = "CONFIG_LOCK_DOWN_KERNEL_FORCE_"
BY_FIRMWARE = "CONFIG_LOCK_DOWN_IN_EFI_SECURE_BOOT"  # of the distributions that have the patch


class Boot(Struct, frozen=True):
    """A kernel that is installed, and how it would be booted."""

    kernel: InstalledKernel
    following: bool  # it is that of the next boot, not one named by hand

    @property
    def release(self) -> str:
        return self.kernel.release


def entry_of(node: Node, boot: Boot) -> BootEntry:
    """The line of the boot menu that would start the kernel.

    :raises NoEvidence: where there is none, or its arguments are not known.
    """
    usable = [e for e in node.boot_entries if e.kernel == boot.release and not e.recovery]
    entry = node.next_boot if boot.following else next(iter(usable), None)
    if entry is None:
        add = f"kernel-install add {boot.release} /lib/modules/{boot.release}/vmlinuz"
        raise NoEvidence(f"no boot entry starts {boot.release}", hint=menu_again(node, add))
    if entry.unresolved:
        raise NoEvidence(f"boot entry of {boot.release}: its variables were not read")
    return entry


def _demanded(node: Node, boot: Boot) -> str:
    """What would make that kernel refuse unsigned modules; "" where nothing would.

    :raises NoEvidence: where neither its configuration nor its command line tells.
    """
    config = node.kernel_configs.get(boot.release, {})
    if config.get("CONFIG_MODULE_SIG_FORCE") == "y":
        return "CONFIG_MODULE_SIG_FORCE"
    if any(config.get(f"{LOCKED}{level.upper()}") == "y" for level in LEVELS):
        return "lockdown by its configuration"
    if boot.release == node.kernel or node.lockdown != "none":
        if now := node.signatures_demanded:
            return now
    elif config.get(BY_FIRMWARE) == "y" and node.secure_boot is SecureBoot.ON:
        return "lockdown under Secure Boot"
    told = entry_of(node, boot).cmdline
    if "module.sig_enforce" in told:
        return "module.sig_enforce"
    level = told["lockdown"]
    if not config and boot.release != node.kernel and level not in LEVELS:
        raise NoEvidence(f"the configuration of {boot.release} was not read", hint="run as root")
    return f"lockdown ({level})" if level in LEVELS else ""


def signatures(node: Node, want: Want, boot: Boot) -> Finding:
    """Where signatures are asked for, the modules have one, by a key that is known."""
    demanded = _demanded(node, boot)
    if not demanded:
        return passed("no signature is asked for")
    # A kernel knows the key of its own modules; its packages may hold a driver signed by others.
    files = files_of(node, boot.release)
    mine = [each for each in files if "/kernel/drivers/" not in each.filename]
    if not mine:
        raise NoEvidence(f"modinfo says nothing of modules for {boot.release}")
    unsigned = sorted({each.name for each in mine if not each.signed})
    if unsigned:
        return failed(
            f"unsigned: {', '.join(unsigned)}, under {demanded}",
            expected="modules signed by an enrolled key",
            hint="let DKMS sign them: mokutil --import /var/lib/dkms/mok.pub, then build again",
        )
    wrong = [why for each in mine if (why := mistrusted(node, each, demanded))]
    if wrong:
        return failed("; ".join(wrong), expected="modules signed by an enrolled key", hint=ENROL)
    names = sorted({each.signer for each in mine})
    return passed(f"{demanded}; signed by {', '.join(names)}, which this kernel knows")


Topic = Callable[[Node, Want, Boot], Finding]


def _kernel(node: Node, want: Want, boot: Boot) -> Finding:
    if not boot.kernel.image:
        return unknown(
            f"{boot.release} has modules, and no image in /boot",
            hint=f"install {image_package(node, boot.release)}",
        )
    return passed("installed, with headers" if boot.kernel.headers else "installed, no headers")


def _without_driver(node: Node) -> str:
    if without_gpus(node):
        return "no NVIDIA GPU on the PCI bus"
    if all(gpu.driver == PASSED_THROUGH for gpu in node.pci.gpus):
        return "all GPUs are passed through to guests"
    return "a pod brings the driver" if in_driver_container(node) else ""


def _driver(node: Node, want: Want, boot: Boot) -> Finding:
    if why := _without_driver(node):
        return not_applicable(why)
    hint = modules_hint(node, boot.kernel, node.driver_dkms, "the NVIDIA driver")
    hint = ofed_first(node, boot.kernel, hint)
    if not boot.kernel.has("nvidia"):
        return failed(
            f"no nvidia for {boot.release}",
            expected=f"nvidia below /lib/modules/{boot.release}",
            hint=hint,
        )
    file = next(iter(files_of(node, boot.release, "nvidia")), None)
    here = node.driver_file
    version = file.version if file is not None else ""
    if version and here is not None and here.version and here.version != version:
        return failed(
            f"nvidia {version} for {boot.release}, {here.version} for {node.kernel}",
            expected="one version for both, that of user space",
            hint=hint,
        )
    return passed(f"nvidia {version}".rstrip(), details=_weak(file, boot))


def _rdma(node: Node, want: Want, boot: Boot) -> Finding:
    """The RDMA stack is the one that runs now."""
    stack = node.ofed
    if stack.packaging == "container":
        return unknown(
            "the driver container loads OFED once the node is up",
            hint="see that it has this kernel",
        )
    if stack.flavour is OfedFlavour.INBOX:
        rdma = ("mlx5_core", "ib_core") if has_connectx(node) else ("ib_core",)
        lost = [name for name in rdma if not boot.kernel.has(name)]
        lost = [name for name in lost if not built_in(node, boot.kernel, name)]
        if not lost:
            return passed("inbox")
        packages = (f"linux-modules-extra-{boot.release}", f"kernel-modules-{boot.release}")
        inbox = by_family(node, *packages, "kernel-default")
        return failed(
            f"no {', '.join(lost)} for {boot.release}",
            expected="the inbox RDMA stack",
            hint=f"install {inbox}",
        )
    if stack.packaging:  # wherever they lie, what they rest on tells them
        core = files_of(node, boot.release, "ib_core")
        found = any("mlx_compat" in each.depends for each in core)
    else:
        paths = boot.kernel.modules
        found = any("/ib_core.ko" in path and "/kernel/" not in path for path in paths)
    if found:
        version = "".join(each.version for each in files_of(node, boot.release, "mlx5_core")[:1])
        return passed(f"{stack.flavour} {version}".rstrip())
    return failed(
        f"no modules of {stack.flavour} for {boot.release}: the inbox stack would load",
        expected=f"{stack.flavour} below /lib/modules/{boot.release}",
        hint=modules_hint(node, boot.kernel, node.ofed_dkms, str(stack.flavour)),
    )


def _elsewhere(want: Want, path: PeerPath) -> str:
    """Why what belongs to this path does not matter; "" where it does.

    :raises NoEvidence: where the path that the node takes is not known.
    """
    if want.path is None:
        raise NoEvidence("which path the node takes is not known")
    return "" if want.path is path else f"not part of the {want.path} path"


def _peermem(node: Node, want: Want, boot: Boot) -> Finding:
    """nvidia-peermem is there, is no stub, and fits the driver beside it."""
    if why := _elsewhere(want, PeerPath.PEERMEM):
        return not_applicable(why)
    if why := without_nvidia_peermem(node) or _without_driver(node):
        return not_applicable(why)
    hint = modules_hint(node, boot.kernel, node.peermem_dkms or node.driver_dkms, "nvidia-peermem")
    hint = ofed_first(node, boot.kernel, hint)
    files = files_of(node, boot.release, "nvidia-peermem")
    expected = f"nvidia-peermem below /lib/modules/{boot.release}, with its symbols"
    if not boot.kernel.has("nvidia-peermem"):
        return failed(f"no nvidia-peermem for {boot.release}", expected=expected, hint=hint)
    if not files:
        raise NoEvidence(f"modinfo says nothing of nvidia-peermem for {boot.release}")
    if len({each.depends for each in files}) > 1:
        names = ", ".join(each.filename for each in files)
        return unknown(f"not alike: {names}", hint="keep the one that depends on nvidia and OFED")
    found = _unfit(files[0], boot)
    if found:
        return failed(found, expected=expected, hint=_again(node, hint, boot))
    return _peermem_beside(node, files[0], boot, hint)


def _unfit(file: ModuleFile, boot: Boot) -> str:
    """What nvidia-peermem does not ask for, of what it rests on; "" for nothing."""
    names = {module_name(each) for each in file.depends}
    rdma = {each for each in names if not each.startswith("nvidia")}
    if not names:
        return "a stub: it depends on nothing"
    if "nvidia" in names and (rdma or not boot.kernel.has("ib_core")):  # built into the kernel
        return ""
    return f"depends on {', '.join(sorted(names))} only"


def _again(node: Node, hint: str, boot: Boot) -> str:
    """DKMS does not build anew what it has built: another step than its own is called for."""
    return re.sub(r"dkms install \S+ -k \S+$", lambda _: build_again(node, boot.release), hint)


def _peermem_beside(node: Node, file: ModuleFile, boot: Boot, hint: str) -> Finding:
    """nvidia-peermem fits the driver, and the RDMA stack that it would find."""
    driver = next(iter(files_of(node, boot.release, "nvidia")), None)
    if driver is not None and driver.version != file.version:
        return failed(
            f"nvidia-peermem {file.version} beside nvidia {driver.version}",
            expected="the same version",
            hint=hint,
        )
    core = next(iter(files_of(node, boot.release, "ib_core")), None)
    if core is not None and "mlx_compat" in core.depends and core.kernel != file.kernel:
        return unknown(
            f"built for {file.kernel}, beside {node.ofed.flavour} built for {core.kernel}",
            hint=_again(node, hint, boot),
        )
    return passed(
        f"nvidia-peermem {file.version}, depends on {', '.join(file.depends)}",
        details=_weak(file, boot),
    )


def _weak(file: ModuleFile | None, boot: Boot) -> tuple[str, ...]:
    """That a module is a link to another kernel's, whose symbol versions may differ."""
    if file is None or file.kernel in {"", boot.release}:
        return ()
    return (f"built for {file.kernel}, and linked from there",)


def _dmabuf(node: Node, want: Want, boot: Boot) -> Finding:
    if why := _elsewhere(want, PeerPath.DMABUF):
        return not_applicable(why)
    config = node.kernel_configs.get(boot.release)
    if not config:
        raise NoEvidence(f"the configuration of {boot.release} was not read", hint="run as root")
    value = config.get("CONFIG_DMA_SHARED_BUFFER", "n")
    if value == "y":
        return passed("CONFIG_DMA_SHARED_BUFFER=y")
    return failed(f"CONFIG_DMA_SHARED_BUFFER={value}", expected="CONFIG_DMA_SHARED_BUFFER=y")


def _initramfs(node: Node, want: Want, boot: Boot) -> Finding:
    """The initramfs brings no inbox RDMA modules before OFED's."""
    if node.ofed.flavour is OfedFlavour.INBOX or node.ofed.packaging:
        return not_applicable("there is no RDMA stack beside the inbox one")
    image = image_of(node, boot.release)
    if image is None:
        return unknown(
            f"the initramfs of {boot.release} was not listed",
            hint=initramfs_listed(node, boot.release),
        )
    return judge_initramfs(node, image, boot.release)


def _configuration(node: Node, want: Want, boot: Boot) -> Finding:
    """Nothing keeps the modules from loading: no blacklist, on disk or on its command line."""
    finding = modules.blacklist.judge(node, want)
    if finding.status is not Status.PASS:
        return replace(finding, hint=finding.hint or modules.blacklist.fix)
    entry = entry_of(node, boot)
    needed = {"nvidia", *rdma_modules(node), "ib_core", "ib_uverbs", "nvidia_peermem"}
    named = {each.replace("-", "_") for name in BLACKLISTS for each in entry.cmdline.listed(name)}
    if stopped := sorted(named & needed):
        return failed(
            f"its command line blacklists {', '.join(stopped)}",
            expected="no blacklist of them",
            hint="take them off the kernel command line",
        )
    return passed("nothing is blacklisted")


def _autoload(node: Node, want: Want, boot: Boot) -> Finding:
    if why := _elsewhere(want, PeerPath.PEERMEM):
        return not_applicable(why)
    if why := without_nvidia_peermem(node) or _without_driver(node):
        return not_applicable(why)
    finding = peermem.autoload.judge(node, want)
    lost = finding.status is Status.FAIL
    return replace(finding, hint=finding.hint or peermem.autoload.fix) if lost else finding


def _arguments(node: Node, want: Want, boot: Boot) -> Finding:
    """The arguments for IOMMU and PCI that the running kernel has are passed on."""
    now = [word for word in node.cmdline.words if word.partition("=")[0] in KEPT]
    if not now:
        return passed("none about IOMMU or PCI to lose")
    words = entry_of(node, boot).cmdline.words
    lost = [word for word in now if word not in words]
    if lost:
        arguments = " ".join(lost)
        return failed(
            f"not passed to {boot.release}: {arguments}",
            expected=" ".join(now),
            hint=menu_again(
                node, f'grubby --update-kernel=/boot/vmlinuz-{boot.release} --args="{arguments}"'
            ),
        )
    return passed(" ".join(now))


TOPICS: dict[str, Topic] = {
    "kernel": _kernel,
    "rdma-stack": _rdma,  # before the driver, whose nvidia-peermem is built against it
    "driver": _driver,
    "nvidia-peermem": _peermem,
    "dma-buf": _dmabuf,
    "signatures": signatures,
    "initramfs": _initramfs,
    "configuration": _configuration,
    "autoload": _autoload,
    "command-line": _arguments,
}
