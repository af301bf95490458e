"""The system on a guest's disk: Debian's packages, and what makes them boot quickly."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dev.lab import pcitree
from dev.lab.keys import Keys, keys
from dev.lab.unpacked import repacked
from tests.builds.grounds import OMITTED, Recipe, bootstrap, kept, kernels, tree
from tests.builds.mirrors import NotToBeHad
from tests.builds.sandbox import Sandbox

HERE = Path(__file__).parent
FILES = HERE / "files"  # laid over the tree as they are
ROOT_UUID = "6c1ab000-0000-4000-8000-000000000001"
EDITION = 1  # to be raised where the way of making has changed

_PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "openssh-server", "sudo", "iproute2", "kmod", "pciutils"),
    *("initramfs-tools", "zstd", "grub-pc", "procps", "rdma-core", "ibverbs-utils", "psmisc"),
    "ibverbs-providers",  # without it, ibv_devinfo finds no device
)
# Kept out: drivers of what no guest has. Four fifths of a kernel's image package.
_DRIVERS = (
    *(f"/lib/modules/*/kernel/{each}/*" for each in ("sound", "net/wireless", "net/bluetooth")),
    *(
        f"/lib/modules/*/kernel/drivers/{each}/*"
        for each in (
            *("gpu", "media", "staging", "usb", "iio", "hid", "input", "mtd", "platform", "isdn"),
            *("bluetooth", "hwmon", "scsi", "ata", "mmc", "leds", "video", "i2c", "spi", "net/*"),
        )
    ),
    "+/lib/modules/*/kernel/drivers/net/ethernet/mellanox/*",
)
_MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("e2scrub_reap.service", "e2scrub_all.timer", "getty@tty1.service", "logrotate.timer"),
    *("serial-getty@ttyS0.service", "systemd-timesyncd.service", "systemd-pstore.service"),
    *("systemd-networkd-wait-online.service", "systemd-binfmt.service", "man-db.timer"),
    *("proc-sys-fs-binfmt_misc.automount", "systemd-update-utmp.service"),
    *("modprobe@drm.service", "modprobe@fuse.service", "modprobe@efi_pstore.service"),
    *("systemd-journal-flush.service", "systemd-update-utmp-runlevel.service"),
    *("ifupdown-pre.service", "grub-common.service", "systemd-random-seed.service"),
    *(
        "systemd-logind.service",
        "systemd-sysusers.service",
        "kmod-static-nodes.service",
        "sys-kernel-tracing.mount",
    ),
    *("systemd-network-generator.service", "modprobe@dm_mod.service", "modprobe@loop.service"),
    *("modprobe@configfs.service", "sys-kernel-config.mount", "dev-mqueue.mount"),
)
# Each is a program that is started at every boot, to find nothing.
_GENERATORS = (
    *("cryptsetup", "debug", "getty", "gpt-auto", "hibernate-resume", "integritysetup"),
    *("rc-local", "run", "system-update", "veritysetup"),
)
# Of the initial RAM disk: where devtmpfs is enough, udev's first run costs a quarter of a boot.
_HOOKS = (
    *("hooks/udev", "scripts/init-top/udev", "scripts/init-bottom/udev", "hooks/dmsetup"),
    *("hooks/resume", "scripts/local-premount/resume", "hooks/thermal", "hooks/keymap"),
)


def releases() -> dict[str, str]:
    """The kernels that guests may have: "6.1" and "6.12", each with its release."""
    plain = [
        each
        for each in kernels(tree("bookworm"))
        if not each.endswith(("-rt-amd64", "-cloud-amd64"))
    ]
    return {".".join(each.split(".")[:2]): each for each in plain}


def recipe() -> Recipe:
    """Debian 12 with GRUB, systemd, sshd and both kernels."""
    images = tuple(f"linux-image-{each}" for each in releases().values())
    return Recipe("lab", "bookworm", (*_PACKAGES, *images), omitted=(*OMITTED, *_DRIVERS))


def base() -> Path:
    """The tree as its packages left it; to be read only.

    :raises NotToBeHad: where it cannot be made.
    """
    made = recipe()
    return kept(f"{made.name}-{made.digest}", lambda folder: bootstrap(made, folder))


def system(kernel: str, tell: Callable[[str], None] = lambda _: None) -> tuple[Path, ...]:
    """Layers of a system that boots one kernel; topmost first.

    :param kernel: "6.1" or "6.12".
    :raises NotToBeHad: where it cannot be made.
    """
    login, release = keys(), releases()[kernel]
    below = base()
    digest = sha256(json.dumps([EDITION, below.name, release, login.public]).encode())
    files = (*FILES.rglob("*"), *(HERE / "inside").iterdir())
    sources = (HERE / "unpacked.py", Path(__file__), *pcitree.SOURCES)
    for path in (*sorted(files), *sources):
        digest.update(path.read_bytes() if path.is_file() else path.name.encode())

    def make(folder: Path) -> None:
        tell(f"making the system with {release}")
        with Sandbox((below,)) as box:
            _configure(box, release, login)
            # cp keeps what overlayfs notes of removed files: devices 0/0.
            subprocess.run(("cp", "-a", f"{box.upper}/.", str(folder)), check=True)

    return (kept(f"lab-system-{kernel}-{digest.hexdigest()[:12]}", make), below)


def _configure(box: Sandbox, release: str, login: Keys) -> None:
    for other in set(releases().values()) - {release}:
        box.run("dpkg", "--purge", "--force-depends", f"linux-image-{other}")
        shutil.rmtree(box.path(f"lib/modules/{other}"), ignore_errors=True)
    shutil.copytree(FILES, box.root, symlinks=True, dirs_exist_ok=True)
    for unit in _MASKED:
        path = box.path(f"etc/systemd/system/{unit}")
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
    for name in _GENERATORS:
        path = box.path(f"etc/systemd/system-generators/systemd-{name}-generator")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("/dev/null")
    for name in _HOOKS:
        box.path(f"usr/share/initramfs-tools/{name}").chmod(0o644)
    box.write("etc/fstab", f"UUID={ROOT_UUID} / ext4 errors=remount-ro,noatime 0 0\n")
    box.path("root/.ssh").mkdir(mode=0o700, exist_ok=True)
    box.write("root/.ssh/authorized_keys", login.public, 0o600)
    for path in box.path("etc/ssh").glob("ssh_host_*"):
        path.unlink()
    box.write("etc/ssh/ssh_host_ed25519_key", login.host.read_bytes(), 0o600)
    _extra_modules(box, release)
    box.run("update-initramfs", "-c", "-k", release)
    kernel = box.path(f"boot/vmlinuz-{release}")
    box.write(f"boot/vmlinuz-{release}", repacked(kernel.read_bytes(), _entry(), _lz4))
    _boot_loader(box)


def _lz4(data: bytes) -> bytes:
    words = ("lz4", "-9", "-l", "-c")
    return subprocess.run(words, input=data, capture_output=True, check=True).stdout


def _entry() -> bytes:
    """What a kernel of ours is entered by."""
    with Sandbox.of("bookworm") as builder:
        builder.write("entry.S", (HERE / "inside/entry.S").read_bytes())
        builder.run("gcc", "-c", "-o", "/entry.o", "/entry.S")
        builder.run("objcopy", "-O", "binary", "-j", ".text", "/entry.o", "/entry")
        return builder.path("entry").read_bytes()


def _extra_modules(box: Sandbox, release: str) -> None:
    """The module of the tests' PCI tree, where depmod finds it."""
    with Sandbox.of("bookworm") as builder:
        for path in pcitree.SOURCES:
            builder.write(f"pcitree/{path.name}", path.read_bytes())
        headers = f"/lib/modules/{release}/build"
        builder.run("make", "-C", headers, "M=/pcitree", "modules")
        built = builder.path("pcitree/pcitree.ko").read_bytes()
    box.write(f"lib/modules/{release}/extra/pcitree.ko", built)
    box.run("depmod", release)


def _boot_loader(box: Sandbox) -> None:
    """GRUB's modules, and the menu as the guest's own update-grub would write it."""
    grub = box.path("boot/grub")
    shutil.copytree(box.path("usr/lib/grub/i386-pc"), grub / "i386-pc", dirs_exist_ok=True)
    real = box.path("usr/sbin/grub-probe")
    kept_aside = real.read_bytes()
    stand_in = (HERE / "inside/grub-probe").read_text().replace("@UUID@", ROOT_UUID)
    box.write("usr/sbin/grub-probe", stand_in, 0o755)
    box.path("dev/disk/by-uuid").mkdir(parents=True)
    box.path(f"dev/disk/by-uuid/{ROOT_UUID}").touch()
    box.path("dev/vda1").touch()
    try:
        box.run("grub-editenv", "/boot/grub/grubenv", "create")
        box.run("update-grub")
    finally:
        box.write("usr/sbin/grub-probe", kept_aside, 0o755)
    menu = (grub / "grub.cfg").read_text()
    if "vmlinuz-" not in menu:  # then, too, it exits 0
        raise NotToBeHad(f"update-grub wrote a menu without a kernel:\n{menu}")
