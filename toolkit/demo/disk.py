"""/etc, /boot and the rest of the disk, as its distribution would have laid it out."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader

from toolkit.demo.nodes import DemoFamily, Recipe
from toolkit.demo.software import inbox_rdma
from toolkit.demo.tree import NodeTree
from toolkit.package_data import templates

MACHINE_ID = "5b2f1c0e8d3a4f6797c4a1be20d95e31"
ROOT_UUID = "3c1f5a52-7d0e-4b0b-9a86-1f6b0c9be7a4"

_OS_RELEASE = {
    DemoFamily.UBUNTU: (
        'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\n'
        'VERSION="22.04.5 LTS (Jammy Jellyfish)"\nVERSION_CODENAME=jammy\nID=ubuntu\n'
        'ID_LIKE=debian\nHOME_URL="https://www.ubuntu.com/"\nUBUNTU_CODENAME=jammy\n'
    ),
    DemoFamily.ROCKY: (
        'NAME="Rocky Linux"\nVERSION="9.5 (Blue Onyx)"\nID="rocky"\n'
        'ID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\nPLATFORM_ID="platform:el9"\n'
        'PRETTY_NAME="Rocky Linux 9.5 (Blue Onyx)"\n'
    ),
    DemoFamily.ARCH: (
        'NAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\nID=arch\nBUILD_ID=rolling\n'
        'HOME_URL="https://archlinux.org/"\n'
    ),
}

_CONFIG = """\
CONFIG_CC_VERSION_TEXT="gcc (GCC) 12.3.0"
CONFIG_MODVERSIONS=y
CONFIG_MODULE_SIG=y
# CONFIG_MODULE_SIG_FORCE is not set
# CONFIG_PREEMPT_RT is not set
# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set
CONFIG_PCI_P2PDMA=y
CONFIG_DMA_SHARED_BUFFER=y
CONFIG_DMABUF_MOVE_NOTIFY=y
CONFIG_MLX5_CORE=m
CONFIG_INFINIBAND=m
CONFIG_INFINIBAND_USER_MAD=m
CONFIG_INFINIBAND_USER_ACCESS=m
CONFIG_INFINIBAND_USER_MEM=y
CONFIG_INFINIBAND_ON_DEMAND_PAGING=y
CONFIG_MLX5_INFINIBAND=m
"""

_CRASH = "crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M"
_SYSTEM_CONF = "[Manager]\n#DefaultLimitMEMLOCK=8M\n"
_LIMITS_CONF = "# /etc/security/limits.conf\n#<domain> <type> <item> <value>\n#*  soft  core  0\n"
# What the packages of DKMS leave for those of kernels.
_DKMS_HOOK = {
    DemoFamily.UBUNTU: "etc/kernel/postinst.d/dkms",
    DemoFamily.ROCKY: "usr/lib/kernel/install.d/40-dkms.install",
    DemoFamily.ARCH: "usr/share/libalpm/hooks/70-dkms-install.hook",
}
# Its DKMS is 3.2 and builds OFED and the driver: then apt has no hook.
_UBUNTU = {
    "usr/lib/gdr-toolkit/rebuild": "dkms/rebuild.sh.j2",
    "etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf": "dkms/after-transaction.conf.j2",
    "etc/kernel/postinst.d/zz-gdr-toolkit": "kernel/rebuild.sh.j2",
    "etc/kernel/header_postinst.d/zz-gdr-toolkit": "kernel/rebuild.sh.j2",
}


def disk(recipe: Recipe) -> NodeTree:
    """Everything on the disk but kernel modules and what belongs to them."""
    tree = NodeTree()
    tree.text("etc/os-release", _OS_RELEASE[recipe.family])
    tree.text("etc/security/limits.conf", _LIMITS_CONF)
    tree.text("etc/systemd/system.conf", _SYSTEM_CONF)
    tree.text("etc/passwd", "root:x:0:0::/root:/bin/sh\nmaria:x:1000:1000::/home/maria:/bin/sh\n")
    tree.text("etc/modprobe.d/nvidia-graphics-drivers.conf", "blacklist nouveau\n")
    tree.text("etc/modprobe.d/mlnx.conf", "options mlx5_core probe_vf=1\n")
    tree.text(_DKMS_HOOK[recipe.family], "#!/bin/sh\n# calls dkms autoinstall\n")
    if recipe.family is DemoFamily.UBUNTU:
        tree.text("etc/modules", "# /etc/modules: kernel modules to load at boot time.\n")
        tree.link("etc/modules-load.d/modules.conf", "../modules")
    if recipe.autoload:
        tree.text("etc/modules-load.d/nvidia-peermem.conf", "nvidia-peermem\n")
    if recipe.hooks and recipe.family is DemoFamily.UBUNTU and recipe.machine.gpus:
        hooks(tree)
    if not recipe.machine.acs:
        _acs_off(tree)
    if recipe.memlock:
        _memlock(tree)
    for kernel in recipe.kernels:
        boot_files(tree, recipe, kernel)
    if recipe.family is DemoFamily.ROCKY:
        _loader_entries(tree, recipe)
    else:
        _grub_defaults(tree, recipe)
    folders = (
        "root tmp run dev/infiniband var/log var/lib/dkms etc/dkms etc/default/grub.d etc/grub.d"
    )
    for folder in folders.split():
        tree.folder(folder)
    for folder in ("etc/security/limits.d", "etc/systemd/system.conf.d", "etc/modules-load.d"):
        tree.folder(folder)
    return tree


def _acs_off(tree: NodeTree) -> None:
    """What keeps ACS off at each boot: under an IOMMU the kernel turns it on."""
    unit = "etc/systemd/system/acs-off.service"
    tree.text(unit, "[Service]\nType=oneshot\nExecStart=/usr/local/sbin/acs-off\n")
    tree.relative_link("etc/systemd/system/multi-user.target.wants/acs-off.service", unit)
    tree.text("usr/local/sbin/acs-off", "#!/bin/sh\nsetpci -d '*:*:604' ECAP_ACS+6.w=0\n")


def _memlock(tree: NodeTree) -> None:
    """Unlimited, as the packages of OFED leave it for logins, and for services too."""
    tree.text(
        "etc/security/limits.d/90-rdma.conf",
        "* soft memlock unlimited\n* hard memlock unlimited\n"
        "root soft memlock unlimited\nroot hard memlock unlimited\n",
    )
    tree.text("etc/systemd/system.conf.d/rdma.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n")


def boot_files(tree: NodeTree, recipe: Recipe, kernel: str) -> None:
    if recipe.family is DemoFamily.ARCH:
        tree.data(f"lib/modules/{kernel}/vmlinuz", b"an image\n")
        tree.text(f"lib/modules/{kernel}/config", _CONFIG)
        tree.data("boot/vmlinuz-linux", b"an image\n")
        return
    initrd = "initramfs-{}.img" if recipe.family is DemoFamily.ROCKY else "initrd.img-{}"
    tree.data(f"boot/vmlinuz-{kernel}", b"an image\n")
    folders = {each.name: each.folder for each in inbox_rdma()}
    held = "".join(f"module kernel/{folders[name]}/{name}\n" for name in recipe.early)
    tree.text(f"boot/{initrd.format(kernel)}", f"an initial ram disk\n{held}")
    tree.text(f"boot/config-{kernel}", _CONFIG)


def _grub_defaults(tree: NodeTree, recipe: Recipe) -> None:
    tree.text(
        "etc/default/grub",
        "GRUB_DEFAULT=0\nGRUB_TIMEOUT_STYLE=hidden\nGRUB_TIMEOUT=0\n"
        "GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`\n"
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n'
        f'GRUB_CMDLINE_LINUX="{" ".join(recipe.arguments)}"\n',
    )
    tree.text("etc/default/grub.d/50-site.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"\n')
    tree.text("boot/grub/grubenv", _grubenv(""))  # grub-install makes it


def _loader_entries(tree: NodeTree, recipe: Recipe) -> None:
    """Boot Loader Specification entries, and the environment that names the default."""
    words = " ".join((_CRASH, *recipe.arguments))
    arguments = f"root=UUID={ROOT_UUID} ro {words}"
    for kernel in recipe.kernels:
        tree.text(
            f"boot/loader/entries/{MACHINE_ID}-{kernel}.conf",
            f"title Rocky Linux ({kernel}) 9.5 (Blue Onyx)\nversion {kernel}\n"
            f"linux /boot/vmlinuz-{kernel}\ninitrd /boot/initramfs-{kernel}.img\n"
            f"options {arguments}\ngrub_users $grub_users\ngrub_arg --unrestricted\n"
            "grub_class rocky\n",
        )
    tree.text("boot/grub2/grubenv", _grubenv(f"saved_entry={MACHINE_ID}-{recipe.kernel}\n"))
    tree.text(
        "boot/grub2/grub.cfg",
        'load_env\nif [ "${next_entry}" ] ; then\n   set default="${next_entry}"\n'
        "   set next_entry=\n   save_env next_entry\n   set boot_once=true\n"
        'else\n   set default="${saved_entry}"\nfi\ninsmod blscfg\nblscfg\n',
    )
    tree.text(
        "etc/default/grub",
        "GRUB_TIMEOUT=5\nGRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true\n"
        f'GRUB_CMDLINE_LINUX="{words}"\n',
    )
    tree.line("etc/kernel/cmdline", arguments)
    tree.line("etc/machine-id", MACHINE_ID)


def _grubenv(content: str) -> str:
    """Exactly 1024 bytes, as GRUB demands, filled up with #."""
    return ("# GRUB Environment Block\n" + content).ljust(1024, "#")


def hooks(tree: NodeTree) -> None:
    """Add them to an Ubuntu node."""
    environment = Environment(
        loader=FileSystemLoader(templates()),
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 # no HTML, and no values
    )
    for path, template in _UBUNTU.items():
        text = environment.get_template(template).render()
        if text.startswith("#!"):
            tree.program(path, text)
        else:
            tree.text(path, text)
