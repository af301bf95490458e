"""What is booted in place of a root without a boot loader, and whether an image is as it was."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.features.image.boot.qemu import Direct

_LIMIT_S = 900
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_CHUNK = 1 << 22
_SPARE_MB = 512  # for what a first boot writes
ROOT_UUID = "6d626f6f-7400-4000-8000-000000000001"
# The image's fstab names disks that a throw-away one is not.
ALWAYS = f"root=UUID={ROOT_UUID} rw fstab=no console=ttyS0 panic=-1"
_ROOTS = re.compile(r"ro(\Z|ot)")  # where it is and what: "ro", "root=", "rootflags="
_INITRDS = ("initrd.img-{0}", "initramfs-{0}.img", "initrd-{0}")


def refuse_little_room(folder: Path, needed_mb: int) -> None:
    """Before anything is written.

    :raises UsageError: there is less than that.
    """
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < needed_mb:
        raise UsageError(
            f"{folder}: {free_mb} MB free, and the boot needs {needed_mb}",
            hint="name a folder with more room: TMPDIR=/FOLDER",
        )


def digest(image: Path, tell: Callable[[str], None] = lambda _: None) -> str:
    """What tells an image from any other: of a file its sha256.

    Of a folder, the sha256 of what lstat(2) says of everything below, times of change among it:
    nothing can be written there without one of them.
    """
    if image.is_dir():
        return sha256("\n".join(_told(image)).encode("utf-8", "surrogateescape")).hexdigest()
    found, done, size = sha256(), 0, max(1, image.stat().st_size)
    with image.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
            done += len(chunk)
            tell(f"hashing: {100 * done // size}%")
    return found.hexdigest()


def _told(root: Path) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted((*names, *files)):
            path = Path(folder, name)
            at = path.lstat()
            times = (at.st_mtime_ns, at.st_ctime_ns)
            yield f"{str(path)!r} {(at.st_mode, at.st_uid, at.st_gid, at.st_size, *times)}"


def unpack(tar: Path, folder: Path) -> None:
    """A tar of a root, with owners and attributes.

    :raises UsageError: it cannot be unpacked; without root, owners cannot be kept.
    """
    folder.mkdir()
    words = ("tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-xpf", str(tar))
    _call(*words, "-C", str(folder))


def throw_away_disk(root: Path, disk: Path) -> None:
    """A file with one file system that holds all of ``root``; sparse, and without partitions.

    :raises UsageError: not root, no room, or mke2fs fails.
    """
    if os.geteuid() != 0:
        raise UsageError(
            f"{root}: a disk with its owners and modes is made by root alone",
            hint="sudo, or give --boot a disk image, which anybody may boot",
        )
    used_mb = int(_call("du", "-sxm", str(root)).split()[0])
    refuse_little_room(disk.parent, used_mb + _SPARE_MB)
    kind = ("-q", "-F", "-t", "ext4", "-O", "^has_journal", "-L", "root", "-U", ROOT_UUID)
    size_mb = used_mb * 5 // 4 + _SPARE_MB
    _call("mke2fs", *kind, "-E", "root_owner=0:0", "-d", str(root), str(disk), f"{size_mb}M")


def direct(root: Path, release: str, arguments: str, folder: Path) -> Direct:
    """The root's own kernel and initramfs, copied: the root may be gone before QEMU reads them.

    :param arguments: those of the image, without where its root is.
    """
    kernel, initrd = kernels(root)[release]
    words = " ".join(each for each in arguments.split() if not _ROOTS.match(each))
    copies = folder / "vmlinuz", folder / "initrd"
    shutil.copyfile(kernel, copies[0])
    shutil.copyfile(initrd, copies[1])
    return Direct(*copies, f"{words} {ALWAYS}".strip())


def kernels(root: Path) -> dict[str, tuple[Path, Path]]:
    """Kernels of /boot that have an initramfs, by release: both files.

    A link that leads out of the root leads elsewhere for us, and is left out.
    """
    found: dict[str, tuple[Path, Path]] = {}
    for kernel in sorted((root / "boot").glob("vmlinuz-*")):
        release = kernel.name.removeprefix("vmlinuz-")
        named = (root / "boot" / each.format(release) for each in _INITRDS)
        initrd = next((each for each in named if _plain(each)), None)
        if initrd is not None and _plain(kernel):
            found[release] = (kernel, initrd)
    return found


def read_inside(root: Path, inside: str) -> str:
    """A small text file of the root; "" where there is none, or it is a link.

    Links of a root may lead anywhere on this machine.
    """
    path = root / inside
    folders = (
        root.joinpath(*Path(inside).parts[:end]) for end in range(1, len(Path(inside).parts))
    )
    if any(each.is_symlink() for each in folders) or not _plain(path):
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _call(*words: str) -> str:
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:{_SBIN}"}
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        package = {"mke2fs": "e2fsprogs"}.get(words[0], words[0])
        raise UsageError(f"{words[0]} is not here", hint=f"install {package}") from None
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"{words[0]} has not ended after {_LIMIT_S} s",
            hint="is the machine under load? run again",
        ) from why
    if done.returncode:
        said = done.stderr.strip().split("\n")[-1][:300]
        raise UsageError(f"{words[0]}: {said}", hint="name a folder with more room: TMPDIR=/FOLDER")
    return done.stdout
