"""QEMU: what it is told for a boot of an image that must not be changed, and whether KVM runs it.

The disk is opened with ``snapshot=on``: QEMU writes to a file of its own that has no name any
more, so that nothing of the boot is left behind whichever way it ends, SIGKILL included.

Whether this processor can run a guest itself is found out by running one. /dev/kvm that opens
proves little: inside virtual machines there are some that take a guest to its boot loader and
then interpret it, a thousand times more slowly than emulation would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from toolkit.errors import UsageError

QEMU = "qemu-system-x86_64"
# RHEL has another program, qemu-kvm, without the drive that cloud-init is given.
INSTALL = "apt install qemu-system-x86 qemu-utils (Fedora: dnf install qemu-system-x86 qemu-img)"
_LIMIT_S = 60
# The firmware of UEFI, and its empty variables, where the families put them.
_UEFI = (
    ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("/usr/share/qemu/ovmf-x86_64-code.bin", "/usr/share/qemu/ovmf-x86_64-vars.bin"),
)


class Direct(Struct, frozen=True):
    """A kernel that QEMU starts itself, where there is no boot loader."""

    kernel: Path
    initrd: Path
    arguments: str


class Uefi(Struct, frozen=True):
    """Firmware for disks that have a loader for UEFI alone."""

    code: Path
    variables: Path  # written to: a copy


class QemuMachine(Struct, frozen=True):
    """One boot."""

    disk: Path
    format: str  # "raw" or "qcow2": never guessed by QEMU, for what is raw may say otherwise
    folder: Path  # for what the boot leaves: its console
    port: int  # on loopback, to the image's sshd
    credential: Path  # a file with one SMBIOS string, see boot/folder.py
    seed: Path  # a folder: the second drive of cloud-init
    accelerator: str = "tcg"  # or "kvm"
    uefi: Uefi | None = None
    direct: Direct | None = None
    memory_mb: int = 2048
    cpus: int = 2

    @property
    def console(self) -> Path:
        """All that is written to the serial port."""
        return self.folder / "console"


def command(machine: QemuMachine) -> tuple[str, ...]:
    """The whole command; the machine lives as long as the process."""
    return (
        *(QEMU, "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35"),
        # "max" is all that can be emulated: newer systems refuse a processor of the year 2003.
        *("-accel", machine.accelerator, "-cpu", "host" if machine.accelerator == "kvm" else "max"),
        *("-smp", str(machine.cpus), "-m", str(machine.memory_mb)),
        *("-serial", f"file:{quoted(machine.console)}", "-vga", "std"),
        *("-smbios", f"type=11,path={quoted(machine.credential)}"),
        *_firmware(machine),
        *_drives(machine),
        # Nothing leads out: a first boot that calls home would tell somebody of it.
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{machine.port}-:22"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
        *("-object", "rng-random,filename=/dev/urandom,id=rng"),
        *("-device", "virtio-rng-pci,rng=rng"),
    )


def mortal(words: Sequence[str]) -> tuple[str, ...]:
    """A command that is killed with us, whatever kills us, where setpriv is (of util-linux)."""
    before = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    return (*before, *words)


def _drives(machine: QemuMachine) -> tuple[str, ...]:
    disk = f"file={quoted(machine.disk)},format={machine.format},snapshot=on"
    seed = f"driver=vvfat,node-name=seed,dir={quoted(machine.seed)},label=CIDATA,read-only=on"
    return (
        *("-drive", f"{disk},if=none,id=disk,cache=unsafe,discard=unmap"),
        # A kernel that QEMU starts itself takes the first place.
        *("-device", "virtio-blk-pci,drive=disk" + ",bootindex=0" * (machine.direct is None)),
        *("-blockdev", seed, "-device", "virtio-blk-pci,drive=seed"),
    )


def _firmware(machine: QemuMachine) -> tuple[str, ...]:
    if machine.direct is not None:
        direct = machine.direct
        return (
            *("-kernel", str(direct.kernel), "-initrd", str(direct.initrd)),
            *("-append", direct.arguments),
        )
    if machine.uefi is not None:
        code, variables = quoted(machine.uefi.code), quoted(machine.uefi.variables)
        return (
            *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"),
            *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
        )
    return ()


def quoted(path: Path) -> str:
    """QEMU's lists are parted by commas, and one that is meant is written twice."""
    return str(path).replace(",", ",,")


def disk_format(disk: Path) -> str:
    """What the file's first bytes say; all else is raw."""
    with disk.open("rb") as file:
        return "qcow2" if file.read(4) == b"QFI\xfb" else "raw"


def boots_by_bios(disk: Path, folder: Path) -> bool:
    """Whether the first sector holds code: a disk for UEFI alone has none there.

    :param folder: for a copy of that sector.
    :raises UsageError: the disk cannot be read, or it is no disk.
    """
    words = ("qemu-img", "dd", "-U", "-f", disk_format(disk), "-O", "raw", "bs=512", "count=1")
    ask(*words, f"if={disk}", f"of={folder / 'sector'}")
    sector = (folder / "sector").read_bytes()
    if len(sector) < 512 or sector[510:512] != b"\x55\xaa":
        raise UsageError(
            f"{disk}: no partition table, so no boot loader",
            hint="a root in a folder or a tar is booted without one: --root, --tar",
        )
    return any(sector[:440])


def find_uefi(folder: Path) -> Uefi:
    """The firmware that is installed here, with variables of its own in ``folder``.

    :raises UsageError: none is.
    """
    for code, variables in _UEFI:
        if Path(code).exists() and Path(variables).exists():
            copy = folder / "variables"
            shutil.copyfile(variables, copy)
            return Uefi(Path(code), copy)
    raise UsageError(
        "the disk boots by UEFI alone, and no firmware for that is here",
        hint="apt install ovmf (dnf install edk2-ovmf)",
    )


def ask(*words: str) -> bytes:
    """What one of QEMU's own tools prints.

    :raises UsageError: it is not here, or refuses.
    """
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except FileNotFoundError:
        raise UsageError(f"--boot needs QEMU, and {words[0]} is not here", hint=INSTALL) from None
    except (OSError, subprocess.TimeoutExpired) as why:
        raise UsageError(f"{words[0]}: {why}", hint="run it by hand") from why
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise UsageError(f"{words[0]}: {said}", hint=f"run it by hand: {' '.join(words)}")
    return done.stdout


_DEVICE = Path("/dev/kvm")
LIMIT_S = 5.0  # of which one that works takes a fifth of a second
# mov ecx,50000000; 1: dec ecx; jnz 1b; mov al,16; mov dx,0xf4; out dx,al; 2: hlt; jmp 2b
# A processor takes a fiftieth of a second for it; the exit device then ends with 2 * 16 + 1.
_SECTOR = bytes.fromhex("66b980f0fa02664975fcb010baf400eef4ebfd").ljust(510, b"\0") + b"\x55\xaa"
_ENDED = 33


class Accelerator(Struct, frozen=True):
    """How the guest's instructions are carried out."""

    name: str  # QEMU's word: "kvm" or "tcg"
    why: str = ""  # why it is not the quick one

    @property
    def factor(self) -> float:
        """By how much longer all takes than on hardware."""
        return 1.0 if self.name == "kvm" else 4.0

    @property
    def told(self) -> str:
        """For the operator."""
        return "KVM" if self.name == "kvm" else f"emulation (TCG): {self.why}"


def accelerator(device: Path = _DEVICE, limit_s: float = LIMIT_S) -> Accelerator:
    """KVM where a guest comes to its end under it, else QEMU's emulation."""
    if not device.exists():
        return Accelerator("tcg", f"no {device} here")
    if not os.access(device, os.R_OK | os.W_OK):
        return Accelerator("tcg", f"{device} is not ours to use; join the group kvm")
    status = _run_one(limit_s)
    if status == _ENDED:
        return Accelerator("kvm")
    late = f"{device} is there, and a guest's first second takes it more than {limit_s:g}"
    return Accelerator("tcg", late if status is None else f"{device} refuses a guest")


def _run_one(limit_s: float) -> int | None:
    """The exit status of the smallest guest under KVM; None where it does not end."""
    with tempfile.NamedTemporaryFile(prefix="gdr-kvm-") as sector:
        sector.write(_SECTOR)
        sector.flush()
        words = (
            *(QEMU, "-nodefaults", "-display", "none", "-machine", "pc", "-accel", "kvm"),
            *("-cpu", "host", "-m", "64", "-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
            *("-drive", f"file={quoted(Path(sector.name))},format=raw,if=ide,snapshot=on"),
        )
        try:
            return subprocess.run(
                mortal(words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return None
        except OSError:
            return -1
