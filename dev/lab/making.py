"""A guest made ready: from its disk, or from where one like it was left after its boot."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from dev.lab.disk import disk
from dev.lab.machine import BOOT_S, Guest, factor
from dev.lab.monitor import LabError
from dev.lab.qemu import Spec
from tests.builds.grounds import kept

# What a machine's state is bound to, beside its disk and QEMU itself.
_SHAPED_BY = ("qemu", "pcitree", "config_space", "making")
Tell = Callable[[str], None]


def ready(guest: Guest, *, warm: bool = True, tell: Tell = lambda _: None) -> None:
    """Make all that a guest needs before it is started.

    :param warm: it goes on where one like it came to rest after a boot, where QEMU can do that;
        every later start and reboot is a boot.
    :raises NotToBeHad: its disk cannot be made here.
    :raises LabError: the one to go on from did not boot.
    """
    base = disk(guest.spec.kernel, guest.spec.layers, tell)
    if not (warm and guest.spec.resumable):
        guest.prepare(base)
        return
    left = _booted(guest.spec, base, tell)
    guest.prepare(left / "disk.qcow2", left / "state")
    shutil.copy(left / "console", guest.folder / "before")


def _booted(spec: Spec, base: Path, tell: Tell) -> Path:
    """A guest that has booted and come to rest, written down: made once, kept."""
    files = (Path(__file__).with_name(f"{name}.py") for name in _SHAPED_BY)
    source = [each.read_text() for each in files]
    emulator = subprocess.run(
        ("qemu-system-x86_64", "--version"), capture_output=True, check=True, text=True
    ).stdout
    told = repr((spec, base.parent.name, source, emulator))

    def make(folder: Path) -> None:
        tell(f"booting {spec.kernel}, IOMMU {spec.iommu}")
        guest = Guest("booted", folder, spec)
        guest.prepare(base)
        try:
            guest.start()
            guest.wait()
            guest.run("systemctl is-system-running --wait; sync", check=False)
            _write_down(guest, folder / "state")
        finally:
            guest.stop()

    return kept(f"lab-booted-{sha256(told.encode()).hexdigest()[:12]}", make)


def _write_down(guest: Guest, state: Path) -> None:
    guest.control("migrate", uri=f"exec:cat >'{state}'")
    end = time.monotonic() + BOOT_S * factor()
    status = ""
    while status not in {"completed", "failed"} and time.monotonic() < end:
        time.sleep(0.1)
        told = guest.control("query-migrate")
        status = str(told.get("status")) if isinstance(told, dict) else ""
    if status != "completed":
        raise LabError(f"the state of a guest could not be written down: {status or told}")
