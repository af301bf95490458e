"""Can modules be built for this kernel, and what does its initramfs hold?"""

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
from toolkit.checks.kernel.kernel import option_on
from toolkit.checks.modules.fixes import by_family, initramfs_again, initramfs_listed
from toolkit.errors import NoEvidence
from toolkit.facts.boot.kernel import Initramfs
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.want import Want

NOTHING_BUILT = "nothing on this node is built by DKMS"
CARRIED = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs")


@check(
    "kernel.compiler",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/Makefile, conftest.sh cc_sanity_check",
    fix="install make and the compiler that CONFIG_CC_VERSION_TEXT names",
)
def compiler(node: Node, want: Want) -> Finding:
    """The compiler that built the kernel is there for the next build of the modules.

    An older gcc does not know the kernel's flags ("unrecognized command-line option
    -ftrivial-auto-var-init=zero"), and gcc cannot build for a clang kernel. A newer gcc
    only warns that it differs, unless the kernel's plugins demand the same one.
    """
    if not node.dkms:
        return not_applicable(NOTHING_BUILT)
    needed, tools = node.kernel_compiler, node.tools
    extra = () if "g++" in tools else ("no g++: packages that build the driver's core need it",)
    expected = f"make, and {needed}, which built the kernel"
    same = needed.command in tools and needed.command not in {"gcc", "cc"}
    anything = needed.command if needed.clang else "gcc"
    missing = [
        tool for tool in ("make", anything) if tool not in tools and not (same and tool == anything)
    ]
    if missing:
        what = " and ".join(missing)
        verb = "are" if len(missing) > 1 else "is"
        return failed(f"{what} {verb} missing", expected=expected, hint=f"install {what}")
    if same:
        return passed(needed.command, details=extra)
    major = node.gcc_major
    if major < needed.major or (major != needed.major and _plugins(node)):
        names = ("gcc-{}", "gcc-toolset-{}", "gcc{}")
        package = by_family(node, *(each.format(needed.major) for each in names))
        return failed(f"gcc {major}", expected=expected, hint=f"install {package}")
    if major != needed.major:
        extra = (f"the kernel was built by {needed}: a newer gcc only warns", *extra)
    return passed(f"gcc {major}", details=extra)


def _plugins(node: Node) -> bool:
    config = node.kernel_config
    return config.get("CONFIG_GCC_PLUGINS") == "y" and config.get("CONFIG_RANDSTRUCT") == "y"


@check(
    "kernel.preempt_rt",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/conftest.sh, preempt_rt_sanity_check",
    fix="boot a kernel without PREEMPT_RT",
)
def preempt_rt(node: Node, want: Want) -> Finding:
    """The driver can be built for the kernel: it is no real-time one.

    conftest stops with "Failed PREEMPT_RT sanity check"; Debian's packages skip such a
    kernel without an error, so that the modules are simply not there.
    """
    if not node.dkms:
        return not_applicable(NOTHING_BUILT)
    if node.kernel_config.get("CONFIG_PREEMPT_RT", "n") != "y":
        return passed("CONFIG_PREEMPT_RT is off")
    return failed("CONFIG_PREEMPT_RT=y", expected="a kernel without PREEMPT_RT")


@check(
    "kernel.config.p2pdma",
    impact=Impact.SLOW,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules nv-dmabuf.c, nv-dma.c; GPUDirect Storage, P2PDMA",
    fix="boot a kernel with CONFIG_PCI_P2PDMA=y, or set use_pci_p2pdma to false in cufile.json",
)
def config_p2pdma(node: Node, want: Want) -> Finding:
    """The kernel has PCI peer-to-peer DMA where cuFile is told to use it.

    GPUDirect RDMA does not need it: peermem and the dma-buf exporter map BAR1 by
    themselves. Debian 12 ships it off, and RDMA works there.
    """
    if not node.cufile.get("use_pci_p2pdma", False):
        return not_applicable("not needed for RDMA, and cuFile is not told to use it")
    return option_on(node, "CONFIG_PCI_P2PDMA")


@check(
    "kernel.initrd_rdma",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    source="dkms 3.0 changelog, REMAKE_INITRD; lsinitramfs(8), lsinitrd(1)",
    fix="rebuild the initramfs: update-initramfs -u -k KERNEL, dracut -f --kver KERNEL",
)
def initrd_rdma(node: Node, want: Want) -> Finding:
    """The initramfs of the next boot holds no inbox RDMA modules where OFED is installed.

    What the initramfs loads wins over what lies on disk, and peermem then finds no symbol. Nor
    does it hold OFED's modules as they were before an update: it is not older than those on
    disk. OFED's packages ask DKMS to rebuild it, which DKMS ignores since 3.0.
    """
    if node.ofed.flavour is OfedFlavour.INBOX:
        return not_applicable("there is no RDMA stack beside the inbox one")
    if node.ofed.packaging:
        return not_applicable(f"{node.ofed} is no stack of the vendor's packages")
    following = node.default_kernel
    if not node.live and not node.has_initramfs:
        return not_applicable(f"no initramfs of {following} in the image: it is made later")
    image = image_of(node, following)
    if image is None:
        return unknown(
            f"the initramfs of {following} was not listed: no file, or no lsinitramfs or lsinitrd"
        )
    return judge_initramfs(node, image, following)


def image_of(node: Node, release: str) -> Initramfs | None:
    """The initramfs of one kernel; None where it has none.

    :raises NoEvidence: where the probe listed those of other kernels only.
    """
    image = node.initramfs if release == node.kernel else node.initramfs_next
    if image is not None and image.kernel not in {"", release}:
        raise NoEvidence(
            f"initramfs of {release}: not among those that were listed",
            hint=initramfs_listed(node, release),
        )
    return image


def judge_initramfs(node: Node, image: Initramfs, release: str) -> Finding:
    """What an initramfs would do to OFED."""
    rebuild = initramfs_again(node, release)
    if inbox := image.inbox(CARRIED):
        return failed(
            f"the initramfs of {release} holds the inbox {', '.join(inbox)}",
            expected="OFED's modules in it, or none",
            hint=rebuild,
            details=tuple(f"{name}: {image.modules[name]}" for name in inbox),
        )
    on_disk = {name for name, _ in node.modprobe_files}
    stale = [each for each in image.configs if "blacklist" in each and each not in on_disk]
    if stale:
        return failed(
            f"the initramfs of {release} still holds {', '.join(stale)}",
            expected="no blacklist that is gone from /etc/modprobe.d",
            hint=rebuild,
        )
    carried = [name for name in CARRIED if name in image.modules]
    if older := [name for name in carried if name in image.newer]:
        return failed(
            f"the initramfs of {release} is older than {', '.join(older)} on disk",
            expected="the modules that are on disk, or none",
            hint=rebuild,
        )
    if moved := _elsewhere(node, image, release):
        return failed(
            f"the initramfs of {release} holds other files than modprobe would load",
            expected="the modules that are on disk, or none",
            hint=rebuild,
            details=moved,
        )
    if carried:
        return passed(f"the initramfs of {release} holds OFED's {', '.join(carried)}")
    return passed(f"the initramfs of {release} holds no RDMA module")


def _elsewhere(node: Node, image: Initramfs, release: str) -> tuple[str, ...]:
    """Modules that it holds from another folder than depmod chose; told of the running kernel."""
    if release != node.kernel:
        return ()
    found = []
    for name in CARRIED:
        held = image.modules.get(name, "")
        disk = node.rdma_files[name].filename if name in node.rdma_files else ""
        path = disk.partition(f"/lib/modules/{release}/")[2].partition(".ko")[0]
        # What weak-modules links to lies in another kernel's folder: the path proves nothing.
        if held and path and held != path and "weak-updates/" not in held + path:
            found.append(f"{name}: {held}, and on disk {path}")
    return tuple(found)
