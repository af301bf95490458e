"""Small nodes, the real scripts on them, and a disk that forgets what was not flushed.

A fault is drawn from a seed, comes at one command of a run, and is healed; then the verb is run
again, or taken back. The laws are on bytes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.scripts.engine import LIMIT_S, MODPROBE_D, SHELLS, Ran, Tree, bundle_of, sent
from tests.scripts.test_cut_off import MODULE, STEPS, WATCHED, left, node
from toolkit.node.deliver import rollback_script

OURS_BEFORE = "/etc/gdr-old.d/deep/was.conf"  # of an earlier run; the run under fault removes it
PLACED = {MODPROBE_D: "softdep x pre: y\n", "/etc/gdr-new.d/deep/x.conf": "x\n"}
LOCK_S = LIMIT_S - 40  # for another that is at work, on a machine where each takes minutes
KINDS = ("kill", "power", "power", "power", "clock", "late", "two", "full")
LOSSES = ("data", "entries", "both", "mixed")
NO_BOOT = ("expect kernel 6.8.0-45-generic",)  # a node without power is in another boot since

# Commands of each verb, and whether it is light; a fault after the last comes when all is done.
LENGTHS = {
    ("apply", False): 450, ("rollback", False): 270, ("apply", True): 163, ("rollback", True): 156,
}  # fmt: skip
# Each command counts; the one whose turn has come meets the fault before it does its work.
TURN = """#!/bin/sh
read -r count <"$GDR_COUNT"
count=$((count + 1))
echo $count >"$GDR_COUNT"
if [ $count = "$GDR_FATAL" ]; then
    case $GDR_FAULT in
        kill | power) kill -9 -$(ps -o sid= -p $$ | tr -d ' '); sleep 5 ;;
        clock) : >"$GDR_STEPPED" ;;
        full) /bin/cat /dev/zero >"$GDR_FILL" 2>/dev/null ;;
    esac
fi
"""
# What is on the disk for certain: a file's bytes, a folder's entries, each by inode.
SYNC = """case $1 in -d) shift ;; esac
for each; do
    case $each in "$GDR_ROOT"/*) ;; *) continue ;; esac
    inode=$(/usr/bin/stat -c %i "$each") || exit 1
    if [ -d "$each" ]; then
        /usr/bin/find "$each" -mindepth 1 -maxdepth 1 \\
            -printf '%i\\t%y\\t%m\\t%f\\t%l\\n' >"$GDR_DISK/f$inode"
    else /bin/cp -p "$each" "$GDR_DISK/d$inode"; fi
done
"""
# The node on a disk of its own, that is full from some command on until the run is over.
SMALL_DISK = """set -e
cp -a {node} {node}.aside
mount -t tmpfs -o size=4m none {node}
cp -a {node}.aside/. {node}/
{shell} -s <{script} >{script}.said 2>&1 || :
rm -rf {node}.aside {node}/fill
cp -a {node} {node}.aside
"""
# A clock that is two days ahead once it was set.
DATE = """if [ -e "$GDR_STEPPED" ]; then exec /bin/date -d '2 days' "$@"; fi
exec /bin/date "$@"
"""


class Broken(AssertionError):
    """A law did not hold."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and what is done about it."""

    seed: int
    kind: str
    light: bool  # without triggers, which are most of what a run costs
    verb: str  # what it comes amid: "apply" or "rollback"
    at: float  # how far into the verb, 0 to 1
    loss: str  # of a power loss
    then: str  # "apply" or "rollback"

    @classmethod
    def drawn(cls, seed: int) -> Fault:
        dice = Random(seed)  # noqa: S311 chance, not secrecy
        verb = dice.choice(("apply", "apply", "rollback"))
        light = dice.random() < 0.75
        words = dice.choice(KINDS), light, verb, dice.random(), dice.choice(LOSSES)
        return cls(seed, *words, dice.choice(("apply", "rollback")))


@dataclass
class Disk:
    """What a power loss leaves of a tree: what was flushed for certain, of the rest any part."""

    root: Path
    shadow: Path

    def settle(self) -> None:
        """All that lies there now is on the disk."""
        shutil.rmtree(self.shadow, ignore_errors=True)
        self.shadow.mkdir()
        for path in (self.root, *self.root.rglob("*")):
            inode = path.lstat().st_ino
            if path.is_dir() and not path.is_symlink():
                (self.shadow / f"f{inode}").write_text("".join(_entries(path)))
            elif path.is_file():
                shutil.copy2(path, self.shadow / f"d{inode}")

    def lose(self, loss: str, dice: Random) -> None:
        """The power fails.

        :param loss: whose newest state is lost: "data" of files, "entries" of folders, "both",
            or by chance for each ("mixed").
        """
        now = {p.lstat().st_ino: p for p in (self.root, *self.root.rglob("*"))}
        after = self.root.with_name("after")
        self._build(self.root.lstat().st_ino, after, now, loss, dice)
        shutil.rmtree(self.root)
        after.rename(self.root)

    def _build(self, inode: int, to: Path, now: dict[int, Path], loss: str, dice: Random) -> None:
        to.mkdir()
        durable, live = self.shadow / f"f{inode}", now.get(inode)
        lines: list[str] = []
        if live and not _lost(loss, "entries", dice):
            lines = list(_entries(live))
        elif durable.exists():
            lines = durable.read_text().splitlines()
        for line in lines:
            number, kind, mode, name, target = line.rstrip("\n").split("\t")
            path, one = to / name, int(number)
            if kind == "d":
                self._build(one, path, now, loss, dice)
            elif kind == "l":
                path.symlink_to(target)
                continue
            else:
                self._file(one, path, now, loss, dice)
            path.chmod(int(mode, 8))

    def _file(self, inode: int, to: Path, now: dict[int, Path], loss: str, dice: Random) -> None:
        durable, live = self.shadow / f"d{inode}", now.get(inode)
        if live and not _lost(loss, "data", dice):
            shutil.copy2(live, to)
        elif durable.exists():
            shutil.copy2(durable, to)
        else:
            to.touch()


def _lost(loss: str, what: str, dice: Random) -> bool:
    return dice.random() < 0.5 if loss == "mixed" else loss in {what, "both"}


def _entries(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        stat = path.lstat()
        kind = "l" if path.is_symlink() else "d" if path.is_dir() else "f"
        target = str(path.readlink()) if kind == "l" else ""
        yield f"{stat.st_ino}\t{kind}\t{stat.st_mode & 0o7777:o}\t{path.name}\t{target}\n"


def bytes_of(tree: Tree) -> dict[str, tuple[bytes, int]]:
    """Every file below the root but our own state, and every folder that is not the state's."""
    found = {}
    for path in sorted(tree.root.rglob("*")):
        inside = str(path.relative_to(tree.root))
        if not inside.startswith(("var/lib/gdr-toolkit", "proc/", "asked")):
            data = path.read_bytes() if path.is_file() else b""
            found[inside] = (data, path.lstat().st_mode)
    return found


def applied(*, light: bool) -> str:
    steps = () if light else STEPS
    return sent(bundle_of(PLACED, *steps, expect=NO_BOOT, remove=(OURS_BEFORE,)), LOCK_S)


class Play:
    """One fault on one node, from the run under fault to the law."""

    def __init__(self, fault: Fault, folder: Path) -> None:
        self.fault, self.dice = fault, Random(fault.seed)  # noqa: S311 chance, not secrecy
        self.tree = node(folder / "node", SHELLS["dash"])
        self.tree.write("/var/lib/misc", "of others\n")
        self.before = bytes_of(self.tree)
        self.disk = Disk(self.tree.root, folder / "disk")
        self._well(self.tree.run(sent(bundle_of({OURS_BEFORE: "old\n"}, expect=NO_BOOT))))
        if fault.verb == "rollback":
            self._well(self.tree.run(applied(light=self.fault.light)))
        if fault.kind == "power":
            self.disk.settle()
        self._tools()

    def _tools(self) -> None:
        for name in (*WATCHED, "date"):
            real = f'exec {shutil.which(name)} "$@"\n'
            body = {"sync": SYNC if self.fault.kind == "power" else "", "date": DATE}.get(
                name, real
            )
            self.tree.tool(name, TURN + body)

    def _env(self, fatal: int) -> dict[str, str]:
        home = self.tree.root.parent
        (home / "count").write_text("0\n")
        return {
            "GDR_COUNT": str(home / "count"), "GDR_FATAL": str(fatal),
            "GDR_FAULT": self.fault.kind, "GDR_DISK": str(home / "disk"),
            "GDR_STEPPED": str(home / "stepped"), "GDR_FILL": str(self.tree.root / "fill"),
        }  # fmt: skip

    def script(self, verb: str) -> str:
        return (
            applied(light=self.fault.light) if verb == "apply" else rollback_script("all", LOCK_S)
        )

    def run(self) -> None:
        """:raises Broken: a law does not hold."""
        fault = self.fault
        env = self._env(1 + int(fault.at * LENGTHS[fault.verb, fault.light]))
        if fault.kind == "late":
            self._late(env)
        elif fault.kind == "two":
            self._two(env)
        elif fault.kind == "full":
            self._full(env)
        else:
            ran = self.tree.run(self.script(fault.verb), **env)
            if ran.exit not in {0, -signal.SIGKILL}:
                self._broken(f"{ran.exit}\n{ran.stdout}{ran.stderr}")
            if fault.kind == "power":
                self.disk.lose(fault.loss, self.dice)
                if ran.exit == 0 and fault.verb == "apply":
                    self._as_wanted()
        shutil.rmtree(self.tree.tools)
        self.tree.tool("sync", "#!/bin/sh\n")
        self._healed()

    def _late(self, env: dict[str, str]) -> None:
        """The controller gives up; what it began goes on, beside what is asked for next."""
        process = self.tree.start(self.script(self.fault.verb), **env)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.fault.at * 0.5)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        # What stands for the next controller need not wait: the lock makes it.
        try:
            self._well(self.tree.run(self.script(self.fault.then), **env))
        finally:
            process.wait(LIMIT_S)

    def _two(self, env: dict[str, str]) -> None:
        both = [self.tree.start(self.script(v), **env) for v in (self.fault.verb, self.fault.then)]
        for process in both:
            said, wrong = process.communicate(timeout=LIMIT_S)
            if process.returncode not in {0, 75}:
                self._broken(f"two: {process.returncode}\n{said}{wrong}")

    def _full(self, env: dict[str, str]) -> None:
        root = self.tree.root
        script = root.with_name("script")
        script.write_text(self.script(self.fault.verb))
        words = {"node": root, "script": script, "shell": " ".join(self.tree.shell)}
        command = ["unshare", "-rm", "sh", "-c", SMALL_DISK.format(**words)]
        # Not with the commands of the node: what mounts and copies is none of the run's.
        env = {**self.tree.env(**env), "PATH": os.environ["PATH"]}
        path = f"PATH={self.tree.tools}:$PATH "
        command[-1] = command[-1].replace(f"{words['shell']} -s", f"{path}{words['shell']} -s")
        subprocess.run(command, env=env, check=True, timeout=LIMIT_S)
        shutil.rmtree(root)
        root.with_name("node.aside").rename(root)

    def _healed(self) -> None:
        if self.fault.then == "apply":
            self._well(self.tree.run(applied(light=self.fault.light)))
            self._as_wanted()
        ran = self.tree.run(rollback_script("all", LOCK_S))
        self._well(ran)
        after = bytes_of(self.tree)
        paths = {*after, *self.before}
        wrong = {p: after.get(p) for p in paths if after.get(p) != self.before.get(p)}
        if wrong or left(self.tree) or "other hands" in ran.stdout:
            self._broken(f"not as before: {wrong} left: {left(self.tree)}\n{ran.stdout}")

    def _as_wanted(self) -> None:
        for path, text in PLACED.items():
            if not self.tree.exists(path) or self.tree.read(path) != text:
                self._broken(f"{path} is not as wanted")
        if self.tree.exists(OURS_BEFORE):
            self._broken(f"{OURS_BEFORE} was removed, and is there")
        if not self.fault.light and PLACED[MODPROBE_D] not in self.tree.read(MODULE):
            self._broken(f"{MODULE} was not made from what was placed")

    def _well(self, ran: Ran) -> None:
        if ran.exit != 0:
            self._broken(f"status {ran.exit}\n{ran.stdout}{ran.stderr}")

    def _broken(self, words: str) -> None:
        journal = self.tree.state("journal")
        raise Broken(f"{words}\njournal {journal}")
