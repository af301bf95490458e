"""Whether this machine's processor can run a guest itself, found out by running one.

/dev/kvm that opens proves little: inside virtual machines there are some that take a guest to its
boot loader and then interpret it, a thousand times more slowly than emulation would.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolkit.features.image.boot.qemu import QEMU, mortal, quoted

_DEVICE = Path("/dev/kvm")
LIMIT_S = 5.0  # of which one that works takes a fifth of a second
# mov ecx,50000000; 1: dec ecx; jnz 1b; mov al,16; mov dx,0xf4; out dx,al; 2: hlt; jmp 2b
# A processor takes a fiftieth of a second for it; the exit device then ends with 2 * 16 + 1.
_SECTOR = bytes.fromhex("66b980f0fa02664975fcb010baf400eef4ebfd").ljust(510, b"\0") + b"\x55\xaa"
_ENDED = 33


@dataclass(frozen=True, slots=True)
class Accelerator:
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
