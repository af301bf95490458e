"""A guest that boots as bought machines do: UEFI with Secure Boot, shim, GRUB, a signed kernel.

Every link of the chain is Debian's own, signed for Microsoft's keys, which the firmware's
variables hold from the start; so what the guest trusts is what a stock Debian trusts. At the
console, which is a serial line, MokManager is answered as an operator would.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.builds.grounds import kept
from tests.builds.guest import GuestTrouble, make_disk, ram_disk
from tests.builds.mirrors import NotToBeHad
from tests.builds.sandbox import Sandbox

OVMF = Path("/usr/share/OVMF")
CODE = OVMF / "OVMF_CODE_4M.secboot.fd"
VARIABLES = OVMF / "OVMF_VARS_4M.ms.fd"  # Secure Boot on, Microsoft's keys enrolled
PACKAGES = ("shim-signed", "shim-helpers-amd64-signed", "grub-efi-amd64-signed")
LIMIT_S = 1200  # ten times what two boots take on an idle machine
_BOOT = {
    "BOOTX64.EFI": "usr/lib/shim/shimx64.efi.signed",
    "mmx64.efi": "usr/lib/shim/mmx64.efi.signed",
    "grubx64.efi": "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
}
DOWN = b"\x1b[B"
ENTER = b"\r"
_STILL_S, _DRAWN_S = 0.7, 5.0
_NOISE = re.compile(rb"\x1b\[[0-9;=]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a guest, all its boots together."""

    out: str  # what the script said, in the order of the boots
    console: str
    seconds: float


class Console:
    """The guest's first serial line: read as it comes, and typed into."""

    def __init__(self, child: subprocess.Popen[bytes], end: float) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._in, self._out = child.stdin.fileno(), child.stdout.fileno()
        self._end = end
        self._seen = b""
        self._at = 0
        self._streams = selectors.DefaultSelector()
        self._streams.register(self._out, selectors.EVENT_READ)

    @property
    def text(self) -> str:
        return _NOISE.sub(b"", self._seen).decode("utf-8", "replace").replace("\r", "")

    def wait(self, words: str) -> None:
        """Until ``words`` were shown, after what was waited for before.

        :raises GuestTrouble: when the guest has ended, or time is up.
        """
        while (found := self._seen.find(words.encode(), self._at)) < 0:
            if not self._read():
                raise GuestTrouble(f"never said {words!r}:\n{self.text[-3000:]}")
        self._at = found + len(words)

    def type(self, *keys: bytes) -> None:
        for key in keys:
            self._drawn()
            os.write(self._in, key)

    def _drawn(self) -> None:
        """Until nothing comes for a while: a menu that is being drawn drops what is typed."""
        end = time.monotonic() + _DRAWN_S  # what counts seconds down is never still
        while time.monotonic() < end and self._streams.select(_STILL_S):
            if not self._read():
                return

    def drain(self) -> None:
        """Until the guest has ended."""
        while self._read():
            pass

    def _read(self) -> bool:
        left = self._end - time.monotonic()
        if left <= 0:
            raise GuestTrouble(f"no end in time:\n{self.text[-3000:]}")
        if self._streams.select(min(left, 1.0)):
            data = os.read(self._out, 65536)
            self._seen += data
            return bool(data)
        return True


def enrol_at_the_console(console: Console, password: str) -> None:
    """What the toolkit tells the operator to do, key by key."""
    console.wait("Press any key to perform MOK management")
    console.type(b" ")
    console.wait("Enroll MOK")
    console.type(DOWN, ENTER)
    console.wait("Continue")
    console.type(DOWN, ENTER)
    console.wait("Yes")
    console.type(DOWN, ENTER)
    console.wait("Password:")
    console.type(password.encode() + ENTER)
    console.wait("Reboot")
    console.type(ENTER)


def boot(
    root: Path,
    kernel: str,
    script: str,
    *,
    append: str,
    folder: Path,
    operator: Callable[[Console], None],
) -> Told:
    """Boot a tree by Secure Boot; it may reboot, and runs the script at each boot.

    :param folder: for the disk, the firmware's variables and the like.
    :param operator: who sits at the console.
    :raises GuestTrouble: when it does not come to its end.
    """
    _partition(root, kernel, script, append, folder / "esp")
    make_disk(root, folder / "disk")
    shutil.copy(VARIABLES, folder / "variables")
    out = folder / "out"
    began = time.monotonic()
    with subprocess.Popen(
        _command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        console = Console(child, began + LIMIT_S)
        try:
            operator(console)
            console.drain()
        except GuestTrouble as why:
            text = out.read_text(errors="replace") if out.exists() else ""
            raise GuestTrouble(f"{why}\n-- script:\n{text[-2000:]}") from why
        finally:
            child.kill()
    text = out.read_text(errors="replace").replace("\r\n", "\n")
    if not re.search(r"^gdr-status 0\n\Z", text, re.M):
        raise GuestTrouble(
            f"the script failed:\n{console.text[-1500:]}\n-- script:\n{text[-3000:]}"
        )
    return Told(text, console.text, time.monotonic() - began)


def _command(folder: Path) -> tuple[str, ...]:
    flash = "if=pflash,format=raw,unit"
    return (
        *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35,smm=on"),
        *("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64", "-smp", "1", "-m", "1024"),
        # Only in System Management Mode may the variables be written, as on real boards.
        *("-global", "driver=cfi.pflash01,property=secure,value=on"),
        *("-drive", f"{flash}=0,file={CODE},readonly=on"),
        *("-drive", f"{flash}=1,file={folder / 'variables'}"),
        *("-serial", "stdio", "-serial", f"file:{folder / 'out'}"),
        *("-drive", f"file={folder / 'disk'},format=raw,if=none,id=disk,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=disk"),
        *("-drive", f"file=fat:{folder / 'esp'},format=raw,if=none,id=esp,readonly=on"),
        *("-device", "virtio-blk-pci,drive=esp,bootindex=1"),
        *(
            "-object",
            "rng-random,filename=/dev/urandom,id=rng",
            "-device",
            "virtio-rng-pci,rng=rng",
        ),
    )


def _partition(root: Path, kernel: str, script: str, append: str, target: Path) -> None:
    """The EFI system partition, as a folder that QEMU shows as one."""
    loaders = kept(f"efi-{'-'.join(PACKAGES)}"[:60], _fetch)
    (target / "EFI/BOOT").mkdir(parents=True)
    (target / "EFI/debian").mkdir()
    for name, source in _BOOT.items():
        shutil.copy(loaders / source, target / "EFI/BOOT" / name)
    shutil.copy(root / f"boot/vmlinuz-{kernel}", target / "vmlinuz")
    (target / "ram").write_bytes(ram_disk(root, kernel, script))
    words = "console=ttyS0 no_timer_check panic=-1 oops=panic norandmaps quiet"
    line = f"linux /vmlinuz {words} {append}"
    (target / "EFI/debian/grub.cfg").write_text(f"{line}\ninitrd /ram\nboot\n")


def _fetch(folder: Path) -> None:
    with Sandbox.of("bookworm") as box:
        for words in (("update",), ("download", *PACKAGES)):
            done = box.shell(
                f"cd /root && apt-get -q -o APT::Sandbox::User= {' '.join(words)}", check=False
            )
            if done.status:
                raise NotToBeHad(f"apt-get {' '.join(words)}: {done.out[-600:].strip()}")
        for archive in box.path("root").glob("*.deb"):
            box.run("dpkg-deb", "-x", f"/root/{archive.name}", "/root/unpacked")
        shutil.copytree(box.path("root/unpacked"), folder, symlinks=True, dirs_exist_ok=True)
