"""One boot of an image that leaves no trace: not in the image, and not on this machine.

A disk is booted by its own boot loader. A root in a folder or a tar has none: it is copied into a
throw-away disk, and QEMU starts the kernel and the initramfs of its /boot itself; what its boot
loader would do is not proven then, and that is said.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.errors import TransportError, UsageError
from toolkit.facts.versions import Version
from toolkit.flow.access import Access
from toolkit.hosts import Host
from toolkit.progress import Progress, Silent
from toolkit.reach import throwaway
from toolkit.reach.emulated import Emulated, free_port
from toolkit.reach.kvm import Accelerator, accelerator
from toolkit.reach.one_time import OneTime, one_time
from toolkit.reach.qemu import (
    INSTALL,
    QEMU,
    Direct,
    Machine,
    boots_by_bios,
    disk_format,
    find_uefi,
)
from toolkit.reach.ssh import SshTransport
from toolkit.reach.ssh_config import SshConfig

_PREFIX = "gdr-boot-"
_ROOM_MB = 1024  # for what the boot writes; it is in a file without a name
LIMIT_S = 240.0  # until sshd answers, on hardware
_SETTLE_S = 300.0
_NAME = "image"
# sysinit and what is queued for the first boot: a suite that asks earlier finds half of it.
_SETTLE = """systemctl is-system-running --wait
systemctl list-units --state=failed --plain --no-legend --no-pager | cut -d' ' -f1 | sed 's/^/! /'
"""
_GRUB = re.compile(r'^\s*(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)=(["\']?)(.*)\2\s*$', re.M)


@dataclass(frozen=True, slots=True)
class Booted:
    """An image that is up, and the way in."""

    access: Access
    accelerator: Accelerator
    seconds: float  # from power on to sshd
    state: str  # systemd's word: "running", "degraded"; "" where it has none
    failed: tuple[str, ...]  # units
    direct: bool  # without its boot loader


@dataclass(frozen=True, slots=True)
class Proof:
    """That the boot left the image as it was."""

    before: str  # sha256, see throwaway.digest
    after: str

    @property
    def unchanged(self) -> bool:
        return self.before == self.after


@contextmanager
def unchanged(image: Path, progress: Progress) -> Iterator[list[Proof]]:
    """Hash the image before and after the block; the proof is in the list behind it."""
    proofs: list[Proof] = []
    before = _digest(image, progress)
    try:
        yield proofs
    finally:
        proofs.append(Proof(before, _digest(image, progress)))


def _digest(image: Path, progress: Progress) -> str:
    progress.begin("hashing the image", 1)
    try:
        return throwaway.digest(image, lambda text: progress.note(image.name, text))
    except OSError as why:
        raise UsageError(f"{image}: {why.strerror}") from why
    finally:
        progress.finish()


@contextmanager
def boot(
    image: Path,
    *,
    limit_s: float = 0.0,
    memory_mb: int = 2048,
    progress: Progress | None = None,
    name: str = _NAME,
) -> Iterator[Booted]:
    """Boot an image, wait until it lets us in and has come to rest; it is ended with the block.

    :param image: a disk (qcow2 or raw), a tar, or the folder of a root.
    :param limit_s: until sshd answers; 0: LIMIT_S, four times that under emulation.
    :param name: what the node is called in reports.
    :raises UsageError: QEMU or room is missing, or there is nothing to boot.
    :raises TransportError: it did not come up; the sentence ends with the console's tail.
    """
    heard = progress or Silent()
    if shutil.which(QEMU) is None:
        raise UsageError(f"--boot needs QEMU, and {QEMU} is not here", hint=INSTALL)
    with _folder() as folder:
        throwaway.refuse_little_room(folder, _ROOM_MB + memory_mb // 8)
        quick = accelerator()
        port = free_port()
        keys = one_time(folder, name, port)
        machine = _machine(image, folder, port, keys, heard)
        machine = replace(machine, accelerator=quick.name, memory_mb=memory_mb, cpus=_cpus())
        with Emulated(machine, name) as running:
            until = limit_s or LIMIT_S * quick.factor
            seconds = running.wait_for_login(until, heard)
            state, failed = _settle(running, keys, heard, _SETTLE_S * quick.factor)
            access = Access(hosts=name, ssh_config=str(keys.ssh_config), progress=heard, yes=True)
            direct = machine.direct is not None
            yield Booted(access, quick, seconds, state, failed, direct)


def _cpus() -> int:
    return max(1, min(2, os.cpu_count() or 1))


@contextmanager
def _folder() -> Iterator[Path]:
    """All that the boot has for itself; what a killed one has left goes first."""
    home = Path(os.environ.get("TMPDIR") or "/var/tmp")  # noqa: S108 where large files belong
    for left in home.glob(f"{_PREFIX}*-*"):
        number = left.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isdigit() and not Path(f"/proc/{number}").exists() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=home))
    except OSError as why:
        raise UsageError(f"{home}: {why.strerror}", hint="TMPDIR=/FOLDER with room") from why
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _machine(image: Path, folder: Path, port: int, keys: OneTime, progress: Progress) -> Machine:
    made = Machine(image.absolute(), "raw", folder, port, keys.credential, keys.seed)
    if image.is_dir():
        return _without_loader(image, made, progress)
    if _is_tar(image):
        progress.note(_NAME, "unpacking")
        throwaway.refuse_little_room(folder, 2 * (image.stat().st_size >> 20) + _ROOM_MB)
        throwaway.unpack(image, folder / "root")
        return _without_loader(folder / "root", made, progress)
    made = replace(made, format=disk_format(image))
    return made if boots_by_bios(image, folder) else replace(made, uefi=find_uefi(folder))


def _is_tar(image: Path) -> bool:
    names = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".tar.bz2")
    return image.name.endswith(names)


def _without_loader(root: Path, machine: Machine, progress: Progress) -> Machine:
    """The same, with a throw-away disk and the root's own kernel."""
    found = sorted(throwaway.kernels(root), key=Version)
    if not found:
        raise UsageError(
            f"{root}: no kernel with an initramfs in /boot, so nothing to boot",
            hint="build its initramfs: update-initramfs -c -k all, or dracut --regenerate-all",
        )
    progress.note(_NAME, "making a throw-away disk")
    disk = machine.folder / "disk"
    throwaway.throw_away_disk(root, disk)
    made: Direct = throwaway.direct(root, found[-1], arguments(root), machine.folder)
    return replace(machine, disk=disk, direct=made)


def arguments(root: Path) -> str:
    """What the image's own boot loader would add for the kernel: of files, nothing is run.

    /etc/kernel/cmdline, or GRUB's two variables, whose later files may name the earlier value.
    """
    if said := throwaway.read_inside(root, "etc/kernel/cmdline").strip():
        return said
    folder = root / "etc/default/grub.d"
    extra = sorted(each.name for each in folder.glob("*.cfg")) if folder.is_dir() else []
    values: dict[str, str] = {}
    for name in ("etc/default/grub", *(f"etc/default/grub.d/{each}" for each in extra)):
        for key, _, value in _GRUB.findall(throwaway.read_inside(root, name)):
            values[key] = re.sub(r"\$\{?(\w+)\}?", lambda at: values.get(at[1], ""), value)
    return " ".join(values[key] for key in sorted(values)).strip()


def _settle(
    running: Emulated, keys: OneTime, progress: Progress, limit_s: float
) -> tuple[str, tuple[str, ...]]:
    """Log in, and wait until systemd has started all that it was to start.

    :raises TransportError: sshd answers and does not let us in.
    """
    began = time.monotonic()
    config = SshConfig.load(keys.ssh_config)
    transport = SshTransport(Host(running.name), config=config)
    progress.begin("waiting for the boot to come to rest", 1)
    try:
        said = transport.run(_SETTLE, limit_s=limit_s).stdout.splitlines()
    except TransportError as why:
        spent = time.monotonic() - began
        hint = "do systemd 252 or cloud-init hand it the one-time key? see docs/image-boot.md"
        raise running.trouble(f"no way in after {spent:.0f} s: {why}", hint) from why
    finally:
        transport.close()
        progress.finish()
    units = tuple(each.removeprefix("! ") for each in said if each.startswith("! "))
    with suppress(IndexError):
        return said[0].strip() * (not said[0].startswith("! ")), units
    return "", units
