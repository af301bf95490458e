"""Small nodes, the real scripts on them, and a disk that forgets what was not flushed.

A world is drawn for every so many seeds: a node, a bundle and a verb, which is carried out once,
while its disk is looked at before each command. Each fault drawn from a seed then begins where it
comes: at one such moment, with what a kill or a power loss leaves, or at the beginning, where the
verb goes on after it. Then all is healed, and the verb run again, or taken back. The laws are on
bytes.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from msgspec.structs import replace

from tests.scripts.disk_states import LOSSES, Disk, Lies, Moment, build, lying
from tests.scripts.engine import (
    GRUB_CFG,
    LIMIT_S,
    MODPROBE_D,
    SHELLS,
    UPDATE_GRUB,
    Ran,
    Tree,
    bundle_of,
    sent,
    trigger,
)
from tests.scripts.test_cut_off import CALLS, DKMS, IMAGE, STEPS, WATCHED, left, node
from toolkit.node.deliver import rollback_script
from toolkit.plan.bundle import Bundle

EVERY = 20  # seeds share a world
OLD = "/etc/gdr-old.d/deep"
OURS_BEFORE = {f"{OLD}/was.conf": "old\n", f"{OLD}/stays.conf": "old\n"}  # of an earlier run
PLACED = {
    MODPROBE_D: "softdep x pre: y\n",
    "/etc/gdr-new.d/deep/x.conf": "x\n",
    "/etc/gdr-new.d/empty": "",
    "/etc/modprobe.d/site.conf": "options caf\u00e9\n",  # there is one of others
    f"{OLD}/stays.conf": "new\n",
    f"{OLD}/beside.conf": "beside\n",
}
REMOVED = ((f"{OLD}/was.conf",), (f"{OLD}/was.conf",), ())
GRUB = (*trigger(UPDATE_GRUB), f"prove {GRUB_CFG} options")
TRIGGERS: tuple[tuple[str, ...], ...] = (
    STEPS,
    (*STEPS, *GRUB),
    GRUB,
    ("keep DEPMOD /lib/modules/6.8/modules.*", *trigger(CALLS[1])),
    (f"keep REBUILD_INITRAMFS {IMAGE}", f"temps REBUILD_INITRAMFS {IMAGE}.new", *trigger(CALLS[2])),
)
LIGHT = 0.6  # of the worlds are without triggers, which are most of what a run costs
# A verb, and what was done before it; "cut" is an apply or a rollback that did not come to its end.
BEGUN = (
    ("apply", "nothing"), ("apply", "nothing"), ("apply", "applied"), ("apply", "cut"),
    ("rollback", "applied"), ("rollback", "applied"), ("rollback", "cut"),
)  # fmt: skip
CUTS = ("kill", "power")
KINDS = ("kill",) * 4 + ("power",) * 8 + ("clock", "late", "two", "full")
LOCK_S = LIMIT_S - 40  # for another that is at work, on a machine where each takes minutes
NO_BOOT = ("expect kernel 6.8.0-45-generic",)  # a node without power is in another boot since
UPDATED = f"""#!/bin/sh
cat "$GDR_ROOT"/etc/modprobe.d/* >"$GDR_ROOT{GRUB_CFG}.new"
mv "$GDR_ROOT{GRUB_CFG}.new" "$GDR_ROOT{GRUB_CFG}"
"""
# Each command waits until its moment was looked at, before it does its work.
ASK = """#!/bin/sh
echo "turn ${0##*/}" >"$GDR_ASK"
read -r _ <"$GDR_ANSWER"
"""
FLUSHED = """case $1 in -d) shift ;; esac
for each; do [ -e "$each" ] || exit 1; done
printf '%s\\n' "$@" flushed >"$GDR_ASK"
read -r _ <"$GDR_ANSWER"
"""
# Each command counts; the one whose turn has come meets the fault before it does its work.
TURN = """#!/bin/sh
read -r count <"$GDR_COUNT"
count=$((count + 1))
echo $count >"$GDR_COUNT"
if [ $count = "$GDR_FATAL" ]; then
    case $GDR_FAULT in
        kill) kill -9 -$(ps -o sid= -p $$ | tr -d ' '); sleep 5 ;;
        clock) : >"$GDR_STEPPED" ;;
        full) /bin/cat /dev/zero >"$GDR_FILL" 2>/dev/null ;;
    esac
fi
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
# Where nobody looks at the disk, no process need be begun for what waits for it.
NO_WAIT = "sync() { :; }\n"


class Broken(AssertionError):
    """A law did not hold."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and what is done about it."""

    seed: int
    kind: str
    at: float  # how far into the verb, 0 to 1
    loss: str  # of a power loss
    then: str  # "apply" or "rollback"

    @classmethod
    def drawn(cls, seed: int) -> Fault:
        dice = Random(seed)  # noqa: S311 chance, not secrecy
        kind, at, loss = dice.choice(KINDS), dice.random(), dice.choice(LOSSES)
        return cls(seed, kind, at, loss, dice.choice(("apply", "rollback")))

    def left(self, moments: list[Moment]) -> dict[str, Lies]:
        """What a kill or a power loss leaves."""
        moment = moments[int(self.at * len(moments))]
        loss = self.loss if self.kind == "power" else ""
        return moment.left(loss, Random(self.seed))  # noqa: S311 chance, not secrecy


class World:
    """One node, and the moments of one verb on it.

    :param number: of all that is drawn: shell, bundle, verb, and what was done before.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.dice = dice = Random(f"world {number}")  # noqa: S311 chance, not secrecy
        folder.mkdir()
        self.tree = node(folder / "node", SHELLS[dice.choice(("dash",) * 8 + ("busybox", "bash"))])
        self.tree.command("update-grub", UPDATED)
        self.tree.command("dkms", DKMS)
        self.tree.write("/var/lib/misc", "of others\n")
        self.before = bytes_of(self.tree)
        names = dice.sample(sorted(PLACED), dice.randint(1, 3))
        self.placed, self.removed = {each: PLACED[each] for each in names}, dice.choice(REMOVED)
        self.steps = () if dice.random() < LIGHT else dice.choice(TRIGGERS)
        self.verb, self.begun = dice.choice(BEGUN)
        self.healed: set[object] = set()  # what was found, and what was done about it
        self._begin()

    def __str__(self) -> str:
        steps = [each.split()[1] for each in self.steps if each.startswith("trigger")]
        words = f"{self.verb} of {sorted(self.placed)} without {self.removed} {steps}"
        return f"{words}, before it: {self.begun}, {self.tree.shell[0]}"

    def _begin(self) -> None:
        self.well(self.run(NO_WAIT + sent(bundle(OURS_BEFORE))))
        nothing = lying(self.tree.root)
        self.well(self.run(self.script("apply")))
        applied = lying(self.tree.root)
        self.wanted = bytes_of(self.tree)
        self.start = applied
        if self.begun != "applied":
            build(nothing, self.tree.root)
            self.start = nothing
        if self.begun == "cut":
            self._cut(applied)
        self.moments = self.recorded(self.verb)

    def _cut(self, applied: dict[str, Lies]) -> None:
        """An apply, or a rollback of one, that was cut off."""
        verb = self.dice.choice(("apply", "rollback"))
        if verb == "rollback":
            build(applied, self.tree.root)
        cut = Fault(self.dice.getrandbits(32), self.dice.choice(CUTS), self.dice.random(),
                    self.dice.choice(LOSSES), self.verb)  # fmt: skip
        self.start = cut.left(self.recorded(verb))
        build(self.start, self.tree.root)

    def script(self, verb: str) -> str:
        if verb == "rollback":
            return NO_WAIT + rollback_script("all", LOCK_S)
        return NO_WAIT + sent(bundle(self.placed, *self.steps, remove=self.removed), LOCK_S)

    def run(self, script: str) -> Ran:
        """By the machine's own commands, found without a long search."""
        self.tools({"sync": "#!/bin/sh\n"})
        return self.tree.run(script, PATH=f"{self.tree.tools}:/usr/bin:/bin:/usr/sbin:/sbin")

    def tools(self, texts: dict[str, str]) -> None:
        shutil.rmtree(self.tree.tools)
        for name, text in texts.items():
            self.tree.tool(name, text)

    def recorded(self, verb: str) -> list[Moment]:
        """Carry the verb out; each moment at which there was something new on the node."""
        bodies = {"sync": FLUSHED, "date": 'exec /bin/date "$@"\n'}
        self.tools({n: ASK + bodies.get(n, real(n)) for n in (*WATCHED, "date")})
        disk, home = Disk(self.tree.root), self.tree.root.parent
        pipes = {name: home / name.lower() for name in ("GDR_ASK", "GDR_ANSWER")}
        for each in pipes.values():
            os.mkfifo(each)
        ask, answer = (os.open(each, os.O_RDWR) for each in pipes.values())
        try:
            script = self.script(verb).removeprefix(NO_WAIT)
            process = self.tree.start(script, **{n: str(p) for n, p in pipes.items()})
            self.called = answered(process, disk, ask, answer)
            said, wrong = process.communicate(timeout=LIMIT_S)
        finally:
            os.close(ask)
            os.close(answer)
            for each in pipes.values():
                each.unlink()
        self.well(Ran(process.returncode, said, wrong))
        disk.look()
        return disk.moments

    def as_before(self, ran: Ran) -> None:
        self.well(ran)
        self.same(self.before, bytes_of(self.tree), "not as before", ran)
        if left(self.tree) or "other hands" in ran.stdout:
            self.broken(f"left: {left(self.tree)}\n{ran.stdout}")

    def as_wanted(self, ran: Ran) -> None:
        self.well(ran)
        wanted, now = map(self._but_older, (self.wanted, bytes_of(self.tree)))
        self.same(wanted, now, "not as wanted", ran)

    def _but_older(self, found: dict[str, Lies]) -> dict[str, Lies]:
        """All but what an older run placed, where that may be taken back as well by now."""
        if self.verb == "apply" and self.begun != "cut":
            return found
        ours = "etc/gdr-old.d"
        return {
            p: at for p, at in found.items() if not p.startswith(ours) or f"/{p}" in self.placed
        }

    def same(self, wanted: dict[str, Lies], now: dict[str, Lies], words: str, ran: Ran) -> None:
        wrong = {p: now.get(p) for p in {*now, *wanted} if now.get(p) != wanted.get(p)}
        if wrong:
            self.broken(f"{words}: {wrong}\n{ran.stdout}")

    def well(self, ran: Ran) -> None:
        if ran.exit != 0:
            self.broken(f"status {ran.exit}\n{ran.stdout}{ran.stderr}")

    def broken(self, words: str) -> None:
        raise Broken(f"{self}: {words}\njournal {self.tree.state('journal')}")


def bundle(placed: dict[str, str], *steps: str, remove: Sequence[str] = ()) -> Bundle:
    """It keeps what its own triggers rewrite, as those that are made of a plan."""
    made = bundle_of(placed, *steps, expect=NO_BOOT, remove=remove)
    rewrite = {shlex.split(shlex.split(s)[1])[0] for s in steps if s.startswith("trigger ")}
    *listed, _ = (s for s in made.steps if not s.startswith("keep ") or s.split()[1] in rewrite)
    return replace(made, steps=(*listed, f"finish {len(listed)}"))


def real(name: str) -> str:
    return f'exec {shutil.which(name)} "$@"\n'


def answered(process: subprocess.Popen[str], disk: Disk, ask: int, answer: int) -> Counter[str]:
    """Look at the disk for each command that asks, and let it go on; how often each has asked."""
    heard, called = b"", Counter[str]()
    while process.poll() is None:
        if not select.select([ask], [], [], 0.02)[0]:
            continue
        *lines, heard = (heard + os.read(ask, 1 << 16)).split(b"\n")
        for line in lines:
            if line.startswith(b"turn "):
                called[line[5:].decode()] += 1
                disk.look()
            elif line != b"flushed":
                disk.flush(Path(os.fsdecode(line)))
                continue
            os.write(answer, b"\n")
    return called


def bytes_of(tree: Tree) -> dict[str, Lies]:
    """Every file below the root but our own state, and every folder that is not the state's."""
    found = lying(tree.root)
    return {p: f for p, f in found.items() if not p.startswith(("var/lib/gdr-toolkit", "proc/"))}


class Play:
    """One fault in its world, from where it comes to the law."""

    def __init__(self, world: World, fault: Fault) -> None:
        self.world, self.fault, self.tree = world, fault, world.tree

    def run(self) -> bool:
        """Whether there was something to heal that no fault before it had left.

        :raises Broken: a law does not hold.
        """
        fault, world = self.fault, self.world
        if fault.kind in CUTS:
            found = fault.left(world.moments)
            key = frozenset(found.items()), fault.then
            if key in world.healed:
                return False
            world.healed.add(key)
            build(found, self.tree.root)
            if world.verb == "apply" and fault.at * len(world.moments) >= len(world.moments) - 1:
                self._placed()
        else:
            build(world.start, self.tree.root)
            world.tools({"sync": "#!/bin/sh\n"})
            {"clock": self._clock, "late": self._late, "two": self._two, "full": self._full}[
                fault.kind
            ]()
        self._healed()
        return True

    def _healed(self) -> None:
        world = self.world
        if self.fault.then == "apply":
            world.as_wanted(world.run(world.script("apply")))
        world.as_before(world.run(world.script("rollback")))

    def _placed(self) -> None:
        """Where the run had ended, no power loss takes away what it placed."""
        for path, text in self.world.placed.items():
            if not self.tree.exists(path) or self.tree.read(path) != text:
                self.world.broken(f"{path} is not as wanted after the end")
        for path in self.world.removed:
            if self.tree.exists(path):
                self.world.broken(f"{path} was removed, and is there after the end")

    def _env(self, *watched: str) -> dict[str, str]:
        """The commands that count, and which of their calls meets the fault."""
        for name in watched:
            self.tree.tool(name, TURN + {"sync": "", "date": DATE}.get(name, real(name)))
        home = self.tree.root.parent
        (home / "count").write_text("0\n")
        (home / "stepped").unlink(missing_ok=True)
        fatal = 1 + int(self.fault.at * sum(self.world.called[name] for name in watched))
        return {
            "GDR_COUNT": str(home / "count"), "GDR_FATAL": str(fatal),
            "GDR_FAULT": self.fault.kind, "GDR_STEPPED": str(home / "stepped"),
            "GDR_FILL": str(self.tree.root / "fill"),
        }  # fmt: skip

    def _clock(self) -> None:
        env = self._env("date")  # nobody else sees it
        self.world.well(self.tree.run(self.world.script(self.world.verb), **env))

    def _late(self) -> None:
        """The controller gives up; what it began goes on, beside what is asked for next."""
        process = self.tree.start(self.world.script(self.world.verb))
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.fault.at * 0.5)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        # What stands for the next controller need not wait: the lock makes it.
        try:
            self.world.well(self.tree.run(self.world.script(self.fault.then)))
        finally:
            process.wait(LIMIT_S)

    def _two(self) -> None:
        verbs = self.world.verb, self.fault.then
        for process in [self.tree.start(self.world.script(verb)) for verb in verbs]:
            said, wrong = process.communicate(timeout=LIMIT_S)
            if process.returncode not in {0, 75}:
                self.world.broken(f"two: {process.returncode}\n{said}{wrong}")

    def _full(self) -> None:
        root = self.tree.root
        script = root.with_name("script")
        script.write_text(self.world.script(self.world.verb))
        words = {"node": root, "script": script, "shell": " ".join(self.tree.shell)}
        command = ["unshare", "-rm", "sh", "-c", SMALL_DISK.format(**words)]
        # Not with the commands of the node: what mounts and copies is none of the run's.
        env = {**self.tree.env(**self._env(*WATCHED, "date")), "PATH": os.environ["PATH"]}
        path = f"PATH={self.tree.tools}:$PATH "
        command[-1] = command[-1].replace(f"{words['shell']} -s", f"{path}{words['shell']} -s")
        subprocess.run(command, env=env, check=True, timeout=LIMIT_S)
        shutil.rmtree(root)
        root.with_name("node.aside").rename(root)
