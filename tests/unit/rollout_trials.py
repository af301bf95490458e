"""Nodes whose changed command line is tried by one boot, for the rollout's simulation.

GRUB's part is played here: an entry that is to be booted once is forgotten before its kernel
starts. What a node looks like in each state is planned for by the real planner.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache

from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import node
from tests.evidence.frames import Override
from tests.evidence.healthy_boot import grub
from tests.unit.planning import NO_PT, TRANSLATED, placed, plan_for
from tests.unit.rollout_world import FAULTS, WHOLE, Node, Wire, frames, hold
from toolkit.evidence import Evidence
from toolkit.plan.bundle import Bundle
from toolkit.plan.change import Action
from toolkit.verbs.plan import Planned, plan_node
from toolkit.want import Want

TODAY = date(2026, 11, 22)
TRIAL_FAULTS = FAULTS | {
    "tryout": ("refused", "hung", "slow", "cut", "disk full", "lock held", "dies amid", "stale"),
    "rollback": ("refused", "hung", "slow", "cut", "lock held"),
    "note": ("refused", "hung", "slow", "disk full"),
    "restart": (*FAULTS["restart"], "panics"),
}
_GENERATOR = "/etc/grub.d/42_gdr-toolkit"


@dataclass
class TrialNode(Node):
    """What its boot menu has, how it was booted, and what it remembers of trials."""

    menu: bool = False  # one more entry
    once: bool = False  # which is booted next, and then no more
    running: str = "old"  # "trial", "new": the command line
    line: str = ""  # "open", "given-up": what it remembers of the trial
    tried: int = (
        0  # boots of the entry that we asked for, since the node was last told to forget the trial
    )
    backs: int = 0  # boots by us from a trial to the old entry, likewise

    @property
    def as_wanted(self) -> bool:
        there = self.files == WHOLE and self.running != "old" and not self.menu
        return there and not (self.sick or self.lost)

    def state(self, now: float) -> str:
        sick = self.sick or (self.running != "old" and now < self.up_at + 20)
        whole = "written" if self.files == WHOLE else ""
        words = (self.running, whole, "menu" * self.menu, "once" * self.once, self.line)
        return "/".join((*words, "sick" if sick else ""))

    def boot(self, now: float, seconds: float) -> None:
        """GRUB forgets what it is to boot once before it starts the kernel."""
        super().boot(now, seconds)
        self.running = "new" if self.files == WHOLE else "old"
        if self.once:
            self.once, self.running = False, "trial"

    def repair(self, now: float) -> None:
        """An operator was there, reset it, and had it forget a trial that came to nothing."""
        if self.lost or self.sick:
            was_once = self.once
            self.lost = self.sick = False
            self.boot(now, 0.0)
            hold(was_once or self.running != "trial", f"{self.name}: a reset booted a trial again")
        if self.line == "given-up" and self.running == "trial":
            self.boot(now, 0.0)  # a job had kept us from taking it back
        if self.line and self.running != "trial":
            self.line, self.tried, self.backs = "", 0, 0


class TrialWire(Wire):
    """The way to it."""

    _node: TrialNode

    def _tryout(self, words: list[str], fault: str) -> tuple[str, float]:
        """The trial's bundle: one more entry, and told to boot it once."""
        world, node_ = self._world, self._node
        if fault == "lock held":
            return frames("= lock failed:75 x", "|held by another"), 60.0
        if words[0] != node_.boot_id or fault == "stale":
            return frames("= 1.expect failed:65 expect boot-id x", "|booted again"), 1.0
        hold(node_.drained or not self._hooks, f"{node_.name} was changed while in service")
        hold(not node_.line, f"{node_.name} is to try again what it remembers as {node_.line}")
        node_.menu = True
        if fault == "disk full":
            return frames("= run ok t1", "= 2.place failed:1 place x", "|no space"), 5.0
        node_.once = fault != "dies amid" or world.dice.random() < 0.5
        if fault == "dies amid":
            node_.boot(world.local, 300.0)
        return frames("= run ok t1", "= 2.place ok place x", "= 3.trigger ok update-grub"), 30.0

    def _rollback(self, words: list[str], fault: str) -> tuple[str, float]:
        if fault == "lock held":
            return frames("= lock failed:75 x", "|held by another"), 60.0
        self._node.menu = self._node.once = False
        return frames("= run-t1 ok t1", "= 1.undo ok restore x"), 10.0

    def _note(self, words: list[str], fault: str) -> tuple[str, float]:
        if fault == "disk full":
            return "", 1.0
        node_ = self._node
        hold(words[1] != "open" or not node_.line, f"{node_.name} tries what it was told not to")
        node_.line = words[1]
        if not node_.line:
            node_.tried = node_.backs = 0
        return "noted\n", 0.5

    def _apply(self, words: list[str], fault: str) -> tuple[str, float]:
        told, seconds = super()._apply([words[0]], fault)
        node_ = self._node
        if node_.half:  # of one file there is no half
            node_.files = 0
        if "= 3.trigger ok" in told:
            if "clears" in words:
                node_.menu = node_.once = False
            if "places" not in words:
                node_.files = 0
            hold(not node_.files or node_.running != "old", f"{node_.name} has a default untried")
        return told, seconds

    def _restart(self, words: list[str], fault: str) -> tuple[str, float]:
        """Into the trial, or back from it: there is no other reason."""
        world, node_ = self._world, self._node
        if fault == "refuses":
            return frames("= restart failed:1 x"), 1.0
        if words[0] != node_.boot_id:
            return frames("= 1.expect failed:65 expect boot-id x", "|booted again"), 1.0
        hold(node_.drained or not self._hooks, f"{node_.name} was rebooted while in service")
        hold(not node_.half, f"{node_.name} was rebooted with half of its files")
        into, back = node_.once, node_.running == "trial"
        hold(into or back, f"{node_.name} was rebooted for no trial: {node_.state(world.local)}")
        hold(not into or node_.line == "open", f"{node_.name}: a trial that is not written down")
        node_.booted_by_us += 1
        node_.tried += into
        hold(node_.tried <= 1, f"{node_.name} was booted into one trial twice")
        node_.backs += not into
        hold(node_.backs <= 1, f"{node_.name} was taken back twice")
        node_.boot(world.local, 1500.0 if fault == "returns late" else world.dice.uniform(60, 300))
        if fault in {"panics", "boots the old entry"}:  # the next reset, which is its own
            node_.boot(world.local, 300.0)
        node_.lost = fault in {"never returns", "no network"}
        node_.sick = fault == "loses a GPU"
        return frames("= restart ok x"), 1.0


@cache
def _trial_id() -> str:
    found = plan_for(TRANSLATED).trial
    assert found is not None
    return found.id


@cache
def _known(state: str) -> Planned:
    """What the real planner makes of a node in this state."""
    running, whole, menu, once, line, sick = state.split("/")
    tried, default = f"iommu=pt gdr_toolkit.trial={_trial_id()}", NO_PT
    told: dict[str, Override] = dict(TRANSLATED) if running == "old" else {}
    if running != "old":
        told["cmdline"] = f"{NO_PT} {tried if running == 'trial' else 'iommu=pt'}\n"
    texts = {}
    if whole:
        texts = {each.path: each.text for each in plan_for(TRANSLATED).changes}
        default = f"{NO_PT} iommu=pt"
    entries = grub(default)
    if menu:
        texts[_GENERATOR] = "x\n"
        entries += (
            "grub/grub.cfg:menuentry 'trial' $menuentry_id_option 'gdr-toolkit-trial' {\n"
            f"grub/grub.cfg:\tlinux\t/boot/vmlinuz-{_kernel()} {NO_PT} {tried}\n"
        )
    told["boot-entries"] = entries
    if texts:
        told |= placed(texts)
    if once:
        told["grub-env"] = "next_entry=gdr-toolkit-trial\n"
    if line:
        told["boot-trials"] = f"{_trial_id()} {line} 2026-11-22T08:00:00Z\n"
    board = BOARD.but(GPUS[0], driver="") if sick else BOARD
    return plan_node("x", node(told, board=board), Want(), TODAY)


def _kernel() -> str:
    return grub().partition("vmlinuz-")[2].split()[0]


def planned_trial(host: str, evidence: Evidence, *_: object, **__: object) -> Planned:
    """In place of ``plan_node``: judged once a state, not once a look."""
    known = _known(evidence.text("sim").strip())
    boot_id = evidence.text("boot-id").strip()
    expect = f"expect boot-id {boot_id}"
    acts = {(each.artefact.partition("-")[0], each.action) for each in known.plan.sent.changes}
    words = ["# places"] * (("boot.arguments", Action.PLACE) in acts or "/written/" in _s(evidence))
    words += ["# clears"] * (("boot.trial", Action.REMOVE) in acts)
    bundle = Bundle((), (expect, *words), "{}", "") if known.bundle else None
    trial = Bundle((), (expect, "# a trial"), "{}", "") if known.trial else None
    judged = replace(known.judged, host=host)
    return replace(known, judged=judged, boot_id=boot_id, bundle=bundle, trial=trial)


def _s(evidence: Evidence) -> str:
    return evidence.text("sim")
