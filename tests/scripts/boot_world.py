"""A node that several controllers ask to reboot, with a fault amid one of them.

The law: the boot that a step was agreed on is ended once, by whatever faults and repeats.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.scripts.engine import BOOT, SHELLS, STATE, make_tree
from tests.scripts.fault_world import TURN, Broken
from toolkit.node.deliver import restart_script

COMMANDS = 14  # that one reboot calls, those of the node's own `going_down` with them
KINDS = ("kill", "late", "two", "clock", "refuses")
WATCHED = ("cat", "date", "id", "ln", "mv", "readlink", "rm", "sleep", "sync")
NEXT_BOOT = "22222222-3333-4444-5555-666666666666"
BOOT_ID = "proc/sys/kernel/random/boot_id"
# It notes which boot it ends; the next one begins when the play says so, whoever was killed.
SYSTEMCTL = f"""#!/bin/sh
if [ -e "$GDR_ROOT/refuses" ]; then rm "$GDR_ROOT/refuses"; exit 1; fi
exec /bin/cat "$GDR_ROOT/{BOOT_ID}" >>"$GDR_ROOT/ended"
"""
SHUTDOWN = 3  # turns that it takes


class BootPlay:
    """One fault, from the first controller's word to the law.

    :param seed: of the kind of fault, and of the moment at which it comes.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice = Random(seed)  # noqa: S311 chance, not secrecy
        self.kind = self.dice.choice(KINDS)
        self.fatal = self.dice.randint(1, COMMANDS)
        self.tree = make_tree(folder / "node", SHELLS["dash"])
        self.tree.write("/proc/uptime", "1000.00 1.0\n")
        self.tree.command("systemctl", SYSTEMCTL)
        self.tree.command("reboot", "#!/bin/sh\nexit 1\n")
        for name in WATCHED:
            self.tree.tool(name, TURN + _real(name))
        (folder / "count").write_text("0\n")
        self.env = {
            "GDR_COUNT": str(folder / "count"), "GDR_FAULT": self.kind,
            "GDR_STEPPED": str(folder / "stepped"),
        }  # fmt: skip

    def run(self) -> None:
        """:raises Broken: a boot was ended twice, one that nobody agreed on, or none at all."""
        if self.kind == "refuses":
            self.tree.write("/refuses", "")
        script, env = restart_script(BOOT, 0), {**self.env, "GDR_FATAL": str(self.fatal)}
        with ExitStack() as begun:
            for _ in range(2 if self.kind == "two" else 1):
                begun.enter_context(self.tree.start(script, **env))
            if self.kind == "late":
                time.sleep(self.dice.random() * 0.2)
            else:
                begun.close()
            self._again()
        if self.tree.read("/ended") != f"{BOOT}\n":
            self._broken(f"boots that were ended: {self.tree.read('/ended').split()}")

    def _again(self) -> None:
        """Another controller asks for the same step until the node says that it was booted."""
        ended, left = self.tree.root / "ended", SHUTDOWN
        for turn in range(200):
            left -= ended.exists() and ended.stat().st_size > 0
            if not left:
                self.tree.write(BOOT_ID, f"{NEXT_BOOT}\n")
            code = self.tree.run(restart_script(BOOT, 0), **self.env, GDR_FATAL="0").exit
            self._answer(code)
            if code == 5:
                return
            if turn == 50:  # whoever kept the lock was killed: the node forgets it in time
                self.tree.write("/proc/uptime", "2201.00 1.0\n")
            time.sleep(0.05)
        self._broken("the node was never booted")

    def _answer(self, code: int) -> None:
        if code not in {0, 5, 75, -9}:
            self._broken(f"status {code}")

    def _broken(self, words: str) -> None:
        lock = self.tree.root / STATE / "lock"
        held = lock.readlink() if lock.is_symlink() else "free"
        raise Broken(f"{self.kind} at {self.fatal}: {words}; lock {held}")


def _real(name: str) -> str:
    """The command itself; a second is a fiftieth here, and what waits for a disk does not."""
    if name == "sync":
        return ":\n"
    if name == "sleep":
        return f'exec {shutil.which("sleep")} "$(/usr/bin/awk "BEGIN {{ print $1 / 50 }}")"\n'
    if name == "date":
        return (
            'if [ -e "$GDR_STEPPED" ]; then exec /bin/date -d "2 days" "$@"; fi\n'
            'exec /bin/date "$@"\n'
        )
    return f'exec {shutil.which(name)} "$@"\n'
