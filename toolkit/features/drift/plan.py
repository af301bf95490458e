"""Drift: what a node should have, what it has on disk, and what is in effect: three columns; pure.

A property has no second definition here: what is so is said by the checks, now and at the next
boot, and by the plan. A property whose checks pass is as wanted, by whatever hands. Here are also
the columns of our files, of the arguments in them, and of work that is left undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum

from msgspec import Struct

from toolkit.checks.check import Status, Verdict
from toolkit.errors import ExitCode, NoEvidence, Unparsable
from toolkit.facts.boot.cmdline import Cmdline
from toolkit.facts.modules.placed_files import Placed
from toolkit.facts.node.node import Node
from toolkit.plan.change import Action, Blocked, Change, Wanted
from toolkit.plan.plan import Plan


class DriftStanding(StrEnum):
    """How one column stands to what is wanted; the worst first."""

    DRIFT = "drift"
    UNKNOWN = "unknown"  # could not be read; never as wanted
    WAIVED = "waived"  # it has drifted, and the site lives with it for a while
    SAME = "as wanted"
    NONE = "-"  # this column has nothing to say


_ORDER = tuple(DriftStanding)


class Cell(Struct, frozen=True):
    """One column of one property."""

    text: str = ""  # in one line, what is there
    standing: DriftStanding = DriftStanding.NONE


class DriftTopic(StrEnum):
    """What kind of thing it is, as machines want to know it."""

    PROPERTY = "property"  # judged by checks
    ARGUMENT = "argument"  # one word of the kernel's command line
    FILE = "file"  # one file of ours
    WORK = "work"  # what should be done and is not, or cannot be


class DriftLine(Struct, frozen=True):
    """One property of one node, in three columns."""

    topic: DriftTopic
    name: str  # "IOMMU domains of HCAs", "iommu=pt", "/etc/modules-load.d/gdr-toolkit.conf"
    wanted: str
    on_disk: Cell  # what the next boot, or the next load, will take
    in_effect: Cell
    hint: str = ""  # what to do about it

    @property
    def standing(self) -> DriftStanding:
        return worse(self.on_disk.standing, self.in_effect.standing)

    @property
    def means(self) -> str:
        """What kind of drift it is, in a few words; "" where there is none."""
        if self.standing is not DriftStanding.DRIFT:
            return ""
        if self.in_effect.standing is DriftStanding.SAME:
            return "in effect, and lost at the next boot or load"
        if self.on_disk.standing is DriftStanding.SAME:
            return "written, and not in effect"
        return "not as wanted"


def worse(*standings: DriftStanding) -> DriftStanding:
    """The worst of them."""
    return min(standings, key=_ORDER.index, default=DriftStanding.NONE)


class Drift(Struct, frozen=True):
    """One node, laid beside what it should be."""

    lines: tuple[DriftLine, ...] = ()
    complete: bool = True  # False when the evidence was cut off
    gpus: bool = True  # False when the node is known to have none: nothing is wanted there
    reboot_owed: bool = False  # the next boot brings what is written

    def having(self, standing: DriftStanding) -> tuple[DriftLine, ...]:
        return tuple(each for each in self.lines if each.standing is standing)

    @property
    def state(self) -> str:
        """In one or two words."""
        if not self.complete:
            return "cut off"
        if not self.gpus:
            return "no GPU"
        worst = worse(*(each.standing for each in self.lines))
        return worst.value if worst in {DriftStanding.DRIFT, DriftStanding.UNKNOWN} else "as wanted"

    @property
    def exit_code(self) -> ExitCode:
        """As of a failing check: drift is not a change that somebody has asked about."""
        codes = {
            "cut off": ExitCode.UNREACHABLE,
            "drift": ExitCode.FAILED,
            "unknown": ExitCode.UNKNOWN,
        }
        return codes.get(self.state, ExitCode.OK)


def told(lines: Sequence[DriftLine]) -> tuple[DriftLine, ...]:
    """Those that somebody has to look at."""
    return tuple(
        each for each in lines if each.standing in {DriftStanding.DRIFT, DriftStanding.UNKNOWN}
    )


_STANDINGS = {
    Status.PASS: DriftStanding.SAME,
    Status.FAIL: DriftStanding.DRIFT,
    Status.UNKNOWN: DriftStanding.UNKNOWN,
    Status.NA: DriftStanding.NONE,
}


class Here(Struct, frozen=True):
    """One node; verdicts and plan are of the same evidence."""

    node: Node
    verdicts: Mapping[str, Verdict]  # by check id
    plan: Plan
    today: date  # on which waivers are weighed

    def standing(self, verdict: Verdict) -> DriftStanding:
        """How the property stands that was judged."""
        return DriftStanding.WAIVED if verdict.waived(self.today) else _STANDINGS[verdict.status]

    def judged(self, ids: tuple[str, ...]) -> tuple[Verdict, ...]:
        """The verdicts of these checks, as far as there are any."""
        return tuple(self.verdicts[each] for each in ids if each in self.verdicts)

    def change_of(self, path: str) -> Change | None:
        """What the plan does to the file at this path."""
        return next((each for each in self.plan.changes if each.path == path), None)

    def blocked(self, artefact: str) -> Blocked | None:
        """Why nothing can be planned for this artefact."""
        return next((each for each in self.plan.blocked if each.artefact == artefact), None)


_SHORT = 12  # digits of a hash that a person compares
_NOTHING = Cell()


def file_lines(here: Here) -> Iterator[DriftLine]:
    """One line a file that is wanted or to go, one an argument, one for what cannot be done."""
    for wanted in here.plan.wanted:
        yield from _wanted_file(wanted, here)
    for change in here.plan.changes:
        if change.action is Action.REMOVE:
            disk = Cell(_shown(change.old), DriftStanding.DRIFT)
            yield DriftLine(DriftTopic.FILE, change.path, "no such file", disk, _NOTHING)
    yield from _work(here)


def _wanted_file(wanted: Wanted, here: Here) -> Iterator[DriftLine]:
    """The file's line, and one for each argument that it holds.

    A file that is not there and not planned is none of this node's: others have seen to it.
    """
    try:
        old = here.node.placed.get(wanted.path)
    except (NoEvidence, Unparsable) as why:
        yield _file(wanted, Cell(str(why), DriftStanding.UNKNOWN), _NOTHING, why.own_hint)
        return
    change, blocked = here.change_of(wanted.path), here.blocked(wanted.artefact)
    if change is not None:
        yield _changing(wanted, change, old, here)
    elif blocked is not None:
        # What cannot be planned is not known to be wrong; its checks say whether it is.
        effect = Cell(f"blocked: {blocked.reason}", DriftStanding.UNKNOWN)
        yield _file(wanted, Cell(_shown(old), DriftStanding.UNKNOWN), effect, blocked.hint)
    elif old is not None and old.sha256 == wanted.sha256:
        yield _file(wanted, Cell(_shown(old), DriftStanding.SAME), Cell("yes", DriftStanding.SAME))
    if change is not None or old is not None:
        yield from (_argument(word, wanted, here) for word in wanted.arguments)


def _changing(wanted: Wanted, change: Change, old: Placed | None, here: Here) -> DriftLine:
    """A file that the plan would place, or one that is there and not in effect."""
    if change.action is Action.TRIGGER:
        owed = ", ".join(each.name.lower().replace("_", " ") for each in change.triggers)
        effect = Cell(f"not yet: {owed}", DriftStanding.DRIFT)
        return _file(wanted, Cell(_shown(old), DriftStanding.SAME), effect)
    if old is None:
        return _file(wanted, Cell("none", DriftStanding.DRIFT), _NOTHING)
    said = "; ".join(filter(None, (change.why[0], _whose(old, wanted.path, here))))
    return _file(wanted, Cell(f"{_shown(old)}: {said}", DriftStanding.DRIFT), _NOTHING)


def _whose(old: Placed, path: str, here: Here) -> str:
    """Who made a file what it is; "" where nobody knows."""
    try:
        left = here.node.left.get(path, "")
    except (NoEvidence, Unparsable):
        return ""
    if not left:
        return ""
    return "as we left it" if left == old.sha256 else "changed by others since we placed it"


def _file(wanted: Wanted, disk: Cell, effect: Cell, hint: str = "") -> DriftLine:
    return DriftLine(DriftTopic.FILE, wanted.path, wanted.sha256[:_SHORT], disk, effect, hint)


def _shown(old: Placed | None) -> str:
    return old.sha256[:_SHORT] if old else "none"


def _argument(word: str, wanted: Wanted, here: Here) -> DriftLine:
    """One word of ours in the boot loader's configuration and on the running kernel's line.

    Where the checks of its file pass without it, that it is missing is no drift.
    """
    proofs = here.judged(wanted.proofs)
    needed = any(
        here.standing(each) in {DriftStanding.DRIFT, DriftStanding.UNKNOWN} for each in proofs
    )
    disk = _word(word, lambda: here.node.next_cmdline, needed=needed)
    effect = _word(word, lambda: here.node.cmdline, needed=needed) if here.node.live else _NOTHING
    return DriftLine(DriftTopic.ARGUMENT, word.strip('"'), "on the command line", disk, effect)


def _word(word: str, read: Callable[[], Cmdline], *, needed: bool) -> Cell:
    try:
        # Quoted for the boot loader, which takes the quotes off, or leaves them to the kernel.
        there = word.strip('"') in {each.strip('"') for each in read().words}
    except (NoEvidence, Unparsable) as why:
        return Cell(str(why), DriftStanding.UNKNOWN)
    if there:
        return Cell("there", DriftStanding.SAME)
    if needed:
        return Cell("not there", DriftStanding.DRIFT)
    return Cell("not there, not needed", DriftStanding.SAME)


def _work(here: Here) -> Iterator[DriftLine]:
    """What an earlier run still owes, and what should change and cannot be planned."""
    try:
        for owed in here.node.pending:
            disk = Cell("an earlier run did not come to it", DriftStanding.DRIFT)
            yield DriftLine(DriftTopic.WORK, owed, "done", disk, _NOTHING)
    except (NoEvidence, Unparsable) as why:
        yield DriftLine(
            DriftTopic.WORK, "pending", "nothing", Cell(str(why), DriftStanding.UNKNOWN), _NOTHING
        )
    shown = {each.artefact for each in here.plan.wanted}
    for blocked in here.plan.blocked:
        if blocked.artefact not in shown:
            disk = Cell(f"blocked: {blocked.reason}", DriftStanding.UNKNOWN)
            name = blocked.artefact or "what no file of ours accounts for"
            yield DriftLine(DriftTopic.WORK, name, "done", disk, _NOTHING, blocked.hint)
