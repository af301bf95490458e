"""A guest that boots a tree under QEMU's emulation, runs one script as root, and says what came.

No systemd, no network, no RAM disk of the distribution's: an init of ours (source/guest/init.c)
mounts the disk and runs the script, so that a boot takes ten seconds where nothing emulates
faster. The kernel is Debian's own, from the tree's /boot.
"""

from __future__ import annotations

import lzma
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.builds.grounds import kept

SOURCE = Path(__file__).parent / "source/guest/init.c"
LIMIT_S = 180  # ten times what a boot takes on an idle machine
MEMORY_MB = 768
_WANTED = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
# norandmaps: see dev/lab/files/etc/default/grub.d
_CONSOLE = "console=ttyS0 no_timer_check panic=-1 oops=panic norandmaps"
_PANIC = re.compile(r"Kernel panic - not syncing: .*|gdr-init: .*")


class GuestTrouble(Exception):
    """The guest did not come to the end of its script; says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a script."""

    status: int  # its exit status
    out: str  # its own stdout and stderr
    console: str  # the kernel's messages
    seconds: float  # from power on to power off


def boot(
    root: Path,
    kernel: str,
    script: str,
    *,
    append: str = "",
    limit_s: float = LIMIT_S,
    memory_mb: int = MEMORY_MB,
    image: Path | None = None,
    disk: Path | None = None,
    machine: tuple[str, ...] = ("-machine", "q35"),
) -> Said:
    """Boot a tree, which is left as it is, and run a script in it by sh.

    :param root: a tree, or the root of a sandbox (what is mounted inside is left out).
    :param kernel: which of its kernels.
    :param append: added to the kernel's command line.
    :param image: another file to boot as the kernel: the same, signed.
    :param disk: of ``make_disk``, from an earlier boot: what was changed there is there again.
    :param machine: QEMU's words for the machine itself, firmware included.
    :raises GuestTrouble: on a panic, when time is up, or when QEMU fails.
    """
    with tempfile.TemporaryDirectory(prefix="gdr-guest-") as name:
        at = Path(name)
        ram = at / "ram"
        ram.write_bytes(ram_disk(root, kernel, script))
        given = _Machine(
            machine,
            image or root / f"boot/vmlinuz-{kernel}",
            ram,
            disk or make_disk(root, at / "disk"),
            f"{_CONSOLE} {append}",
            memory_mb,
        )
        return _run(given.command(at / "out"), at / "console", at / "out", limit_s)


def make_disk(root: Path, target: Path, size_mb: int = 0) -> Path:
    """A disk image of a tree; without a size it has a third more room than is needed."""
    with alone(root) as view:
        need = int(_call("du", "-sm", view).split()[0])
        size = size_mb or need * 4 // 3 + 128
        fixed = ("-q", "-F", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-E")
        _call("mke2fs", *fixed, "root_owner=0:0", "-d", view, target, f"{size}M")
    return target


@contextmanager
def alone(root: Path) -> Iterator[Path]:
    """A view of a folder without what is mounted inside."""
    with tempfile.TemporaryDirectory(prefix="gdr-view-") as view:
        _call("mount", "--bind", root, view)
        try:
            yield Path(view)
        finally:
            _call("umount", view)


def _call(*words: str | Path) -> str:
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise GuestTrouble(f"{words[0]}: {done.stderr.strip()[-600:]}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class _Machine:
    """What QEMU is given."""

    words: tuple[str, ...]  # for the machine itself
    image: Path
    ram: Path
    disk: Path
    append: str
    memory_mb: int

    def command(self, out: Path) -> tuple[str, ...]:
        """The whole command; the console is its stdout, ``out`` the second serial port."""
        # qemu64: with a richer processor Debian's kernel loads modules for it, for seconds.
        return (
            *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"),
            *self.words,
            *("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64", "-smp", "1"),
            *("-m", str(self.memory_mb), "-kernel", str(self.image), "-initrd", str(self.ram)),
            *("-append", self.append, "-serial", "stdio", "-serial", f"file:{out}"),
            *("-drive", f"file={self.disk},format=raw,if=none,id=disk,cache=unsafe"),
            *("-device", "virtio-blk-pci,drive=disk"),
            *("-object", "rng-random,filename=/dev/urandom,id=rng"),
            *("-device", "virtio-rng-pci,rng=rng"),
        )


def _run(words: tuple[str, ...], console: Path, out: Path, limit_s: float) -> Said:
    began = time.monotonic()
    with console.open("wb") as log:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            child.kill()
            child.wait()
    seconds = time.monotonic() - began
    told = console.read_text(errors="replace").replace("\r\n", "\n")
    text = out.read_text(errors="replace") if out.exists() else ""
    ended = re.search(r"^gdr-status (\d+)\n\Z", text, re.M)
    if ended and status == 0:
        return Said(int(ended.group(1)), text[: ended.start()], told, seconds)
    raise GuestTrouble(f"{_why(status, told, limit_s)}\n{told[-3000:]}\n-- script:\n{text[-2000:]}")


def _why(status: int | None, told: str, limit_s: float) -> str:
    panic = _PANIC.search(told)
    if panic:
        return panic.group()
    if status is None:
        return f"no end after {limit_s:.0f} s"
    if status:
        return f"QEMU ended with {status}"
    return "the guest ended before its script did"


def ram_disk(root: Path, kernel: str, script: str) -> bytes:
    """A RAM disk with our init, the script, and the modules that the disk needs."""
    files = {"init": (0o755, _init().read_bytes()), "script": (0o755, script.encode())}
    for number, path in enumerate(_modules(root, kernel)):
        data = path.read_bytes()
        files[f"modules/{number:02}.ko"] = (
            0o644,
            lzma.decompress(data) if path.suffix == ".xz" else data,
        )
    parts = [_entry("modules", 0o40755, b"")]
    parts += [_entry(name, 0o100000 | mode, data) for name, (mode, data) in files.items()]
    return b"".join((*parts, _entry("TRAILER!!!", 0, b"")))


def _entry(name: str, mode: int, data: bytes) -> bytes:
    """One entry of a "newc" archive of cpio: Documentation/driver-api/early-userspace."""
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _modules(root: Path, kernel: str) -> tuple[Path, ...]:
    """What the disk needs, each after what it rests on; nothing for what is built in."""
    base = root / "lib/modules" / kernel
    needs: dict[str, list[str]] = {}
    for row in (base / "modules.dep").read_text().splitlines():
        path, _, rests_on = row.partition(":")
        needs[path] = rests_on.split()
    wanted: dict[str, None] = {}
    for name in _WANTED:
        for path, others in needs.items():
            if Path(path).name.split(".")[0] == name:
                wanted |= dict.fromkeys((*reversed(others), path))
    return tuple(base / each for each in wanted)


def _init() -> Path:
    """Our init, compiled once."""
    name = f"guest-init-{sha256(SOURCE.read_bytes()).hexdigest()[:12]}"

    def make(folder: Path) -> None:
        _call("gcc", "-static", "-O2", "-Wall", "-o", folder / "init", SOURCE)

    return kept(name, make) / "init"
