"""Nodes on disk: made from a recipe, and booted once by their own commands.

STATE/templates/KIND/{tree,bin}     made once, booted once by its own commands
STATE/nodes/NAME/{tree,bin,host_key}
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolkit.demo.node_files import inside
from toolkit.demo.nodes import READY, DemoFamily, Recipe, recipe_of
from toolkit.demo.software import (
    PEER_SYMBOLS,
    DemoPackage,
    checksum,
    inbox_other,
    inbox_rdma,
    nvidia_package,
)
from toolkit.demo.sysfs import sysfs
from toolkit.demo.tree import NodeTree, clone
from toolkit.errors import ToolkitError

_COMMANDS = Path(__file__).parent / "bin"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Commands that only some nodes have; every other file of bin is on all of them.
_DEBIAN = frozenset(
    {"update-grub", "grub-mkconfig", "grub-editenv", "grub-probe"}
    | {"update-initramfs", "lsinitramfs", "apt-cache", "apt-get", "dpkg-query"}
)
_RHEL = frozenset({"grubby", "grub2-editenv", "grub2-probe", "dracut", "lsinitrd", "dnf", "rpm"})
_ARCH = frozenset({"grub-mkconfig", "grub-editenv", "grub-probe"})
_PACKAGED = frozenset({"dkms", "ofed_info"})
_CONF_TAIL = """\
MAKE[0]="'make' -j$(nproc) KERNEL_UNAME=${kernelver} modules"
CLEAN="make clean"
AUTOINSTALL="yes"
"""


def commands(recipe: Recipe) -> dict[str, Path]:
    """Name to script, for the commands that a node of this kind has."""
    found = {path.name: path for path in _COMMANDS.iterdir()}
    for name in ("editenv", "probe"):
        found[f"grub2-{name}"] = found[f"grub-{name}"]
    own = {
        DemoFamily.UBUNTU: _DEBIAN | _PACKAGED,
        DemoFamily.ROCKY: _RHEL | _PACKAGED,
        DemoFamily.ARCH: _ARCH,
    }
    absent = (_DEBIAN | _RHEL | _PACKAGED) - own[recipe.family]
    if not recipe.machine.gpus:
        absent |= {"nvidia-smi"}
    return {name: path for name, path in found.items() if name not in absent}


def environment(node: Path) -> dict[str, str]:
    """What a command on the node finds in its environment."""
    tree = node / "tree"
    user = (tree / ".node/user").read_text("utf-8").strip()
    return {
        "GDR_ROOT": str(tree),
        "GDR_BIN": str(node / "bin"),
        "GDR_NODE": node.name,
        "PATH": f"{node / 'bin'}:{SYSTEM_PATH}",
        "HOME": str(tree / "root"),
        "TMPDIR": str(tree / "tmp"),
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/sh",
        "SSH_CONNECTION": "198.51.100.5 50022 192.0.2.17 22",
    }


def make_node(place: Path, recipe: Recipe, name: str) -> None:
    """Build a node from nothing and boot it.

    :param place: an empty folder, or none yet; gets "tree" and "bin".
    """
    _lay_commands(place, recipe)
    _fill_and_boot(place, recipe, name)


def _lay_commands(place: Path, recipe: Recipe) -> None:
    (place / "bin").mkdir(parents=True)
    for command, script in commands(recipe).items():
        shutil.copyfile(script, place / "bin" / command)
        (place / "bin" / command).chmod(0o755)


def _fill_and_boot(place: Path, recipe: Recipe, name: str) -> None:
    from toolkit.demo.disk import disk  # noqa: PLC0415 Jinja2, for nodes that are not there yet

    tree = place / "tree"
    parts = (sysfs(recipe.machine, root=recipe.user == "root"), disk(recipe), packages(recipe))
    for part in (*parts, inside(recipe)):
        part.write(tree)
    (tree / "proc/sys/kernel/hostname").write_text(f"{name}\n")
    steps: list[tuple[str, ...]] = [("depmod", kernel) for kernel in recipe.kernels]
    if recipe.family is not DemoFamily.ROCKY:
        steps.append(("grub-mkconfig", "-o", "/boot/grub/grub.cfg"))
    for command, *arguments in (*steps, ("boot",)):
        try:
            run(place, command, *arguments)
        except subprocess.CalledProcessError as why:
            said = why.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise ToolkitError(
                f"{name}: this demo node cannot be made: {said or why}",
                hint=f"see that {place.parent} has room, and try again",
            ) from why


def run(node: Path, command: str, *arguments: str) -> None:
    """Run one of a node's own commands, as its root.

    By its path: where it cannot be started, a search would go on to this machine's command of
    that name, which would act on this machine.

    :raises OSError: it cannot be started, as where its file system is mounted noexec.
    :raises CalledProcessError: it failed; ``stderr`` is what it said.
    """
    subprocess.run(
        [node / "bin" / command, *arguments],
        env=environment(node) | {"GDR_UID": "0"},
        check=True,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def owes_a_boot(node: Path) -> bool:
    """Whether its reboot was lost: the server that had to carry it out was killed.

    A machine goes down by itself; to its own lock (see lock.sh) this node would for minutes be
    about to. One that another server reboots just now is not meant.
    """
    lock = node / "tree/var/lib/gdr-toolkit/lock"
    try:
        return "rebooting for " in str(lock.readlink()) and time.time() - lock.lstat().st_mtime > 5
    except OSError:
        return False


def make_nodes(state: Path, names: tuple[str, ...]) -> None:
    """Make those of the nodes that are not there yet.

    Ready-made ones are one of a kind; numbered ones are cloned from a template a kind.
    """
    missing = [name for name in names if not (state / "nodes" / name).is_dir()]
    alone = {state / "nodes" / name: recipe_of(name) for name in missing if name in READY}
    many = {name: recipe_of(name) for name in missing if name not in READY}
    new = {state / "templates" / recipe.kind: recipe for recipe in many.values()}
    new = {place: recipe for place, recipe in new.items() if not place.is_dir()}
    # All commands are laid before the first is run: a child of one thread holds, until it has
    # become its program, what another thread has open for writing, and no such file can be run.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda item: _begin(*item), (alone | new).items()))
        list(pool.map(lambda item: _end(*item), (alone | new).items()))
        list(pool.map(lambda name: _clone_node(state, name), many))


def _begin(place: Path, recipe: Recipe) -> None:
    """Made beside, and renamed in the end, so that a node is either whole or not there."""
    beside = place.with_name(f".{place.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _lay_commands(beside, recipe)


def _end(place: Path, recipe: Recipe) -> None:
    beside = place.with_name(f".{place.name}")
    _fill_and_boot(beside, recipe, place.name)
    beside.rename(place)


def _clone_node(state: Path, name: str) -> None:
    template, beside = state / "templates" / recipe_of(name).kind, state / "nodes" / f".{name}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    clone(template / "tree", beside / "tree")
    (beside / "bin").symlink_to(template / "bin")
    own = beside / "tree/proc/sys/kernel"
    (own / "hostname").write_text(f"{name}\n")
    (own / "random/boot_id").write_text(f"{uuid.uuid4()}\n")
    beside.rename(beside.with_name(name))


def packages(recipe: Recipe) -> NodeTree:
    """Kernels with their own modules and headers, and what DKMS has built for them."""
    from toolkit.demo.disk import boot_files  # noqa: PLC0415 as above

    tree = NodeTree()
    for kernel in recipe.kernels:
        _kernel(tree, recipe, kernel)
    if recipe.offered:
        newer = NodeTree()
        _kernel(newer, recipe, recipe.offered)
        boot_files(newer, recipe, recipe.offered)
        tree.data(f".node/offered/{recipe.offered}.tar", newer.archive())
    for package in recipe.packages:
        _sources(tree, package)
        for kernel in recipe.built_for:
            _build(tree, recipe, package, kernel)
    if recipe.family is DemoFamily.ARCH:
        for module in nvidia_package("nvidia").modules:
            depends = () if module.name == "nvidia-peermem" else None
            path = f"lib/modules/{recipe.kernel}/extramodules/{module.name}.ko"
            tree.data(path, module.file(recipe.kernel, recipe.vermagic, depends))
    return tree


def symvers(module: str, names: tuple[str, ...]) -> str:
    """Lines of a Module.symvers, as modpost writes them."""
    return "".join(f"0x{checksum(name):08x}\t{name}\t{module}\tEXPORT_SYMBOL\t\n" for name in names)


def _kernel(tree: NodeTree, recipe: Recipe, kernel: str) -> None:
    at = f"lib/modules/{kernel}"
    for module in (*inbox_rdma(), *inbox_other()):
        path = f"{at}/kernel/{module.folder}/{module.name}.ko"
        tree.data(path, module.file(kernel, recipe.vermagic))
    headers = (
        f"usr/src/{'kernels/' if recipe.family is DemoFamily.ROCKY else 'linux-headers-'}{kernel}"
    )
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


def _sources(tree: NodeTree, package: DemoPackage) -> None:
    at = f"usr/src/{package.name}-{package.version}"
    lines = [f'PACKAGE_NAME="{package.name}"', f'PACKAGE_VERSION="{package.version}"']
    for index, module in enumerate(package.modules):
        lines.append(f'BUILT_MODULE_NAME[{index}]="{module.name}"')
        lines.append(f'DEST_MODULE_LOCATION[{index}]="/updates/dkms"')
        folder = f"{module.name}/" if module.name.startswith("nvidia") else ""
        tree.text(f"{at}/{folder}{module.name}.c", module.source())
    tree.text(f"{at}/dkms.conf", "\n".join(lines) + "\n" + _CONF_TAIL)
    tree.link(f"var/lib/dkms/{package.name}/{package.version}/source", f"/{at}")


def _build(tree: NodeTree, recipe: Recipe, package: DemoPackage, kernel: str) -> None:
    """What ``dkms install`` leaves behind."""
    kept = f"var/lib/dkms/{package.name}/{package.version}/{kernel}/x86_64"
    for module in package.modules:
        depends = None  # what the source says
        if module.name == "nvidia-peermem":  # what its build found
            depends = () if recipe.stub else ("nvidia", "ib_uverbs")
        content = module.file(kernel, recipe.vermagic, depends)
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
