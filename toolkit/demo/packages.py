"""/lib/modules, /usr/src and /var/lib/dkms: the software side of a node."""

from __future__ import annotations

from toolkit.demo.elf import checksum
from toolkit.demo.recipe import Family, Recipe
from toolkit.demo.software import (
    PEER_SYMBOLS,
    Module,
    Package,
    inbox_other,
    inbox_rdma,
    nvidia_package,
)
from toolkit.demo.tree import Tree

_CONF_TAIL = """\
MAKE[0]="'make' -j$(nproc) KERNEL_UNAME=${kernelver} modules"
CLEAN="make clean"
AUTOINSTALL="yes"
"""


def packages(recipe: Recipe) -> Tree:
    """Kernels with their own modules and headers, and what DKMS has built for them."""
    tree = Tree()
    for kernel in recipe.kernels:
        _kernel(tree, recipe, kernel)
    for package in recipe.packages:
        _sources(tree, package)
        for kernel in recipe.built_for:
            _build(tree, recipe, package, kernel)
    if recipe.family is Family.ARCH:
        _prebuilt_driver(tree, recipe)
    return tree


def symvers(module: str, names: tuple[str, ...]) -> str:
    """Lines of a Module.symvers, as modpost writes them."""
    return "".join(f"0x{checksum(name):08x}\t{name}\t{module}\tEXPORT_SYMBOL\t\n" for name in names)


def _kernel(tree: Tree, recipe: Recipe, kernel: str) -> None:
    at = f"lib/modules/{kernel}"
    for module in (*inbox_rdma(), *inbox_other()):
        path = f"{at}/kernel/{module.folder}/{module.name}.ko"
        tree.data(path, module.file(kernel, recipe.vermagic))
    headers = f"usr/src/{'kernels/' if recipe.family is Family.ROCKY else 'linux-headers-'}{kernel}"
    tree.relative_link(f"{at}/build", headers)
    version, _, _ = kernel.partition("-")
    major, minor, *_ = version.split(".")
    tree.text(f"{headers}/Makefile", f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = 0\n")
    tree.text(f"{headers}/include/config/auto.conf", "CONFIG_MODULES=y\nCONFIG_MODVERSIONS=y\n")
    tree.text(
        f"{headers}/Module.symvers",
        symvers("drivers/infiniband/core/ib_core", ("ib_register_client", "ib_alloc_device"))
        + symvers("drivers/infiniband/core/ib_uverbs", ("ib_umem_get", "ib_umem_dmabuf_get"))
        + symvers("vmlinux", ("dma_buf_attach", "register_netdev", "pci_enable_device")),
    )


def _sources(tree: Tree, package: Package) -> None:
    at = f"usr/src/{package.name}-{package.version}"
    lines = [f'PACKAGE_NAME="{package.name}"', f'PACKAGE_VERSION="{package.version}"']
    for index, module in enumerate(package.modules):
        lines.append(f'BUILT_MODULE_NAME[{index}]="{module.name}"')
        lines.append(f'DEST_MODULE_LOCATION[{index}]="/updates/dkms"')
        folder = f"{module.name}/" if module.name.startswith("nvidia") else ""
        tree.text(f"{at}/{folder}{module.name}.c", module.source())
    tree.text(f"{at}/dkms.conf", "\n".join(lines) + "\n" + _CONF_TAIL)
    tree.link(f"var/lib/dkms/{package.name}/{package.version}/source", f"/{at}")


def _build(tree: Tree, recipe: Recipe, package: Package, kernel: str) -> None:
    """What ``dkms install`` leaves behind."""
    kept = f"var/lib/dkms/{package.name}/{package.version}/{kernel}/x86_64"
    for module in package.modules:
        content = module.file(kernel, recipe.vermagic, _depends(recipe, module))
        tree.data(f"{kept}/module/{module.name}.ko", content)
        tree.data(f"lib/modules/{kernel}/{recipe.module_folder}/{module.name}.ko", content)
    tree.text(f"{kept}/log/make.log", f"DKMS make.log for {package.name}-{package.version}\n")
    tree.link(
        f"var/lib/dkms/{package.name}/kernel-{kernel}-x86_64", f"{package.version}/{kernel}/x86_64"
    )
    if package.name.startswith("mlnx-"):
        at = f"usr/src/ofa_kernel/x86_64/{kernel}"
        tree.text(
            f"{at}/Module.symvers", symvers("drivers/infiniband/core/ib_uverbs", PEER_SYMBOLS)
        )
        tree.text(f"{at}/include/rdma/peer_mem.h", "/* the peer-memory interface */\n")
        tree.link("usr/src/ofa_kernel/default", f"x86_64/{kernel}")


def _depends(recipe: Recipe, module: Module) -> tuple[str, ...] | None:
    """nvidia-peermem depends on what its build found; None for what the source says."""
    if module.name != "nvidia-peermem":
        return None
    return () if recipe.stub else ("nvidia", "ib_uverbs")


def _prebuilt_driver(tree: Tree, recipe: Recipe) -> None:
    """Arch ships the open driver built for its kernel, with a stub for nvidia-peermem."""
    for module in nvidia_package("nvidia").modules:
        depends = () if module.name == "nvidia-peermem" else None
        path = f"lib/modules/{recipe.kernel}/extramodules/{module.name}.ko"
        tree.data(path, module.file(recipe.kernel, recipe.vermagic, depends))
