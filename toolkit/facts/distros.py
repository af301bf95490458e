"""Distributions and their families: what carries out triggers, what it rewrites, what to install.

A family is one row here and one captured node. What a row does not say is told as not known.
"""

from __future__ import annotations

import re
import shlex

from msgspec import Struct

from toolkit.errors import Unparsable, Unsupported


# Which distribution, from os-release.
# Source: os-release(5): shell-compatible assignments; quotes optional, comments allowed.
class Distro(Struct, frozen=True):
    id: str  # "ubuntu", "rhel", "rocky", "amzn"
    version: str  # "22.04", "9.4"; "" on rolling releases
    like: tuple[str, ...]  # ("debian",): the families it says it belongs to, nearest first
    pretty: str  # "Ubuntu 22.04.4 LTS"
    ostree: bool = False  # RHCOS, Fedora CoreOS, Silverblue: they tell the version of their tree


def parse_os_release(text: str) -> Distro:
    """Read /etc/os-release.

    :raises Unparsable: at a line that is no assignment, or where ID is missing.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, raw = line.partition("=")
        if not equals or not key.strip().isidentifier():
            raise Unparsable("os-release", line, number)
        try:
            values[key.strip()] = " ".join(shlex.split(raw))
        except ValueError as why:
            raise Unparsable("os-release", line, number) from why
    if "ID" not in values:
        raise Unparsable("os-release", "no ID")
    return Distro(
        id=values["ID"].lower(),
        version=values.get("VERSION_ID", ""),
        like=tuple(values.get("ID_LIKE", "").lower().split()),
        pretty=values.get("PRETTY_NAME", values.get("NAME", values["ID"])),
        ostree="OSTREE_VERSION" in values,
    )


class Family(Struct, frozen=True):
    """One row. {kernel} in commands and paths is a kernel release.

    In packages {version} is what they call it, {flavour} "64k-", "rt-" or ""; {branch} is the
    driver's.
    """

    name: str
    ids: frozenset[str]  # ID and ID_LIKE of os-release that belong to it
    initramfs: tuple[str, ...]  # command that rebuilds the initramfs of one kernel
    initramfs_file: str
    modules: tuple[str, ...]  # folders that DKMS installs modules into
    bootloader: tuple[str, ...] = ()  # command that makes its boot menu; () where there is none
    bootloader_files: tuple[str, ...] = ()  # what changing boot entries rewrites
    grubby: bool = False  # kernel arguments are kept in each boot entry, by grubby
    pbl: bool = False  # they are kept in /etc/default/grub, by pbl
    systemd: bool = True  # it reads units and drop-ins of ours
    headers: str = "the headers of {kernel}"  # package
    image: str = "the kernel {kernel}"  # package
    open_driver: str = "the open kernel modules"  # package
    driver_source: str = ""  # command that fetches what holds the driver's source, of {version}

    @property
    def menus(self) -> tuple[str, ...]:
        """Boot menus that ``bootloader`` makes anew."""
        return tuple(each for each in self.bootloader_files if each.endswith("/grub.cfg"))


FAMILIES = (
    Family(
        "debian",
        frozenset({"debian", "ubuntu"}),
        ("update-initramfs", "-u", "-k", "{kernel}"),
        "/boot/initrd.img-{kernel}",
        ("/lib/modules/{kernel}/updates/dkms",),
        ("update-grub",),
        ("/boot/grub/grub.cfg",),
        headers="linux-headers-{kernel}",
        image="linux-image-{kernel}",
        open_driver="nvidia-open-kernel-dkms",
        driver_source="apt-get download 'nvidia-open-kernel-source={version}-*'",
    ),
    Family(
        "rhel",
        frozenset({"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"}),
        ("dracut", "-f", "--kver", "{kernel}"),
        "/boot/initramfs-{kernel}.img",
        ("/lib/modules/{kernel}/extra",),
        bootloader_files=(
            "/boot/loader/entries",
            "/boot/grub2/grubenv",
            "/etc/default/grub",  # with --update-kernel=ALL grubby sees to later kernels too
            "/etc/kernel/cmdline",
        ),
        grubby=True,
        headers="kernel-{flavour}devel-{version}",
        image="kernel-{flavour}{version}",
        open_driver="nvidia-open (on EL 8 and 9 the module stream nvidia-driver:{branch}-open)",
        driver_source="dnf download kmod-nvidia-open-dkms-{version}",
    ),
    Family(
        "suse",
        frozenset({"suse", "sles", "sled", "opensuse", "opensuse-leap", "opensuse-tumbleweed"}),
        ("dracut", "-f", "--kver", "{kernel}"),
        "/boot/initrd-{kernel}",
        ("/lib/modules/{kernel}/updates",),
        ("pbl", "--config"),
        ("/boot/grub2/grub.cfg", "/etc/default/grub"),
        pbl=True,
        headers="kernel-default-devel of the same version",
        image="kernel-default",
        open_driver="nvidia-open",
        driver_source="zypper source-install -D nvidia-open-driver-G06-signed (or -signed-cuda) of "
        "{version}, which lays it below /usr/src/packages/SOURCES",
    ),
)

# Systems whose modules come with an image alone, and the way that their vendors have for it.
_IMAGES = {
    "talos": "system extensions nvidia-open-gpu-kernel-modules and nvidia-container-toolkit in the"
    " image (Image Factory), modules in machine.kernel.modules of its configuration",
    "bottlerocket": "an image of a variant that ends in -nvidia brings the driver; another needs a"
    " variant of your own",
    "flatcar": "the official NVIDIA sysext, or nvidia.service; OFED by the network operator",
}
UNKNOWN = Family("", frozenset(), (), "", ())  # for hints to nodes without a row


def family_of(distro: Distro) -> Family:
    """The family by ID, else by the nearest of ID_LIKE.

    :raises Unsupported: where neither is known.
    """
    for name in (distro.id, *distro.like):
        for family in FAMILIES:
            if name in family.ids:
                return family
    known = ", ".join(family.name for family in FAMILIES)
    named = f'"{distro.id}" {distro.version}'.rstrip()  # rolling releases have no version
    if distro.id in _IMAGES:
        raise Unsupported(
            f"{named} takes modules with its image alone: nothing is planned for it",
            hint=_IMAGES[distro.id],
        )
    raise Unsupported(
        f"no build rule for {named}; known families: {known}",
        hint="a family is one row in toolkit/facts/distros.py and one captured node",
    )


# Where Ubuntu's linux-modules-nvidia-580-server-open-KERNEL puts it; its source has the same words.
_UBUNTU = re.compile(r"/kernel/nvidia-(\d+[a-z-]*)/")


def driver_source(distro: Distro, version: str, file: str, arch: str) -> str:
    """How to come by the source of a driver that is installed as modules alone, and stays so.

    Sources: the file lists of Ubuntu's nvidia-kernel-source-* and Debian's
    nvidia-open-kernel-source; NVIDIA/yum-packaging-dkms-nvidia, %files; openSUSE,
    nvidia-open-driver-G06-signed.spec; the vendor's installer, --extract-only.

    :param file: the installed nvidia.ko.
    """
    rest = f"sh NVIDIA-Linux-{arch}-{version}.run --extract-only --target /usr/src/nvidia-{version}"
    if found := _UBUNTU.search(file):
        words = re.sub(r"^\d+", version.partition(".")[0], found[1])
        package = f"nvidia-kernel-source-{words}={version}-*"
        return f"apt-get install '{package}' adds the source alone; or: {rest}"
    if "/kernel/drivers/" in file or distro.id == "ubuntu":  # by that installer
        return rest
    rows = (each for each in FAMILIES for name in (distro.id, *distro.like) if name in each.ids)
    if row := next((each.driver_source for each in rows), ""):
        fetch = row.format(version=version)
        return (
            f"{fetch}, then give build that file: --sources FILE; do not install it, the driver"
            f" stays as it is; or: {rest}"
        )
    return rest


def driver_modules(version: str, file: str, kernel: str) -> str:
    """The package with a driver's modules for a kernel; "" where the installed file tells of none.

    Sources: Ubuntu's linux-modules-nvidia-*; NVIDIA/yum-packaging-precompiled-kmod.
    """
    if found := _UBUNTU.search(file):
        words = re.sub(r"^\d+", version.partition(".")[0], found[1])
        return f"linux-modules-nvidia-{words}-{kernel}"
    if "/extra/drivers/video/nvidia/" in file:
        return f"kmod-nvidia-{version}-{re.split('[.]el[0-9]', kernel)[0]}"
    return ""


# What an artefact may ask of a family: the rows above answer, so that a new one need not be named.
def every(_family: Family) -> bool:
    """Its file is read everywhere: by kmod, DKMS, depmod, PAM."""
    return True


def with_systemd(family: Family) -> bool:
    return family.systemd


def makes_menu(family: Family) -> bool:
    return bool(family.bootloader)


def reads_drop_ins(family: Family) -> bool:
    """The command that makes its boot menu reads /etc/default/grub.d."""
    return makes_menu(family) and not family.pbl


def has_grubby(family: Family) -> bool:
    return family.grubby


def has_pbl(family: Family) -> bool:
    return family.pbl
