"""A scratch node for the engine: a tree, a few commands, and bundles made for it."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from toolkit.evidence import Evidence
from toolkit.node.deliver import engine, rollback_script
from toolkit.plan.bundle import Bundle, File, script

SHELLS = {"dash": ("dash",), "busybox": ("busybox", "sh"), "bash": ("bash",)}
KERNEL, BOOT = "6.8.0-45-generic", "11111111-2222-3333-4444-555555555555"
MODPROBE_D, LIMITS = "/etc/modprobe.d/gdr-toolkit.conf", "/etc/security/limits.d/gdr-toolkit.conf"
GRUB_CFG = "/boot/grub/grub.cfg"
UPDATE_GRUB = "UPDATE_BOOTLOADER update-grub"
STATE = "var/lib/gdr-toolkit"
LIMIT_S = 240  # of one script, that is said to hang then; minutes where twenty share a core

# update-grub writes what it derives from modprobe.d, so that its order can be seen.
FAKE_UPDATE_GRUB = """#!/bin/sh
echo 'Generating grub configuration file ...'
cat "$GDR_ROOT"/etc/modprobe.d/* >"$GDR_ROOT/boot/grub/grub.cfg.new"
echo "$@" >>"$GDR_ROOT/boot/grub/grub.cfg.new"
mv "$GDR_ROOT/boot/grub/grub.cfg.new" "$GDR_ROOT/boot/grub/grub.cfg"
echo x >>"$GDR_ROOT/boot/grub/made-anew"
printf 'done'
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the engine."""

    exit: int
    stdout: str
    stderr: str

    @property
    def evidence(self) -> Evidence:
        return Evidence.parse(self.stdout)

    def states(self) -> dict[str, str]:
        """State by what was called, without the frames of output: "ok", "failed:65", "absent"."""
        found = {}
        for frame in self.evidence.frames.values():
            if not frame.key.endswith(".output"):
                state = f"failed:{frame.exit}" if frame.state == "failed" else frame.state.value
                found[frame.source] = state
        return found

    def words(self, start: str) -> str:
        """The content of the first frame whose source starts so."""
        frames = self.evidence.frames.values()
        return next(each.text for each in frames if each.source.startswith(start))


def let_go(program: Path) -> None:
    """Wait until nobody has it open for writing, as the kernel runs no such file.

    A child that another thread has begun holds all that we had open until it is its program. A
    shell that finds a command busy takes the next one in PATH, which is this machine's own.
    """
    with program.open("rb") as file:
        while True:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)  # of what nobody writes to alone
            except BlockingIOError:
                time.sleep(0.001)
            else:
                break
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


@dataclass(frozen=True, slots=True)
class Tree:
    """The scratch node."""

    root: Path
    shell: tuple[str, ...]

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def exists(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def command(self, name: str, text: str) -> None:
        let_go(self.write(f"/bin/{name}", text, 0o755))

    def state(self, name: str) -> list[str]:
        file = self.root / STATE / name
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def env(self, **more: str) -> dict[str, str]:
        own = {"GDR_ROOT": str(self.root), "GDR_BIN": str(self.root / "bin")}
        return {"PATH": f"{self.tools}:{os.environ['PATH']}", **own, **more}

    @property
    def tools(self) -> Path:
        """Commands of the machine that carries the tree, before its real ones."""
        return self.root.parent / "tools"

    def tool(self, name: str, text: str) -> None:
        """Put a command of the machine in place of its real one."""
        self.tools.mkdir(exist_ok=True)
        (self.tools / name).unlink(missing_ok=True)
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)
        let_go(self.tools / name)

    def start(self, text: str, **more: str) -> subprocess.Popen[str]:
        """The script fed to ``sh -s``, as the transports do; its input is closed at once."""
        process = subprocess.Popen(
            [*self.shell, "-s"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env(**more),
            start_new_session=True,  # so that a test can end it with all its children
        )
        assert process.stdin is not None
        try:
            process.stdin.write(text)
            process.stdin.close()
        except BrokenPipeError:  # it ended before it had read everything
            pass
        process.stdin = None
        return process

    def run(self, text: str, **more: str) -> Ran:
        process = self.start(text, **more)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        return Ran(process.returncode, stdout, stderr)

    def rollback(self, which: str = "all", wait_s: int = 5) -> Ran:
        return self.run(rollback_script(which, wait_s))

    def files(self) -> dict[str, tuple[bytes, int, int, int, float]]:
        """Every file but our own state: bytes, mode, owner and time of change, by path."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            relative = str(path.relative_to(self.root))
            if relative.startswith("var"):
                continue
            stat = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            when = stat.st_mtime if path.is_file() else 0
            found[relative] = (data, stat.st_mode, stat.st_uid, stat.st_gid, when)
        return found

    def leftovers(self) -> list[str]:
        """Temporary files and locks that a finished run must not leave."""
        names = [*self.root.rglob("*gdr-toolkit-new"), *(self.root / STATE).glob("*.new")]
        names += [*(self.root / STATE).glob("lock*"), *(self.root / STATE).glob("dead-*")]
        return sorted(str(each.relative_to(self.root)) for each in names)


def make_tree(root: Path, shell: Sequence[str]) -> Tree:
    """A node with a kernel, a boot, one boot loader and a file of somebody else."""
    tree = Tree(root, tuple(shell))
    tree.write("/proc/sys/kernel/osrelease", KERNEL + "\n")
    tree.write("/proc/sys/kernel/random/boot_id", BOOT + "\n")
    tree.write("/etc/modprobe.d/site.conf", "options site\n")
    tree.write(GRUB_CFG, "menuentry before\n", 0o600)
    tree.command("update-grub", FAKE_UPDATE_GRUB)
    # Waiting for the disk is nearly all the time that a run takes here.
    tree.tools.mkdir()
    (tree.tools / "sync").symlink_to(shutil.which("true") or "/bin/true")
    return tree


def noting(tree: Tree) -> None:
    """From now on what is brought to the disk and renamed is noted, then done."""
    for name in ("sync", "mv"):
        real = shutil.which(name, path=os.environ["PATH"])
        tree.tool(name, f'#!/bin/sh\necho {name} "$@" >>"$GDR_ROOT/../calls"\nexec {real} "$@"\n')


def noted(tree: Tree) -> list[str]:
    """What was called since, below the root, in order."""
    calls = (tree.root.parent / "calls").read_text()
    return [line.replace(str(tree.root), "") for line in calls.split("\n")]


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def bundle_of(
    files: Mapping[str, str],
    *steps: str,
    mode: int = 0o644,
    expect: Sequence[str] = (f"expect kernel {KERNEL}", f"expect boot-id {BOOT}"),
    remove: Sequence[str] = (),
) -> Bundle:
    """A bundle that places ``files``, removes ``remove``, and then does ``steps``."""
    contents = tuple(File(path, mode, text.encode(), digest(text)) for path, text in files.items())
    listed = [
        *expect,
        "keep BUILD_DKMS /lib/modules/*/updates",
        f"keep UPDATE_BOOTLOADER {GRUB_CFG.rpartition('/')[0]}",
        *(f"remove {path}" for path in remove),
        *(f"place {each.path} {each.mode:o} {each.sha256}" for each in contents),
        *steps,
    ]
    return Bundle(contents, (*listed, f"finish {len(listed)}"), "{}\n", engine())


def trigger(call: str, *, undo: str = "kept") -> list[str]:
    taken_back = [f"undo {undo} {shlex.quote(call)}"] if undo else []
    return [*taken_back, f"trigger {shlex.quote(call)}"]


def sent(bundle: Bundle, wait_s: int = 5) -> str:
    return script(bundle, wait_s=wait_s)


def usual(text: str = "softdep x pre: y\n") -> str:
    """The script of a bundle that places one file and updates the boot loader."""
    return sent(bundle_of({MODPROBE_D: text}, *trigger(UPDATE_GRUB)))
