"""Is the kernel one that GPUDirect RDMA can work with, and will the next one be?"""

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
from toolkit.checks.modules.fixes import headers_package
from toolkit.checks.rdma.makers import has_connectx, takes_nvidia_peermem, way_of_peermem
from toolkit.errors import read_or
from toolkit.facts.boot.kernel import InstalledKernel
from toolkit.facts.node.files import HIDDEN, MOUNT
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.facts.versions import Version
from toolkit.want import PeerPath, Want


@check(
    "kernel.version",
    impact=Impact.BROKEN,
    on_disk=True,
    source="GPU Operator, GPUDirect RDMA requirements; NVIDIA driver README, kernel floor",
    fix="boot a kernel of at least 5.12 (dma-buf), or use the peermem path",
)
def version(node: Node, want: Want) -> Finding:
    """The kernel is new enough for the wanted path.

    Registering dma-buf memory with an mlx5 HCA came with 5.12. RHEL backports it to
    5.14.0 and 4.18.0 kernels, so an older number is judged by the symbol, not by itself.
    """
    release = node.kernel_version
    if want.path is PeerPath.DMABUF:
        gate = want.compat.kernel_gate("dmabuf-mr")
        if gate.covers(str(release)):
            return passed(str(release))
        if "ib_umem_dmabuf_get" in node.symbols:
            return passed(f"{release}, with dma-buf registration backported")
        return failed(
            f"{release}, without dma-buf registration",
            expected=f"{gate.first} or newer, or a kernel with the backport",
            hint=way_of_peermem(node) or "a newer kernel",
        )
    floor = want.compat.oldest_kernel(str(node.driver.version) if node.driver else "")
    if release >= Version(floor):
        return passed(str(release))
    return failed(str(release), expected=f"{floor} or newer")


@check(
    "kernel.headers",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules kernel-open/conftest.sh; dkms(8)",
    fix="install linux-headers-KERNEL (Debian), kernel-devel-KERNEL (RHEL), "
    "kernel-default-devel (SUSE) for the running kernel",
)
def headers(node: Node, want: Want) -> Finding:
    """The running kernel can be built for: its headers are complete.

    Without Module.symvers conftest stops; without the folder DKMS ends with status 21
    (1 before 3.1.5), and the next OFED or driver update leaves the node without modules.
    """
    if not node.dkms:
        return not_applicable("nothing on this node is built by DKMS")
    missing = [part for part, there in node.headers.items() if not there]
    if not missing:
        return passed(f"complete for {node.kernel}")
    return failed(
        f"missing for {node.kernel}: {', '.join(missing)}",
        expected=f"/lib/modules/{node.kernel}/build with Makefile, auto.conf and Module.symvers",
        hint=f"install {headers_package(node, node.kernel)}",
    )


@check(
    "kernel.pending_reboot",
    impact=Impact.FRAGILE,
    tense=Tense.AT_BOOT,
    source="dkms(8), autoinstall; Mellanox/nv_peer_memory issue 43",
    fix="build the modules for the kernel that boots next: dkms autoinstall -k KERNEL",
)
def pending_reboot(node: Node, want: Want) -> Finding:
    """The kernel of the next boot has the modules that the running one has.

    A kernel update without a build for it shows nothing until the reboot; then modprobe
    says "Module nvidia-peermem not found in directory /lib/modules/KERNEL".
    """
    following = node.default_kernel
    kernel = next((each for each in node.kernels if each.release == following), None)
    if kernel is None:
        return failed(
            f"the next boot starts {following}, which has no modules at all",
            expected=f"modules below /lib/modules/{following}",
            hint=f"install the kernel's packages, then: dkms autoinstall -k {following}",
        )
    missing = lacking(node, kernel, want)
    if missing:
        return failed(
            f"the next boot starts {following}, which lacks {', '.join(missing)}",
            expected=f"{', '.join(missing)} below /lib/modules/{following}",
            hint=f"dkms autoinstall -k {following}",
        )
    if following == node.kernel:
        return passed(f"the next boot starts {following} again")
    return passed(f"the next boot starts {following}, which has the modules")


def lacking(node: Node, kernel: InstalledKernel, want: Want) -> list[str]:
    """Modules of GPUDirect that are on disk for no use of this kernel, nor part of it."""
    # Of HCAs of other makers the frame has no modules.
    needed = ["ib_core", *(["mlx5_core"] if has_connectx(node) else [])]
    if not in_driver_container(node):
        needed[:0] = ["nvidia", *(["nvidia-peermem"] if takes_nvidia_peermem(node, want) else [])]
    missing = [module for module in needed if not kernel.has(module)]
    return [module for module in missing if not built_in(node, kernel, module)]


def in_driver_container(node: Node) -> bool:
    """Whether a pod brings the driver, and builds or takes it anew for whatever kernel it finds."""
    return read_or(lambda: node.containers.driver_container, False)


def built_in(node: Node, kernel: InstalledKernel, module: str) -> bool:
    """Whether a part of the RDMA stack is in the kernel itself, and so in no file."""
    option = {"ib_core": "CONFIG_INFINIBAND", "mlx5_core": "CONFIG_MLX5_CORE"}.get(module)
    if option is None:
        return False
    return node.kernel_configs.get(kernel.release, {}).get(option) == "y"


@check(
    "kernel.config.dmabuf",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=frozenset({PeerPath.DMABUF}),
    source="NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c",
    fix="boot a kernel with CONFIG_DMA_SHARED_BUFFER=y",
)
def config_dmabuf(node: Node, want: Want) -> Finding:
    """The kernel has dma-buf: without it the driver leaves its exporter out.

    CONFIG_PCI_P2PDMA is not needed: the exporter maps BAR1 by itself.
    """
    return option_on(node, "CONFIG_DMA_SHARED_BUFFER")


def option_on(node: Node, option: str) -> Finding:
    """Whether the running kernel was built with an option that cannot be a module."""
    value = node.kernel_config.get(option, "n")
    if value == "y":
        return passed(f"{option}=y")
    return failed(f"{option}={value}", expected=f"{option}=y")


@check(
    "kernel.config.infiniband",
    impact=Impact.BROKEN,
    on_disk=True,
    source="drivers/infiniband/hw/mlx5/mr.c, core/umem_dmabuf.c",
    fix="boot a kernel with the InfiniBand options, or install DOCA-OFED",
)
def config_infiniband(node: Node, want: Want) -> Finding:
    """The kernel's own RDMA stack is complete, where that stack is used.

    Without user access there are no uverbs; without on-demand paging and user memory
    mlx5 answers EOPNOTSUPP to dma-buf registrations. HCAs of other makers pin the memory and
    need no on-demand paging.
    """
    if node.ofed.flavour is not OfedFlavour.INBOX:
        return not_applicable(f"{node.ofed} brings its own RDMA stack")
    needed = ["INFINIBAND", "INFINIBAND_USER_ACCESS"]
    if want.path is PeerPath.DMABUF:
        needed += ["INFINIBAND_USER_MEM"]
        needed += ["INFINIBAND_ON_DEMAND_PAGING"] if has_connectx(node) else []
    config = node.kernel_config
    missing = [name for name in needed if config.get(f"CONFIG_{name}", "n") not in {"y", "m"}]
    if not missing:
        return passed("all options that RDMA needs are on")
    return failed(
        "off: " + ", ".join(f"CONFIG_{name}" for name in missing),
        expected=", ".join(f"CONFIG_{name}" for name in needed),
    )


@check(
    "kernel.lockdown",
    impact=Impact.BROKEN,
    source="kernel_lockdown(7); drivers/pci/pci-sysfs.c",
    fix="sign the modules with an enrolled key (mokutil), or turn Secure Boot off",
)
def lockdown(node: Node, want: Want) -> Finding:
    """A locked-down kernel accepts the modules: they are signed.

    Secure Boot turns integrity lockdown on. Unsigned modules are then refused, and so are
    writes to PCI config space: setpci even exits 0 when its write was refused.
    """
    if node.lockdown == "none":
        if node.lockdown_hidden:
            return unknown(HIDDEN, hint=MOUNT)
        return passed("none")
    files = [node.driver_file]
    if takes_nvidia_peermem(node, want):
        files.append(node.peermem_chosen)
    unsigned = [each.name for each in files if each is not None and not each.signed]
    if unsigned:
        return failed(
            f"{node.lockdown}, and unsigned: {', '.join(unsigned)}",
            expected="modules signed by an enrolled key",
        )
    signers = sorted({each.signer for each in files if each is not None})
    return passed(f"{node.lockdown}; modules signed by {', '.join(signers) or 'nobody'}")
