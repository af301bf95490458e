"""One boot of an image that leaves no trace: not in the image, and not on this machine.

A disk is booted by its own boot loader. A root in a folder or a tar has none: it is copied into a
throw-away disk, and QEMU starts the kernel and the initramfs of its /boot itself; what its boot
loader would do is not proven then, and that is said.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import TransportError, UsageError
from toolkit.facts.versions import Version
from toolkit.features.image.boot import throwaway
from toolkit.features.image.boot.emulated import Emulated, free_port, settle_script, settled
from toolkit.features.image.boot.folder import OneTime, boot_folder, boot_home, one_time
from toolkit.features.image.boot.qemu import (
    INSTALL,
    QEMU,
    Accelerator,
    Direct,
    QemuMachine,
    accelerator,
    boots_by_bios,
    disk_format,
    find_uefi,
)
from toolkit.hosts.host import Host
from toolkit.progress import Progress, Silent
from toolkit.ssh.paramiko import SshTransport
from toolkit.ssh.ssh_config import SshConfig
from toolkit.tar_member import is_tar
from toolkit.verbs.access import Access

_ROOM_MB = 1024  # for what the boot writes; it is in a file without a name
LIMIT_S = 240.0  # until sshd answers, on hardware
_SETTLE_S = 300.0
_LEAST_MB = 128
_NAME = "image"
_SPARE_S = 120.0  # for the rest of that script
_GRUB = re.compile(
    r"""^\s*(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)=(?:"(.*)"|'(.*)'|([^\s"'#]*))\s*(?:#.*)?$""", re.M
)


class Booted(Struct, frozen=True):
    """An image that is up, and the way in."""

    access: Access
    accelerator: Accelerator
    seconds: float  # from power on to sshd
    state: str  # systemd's word: "running", "degraded"; "" where it has none
    failed: tuple[str, ...]  # units
    direct: bool  # without its boot loader
    waiting: tuple[str, ...] = ()  # units that were still to start when nobody waited any longer


class BootProof(Struct, frozen=True):
    """That the boot left the image as it was."""

    before: str  # sha256, see throwaway.digest
    after: str

    @property
    def unchanged(self) -> bool:
        return self.before == self.after


@contextmanager
def unchanged(image: Path, progress: Progress) -> Iterator[list[BootProof]]:
    """Hash the image before and after the block; the proof is in the list behind it.

    Also behind a boot that failed. Not behind Ctrl-C, for a large disk is minutes of hashing.
    """
    proofs: list[BootProof] = []
    before = _digest(image, progress)
    try:
        yield proofs
    except TransportError:
        proofs.append(BootProof(before, _digest(image, progress)))
        raise
    proofs.append(BootProof(before, _digest(image, progress)))


def _digest(image: Path, progress: Progress) -> str:
    progress.begin("hashing the image", 1)
    try:
        return throwaway.digest(image, lambda text: progress.note(image.name, text))
    except OSError as why:
        raise UsageError(f"{image}: {why.strerror}", hint="name an image that can be read") from why
    finally:
        progress.finish()


def refuse_early(limit_s: float, memory_mb: int) -> None:
    """What no boot would come of, before an image is worked on for it.

    :raises UsageError: QEMU or room for any boot is missing, or the numbers make no sense.
    """
    if limit_s < 0 or memory_mb < _LEAST_MB:
        raise UsageError(
            f"a boot within {limit_s:g} s and with {memory_mb} MB of memory is none",
            hint=f"--boot-timeout SECONDS, --boot-memory MB ({_LEAST_MB} at least)",
        )
    for tool in (QEMU, "qemu-img"):
        if shutil.which(tool) is None:
            raise UsageError(f"--boot needs QEMU, and {tool} is not here", hint=INSTALL)
    home = boot_home()
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise UsageError(f"{home}: no folder to write to", hint="TMPDIR=/FOLDER with room")
    throwaway.refuse_little_room(home, _needed_mb(memory_mb))


def _needed_mb(memory_mb: int) -> int:
    return _ROOM_MB + memory_mb // 8


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
    refuse_early(limit_s, memory_mb)
    with boot_folder() as folder:
        throwaway.refuse_little_room(folder, _needed_mb(memory_mb))
        quick = accelerator()
        port = free_port()
        keys = one_time(folder, name, port)
        machine = _machine(image, folder, port, keys, heard)
        cpus = min(2, os.cpu_count() or 1)
        machine = replace(machine, accelerator=quick.name, memory_mb=memory_mb, cpus=cpus)
        with Emulated(machine, name) as running:
            until = limit_s or LIMIT_S * quick.factor
            seconds = running.wait_for_login(until, heard)
            rest = settled(_settle(running, keys, heard, _SETTLE_S * quick.factor))
            access = Access(hosts=name, ssh_config=str(keys.ssh_config), progress=heard, yes=True)
            direct = machine.direct is not None
            yield Booted(access, quick, seconds, rest.state, rest.failed, direct, rest.waiting)


def _machine(
    image: Path, folder: Path, port: int, keys: OneTime, progress: Progress
) -> QemuMachine:
    made = QemuMachine(image.absolute(), "raw", folder, port, keys.credential, keys.seed)
    if image.is_dir():
        return _without_loader(image, made, progress)
    if is_tar(image):
        progress.note(_NAME, "unpacking")
        throwaway.refuse_little_room(folder, 2 * (image.stat().st_size >> 20) + _ROOM_MB)
        throwaway.unpack(image, folder / "root")
        return _without_loader(folder / "root", made, progress)
    made = replace(made, format=disk_format(image))
    return made if boots_by_bios(image, folder) else replace(made, uefi=find_uefi(folder))


def _without_loader(root: Path, machine: QemuMachine, progress: Progress) -> QemuMachine:
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
        for key, *quoted in _GRUB.findall(throwaway.read_inside(root, name)):
            value = "".join(quoted)
            values[key] = re.sub(r"\$\{?(\w+)\}?", lambda at: values.get(at[1], ""), value)
    return " ".join(values[key] for key in sorted(values)).strip()


def _settle(running: Emulated, keys: OneTime, progress: Progress, limit_s: float) -> str:
    """Log in, and wait until it has come to rest.

    :returns: what the script said.
    :raises TransportError: sshd answers and does not let us in, or the guest hangs.
    """
    began = time.monotonic()
    transport = SshTransport(Host(running.name), config=SshConfig.load(keys.ssh_config))
    hint = "do systemd 252 or cloud-init hand it the one-time key? see docs/image-boot.md"
    what = "no way in"
    progress.begin("waiting for the boot to come to rest", 1)
    try:
        transport.run(":", limit_s=_SPARE_S)
        hint, what = "it let us in, and then nothing came of it any more", "it hangs"
        return transport.run(settle_script(limit_s), limit_s=limit_s + _SPARE_S).stdout
    except TransportError as why:
        spent = time.monotonic() - began
        raise running.trouble(f"{what} after {spent:.0f} s: {why}", hint) from why
    finally:
        transport.close()
        progress.finish()
