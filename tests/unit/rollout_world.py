"""Nodes that are a few numbers, a clock that nobody waits for, and what may go wrong.

What carries a rollout out is the real code, down to the scripts that it sends; what answers
are the nodes here. They know three files to place, a boot that brings them into effect, and
the ways to fail that nodes and networks have. Each fault is counted; each law that concerns
one node is held at the moment in which it could be broken.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from toolkit.errors import TransportError
from toolkit.ssh.transport import Result, Sink, quiet

WHOLE = 3  # files of the change; 1 and 2 are half
LOCK_S = 60.0
NEVER = float("inf")

FAULTS = {
    "PROBE": ("refused", "hung", "slow", "cut"),
    "apply": ("refused", "hung", "slow", "cut", "disk full", "lock held", "dies amid", "stale"),
    "restart": (
        "refused", "hung", "slow", "not heard", "refuses", "never returns", "no network",
        "returns late", "boots the old entry", "loses a GPU",
    ),
    "boot_id": ("refused", "hung", "slow"),
    "jobs": ("at work", "refused"),
    "drain": ("fails", "hangs"),
    "undrain": ("fails", "hangs"),
    "journal": ("disk full",),
}  # fmt: skip


class Killed(BaseException):
    """SIGKILL: nothing of the controller goes on."""


class Broken(BaseException):
    """A law did not hold. No code of ours may catch it, as it does errors."""


@dataclass
class World:
    """Time, chance, and the count of what was done with it."""

    dice: Random
    rate: float  # of faults, an act
    local: float = 0.0  # seconds; the clock of whoever works now
    dies_at: float = NEVER  # the controller
    counts: Counter[str] = field(default_factory=Counter)
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: FAULTS)

    def monotonic(self) -> float:
        return self.local

    def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """:raises Killed: at the moment at which the controller dies."""
        self.local += seconds
        if self.local >= self.dies_at:
            self.local = self.dies_at
            raise Killed

    def fault(self, act: str) -> str:
        """What goes wrong with this act; "" mostly."""
        if self.dice.random() >= self.rate:
            return ""
        found = self.dice.choice(self.faults[act])
        self.counts[f"{act}: {found}"] += 1
        return found


def hold(law: bool, words: str) -> None:
    """:raises Broken: it does not."""
    if not law:
        raise Broken(words)


@dataclass
class Node:
    """One node: what is on its disk, what is in effect, and whether anybody can reach it."""

    name: str
    files: int = 0
    boots: int = 1
    booted_by_us: int = 0
    effective: bool = False
    drained: bool = False
    lost: bool = False  # until an operator goes there
    sick: bool = False  # likewise
    up_at: float = 0.0
    busy_until: float = 0.0

    @property
    def boot_id(self) -> str:
        return f"{self.name}-{self.boots}"

    @property
    def half(self) -> bool:
        return 0 < self.files < WHOLE

    @property
    def as_wanted(self) -> bool:
        return self.files == WHOLE and self.effective and not (self.sick or self.lost)

    def serves(self, now: float) -> bool:
        """Whether jobs could run on it."""
        away = self.lost or self.sick or self.drained or now < self.up_at
        return not away and not self.half and now >= self.busy_until

    def state(self, now: float) -> str:
        """What a probe tells of it; GPUs take a while after a boot."""
        if self.sick or (self.boots > 1 and self.effective and now < self.up_at + 20):
            return "sick"
        if self.files < WHOLE or now < self.busy_until:
            return "old"
        return "new" if self.effective else "written"

    def boot(self, now: float, seconds: float) -> None:
        self.boots += 1
        self.effective = self.files == WHOLE
        self.up_at = now + seconds

    def repair(self, now: float) -> None:
        """An operator was there: it is up, and boots what is on its disk."""
        if self.lost or self.sick or (self.files == WHOLE and not self.effective):
            self.lost = self.sick = False
            self.boot(now, 0.0)


def frames(*lines: str) -> str:
    """An answer in the nodes' grammar; a text stands behind a bar."""
    count = sum(line.startswith("= ") for line in lines)
    return "\n".join(["= begin ok gdr-toolkit/1", *lines, f"= end ok {count}", ""])


class Wire:
    """The way to one node."""

    def __init__(self, world: World, node: Node, *, hooks: bool) -> None:
        self.name, self._world, self._node, self._hooks = node.name, world, node, hooks

    def close(self) -> None: ...

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        world, node = self._world, self._node
        world.pass_time(0.2)
        if node.lost or world.local < node.up_at:
            world.pass_time(min(15.0, limit_s))
            raise TransportError(f"{self.name}: no answer")
        kind, words = kind_of(script)
        fault = world.fault(kind)
        if fault in {"refused", "not heard"}:
            raise TransportError(f"{self.name}: {fault}")
        said, seconds = getattr(self, f"_{kind.lower()}")(words, fault)
        if fault == "hung":
            world.pass_time(limit_s)
            raise TransportError(f"{self.name}: no answer within {limit_s:g} s")
        world.pass_time(seconds * (20 if fault == "slow" else 1))
        if fault in {"cut", "dies amid"}:
            raise TransportError(f"{self.name}: the connection was lost")
        for line in said.split("\n"):
            sink(line)
        return Result(0, said, "")

    def _probe(self, words: list[str], fault: str) -> tuple[str, float]:
        node = self._node
        state = node.state(self._world.local)
        told = frames("= boot-id ok x", f"|{node.boot_id}", "= sim ok x", f"|{state}")
        return ("" if fault == "cut" else told), 3.0

    def _boot_id(self, words: list[str], fault: str) -> tuple[str, float]:
        return f"{self._node.boot_id}\n", 0.2

    def _apply(self, words: list[str], fault: str) -> tuple[str, float]:
        world, node = self._world, self._node
        wait = node.busy_until - world.local
        if fault == "lock held" or wait > LOCK_S:
            return frames("= lock failed:75 x", "|held by another"), LOCK_S
        if wait > 0:
            world.pass_time(wait)
        if words[0] != node.boot_id or fault == "stale":
            return frames("= 1.expect failed:65 expect boot-id x", "|booted again"), 1.0
        hold(node.drained or not self._hooks, f"{node.name} was changed while in service")
        if fault in {"disk full", "dies amid"}:
            node.files = max(node.files, 1) if node.files < WHOLE else WHOLE
            if fault == "dies amid":
                node.boot(world.local, 300.0)
            return frames("= run ok r1", "= 2.place failed:1 place x", "|no space"), 5.0
        node.files = WHOLE
        node.busy_until = world.local + 30.0
        return frames("= run ok r1", "= 2.place ok place x", "= 3.trigger ok update-grub"), 30.0

    def _restart(self, words: list[str], fault: str) -> tuple[str, float]:
        world, node = self._world, self._node
        if fault == "refuses":
            return frames("= restart failed:1 x"), 1.0
        if words[0] != node.boot_id:
            return frames("= 1.expect failed:65 expect boot-id x", "|booted again"), 1.0
        hold(node.drained or not self._hooks, f"{node.name} was rebooted while in service")
        hold(not node.half, f"{node.name} was rebooted with half of its files")
        node.booted_by_us += 1
        hold(node.booted_by_us == 1, f"{node.name} was rebooted twice for one change")
        node.boot(world.local, 1500.0 if fault == "returns late" else world.dice.uniform(60, 300))
        node.lost = fault in {"never returns", "no network"}
        node.effective = fault != "boots the old entry"
        node.sick = fault == "loses a GPU"
        return frames("= restart ok x"), 1.0


def kind_of(script: str) -> tuple[str, list[str]]:
    """What a script of ours asks for, and the boot that it was made for, or its own words."""
    if noted := re.search(r"^note_trial (.*)$", script, re.MULTILINE):
        return "note", shlex.split(noted[1])
    if call := re.search(r"^gdr_apply (\w+) (.*) end$", script, re.MULTILINE):
        expected = re.findall(r"expect boot-id (\S+)", script)
        kind = "tryout" if "# a trial" in script else call[1]
        return kind, [
            *(expected or call[2].split()),
            *re.findall(r"^# (\w+)$", script, re.MULTILINE),
        ]
    return ("boot_id", []) if "boot_id()" in script else ("PROBE", [])
