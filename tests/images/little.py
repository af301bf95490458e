"""A little image: a root with a shell in it, made in no time; and who works on one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_TOOLS = (
    "sh",
    "cat",
    "ls",
    "touch",
    "mkdir",
    "rm",
    "hostname",
    "sleep",
    "sync",
    "chmod",
    "ln",
    "grep",
    "sed",
    "tail",
)
_FOLDERS = (
    *("proc", "sys", "dev", "run", "tmp", "var/tmp", "var/log/apt", "var/cache/apt", "bin"),
    *("etc/ssh", "usr/bin", "usr/sbin", "usr/lib", "var/lib/dpkg", "var/lib/apt/lists"),
)
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


def little_root(root: Path) -> Path:
    """Make one at ``root``: with hard links, a device, odd names, links that lead out."""
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    busybox = shutil.which("busybox") or "/bin/busybox"
    for needed in (busybox, *_libraries(busybox)):
        target = root / needed.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, target)
    for name in _TOOLS:
        (root / "bin" / name).symlink_to(busybox)
    (root / "usr/bin/env").symlink_to(busybox)
    _contents(root)
    return root


def _contents(root: Path) -> None:
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    (root / "etc/hostname").write_text("golden\n")
    (root / "etc/resolv.conf").symlink_to("/run/resolv.conf")
    (root / "etc/machine-id").write_text("")
    (root / HOST_KEY).write_text("the image's own\n")
    (root / HOST_KEY).chmod(0o600)
    (root / "var/log/apt/history.log").write_text("as it was\n")
    (root / "etc/one").write_text("twice\n")
    (root / "etc/two").hardlink_to(root / "etc/one")
    (root / "etc/a name, odd: ä").write_text("odd\n")
    os.mknod(root / "etc/device", 0o600 | 0o020000, os.makedev(1, 3))
    os.mkfifo(root / "etc/pipe")
    os.chown(root / "etc/one", 12, 34)
    os.setxattr(root / "etc/os-release", "trusted.of-a-test", b"kept")
    (root / "out").symlink_to("/etc")


def _libraries(program: str) -> list[str]:
    said = subprocess.run(("ldd", program), capture_output=True, text=True, check=False).stdout
    return [word for line in said.splitlines() for word in line.split() if word.startswith("/")]


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(each.name for each in folder.iterdir())


def mounts(folder: Path) -> list[str]:
    """What is mounted at a folder or below, as this process sees it."""
    mark = str(folder).replace(" ", "\\040")
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    return [row for row in rows if mark in row]


def loops(folder: Path) -> list[str]:
    """Loop devices over files of a folder."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [f"{each}" for each in files if str(folder) in _text(each)]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it was let go of meanwhile
        return ""


def at_work(folder: Path) -> list[str]:
    """Processes that see what we mount below a folder, or name it in their words."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            seen = (process / "mountinfo").read_text()
        except OSError:
            continue
        ours = any(str(folder) in row and ".gdr-image." in row for row in seen.splitlines())
        if str(folder) in words or ours:
            found.append(f"{process.name}: {words}")
    return found
