"""Programs that some tests need beside Python: is each here, and what package brings it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import Unsupported

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where sshd hides from ordinary users' PATHs


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, or something else that a test needs, and the Debian package it comes in.

    What no package brings has "" for it.
    """

    name: str
    package: str
    files: str = ""  # for what is no program: a pattern below / of a file that it has
    mounts: bool = False  # it is no package but the right to mount
    root: bool = False  # it is no package but to be root
    variable: bool = False  # it is no package but a file that this variable names

    @property
    def here(self) -> bool:
        if self.mounts:
            return may_mount()
        if self.root:
            return os.geteuid() == 0
        if self.variable:
            return Path(os.environ.get(self.name, "")).is_file()
        if self.files:
            return any(Path("/").glob(self.files))
        return shutil.which(self.name, path=f"{os.environ.get('PATH', '')}:{SBIN}") is not None


def may_mount() -> bool:
    """Whether this is root, and no container that keeps even root from mounting."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    done = subprocess.run(("unshare", "--mount", "true"), capture_output=True, check=False)
    return done.returncode == 0


NPM = Tool("npm", "npm")
XMLLINT = Tool("xmllint", "libxml2-utils")
KUBECTL = Tool("kubectl", "kubernetes-client")
CLUSTER = Tool("GDR_TEST_KUBECONFIG", "", variable=True)  # a cluster that tests may use
SSHD = Tool("sshd", "openssh-server")
SSH = Tool("ssh", "openssh-client")
MINISIGN = Tool("minisign", "minisign")
SHELLCHECK = Tool("shellcheck", "shellcheck")
DASH = Tool("dash", "dash")
BUSYBOX = Tool("busybox", "busybox")
BASH = Tool("bash", "bash")
SUDO = Tool("sudo", "sudo")
LSPCI = Tool("lspci", "pciutils")
MODINFO = Tool("modinfo", "kmod")
_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
HEADERS = Tool("kernel headers", f"linux-headers-{_ARCH}", "lib/modules/*/build/Makefile")
GCC = Tool("gcc", "gcc")
STRIP = Tool("strip", "binutils")
MAKE = Tool("make", "make")
OPENSSL = Tool("openssl", "openssl")
SOFTHSM = Tool("softhsm2-util", "softhsm2")
# By which OpenSSL opens keys on tokens.
PKCS11 = Tool("pkcs11 engine", "libengine-pkcs11-openssl", "usr/lib/*/engines-3/pkcs11.so")
PACKERS = (Tool("xz", "xz-utils"), Tool("zstd", "zstd"), Tool("gzip", "gzip"))
LZ4 = Tool("lz4", "lz4")
ROOT = Tool("root's right to mount", "", mounts=True)
SUPERUSER = Tool("root", "", root=True)  # who may read, own and signal anything
MMDEBSTRAP = Tool("mmdebstrap", "mmdebstrap")
QEMU = Tool("qemu-system-x86_64", "qemu-system-x86")
MKE2FS = Tool("mke2fs", "e2fsprogs")
OVMF = Tool("UEFI firmware", "ovmf", "usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
STATIC_LIBC = Tool("C library for static programs", "libc6-dev", "usr/lib/*/libc.a")
QEMU_IMG = Tool("qemu-img", "qemu-utils")
SFDISK = Tool("sfdisk", "fdisk")
GRUB = Tool("grub-mkimage", "grub-common")
GRUB_PC = Tool("GRUB for BIOS", "grub-pc-bin", "usr/lib/grub/i386-pc/boot.img")
IP = Tool("ip", "iproute2")
NSENTER = Tool("nsenter", "util-linux")
LIBVIRTD = Tool("libvirtd", "libvirt-daemon-system")
VIRSH = Tool("virsh", "libvirt-clients")
TUN = Tool("/dev/net/tun", "", "dev/net/tun")  # what a guest's network device hangs on
DNSMASQ = Tool("dnsmasq", "dnsmasq-base")
VAGRANT = Tool("vagrant", "vagrant")
VAGRANT_LIBVIRT = Tool(
    "vagrant-libvirt",
    "vagrant-libvirt",
    "usr/share/rubygems-integration/all/specifications/vagrant-libvirt-*.gemspec",
)
# Debian's own Python has Debian's binding of libvirt; sushy-emulator is put over both.
PYTHON = Tool("Debian's Python", "python3", "usr/bin/python3")
LIBVIRT_PYTHON = Tool(
    "libvirt for Python", "python3-libvirt", "usr/lib/python3/dist-packages/libvirt.py"
)
PACKER, MKOSI = Tool("packer", "packer"), Tool("mkosi", "mkosi")
CHROMIUM = Tool("chromium", "chromium")
DPKG = Tool("dpkg-deb", "dpkg")
SLURM = (
    *(Tool("slurmctld", "slurmctld"), Tool("slurmd", "slurmd"), Tool("sinfo", "slurm-client")),
    Tool("munged", "munge"),
)

# What the marks of pyproject.toml stand for.
MARKS = {
    "sshd": (SSHD, SSH, MODINFO),  # the real ones, as nodes and sites have them
    "shell": (SHELLCHECK, DASH, BUSYBOX, BASH, LSPCI, SSH),
    "modules": (
        HEADERS,
        GCC,
        STRIP,
        MAKE,
        MODINFO,
        OPENSSL,
        *PACKERS,
        DASH,
        BUSYBOX,
        BASH,
    ),
    "builds": (
        ROOT,
        MMDEBSTRAP,
        QEMU,
        QEMU_IMG,
        SFDISK,
        MKE2FS,
        GCC,
        STATIC_LIBC,
        MODINFO,
        OPENSSL,
        BUSYBOX,
        *PACKERS,
        Tool("bzip2", "bzip2"),
        DPKG,
    ),
    "bmc": (PYTHON, LIBVIRT_PYTHON),
    "slurm": SLURM,
    "machine": (
        *(ROOT, MMDEBSTRAP, QEMU, QEMU_IMG, MKE2FS, SFDISK, GRUB, GRUB_PC, SSH),
        *(GCC, MODINFO, *PACKERS, LZ4),
    ),
}
MARKS["kube"] = (ROOT, NSENTER, Tool("setpriv", "util-linux"), DASH, BUSYBOX, BASH, KUBECTL)
MARKS["pages"] = (CHROMIUM,)
MARKS["root"] = (SUPERUSER,)
MARKS["minisign"] = (MINISIGN,)
MARKS["sudo"] = (SUDO,)
MARKS["token"] = (SOFTHSM, PKCS11)
MARKS["packagers"] = (Tool("rpmbuild", "rpm"), Tool("lintian", "lintian"))
MARKS["uefi"] = (OVMF,)
MARKS["podman"] = (
    Tool("podman", "podman"),
    Tool("runc", "runc"),
    Tool("mksquashfs", "squashfs-tools"),
)
MARKS["pipelines"] = (PACKER, MKOSI)
MARKS["exhaustive"] = ()  # needs nothing but time: part of --all, and of a tier that is named
MARKS["documents"] = (NPM, XMLLINT, DPKG)
MARKS["cluster"] = (KUBECTL, CLUSTER)
MARKS["vagrant"] = (
    *MARKS["machine"],
    *(VAGRANT, VAGRANT_LIBVIRT, LIBVIRTD, VIRSH, DNSMASQ, IP, NSENTER, TUN),
)
# Marks of few tests among those of another: without their tools these are not run, by name, and
# the others are.
FOR_FEW = {
    "sshd": ("minisign", "sudo"),
    "modules": ("token",),
    "builds": ("packagers", "uefi"),
    "machine": ("pipelines",),
    "kube": ("podman",),
}


def for_few(mark: str) -> tuple[Tool, ...]:
    """What some of the tests with that mark need beside what all do."""
    return tuple(tool for name in FOR_FEW.get(mark, ()) for tool in MARKS[name])


def missing(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Those that are not here, in the order given, each once."""
    return tuple(tool for tool in dict.fromkeys(tools) if not tool.here)


def in_ci() -> bool:
    """Where a tool that is missing must not turn into tests that are silently not run."""
    return os.environ.get("CI", "").lower() in {"true", "1"}


def sentence(tools: Iterable[Tool]) -> str:
    """``needs sshd, busybox (apt install openssh-server busybox)``."""
    wanted = tuple(tools)
    names = ", ".join(tool.name for tool in wanted)
    packages = " ".join(tool.package for tool in wanted if tool.package)
    return f"needs {names}" + f" (apt install {packages})" * bool(packages)


def install(tools: Iterable[Tool], *, dry: bool = False) -> None:
    """Install what is missing by apt-get, by sudo where not root.

    :raises Unsupported: without apt-get, without a way to become root, or where apt-get
        fails even after an update.
    """
    packages = sorted({tool.package for tool in missing(tools) if tool.package})
    if dry and packages:
        print(f"would be installed: {' '.join(packages)}")
    if dry or not packages:
        return
    by_hand = f"install by hand what holds: {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise Unsupported(
            "--install knows Debian's apt-get alone, and it is not here", hint=by_hand
        )
    become = [] if os.geteuid() == 0 else ["sudo"]
    if become and shutil.which("sudo") is None:
        raise Unsupported("--install is for root, and there is no sudo", hint=by_hand)
    get = [*become, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    put = [*get, "install", "-y", "--no-install-recommends", *packages]
    # The lists of a fresh machine are empty or old: look once as they are, once anew.
    for command in (put, [*get, "update"], put):
        status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        if command is put and status == 0:
            return
    raise Unsupported(f"apt-get could not install {' '.join(packages)}", hint=by_hand)
