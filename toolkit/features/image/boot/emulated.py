"""One machine under QEMU: started, waited for until its boot has come to rest, and ended.

Nothing of it stays.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from contextlib import suppress
from typing import Self

from msgspec import Struct

from toolkit.errors import TransportError
from toolkit.features.image.boot.qemu import QemuMachine, command, mortal
from toolkit.progress import Progress

_TAIL = 25  # lines of the console that say what went wrong
_STUCK_S = 15.0  # for how long a console that has given up must stay as it is
# What a console says last before nothing more will come of the boot.
_ENDS = (
    (re.compile(r"Kernel panic - not syncing: .*"), "the kernel's root, or one of its programs"),
    (re.compile(r"ALERT! +\S+ does not exist"), "has the initramfs virtio_blk? (MODULES=most)"),
    (re.compile(r"You are in emergency mode"), "a file system that fstab names is not there"),
    (re.compile(r"Cannot open access to console|Press Enter for maintenance"), "see above"),
    (re.compile(r"No bootable device|no such device: |grub rescue>"), "no boot loader finds it"),
    (re.compile(r"Fatal glibc error: .*"), "the system asks for a newer processor"),
)
_NO_LOGIN = (
    "it needs sshd, a network by DHCP, and systemd 252 or cloud-init: see docs/image-boot.md; "
    "more time: --boot-timeout SECONDS"
)


class Emulated:
    """For ``with``: QEMU runs inside the block, and is dead behind it, however that ends."""

    def __init__(self, machine: QemuMachine, name: str) -> None:
        self.machine = machine
        self.name = name
        self._child: subprocess.Popen[bytes]  # within the block

    def __enter__(self) -> Self:
        """Switch it on.

        :raises TransportError: QEMU cannot be started.
        """
        words = mortal(command(self.machine))
        with (self.machine.folder / "qemu").open("wb") as log:
            try:
                self._child = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as why:
                raise TransportError(
                    f"{words[0]}: {why.strerror}", hint="is QEMU installed here? (qemu-system-x86)"
                ) from why
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait()

    @property
    def console(self) -> str:
        """All that was written to the serial port, as plain lines."""
        with suppress(OSError):
            text = self.machine.console.read_text(encoding="utf-8", errors="replace")
            return re.sub(r"\x1b\[[0-9;?=]*[A-Za-z]|\r|\x00", "", text)
        return ""

    def wait_for_login(self, limit_s: float, progress: Progress) -> float:
        """Until sshd greets; how many seconds that took.

        :raises TransportError: it does not in time, it has given up, or QEMU has ended; the
            sentence ends with the console's last lines.
        """
        began = time.monotonic()
        progress.begin("booting", 1)
        try:
            while (passed := time.monotonic() - began) < limit_s:
                self._refuse_the_end()
                if self._greets():
                    return passed
                lines = [line.strip() for line in self.console.split("\n") if line.strip()]
                last = lines[-1][:100] if lines else "its console is silent"
                progress.note(self.name, f"{passed:.0f} s: {last}")
                time.sleep(0.5)
        finally:
            progress.finish()
        raise self.trouble(f"nobody answers on its SSH port within {limit_s:.0f} s", _NO_LOGIN)

    def _refuse_the_end(self) -> None:
        if self._child.poll() is not None:
            said = (self.machine.folder / "qemu").read_text(errors="replace").strip()
            ended = f"QEMU ended with {self._child.returncode}" + f": {said[-300:]}" * bool(said)
            raise self.trouble(ended, "the machine switched itself off, or panicked")
        with suppress(OSError):
            if time.time() - self.machine.console.stat().st_mtime < _STUCK_S:
                return
        console = self.console[-4000:]
        for pattern, why in _ENDS:
            if found := pattern.search(console):
                raise self.trouble(f"it gave up: {found.group().strip()}", why)

    def _greets(self) -> bool:
        """Whether sshd answers; QEMU itself takes every connection."""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.machine.port), timeout=5) as line,
        ):
            return line.recv(4) == b"SSH-"
        return False

    def trouble(self, what: str, hint: str) -> TransportError:
        """An error that ends with what the console said last."""
        lines = [line for line in self.console.split("\n") if line.strip()]
        tail = "\n".join(f"  | {line[:160]}" for line in lines[-_TAIL:])
        said = (
            f"the end of its console:\n{tail}"
            if tail
            else ("its console said nothing: has its kernel console=ttyS0?")
        )
        return TransportError(f"{self.name}: {what}; {said}", hint=hint)


def free_port() -> int:
    """One of loopback that nobody has at this moment."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


# sysinit and what is queued for the first boot: a suite that asks earlier finds half of it. The
# limit is the guest's own: one that never comes to rest is in, and says what it waits for.
_SETTLE = """state=
if command -v timeout >/dev/null; then
    state=$(timeout {limit_s:.0f} systemctl is-system-running --wait)
fi
[ -n "$state" ] || state=$(systemctl is-system-running)
printf '%s\\n' "$state"
systemctl list-units --state=failed --plain --no-legend --no-pager | cut -d' ' -f1 | sed 's/^/! /'
systemctl list-jobs --plain --no-legend --no-pager | while read -r _ unit _; do echo "? $unit"; done
"""


class Rest(Struct, frozen=True):
    """What systemd says once it has come to rest, or is waited for no longer."""

    state: str  # "running", "degraded", "starting"; "" where it has none
    failed: tuple[str, ...] = ()  # units
    waiting: tuple[str, ...] = ()  # units that are still to start or to stop


def settled(said: str) -> Rest:
    """Read what the script said: a word, then "! UNIT" and "? UNIT"."""
    lines = [line for line in said.split("\n") if line]
    units = {mark: tuple(e[2:] for e in lines if e.startswith(f"{mark} ")) for mark in "!?"}
    words = [line.strip() for line in lines if line[:2] not in {"! ", "? "}]
    return Rest(words[0] if words else "", units["!"], units["?"])


def settle_script(limit_s: float) -> str:
    """What waits, in the guest, until systemd has started all that it was to start."""
    return _SETTLE.format(limit_s=limit_s)
